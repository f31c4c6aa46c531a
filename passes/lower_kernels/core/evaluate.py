"""Evaluates a body at an index: the value of a node at one element, or at one element for each
lane.

In: a node and an index, which may vary with `Lane`. Out: a scalar where all lanes see the same
element, else a vector. An input becomes a load of one element, of consecutive elements, or of one
element for each lane. `EarlyReads` evaluates what a result needs before its sum is known.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.fusion.forms import POINTWISE
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.passes.kernels.body import INPUT, SPLAT, Body, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, linear
from mgn.passes.kernels.index_maps import MOVES, broadcast_index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.movement import MOVEMENT_ROWS
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type
from mgn.passes.lower_kernels.core.scalar import elementwise

Given = Callable[[Indices], SSAValue]


class Evaluator:
    """Evaluates nodes of one body into a kernel's code, with so many lanes.

    `given` holds the nodes whose value a template knows: a finished sum, a stored intermediate.
    """

    def __init__(self, code: Code, buffers: Sequence[SSAValue], lanes: int = 1) -> None:
        self.code = code
        self.buffers = buffers
        self.lanes = lanes
        self.given: dict[Node, Given] = {}

    def with_lanes(self, lanes: int) -> "Evaluator":
        """The same body and given values, with another number of lanes."""
        other = Evaluator(self.code, self.buffers, lanes)
        other.given = self.given
        return other

    def at(self, node: Node, index: Indices) -> SSAValue:
        """The value of a node at an index."""
        if node in self.given:
            return self.given[node](index)
        key = (node, index)
        value = self.code.recall(key)
        if value is None:
            value = self._compute(node, index)
            self.code.remember(key, value)
        return value

    def lanes_at(self, node: Node, index: Indices) -> SSAValue:
        """The value in every lane."""
        return self.code.spread(self.at(node, index), self.lanes)

    def _compute(self, node: Node, index: Indices) -> SSAValue:
        if node.name == INPUT:
            return self.load(self.buffers[node.number], linear(index, node.shape))
        if node.name in (SPLAT, "full"):
            number = node.values["value"]
            if not node.element.is_float:
                number = int(number)
            return self.code.constant(number, memory_type(node.element))
        if node.name == "iota":
            return self._iota(node, index[node.values["axis"]])
        if node.name == PICK:
            return self._picked(node, index)
        if node.kind in (Kind.MOVEMENT, Kind.INDEXING):
            return MOVEMENT_ROWS[node.name](self, node, index)
        operands = [
            self.at(operand, broadcast_index(index, operand.shape)) for operand in node.operands
        ]
        if node.location is not None:
            self.code.location = node.location
        return elementwise(self.code, node, operands)

    def _picked(self, node: Node, index: Indices) -> SSAValue:
        """One of two values: the other is not computed where all lanes have one condition."""
        code, (condition, *sides) = self.code, node.operands
        test = self.at(condition, broadcast_index(index, condition.shape))
        places = [broadcast_index(index, side.shape) for side in sides]
        if lane_count(test) > 1:
            values = [self.at(side, place) for side, place in zip(sides, places, strict=True)]
            return elementwise(code, node, [test, *values])
        lanes = self.lanes if any(part.varies for part in index) else 1

        def value_of(side: Node, place: Indices) -> list[SSAValue]:
            return [code.spread(self.at(side, place), lanes)]

        (a, b), (here, there) = sides, places
        return code.branch(test, lambda: value_of(a, here), lambda: value_of(b, there))[0]

    def load(self, buffer: SSAValue, index: Index) -> SSAValue:
        """Elements of a buffer at a linear index."""
        code = self.code
        if index.lane_stride is None:
            index = index.divided_once
        stride = index.lane_stride
        key = ("load", buffer, index, self.lanes)
        value = code.recall(key)
        if value is not None:
            return value
        if stride == 0:
            value = code.load(buffer, code.index(index))
        elif stride == 1:
            first = index.at_lane(0)
            value = code.load(buffer, code.index(first), self.lanes, first.multiple)
        elif stride is not None:
            parts = [
                code.load(buffer, code.index(index.at_lane(lane))) for lane in range(self.lanes)
            ]
            value = code.effect(
                kernel.FromElementsOp,
                parts,
                result_types=[kernel.FromElementsOp(parts).result.type],
            ).results[0]
        else:
            value = self._gathered(buffer, index)
        code.remember(key, value)
        return value

    def _gathered(self, buffer: SSAValue, index: Index) -> SSAValue:
        op = kernel.GatherOp(buffer, self.code.lanes_index(index, self.lanes))
        self.code.block.add_op(op)
        return op.result

    def _iota(self, node: Node, index: Index) -> SSAValue:
        code, element = self.code, node.element
        type = memory_type(element)
        wide = i64 if element.bits == 64 and not element.is_float else i32
        if index.high >= 1 << 31:
            wide = i64
        if index.varies:
            value = code.lanes_index(index, self.lanes, wide)
        else:
            value = code.convert("index_cast", code.index(index), wide)
        if element.is_float:
            return code.convert("sitofp", value, type)
        if element.bits < wide.width.data:
            return code.convert("trunci", value, type)
        return value


class EarlyReads:
    """Evaluates those operands of a result that can be known before an `unknown` value is.

    Their loads then stand before the loop that finds that value, and the loop hides their latency.
    Reductions that no template has found yet are unknown, too.
    """

    def __init__(self, evaluator: Evaluator, body: Body, unknown: Node) -> None:
        self._evaluator = evaluator
        self._waiting = {unknown, *(set(body.of_kind(Kind.REDUCTION)) - evaluator.given.keys())}
        for node in body.nodes:
            if not self._waiting.isdisjoint(node.operands):
                self._waiting.add(node)

    def visit(self, node: Node, index: Indices) -> None:
        """Evaluates a node at an index, or those of its operands that do not wait."""
        if node not in self._waiting:
            self._evaluator.at(node, index)
        elif node.name in MOVES:
            self.visit(node.operands[0], MOVES[node.name](node, index))
        elif node.kind is Kind.ELEMENTWISE:
            for operand in node.operands[:1] if node.name == PICK else node.operands:
                self.visit(operand, broadcast_index(index, operand.shape))


def decide_picks(evaluator: Evaluator, body: Body) -> None:
    """Computes, at a kernel's head, the conditions of picks that are one number read from memory,
    so that no loop reads it again.
    """
    for node in body.nodes:
        if node.name == PICK and node.operands[0].count == 1 and _is_read(node.operands[0]):
            condition = node.operands[0]
            evaluator.at(condition, (ZERO,) * len(condition.shape))


def _is_read(node: Node) -> bool:
    """Whether a value is found from inputs without a heavy operation."""
    return node.kind in POINTWISE and all(map(_is_read, node.operands))
