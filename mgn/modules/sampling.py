"""Draws random inputs for a graph, so that a program can be run before there is data.

In: a graph and a seed. Out: an array for each input, and a line that says what was drawn. Integers
that are used as indices are drawn within the axis that they index.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import element_of
from mgn.modules.random_arrays import Sample, sample_array


def sample_inputs(graph: GraphOp, seed: int) -> dict[str, Sample]:
    """A random array for every input of a graph."""
    return {name: sample(name, argument, seed) for name, argument in graph.named_inputs}


def sample(name: str, value: SSAValue, seed: int) -> Sample:
    """A random array for one input, from a stream of its own."""
    type = value.type
    assert isinstance(type, TensorType)
    bound = min(index_bounds(value), default=None)
    return sample_array(name, element_of(type).name, type.get_shape(), seed, bound)


def index_bounds(value: SSAValue) -> Iterator[int]:
    """The sizes of the axes that a value indexes, directly or after it was moved or cast."""
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if not isinstance(op, TensorOp):
                continue
            yield from _bound(op, use.index)
            moved = op.spec.kind is Kind.MOVEMENT or op.spec.name in ("cast", "identity")
            pending.extend(result for result in op.results if moved and result not in seen)
            seen.update(op.results)


def _bound(op: TensorOp, index: int) -> Iterator[int]:
    """The axis that operand `index` of an operation indexes, if it indexes one."""
    rule = _INDEXED.get(op.spec.name)
    if rule is None or index != rule.ids:
        return
    shape = op.operands[rule.data].type
    assert isinstance(shape, TensorType)
    axis = op.values["axis"] if rule.axis is None else rule.axis
    yield shape.get_shape()[axis]


@dataclass(frozen=True)
class _Indexed:
    """Which operand holds indices, into which operand, along which axis (None: its `axis`)."""

    ids: int
    data: int
    axis: int | None


_INDEXED = {
    "embedding": _Indexed(ids=0, data=1, axis=0),
    "gather": _Indexed(ids=1, data=0, axis=None),
    "take_along_axis": _Indexed(ids=1, data=0, axis=None),
    "scatter": _Indexed(ids=1, data=0, axis=None),
    "scatter_add": _Indexed(ids=1, data=0, axis=None),
    "scatter_along": _Indexed(ids=1, data=0, axis=None),
    "cross_entropy": _Indexed(ids=1, data=0, axis=-1),
    "nll": _Indexed(ids=1, data=0, axis=-1),
}
