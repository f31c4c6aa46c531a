"""Makes a program for a longer size run shorter ones: what differs between them becomes an input.

    %a = mgn.constant dense<8> : tensor<i32>            mgn.graph @g(…, "S#0" = %n: tensor<i32>)
    mgn.write_state @position, %a : tensor<i32>      →  mgn.write_state @position, %n : tensor<i32>

A slice that starts elsewhere becomes a `dynamic_slice`. A part with padding that is written into a
tensor is the part where a line of bools is true, and what was there beyond it. The line is made on
the host, so that what is written in each layer of a model has nothing computed in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, graphs_of
from mgn.dialects.shapes import Shape
from mgn.dialects.types import element_of_dtype, tensor
from mgn.sizes.compare import Site, told_at
from mgn.sizes.known import shape_of


@dataclass(frozen=True)
class Told:
    """An input that a lengthened program has besides, and the sites that are told its value. One
    that `hides` is true for the part's elements that are none of the padding.
    """

    name: str
    sites: tuple[Site, ...]
    hides: bool = False

    def value(self, graph: GraphOp) -> np.ndarray | None:
        """What the graph of a size has at the sites; None where they are not alike."""
        first, *rest = [told_at(graph, site) for site in self.sites]
        return first if all(np.array_equal(first, item) for item in rest) else None

    def given(self, long: GraphOp, short: GraphOp) -> np.ndarray:
        """The input of the longer program in a run of the shorter size."""
        value = told_at(short, self.sites[0])
        if not self.hides:
            return value
        line = line_of(long, self.sites[0])
        return (np.arange(max(line)) < value).reshape(line)


def line_of(graph: GraphOp, site: Site) -> Shape:
    """The shape of what is true of a part's elements along an axis."""
    part = shape_of(list(graph.block.ops)[site.operation].operands[1])
    return tuple(size if axis == site.axis else 1 for axis, size in enumerate(part))


def told_of(dimension: str, sites: frozenset[Site], graphs: Sequence[GraphOp]) -> tuple[Told, ...]:
    """The inputs for sites: one for those that have the same in each of the graphs."""
    alike: dict[tuple[Any, ...], list[Site]] = {}
    first = list(graphs[0].block.ops)
    for site in sorted(sites):
        values = [told_at(graph, site) for graph in graphs]
        hides = is_update(first[site.operation])
        line = line_of(graphs[0], site) if hides else None
        key = (line, *[(item.dtype.str, item.shape, item.tobytes()) for item in values])
        alike.setdefault(key, []).append(site)
    return tuple(
        Told(f"{dimension}#{number}", tuple(found), key[0] is not None)
        for number, (key, found) in enumerate(alike.items())
    )


def is_update(op: Operation) -> bool:
    """Whether an operation writes a part into a tensor."""
    return isinstance(op, TensorOp) and op.spec.name == "dynamic_update_slice"


def lengthened(module: ModuleOp, told: Sequence[Told]) -> ModuleOp:
    """A module of one graph, changed in place."""
    graph = next(graphs_of(module))
    operations = list(graph.block.ops)
    sites: dict[int, dict[int, SSAValue]] = {}
    for item in told:
        value = item.given(graph, graph)
        type = tensor(element_of_dtype(value.dtype), value.shape)
        argument = graph.block.insert_arg(type, len(graph.block.args))
        graph.inputs = ArrayAttr([*graph.inputs, StringAttr(item.name)])
        for site in item.sites:
            sites.setdefault(site.operation, {})[site.axis] = argument
    for number, values in sites.items():
        _replace(operations[number], values)
    return module


def _replace(op: Operation, values: Mapping[int, SSAValue]) -> None:
    """Puts what is told in the place of what an operation says of the size."""
    block = op.parent_block()
    assert block is not None
    emitter: Any = Emitter(lambda made: block.insert_op_before(made, op), op.location)
    if isinstance(op, ConstantOp):
        (replacement,) = values.values()
    elif isinstance(op, TensorOp) and op.spec.name == "slice":
        starts = [
            values[axis] if axis in values else emitter.constant(start, "i32")
            for axis, start in enumerate(op.values["starts"])
        ]
        sizes = shape_of(op.results[0])
        replacement = emitter.dynamic_slice(op.operands[0], starts, sizes=sizes)
    else:
        replacement = _kept_from(emitter, op, values)
    op.results[0].replace_all_uses_with(replacement)
    op.detach()
    op.erase()


def _kept_from(b: Any, op: Operation, values: Mapping[int, SSAValue]) -> SSAValue:
    """A part written into a tensor where it is none of the padding, and there what there is."""
    whole, part, *starts = op.operands
    there = b.dynamic_slice(whole, starts, sizes=shape_of(part))
    for within in values.values():
        part = b.where(within, part, there)
    return b.dynamic_update_slice(whole, part, starts)
