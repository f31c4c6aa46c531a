"""Makes a program for a longer size run shorter ones: what differs between them becomes an input.

    %a = mgn.constant dense<8> : tensor<i32>            mgn.graph @g(…, "S#0" = %n: tensor<i32>)
    mgn.write_state @position, %a : tensor<i32>      →  mgn.write_state @position, %n : tensor<i32>

A slice that starts elsewhere becomes a `dynamic_slice`. A part with padding that is written into a
tensor is the part up to what the run is told, and what was there beyond it.
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
from mgn.dialects.types import element_of_dtype, tensor
from mgn.sizes.compare import Site, told_at
from mgn.sizes.known import shape_of


@dataclass(frozen=True)
class Told:
    """An input that a lengthened program has besides, and the sites that are told its value."""

    name: str
    sites: tuple[Site, ...]

    def value(self, graph: GraphOp) -> np.ndarray | None:
        """What the graph of a size has at the sites; None where they are not alike."""
        first, *rest = [told_at(graph, site) for site in self.sites]
        return first if all(np.array_equal(first, item) for item in rest) else None


def told_of(dimension: str, sites: frozenset[Site], graphs: Sequence[GraphOp]) -> tuple[Told, ...]:
    """The inputs for sites: one for those that have the same in each of the graphs."""
    alike: dict[tuple[Any, ...], list[Site]] = {}
    for site in sorted(sites):
        values = [told_at(graph, site) for graph in graphs]
        key = tuple((item.dtype.str, item.shape, item.tobytes()) for item in values)
        alike.setdefault(key, []).append(site)
    return tuple(
        Told(f"{dimension}#{number}", tuple(found)) for number, found in enumerate(alike.values())
    )


def lengthened(module: ModuleOp, told: Sequence[Told]) -> ModuleOp:
    """A module of one graph, changed in place."""
    graph = next(graphs_of(module))
    operations = list(graph.block.ops)
    sites: dict[int, dict[int, SSAValue]] = {}
    for item in told:
        value = told_at(graph, item.sites[0])
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
    """A part written into a tensor up to what is told, and beyond it what is there."""
    whole, part, *starts = op.operands
    sizes = shape_of(part)
    there = b.dynamic_slice(whole, starts, sizes=sizes)
    for axis, count in values.items():
        line = [size if at == axis else 1 for at, size in enumerate(sizes)]
        within = b.reshape(b.lt(b.iota((sizes[axis],), axis=0, T="i32"), count), line)
        part = b.where(within, part, there)
    return b.dynamic_update_slice(whole, part, starts)
