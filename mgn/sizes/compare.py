"""Compares a graph at two sizes: does the longer program compute what the shorter does?

In: the IR of one graph, lowered for a longer and for a shorter size. Out: `Comparison`, which says
why results or states may depend on padding, or what the longer program has to be told of the
size: *sites*, at which the two differ by a number. Inputs and
parameters are taken to be finite; padding of integers and bools is zeros.

    graph g[S](x: f32[S, 8]) { y = relu(x); return y, last = x[S - 1], count = S }

Row i of `y` is of row i of `x` alone. `last` and `count` are told: two sites.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.dialects.places import text_place
from mgn.dialects.types import element_of
from mgn.sizes.composites import CUSTOM, FREE, STAYS_FINITE
from mgn.sizes.known import (
    ANYTHING,
    FINITE,
    Beside,
    Differs,
    Fact,
    Known,
    exactly,
    paired,
    shape_of,
)
from mgn.sizes.rows import row_of

MOST_TOLD = 64
"""Elements of a constant that a run is told."""


class Site(NamedTuple):
    """An operation, by its number in the graph, and an axis of it: where a slice starts, or how
    long a part is that is written; of a constant -1.
    """

    operation: int
    axis: int


@dataclass(frozen=True)
class Comparison:
    """Why the longer program does not do, or None; and where it is told of the size."""

    problem: str | None
    sites: frozenset[Site] = frozenset()


def compare(long: GraphOp, short: GraphOp, padding: Fact = FINITE) -> Comparison:
    """Compares two lowered forms of a graph, where floats of the inputs' padding are so."""
    walk = _Walk(padding)
    try:
        walk.graph(long, short)
    except Differs as error:
        return Comparison(str(error))
    return Comparison(None, frozenset(walk.sites))


def told_at(graph: GraphOp, site: Site) -> np.ndarray:
    """What a site has in the graph of a size."""
    op = list(graph.block.ops)[site.operation]
    if isinstance(op, ConstantOp):
        return op.array
    assert isinstance(op, TensorOp)
    if op.spec.name == "slice":
        return np.array(op.values["starts"][site.axis], np.int32)
    return np.array(shape_of(op.operands[1])[site.axis], np.int32)


class _Walk:
    """Both graphs, operation by operation."""

    def __init__(self, padding: Fact) -> None:
        self._padding = padding
        self._known: dict[SSAValue, Known] = {}
        self._states: dict[str, Known] = {}
        self.sites: set[Site] = set()

    def graph(self, long: GraphOp, short: GraphOp) -> None:
        """Differs where a result, or what is written to a state, need not agree."""
        for argument, other in zip(long.block.args, short.block.args, strict=True):
            self._known[argument] = self._input(argument, other)
        operations = [(list(graph.block.ops)) for graph in (long, short)]
        if len(operations[0]) != len(operations[1]):
            raise Differs("the program has other operations at other sizes")
        values: dict[SSAValue, SSAValue] = {}
        values.update(zip(short.block.args, long.block.args, strict=True))
        for number, (op, other) in enumerate(zip(*operations, strict=True)):
            alike = [values.get(operand) for operand in other.operands] == list(op.operands)
            if op.name != other.name or not alike or len(op.results) != len(other.results):
                raise Differs(_at(op, "the program has other operations at other sizes"))
            values.update(zip(other.results, op.results, strict=True))
            self._operation(number, op, other)

    def _input(self, long: SSAValue, short: SSAValue) -> Known:
        found = paired(long, short)
        is_float = element_of(long.type).is_float
        beyond = self._padding if is_float else exactly(0)
        return replace(found, inside=FINITE, slabs=dict.fromkeys(found.padded, beyond))

    def _operation(self, number: int, op: Operation, other: Operation) -> None:
        if isinstance(op, ReturnOp | WriteStateOp):
            for operand in op.operands:
                if (problem := self._known[operand].problem) is not None:
                    raise Differs(problem)
            if isinstance(op, WriteStateOp):
                self._states[op.state_name] = self._known[op.value]
            return
        operands = [self._known[operand] for operand in op.operands]
        try:
            found = self._of_graph(number, op, other, operands)
        except Differs as error:
            found = [_unlike(a, b, _at(op, str(error))) for a, b in _results(op, other)]
        self._known.update(zip(op.results, found, strict=True))

    def _of_graph(
        self, number: int, op: Operation, other: Operation, operands: Sequence[Known]
    ) -> list[Known]:
        """The results of an operation of the graph."""
        if isinstance(op, ReadOp | ReadStateOp):
            if op.properties != other.properties:
                raise Differs("it reads something else at other sizes")
            found = paired(op.results[0], other.results[0])
            if found.padded:
                kind = "state" if isinstance(op, ReadStateOp) else "parameter"
                raise Differs(f"{kind} '{op.external_name}' has another shape at other sizes")
            if isinstance(op, ReadOp):
                return [found.with_facts(FINITE)]
            return [self._states.get(op.state_name, found)]
        if isinstance(op, ConstantOp) and isinstance(other, ConstantOp):
            return [self._constant(number, op, other)]
        if not isinstance(op, TensorOp) or not isinstance(other, TensorOp):
            raise Differs(f"{op.name} is not looked into")
        at = Beside(op, other, operands)
        if _problem(operands) is None:
            told = self._told(number, at)
            if told is not None:
                return told
        return results_of(at)

    def _constant(self, number: int, op: ConstantOp, other: ConstantOp) -> Known:
        found = paired(op.result, other.result)
        array, short = op.array, other.array
        if array.shape == short.shape and not np.array_equal(array, short, equal_nan=False):
            if array.size > MOST_TOLD:
                raise Differs("a large constant has other values at other sizes")
            self.sites.add(Site(number, -1))
            finite = bool(np.isfinite(array.astype(np.float64)).all())
            return found.with_facts(FINITE if finite else ANYTHING)
        corner = array[tuple(slice(size) for size in short.shape)]
        if not np.array_equal(corner, short):
            raise Differs("a constant has other values at other sizes")
        return found.with_facts(fact_of(array))

    def _told(self, number: int, at: Beside) -> list[Known] | None:
        """The result of an operation that can be told of the size; None where it is another, or
        there is no need to.
        """
        if at.name == "slice":
            return self._slice(number, at)
        if at.name == "dynamic_update_slice":
            return self._update(number, at)
        return None

    def _slice(self, number: int, at: Beside) -> list[Known] | None:
        """A slice of one length that starts elsewhere."""
        (result,) = at.results
        starts, others = at.values["starts"], at.short.values["starts"]
        moved = [axis for axis, start in enumerate(starts) if start != others[axis]]
        if not moved:
            return None
        steps = (*at.values["steps"], *at.short.values["steps"])
        if any(step != 1 for step in steps) or result.padded:
            raise Differs("it starts elsewhere at other sizes")
        self.sites.update(Site(number, axis) for axis in moved)
        return [result.with_facts(at.operands[0].everywhere)]

    def _update(self, number: int, at: Beside) -> list[Known] | None:
        """A part with padding written into a tensor that has none: at a known place in there, the
        padding is kept from it.
        """
        whole, part, starts = at.grouped()
        if whole.padded or not part.padded:
            return None
        for axis in part.padded:
            start = starts[axis].inside.value if len(starts) == len(whole.long) else None
            if start is None or not 0 <= start <= whole.long[axis] - part.long[axis]:
                raise Differs("where it writes padding is not known")
        self.sites.update(Site(number, axis) for axis in part.padded)
        (result,) = at.results
        return [result.with_facts(whole.everywhere | part.everywhere)]


def results_of(at: Beside) -> list[Known]:
    """What is known of an operation's results: by its row, or by its decomposition."""
    if (problem := _problem(at.operands)) is not None:
        return [_unlike(a, b, problem) for a, b in _results(at.long, at.short)]
    row = row_of(at.long) if at.long.spec.is_core else None
    if row is not None:
        _check_attributes(at.long, at.short, row.free)
        return row.rule(at)
    if at.is_same and at.long.properties == at.short.properties:
        return [_finite(at, item) for item in at.results]
    if at.name in CUSTOM:
        _check_attributes(at.long, at.short, FREE.get(at.name, frozenset()))
        found = CUSTOM[at.name](at)
        if found is not None:
            return found
    if at.long.spec.is_core:
        raise Differs(f"nothing is known of {at.name} with padding")
    return [_finite(at, item) for item in _decomposed(at)]


def _finite(at: Beside, item: Known) -> Known:
    """The same with what is known of finite operands."""
    stays = at.name in STAYS_FINITE and at.values.get("eps", 1.0) > 0
    empty = any(0 in known.short for known in at.operands)
    if not stays or empty or not all(known.everywhere.finite for known in at.operands):
        return item
    slabs: Mapping[int, Fact] = {
        axis: fact if fact.value is not None else FINITE for axis, fact in item.slabs.items()
    }
    return replace(item, inside=FINITE, slabs=slabs)


def _decomposed(at: Beside) -> list[Known]:
    """What the decompositions in both programs come to."""
    long, short = decomposition_of(at.long), decomposition_of(at.short)
    known: dict[SSAValue, Known] = {}
    known.update(zip(long.block.args, at.operands, strict=True))
    values: dict[SSAValue, SSAValue] = {}
    values.update(zip(short.block.args, long.block.args, strict=True))
    pairs = _alike(long.block, short.block)
    for op, other in pairs:
        if [values.get(operand) for operand in other.operands] != list(op.operands):
            raise Differs("it is computed otherwise at other sizes")
        values.update(zip(other.results, op.results, strict=True))
        known.update(zip(op.results, _inner(op, other, known), strict=True))
    found = [known[value] for value in long.results]
    if [values.get(value) for value in short.results] != list(long.results):
        raise Differs("it is computed otherwise at other sizes")
    for item in found:
        if item.problem is not None:
            raise Differs(item.problem)
    return found


def _inner(op: Operation, other: Operation, known: Mapping[SSAValue, Known]) -> list[Known]:
    """The results of an operation of a decomposition."""
    try:
        if isinstance(op, ConstantOp) and isinstance(other, ConstantOp):
            found = paired(op.result, other.result)
            array = op.array[tuple(slice(size) for size in other.array.shape)]
            if not np.array_equal(array, other.array, equal_nan=array.dtype.kind == "f"):
                raise Differs("it counts with the size")
            return [found.with_facts(fact_of(op.array))]
        if not isinstance(op, TensorOp) or not isinstance(other, TensorOp):
            raise Differs(f"{op.name} is not looked into")
        return results_of(Beside(op, other, [known[operand] for operand in op.operands]))
    except Differs as error:
        return [_unlike(a, b, str(error)) for a, b in _results(op, other)]


def _alike(long: Block, short: Block) -> list[tuple[Operation, Operation]]:
    found = list(zip(long.ops, short.ops, strict=False))
    same = len(list(long.ops)) == len(list(short.ops))
    if not same or any(a.name != b.name or len(a.results) != len(b.results) for a, b in found):
        raise Differs("it is computed otherwise at other sizes")
    return found


def _check_attributes(long: TensorOp, short: TensorOp, free: frozenset[str]) -> None:
    """Differs where an attribute differs that says the same at all sizes."""
    for name in long.properties.keys() | short.properties.keys():
        if name not in free and long.properties.get(name) != short.properties.get(name):
            raise Differs(f"its attribute '{name}' differs at other sizes")


def fact_of(array: np.ndarray) -> Fact:
    """What is so of a constant's elements."""
    if not array.size:
        return FINITE
    first: Any = array.reshape(-1)[0].item()
    if bool((array == first).all()):
        return exactly(first)
    return FINITE if bool(np.isfinite(array.astype(np.float64)).all()) else ANYTHING


def _problem(operands: Sequence[Known]) -> str | None:
    return next((item.problem for item in operands if item.problem is not None), None)


def _unlike(long: SSAValue, short: SSAValue, problem: str) -> Known:
    return Known(shape_of(long), shape_of(short), problem=problem)


def _results(op: Operation, other: Operation) -> list[tuple[SSAValue, SSAValue]]:
    return list(zip(op.results, other.results, strict=True))


def _at(op: Operation, problem: str) -> str:
    """A problem with the operation and its place in the text."""
    name, place = op.name.removeprefix("mgn."), text_place(op.location)
    if place is not None:
        name += f" at {place.filename.data}:{place.line.data}:{place.column.data}"
    return f"{name}: {problem}"
