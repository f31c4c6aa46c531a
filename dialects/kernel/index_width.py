"""How wide a kernel's `index` must be: 32 bits where every index fits, as anything else costs time.

In: a `kernel.func`. Out: whether some index, or a step on the way to one, may leave 32 bits. Each
integer of the kernel has a range, from the sizes of the launch, the bounds of loops and constants;
what nothing is known of may be any number of its type. Loads and stores add 64-bit addresses, so
that the size of a buffer alone decides nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.lanes import element
from mgn.dialects.kernel.sub_groups import SubGroupIdOp, SubGroupLaneOp, SubGroupSizeOp
from mgn.dialects.kernel.work_items import (
    GlobalIdOp,
    GlobalSizeOp,
    GroupIdOp,
    LocalIdOp,
    LocalSizeOp,
    NumGroupsOp,
    PlaceOp,
)

NARROW_BITS = 32


@dataclass(frozen=True)
class Range:
    """The whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def fits(self, bits: int) -> bool:
        """Whether a signed integer of so many bits holds all of them."""
        return -(1 << (bits - 1)) <= self.low and self.high < 1 << (bits - 1)

    @property
    def ends(self) -> tuple[int, int]:
        return self.low, self.high


Known = Mapping[SSAValue, Range]
Rule = Callable[[Any, Known, FuncOp], Range]


def needs_wide_index(func: FuncOp) -> bool:
    """Whether an index of a kernel, or a step on the way to one, may leave 32 bits."""
    known: dict[SSAValue, Range] = {}
    for operation in func.walk():
        if isinstance(operation, scf.ForOp):
            counter = operation.body.block.args[0]
            first, end, step = (
                _range(value, known) for value in (operation.lb, operation.ub, operation.step)
            )
            known[counter] = Range(first.low, max(first.low, end.high - 1))
            passed = Range(first.low, max(first.high, end.high - 1 + step.high))
            if isinstance(counter.type, IndexType) and not passed.fits(NARROW_BITS):
                return True
        rule = RULES.get(type(operation))
        for result in operation.results:
            lane = element(result.type)
            if rule is not None and isinstance(lane, IndexType | IntegerType):
                known[result] = _kept(rule(operation, known, func), lane)
            if isinstance(lane, IndexType) and not _range(result, known).fits(NARROW_BITS):
                return True
    return False


def _range(value: SSAValue, known: Known) -> Range:
    found = known.get(value)
    return _all_of(element(value.type)) if found is None else found


def _all_of(type: Attribute) -> Range:
    """Every number of an integer type; an i1 counts as 0 and 1."""
    bits = type.width.data if isinstance(type, IntegerType) else 64
    return Range(0, 1) if bits == 1 else Range(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _kept(found: Range, type: Attribute) -> Range:
    """A range, or every number of a type that it leaves, as arithmetic then wraps around."""
    if isinstance(type, IndexType):
        return found
    every = _all_of(type)
    return found if every.low <= found.low and found.high <= every.high else every


def _around(numbers: list[int]) -> Range:
    return Range(min(numbers), max(numbers))


def _of_two(combine: Callable[[Range, Range], Range]) -> Rule:
    def rule(operation: Any, known: Known, func: FuncOp) -> Range:
        left, right = (_range(operand, known) for operand in operation.operands)
        return combine(left, right)

    return rule


def _product(left: Range, right: Range) -> Range:
    return _around([a * b for a in left.ends for b in right.ends])


def _quotient(left: Range, right: Range) -> Range:
    """Of division by a positive number; by any other the numerator's size bounds it."""
    if right.low > 0:
        return _around([_truncated(a, b) for a in left.ends for b in right.ends])
    most = max(map(abs, left.ends))
    return Range(-most, most)


def _truncated(number: int, divisor: int) -> int:
    quotient = abs(number) // divisor
    return -quotient if number < 0 else quotient


def _remainder(left: Range, right: Range) -> Range:
    """The sign is the numerator's."""
    most = max(max(map(abs, right.ends)) - 1, 0)
    return Range(max(min(left.low, 0), -most), min(max(left.high, 0), most))


def _bits(left: Range, right: Range) -> Range:
    """Of `or` and `xor`: numbers that are not negative stay below the next power of two."""
    most = (1 << max(left.high, right.high, 0).bit_length()) - 1
    if left.low >= 0 and right.low >= 0:
        return Range(0, most)
    most = max(most, *(abs(number) for number in (*left.ends, *right.ends)))
    width = most.bit_length()
    return Range(-(1 << width), (1 << width) - 1)


def _common_bits(left: Range, right: Range) -> Range:
    """Of `and`: no more than a number that is not negative."""
    tops = [side.high for side in (left, right) if side.low >= 0]
    return Range(0, min(tops)) if tops else _bits(left, right)


def _shifted(left: Range, right: Range) -> Range:
    if right.low < 0 or right.high >= 64:
        return _all_of(IndexType())
    return _product(left, Range(1 << right.low, 1 << right.high))


def _shifted_back(left: Range, right: Range) -> Range:
    if right.low < 0 or right.high >= 64:
        return Range(min(left.low, 0), max(left.high, 0))
    return _around([a >> b for a in left.ends for b in right.ends])


def _constant(operation: arith.ConstantOp, known: Known, func: FuncOp) -> Range:
    if isinstance(operation.value, DenseIntOrFPElementsAttr):
        numbers: list[Any] = list(operation.value.get_values())
        return _around([int(number) for number in numbers])
    assert isinstance(operation.value, IntegerAttr)
    number = operation.value.value.data
    return Range(number, number)


def _chosen(operation: arith.SelectOp, known: Known, func: FuncOp) -> Range:
    yes, no = _range(operation.lhs, known), _range(operation.rhs, known)
    return Range(min(yes.low, no.low), max(yes.high, no.high))


def _same(operation: Operation, known: Known, func: FuncOp) -> Range:
    return _range(operation.operands[0], known)


def _unsigned(operation: arith.ExtUIOp, known: Known, func: FuncOp) -> Range:
    found = _range(operation.input, known)
    every = _all_of(element(operation.input.type))
    return found if found.low >= 0 else Range(0, every.high - every.low)


def _place(count: Callable[[int, int], int]) -> Rule:
    """A number below a count of the dimension's items and items of a group."""

    def rule(operation: PlaceOp, known: Known, func: FuncOp) -> Range:
        dimension = operation.dimension.value.data
        return Range(0, count(func.global_sizes[dimension], func.local_sizes[dimension]) - 1)

    return rule


def _size(count: Callable[[int, int], int]) -> Rule:
    def rule(operation: PlaceOp, known: Known, func: FuncOp) -> Range:
        dimension = operation.dimension.value.data
        number = count(func.global_sizes[dimension], func.local_sizes[dimension])
        return Range(number, number)

    return rule


def _in_group(operation: Operation, known: Known, func: FuncOp) -> Range:
    first, second, third = func.local_sizes
    return Range(0, first * second * third)


RULES: Mapping[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.AddiOp: _of_two(lambda a, b: Range(a.low + b.low, a.high + b.high)),
    arith.SubiOp: _of_two(lambda a, b: Range(a.low - b.high, a.high - b.low)),
    arith.MuliOp: _of_two(_product),
    arith.DivSIOp: _of_two(_quotient),
    arith.RemSIOp: _of_two(_remainder),
    arith.MaxSIOp: _of_two(lambda a, b: Range(max(a.low, b.low), max(a.high, b.high))),
    arith.MinSIOp: _of_two(lambda a, b: Range(min(a.low, b.low), min(a.high, b.high))),
    arith.AndIOp: _of_two(_common_bits),
    arith.OrIOp: _of_two(_bits),
    arith.XOrIOp: _of_two(_bits),
    arith.ShLIOp: _of_two(_shifted),
    arith.ShRSIOp: _of_two(_shifted_back),
    arith.SelectOp: _chosen,
    arith.IndexCastOp: _same,
    arith.ExtSIOp: _same,
    arith.ExtUIOp: _unsigned,
    arith.TruncIOp: _same,
    vector.BroadcastOp: _same,
    GlobalIdOp: _place(lambda items, group: items),
    LocalIdOp: _place(lambda items, group: group),
    GroupIdOp: _place(lambda items, group: items // group),
    GlobalSizeOp: _size(lambda items, group: items),
    LocalSizeOp: _size(lambda items, group: group),
    NumGroupsOp: _size(lambda items, group: items // group),
    SubGroupSizeOp: _in_group,
    SubGroupIdOp: _in_group,
    SubGroupLaneOp: _in_group,
}
"""An operation → the range of its result. Of any other, an integer may be any of its type."""
