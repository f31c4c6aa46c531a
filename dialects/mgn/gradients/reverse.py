"""Reverse mode, graph to graph: the operations that compute the gradients of a scalar.

In: a block with `mgn.grad` operations. Out: the block with the operations in their place.

    %y = mgn.exp(%x) : tensor<4xf32>
    %s = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
    %g = mgn.grad %s of %x : tensor<f32>, tensor<4xf32>
becomes
    %y = mgn.exp(%x) : tensor<4xf32>
    %s = mgn.sum(%y) axis = [0] : (tensor<4xf32>) -> tensor<f32>
    %0 = mgn.constant dense<1.0> : tensor<f32>
    %1 = mgn.broadcast_to(%0) shape = [4] : (tensor<f32>) -> tensor<4xf32>
    %g = mgn.mul(%1, %y) : tensor<4xf32>

The operations that were there stay. They are walked through from the last to the first: each sends
what its results have got to its operands, by its row in `rules.py` or through its decomposition. A
gradient of a gradient finds the first one's operations, which are like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.grad import EXPANDERS, GradOp
from mgn.dialects.mgn.gradients.rules import (
    ELEMENTWISE,
    FLAT,
    RULES,
    UNROUNDED,
    WITHOUT,
    Gradients,
    Site,
    as_full,
    summed_to,
)
from mgn.dialects.mgn.operation import OperationSpec, TensorOp
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import ReadOp
from mgn.dialects.places import BACKWARD, in_phase
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of


class NoGradient(ShapeError):
    """An operation between a scalar and what it is differentiated by has no gradient."""

    def __init__(self, operation: Operation, reason: str) -> None:
        super().__init__(reason)
        self.operation = operation


def differentiate_block(block: Block) -> bool:
    """Replaces the `mgn.grad` operations of a block, in order. True where there was one."""
    found = [op for op in block.ops if isinstance(op, GradOp)]
    for op in found:
        _replace(block, op)
    return bool(found)


EXPANDERS.append(differentiate_block)


def _replace(block: Block, op: GradOp) -> None:
    """Puts the operations that compute gradients before the operation that asks for them."""
    before = list(_until(block, op))
    added: list[Operation] = []

    def insert(new: Operation) -> None:
        block.insert_op_before(new, op)
        added.append(new)

    b = Emitter(insert, in_phase(op.location, BACKWARD))
    tape = Tape(before)
    one = b.constant(1.0, element_type_of(op.of))
    found = tape.pull(b, [(op.of, one)], op.values)
    for result, value, gradient in zip(op.outputs, op.values, found, strict=True):
        if gradient is None:
            gradient = b.full(shape_of(value), 0.0, T=element_type_of(value))
        if gradient.name_hint is None:
            gradient.name_hint = result.name_hint
        result.replace_all_uses_with(gradient)
    op.detach()
    op.erase()
    for new in reversed(added):
        if not any(result.first_use for result in new.results) and is_side_effect_free(new):
            new.detach()
            new.erase()


def _until(block: Block, end: Operation) -> Sequence[Operation]:
    found: list[Operation] = []
    for op in block.ops:
        if op is end:
            break
        found.append(op)
    return found


class Tape:
    """Operations in order, through which gradients are sent back."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.same: dict[SSAValue, SSAValue] = {}
        self.written: dict[SSAValue, SSAValue] = {}
        self._find_places()

    def _find_places(self) -> None:
        """Finds the reads that are of one value: `same` names the first of them, `written` what a
        state was given before a first one.
        """
        parameters: dict[str, SSAValue] = {}
        held: dict[str, SSAValue] = {}
        given: dict[str, SSAValue] = {}
        for op in self.operations:
            if isinstance(op, ReadOp):
                self.same[op.result] = parameters.setdefault(op.parameter_name, op.result)
            elif isinstance(op, WriteStateOp):
                given[op.state_name] = op.value
                held.pop(op.state_name, None)
            elif isinstance(op, ReadStateOp):
                name = op.state_name
                first = self.same[op.result] = held.setdefault(name, op.result)
                if first is op.result and name in given:
                    self.written[op.result] = given[name]

    def operands_of(self, op: Operation) -> list[SSAValue]:
        """What an operation's results depend on: operands, or what a state was given."""
        if isinstance(op, ReadStateOp) and op.result in self.written:
            return [self.first(self.written[op.result])]
        return [self.first(value) for value in op.operands]

    def first(self, value: SSAValue) -> SSAValue:
        """The value that stands for all reads of the same."""
        return self.same.get(value, value)

    def reached(self, values: Sequence[SSAValue]) -> set[SSAValue]:
        """All floats that depend on some values, these included."""
        found = {self.first(value) for value in values}
        for op in self.operations:
            if not any(value in found for value in self.operands_of(op)):
                continue
            if isinstance(op, TensorOp) and op.spec.name in FLAT:
                continue
            found.update(self.first(item) for item in op.results if _is_float(item))
        return found

    def pull(
        self,
        b: Emitter,
        given: Sequence[tuple[SSAValue, SSAValue]],
        values: Sequence[SSAValue],
    ) -> list[SSAValue | None]:
        """The gradients of values, from those of later ones; None where nothing reaches one.
        NoGradient where there is none.
        """
        reached = self.reached(values)
        sent = _Sent(b)
        for value, gradient in given:
            sent.add(self.first(value), gradient)
        for op in reversed(self.operations):
            outer = [sent.of(self.first(item)) for item in op.results]
            if all(item is None for item in outer):
                continue
            operands = self.operands_of(op)
            if not any(value in reached for value in operands):
                continue
            if isinstance(op, ReadStateOp):
                if self.same[op.result] is op.result:
                    sent.add(operands[0], outer[0])
                continue
            if not isinstance(op, TensorOp) or op.spec.name in FLAT:
                continue
            location, b.location = b.location, in_phase(op.location, BACKWARD)
            site = _site(op, operands, outer, frozenset(reached))
            flat = _flat(gradients_at(b, site))
            b.location = location
            for operand, gradient in zip(operands, flat, strict=True):
                if gradient is not None and operand in reached:
                    assert gradient.type == operand.type, (op.name, gradient.type, operand.type)
                    sent.add(operand, gradient)
        return [sent.of(self.first(value)) for value in values]


class _Sent:
    """What values have got so far."""

    def __init__(self, b: Emitter) -> None:
        self.b = b
        self.sums: dict[SSAValue, SSAValue] = {}

    def of(self, value: SSAValue) -> SSAValue | None:
        """The gradient of a value, or None."""
        return self.sums.get(value)

    def add(self, value: SSAValue, gradient: SSAValue | None) -> None:
        """Adds what one use sends; an operand of several uses, or twice in one, gets all of it."""
        if gradient is None:
            return
        known = self.sums.get(value)
        self.sums[value] = gradient if known is None else self.b.add(known, gradient)


def _site(
    op: TensorOp,
    operands: list[SSAValue],
    given: list[SSAValue | None],
    reached: frozenset[SSAValue],
) -> Site:
    return Site(op, op.spec.split_operands(operands), list(op.results), given, reached)


def _flat(found: Gradients) -> list[SSAValue | None]:
    """Gradients of the operands that there are, in one list."""
    flat: list[SSAValue | None] = []
    for item in found:
        if isinstance(item, _Absent):
            continue
        if item is None or isinstance(item, SSAValue):
            flat.append(item)
        else:
            flat.extend(item)
    return flat


class _Absent(Sequence[Any]):
    """Stands for the gradient of an operand that was left out."""

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)

    def __len__(self) -> int:
        return 0


_ABSENT = _Absent()


def gradients_at(b: Emitter, at: Site) -> Gradients:
    """The gradients of an operation's operands, by its row or its decomposition. NoGradient."""
    name = at.op.spec.name
    if name in ELEMENTWISE:
        found: Gradients = _elementwise(b, at)
    elif name in RULES:
        found = RULES[name](b, at)
    elif at.op.spec.decompose is not None:
        found = through_decomposition(b, at)
    else:
        raise NoGradient(at.op, reason_without(at.op.spec))
    return [
        _ABSENT if operand is None else gradient
        for operand, gradient in zip(at.operands, found, strict=True)
    ]


def reason_without(spec: OperationSpec) -> str:
    """What an error says of an operation without a gradient."""
    instead = WITHOUT.get(spec.name)
    return f"{spec.name} has no gradient" + (f"; {instead}" if instead else "")


def has_gradient(op: TensorOp) -> bool:
    """Whether an operation has a row, or a decomposition into operations that have one."""
    name = op.spec.name
    if name in ELEMENTWISE or name in RULES or name in FLAT:
        return True
    if op.spec.decompose is None:
        return False
    inner = [item for item in decomposition_of(op).block.ops if isinstance(item, TensorOp)]
    passing = [item for item in inner if any(map(_is_float, item.operands))]
    return all(has_gradient(item) for item in passing if _is_float(item.results[0]))


def check_gradients(of: SSAValue, values: Sequence[SSAValue]) -> None:
    """NoGradient where an operation between a scalar and values has none."""
    owner = of.owner
    if isinstance(owner, Block) or owner.parent is None:
        return
    tape = Tape(list(owner.parent.ops))
    reached = tape.reached(values)
    needed = {tape.first(of)}
    for op in reversed(tape.operations):
        if not any(tape.first(item) in needed for item in op.results):
            continue
        if isinstance(op, TensorOp) and op.spec.name in FLAT:
            continue
        through = [value for value in tape.operands_of(op) if value in reached]
        needed.update(through)
        if through and isinstance(op, TensorOp) and not has_gradient(op):
            raise NoGradient(op, reason_without(op.spec))


def _elementwise(b: Emitter, at: Site) -> Gradients:
    """By an elementwise row: in f32 where operands are narrower, what was broadcast summed back."""
    half = element_type_of(at.g).bits == 16 and at.op.spec.name not in UNROUNDED
    widen: Callable[[Any], Any] = (lambda value: as_full(b, value)) if half else lambda value: value
    rule = ELEMENTWISE[at.op.spec.name]
    operands = [widen(value) for value in at.operands]
    found = rule(b, widen(at.g), widen(at.y), *operands, **at.values)
    gradients: list[SSAValue | None] = []
    for operand, gradient in zip(at.operands, found, strict=True):
        if gradient is not None:
            gradient = summed_to(b, gradient, shape_of(operand))
            gradient = b.cast(gradient, element_type_of(operand)) if half else gradient
        gradients.append(gradient)
    return gradients


def through_decomposition(b: Emitter, at: Site) -> Gradients:
    """By the simpler operations that an operation means, which are put into the block again."""
    expansion = decomposition_of(at.op)
    flat = [
        item
        for value in at.operands
        if value is not None
        for item in (value if isinstance(value, list) else [value])
    ]
    leaves = distinct(b, flat)
    mapping: dict[SSAValue, SSAValue] = dict(zip(expansion.block.args, leaves, strict=True))
    copies: list[Operation] = []
    for op in expansion.block.ops:
        copy = op.clone(mapping)
        copy.location = b.location if b.location is not None else op.location
        b.insert(copy)
        copies.append(copy)
    results = [mapping[value] for value in expansion.results]
    sent = [
        (result, gradient)
        for result, gradient in zip(results, at.given, strict=True)
        if gradient is not None
    ]
    wanted = [leaf for leaf, value in zip(leaves, flat, strict=True) if value in at.reached]
    found = iter(Tape(copies).pull(b, sent, wanted))
    return at.op.spec.split_operands(
        [next(found) if value in at.reached else None for value in flat]
    )


def distinct(b: Emitter, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values of which no two are one, so that each gets a gradient of its own."""
    return [
        b.identity(value) if value in values[:number] else value
        for number, value in enumerate(values)
    ]


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and element_of(value.type).is_float
