"""Digits of keys as kernels compute them, and where the parts of a row lie.

In: a job whose nodes go by the same digit of the same keys. Out: the digit of an element, and
values at a place of the row.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operations.rows.digits import (
    UNTOLD,
    digit_mask,
    first_number,
    is_told,
    key_bits,
)
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.order.rows import OrderedRows


class DigitRows(OrderedRows):
    """The rows of an order by one digit."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.code = job.code
        values = self.node.values
        self.digits = 1 << values["bits"]
        self.mask = digit_mask(self.values.element, values["shift"], values["bits"])

    def digit(self, row: Index, element: Index) -> SSAValue:
        """The digit of an element, an i32."""
        code, type, key = self.code, self.keys.type, self.key(row, element)
        turned, bits = first_number(self.values.element), key_bits(self.values.element)
        if bits >= 32:  # these keys are signed, those of unsigned numbers too
            turned = 1 << (bits - 1)
        if turned:
            key = code.binary(arith.XOrIOp, key, code.constant(turned, type))
        shift = self.node.values["shift"]
        if shift:
            key = code.binary(arith.ShRUIOp, key, code.constant(shift, type))
        key = code.binary(arith.AndIOp, key, code.constant(self.mask, type))
        return key if type == i32 else code.convert("trunci", key, i32)

    def place(self, value: SSAValue, limit: int) -> Index:
        """An i32 that is below a limit, as an index."""
        return of(Counter(self.code.convert("index_cast", value, INDEX), 0, limit - 1))

    def payloads(self, row: Index, element: Index) -> list[SSAValue]:
        """What the nodes put in order of an element."""
        index = self.index(row, element)
        return [self.evaluator.at(node.operands[1], index) for node in self.nodes]

    def put(self, row: Index, place: Index, payloads: Sequence[SSAValue]) -> None:
        """Writes the results at a place of a row, made of what is put there."""
        evaluator = self.job.evaluator()
        for node, value in zip(self.nodes, payloads, strict=True):
            evaluator.given[node] = lambda _, value=value: value
        index = self.index(row, place)
        written = [(n, node, index) for n, node in enumerate(self.job.body.written)]
        self.job.write(evaluator, written)

    def falls_at(self, row: Index, element: Index) -> SSAValue:
        """Whether the key of an element is less than that of the one before it, 1 or 0."""
        code, key = self.code, self.key(row, element)
        before = code.known(element.clamp(1, self.runs.length) - 1, self.runs.length)
        less = code.compare_integers("slt", key, self.key(row, before))
        return code.select(less, code.constant(1, i32), code.constant(0, i32))

    def unless_in_order(
        self, row: Index, body: Callable[[], None], instead: Callable[[], None]
    ) -> None:
        """Runs a body, but not for a row of which it is said that it has no falls. There the order
        is not defined. What else the kernel writes, or makes of the order, is written `instead`.
        """
        code, falls = self.code, self.falls
        if falls is None:
            body()
            return
        test = code.compare_integers("ne", falls(row), code.constant(0, i32))
        writes_more = not set(self.job.body.written) <= set(self.nodes)
        code.branch(test, body, instead if writes_more else None)

    def leave(self, row: Index, start: Index, end: Index, item: Index, items: int) -> None:
        """Has a group write the results of the elements of its part where they are."""
        code = self.code

        def one(step: Index) -> None:
            element = start + step * items + item
            inside = code.compare_integers("slt", code.index(element), code.index(end))
            code.when(inside, lambda: self.put_as_it_is(row, element))

        code.each(0, ceil_div(self.runs.run, items), one)

    def put_as_it_is(self, row: Index, element: Index) -> None:
        """Writes the results of an element where it is."""
        own = self.code.known(element, self.runs.length)
        self.put(row, own, self.payloads(row, own))

    @property
    def counts_falls(self) -> bool:
        """Whether falls are counted beside the digits."""
        return bool(self.node.values.get("with_falls"))

    @property
    def falls(self) -> Callable[[Index], SSAValue] | None:
        """How many falls a row has, where that is said."""
        name, operands = self.node.name, self.node.operands
        if not is_told(name, len(operands)):
            return None
        return lambda row: self.evaluator.at(operands[UNTOLD[name]], (row,))

    def add(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """The sum of two i32."""
        if isinstance(right, int):
            right = self.code.constant(right, i32)
        return self.code.binary(arith.AddiOp, left, right)

    def sums(self, row: Index, digit: Index, part: Index) -> SSAValue:
        """How often a digit occurs in the parts of a row up to one."""
        return self.evaluator.at(self.node.operands[2], (row, digit, part))

    @property
    def counted(self) -> bool:
        """Whether it is told how often each digit occurs."""
        return self.node.name == "place_digits"

    def before(self, row: Index, digit: Index, part: Index) -> SSAValue:
        """How often a digit occurs in the parts of a row before one."""
        code, zero = self.code, self.code.constant(0, i32)
        if self.runs.count == 1:
            return zero
        last = code.known(part.clamp(1, self.runs.count - 1) - 1, self.runs.count)
        found = self.sums(row, digit, last)
        return code.select(code.is_below(part, 1, 1), zero, found)
