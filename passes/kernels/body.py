"""The body of a `fusion.kernel` as a graph of core operations, equal ones shared.

In: the kernel. Out: a `Body`: input nodes, and the nodes that are written. Composite elementwise
operations are replaced by their decompositions, so that templates see core operations only, and
the composites that have a template of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.fusion.forms import NOT_EXPANDED
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import Kind, OperationSpec, TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.dialects.stabilising_maximum import IDENTITIES
from mgn.dialects.types import ElementType, element_of
from mgn.passes.kernels.index import Index

INPUT = "input"
SPLAT = "splat"


@dataclass(eq=False)
class Node:
    """One value of a body. `name` is an operation, `input` or `splat`."""

    name: str
    kind: Kind
    operands: tuple["Node", ...]
    values: Mapping[str, Any]
    shape: tuple[int, ...]
    element: ElementType
    location: Any = None
    number: int = 0
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = 1 + max([operand.depth for operand in self.operands], default=0)

    @property
    def count(self) -> int:
        return prod(self.shape)


@dataclass
class Body:
    """All nodes of a kernel, operands first."""

    inputs: list[Node]
    written: list[Node]
    nodes: list[Node]

    def of_kind(self, kind: Kind) -> list[Node]:
        return [node for node in self.nodes if node.kind is kind]

    def dependent_on(self, roots: Sequence[Node]) -> set[Node]:
        """The roots and every node that uses one of them."""
        found = set(roots)
        for node in self.nodes:
            if any(operand in found for operand in node.operands):
                found.add(node)
        return found


def is_expanded(spec: OperationSpec) -> bool:
    """Whether templates see what an operation is defined by in its place."""
    return spec.evaluate is None and spec.name not in NOT_EXPANDED


class _Builder:
    def __init__(self) -> None:
        self.known: dict[Any, Node] = {}
        self.nodes: list[Node] = []

    def node(self, key: Any, *arguments: Any, **rest: Any) -> Node:
        if key not in self.known:
            made = Node(*arguments, **rest)
            self.known[key] = made
            self.nodes.append(made)
        return self.known[key]

    def operation(self, op: Operation, environment: dict[SSAValue, Node]) -> None:
        if isinstance(op, ConstantOp):
            environment[op.results[0]] = self.splat(op)
            return
        assert isinstance(op, TensorOp)
        operands = tuple(environment[operand] for operand in op.operands)
        if is_expanded(op.spec):
            expansion = decomposition_of(op)
            inner: dict[SSAValue, Node] = dict(zip(expansion.block.args, operands, strict=True))
            for step in expansion.block.ops:
                self.operation(step, inner)
            environment.update(zip(op.results, (inner[v] for v in expansion.results), strict=True))
            return
        if op.spec.name in IDENTITIES:
            environment[op.results[0]] = operands[0]
            return
        result = op.results[0]
        key = (op.spec.name, tuple(id(n) for n in operands), result.type, *op.properties.items())
        environment[result] = self.node(
            key,
            op.spec.name,
            op.spec.kind,
            operands,
            op.values,
            shape_of(result),
            element_of(result.type),
            op.location,
        )

    def splat(self, op: ConstantOp) -> Node:
        result = op.results[0]
        array = op.array
        number = array.reshape(-1)[0] if array.size else 0
        plain = number.item() if isinstance(number, np.generic) else number
        values = {"value": float(plain) if element_of(result.type).is_float else int(plain)}
        key = (SPLAT, result.type, str(values["value"]))
        return self.node(
            key, SPLAT, Kind.CONSTANT, (), values, shape_of(result), element_of(result.type)
        )


def read_body(kernel: FusedKernelOp) -> Body:
    """The body of a kernel as a graph of core operations."""
    builder = _Builder()
    environment: dict[SSAValue, Node] = {}
    inputs: list[Node] = []
    for number, argument in enumerate(kernel.block.args):
        node = builder.node(
            (INPUT, number),
            INPUT,
            Kind.CONSTANT,
            (),
            {},
            shape_of(argument),
            element_of(argument.type),
            number=number,
        )
        environment[argument] = node
        inputs.append(node)
    for op in kernel.block.ops:
        if not isinstance(op, FusionReturnOp):
            builder.operation(op, environment)
    written = [environment[value] for value in kernel.written]
    return Body(inputs, written, _live(builder.nodes, written))


def read_operation(op: Operation) -> Body:
    """An operation by itself as core operations; its inputs are its operands."""
    builder = _Builder()
    inputs = [
        Node(
            INPUT,
            Kind.CONSTANT,
            (),
            {},
            shape_of(operand),
            element_of(operand.type),
            number=number,
        )
        for number, operand in enumerate(op.operands)
    ]
    environment = dict(zip(op.operands, inputs, strict=True))
    builder.operation(op, environment)
    return Body(inputs, [environment[op.results[0]]], builder.nodes)


def read_block(block: Block, results: Sequence[SSAValue]) -> Body:
    """A block as core operations; its inputs are its arguments."""
    builder = _Builder()
    inputs = [
        Node(INPUT, Kind.CONSTANT, (), {}, shape_of(item), element_of(item.type), number=number)
        for number, item in enumerate(block.args)
    ]
    environment: dict[SSAValue, Node] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        builder.operation(op, environment)
    return Body(inputs, [environment[value] for value in results], builder.nodes)


def _live(nodes: list[Node], written: list[Node]) -> list[Node]:
    live: set[Node] = set(written)
    for node in reversed(nodes):
        if node in live:
            live.update(node.operands)
    return [node for node in nodes if node in live]


Indices = tuple[Index, ...]
