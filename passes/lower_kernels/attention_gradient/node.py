"""An operation of attention's gradient as its template writes it: scores, weights, operands.

In: a body with one such operation. Out: its `AttentionGradient`, and the `Lines` of a key head.
"""

import math as numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects.fusion.attention_bodies import Shape, takes_part
from mgn.dialects.mgn.operations.products.attention import HIDING
from mgn.passes.kernels.attention_gradient import GradientSizes
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.kernels.index_maps import broadcast_index, reshaped_index
from mgn.passes.lower_kernels.attention.node import LOG2_E, Attention, power_of_two
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type
from mgn.passes.lower_kernels.core.scalar import narrowed, widened
from mgn.passes.lower_kernels.core.template import Job

Q, K, V, G, LSE, OWN = range(6)
"""The operands by their numbers."""


class AttentionGradient(GradientSizes, Attention):
    """Sizes, and what is computed of a score."""

    @cached_property
    def scaled_late(self) -> bool:
        """Scores have their scale: the log-sum-exp that is subtracted from them has it, too."""
        return False

    def weight(self, code: Code, score: SSAValue, total: SSAValue) -> SSAValue:
        """The weight of a score in a row of that log-sum-exp."""
        apart = code.binary(arith.SubfOp, score, total)
        steepness = code.constant(LOG2_E, memory_type(self.element), lane_count(apart))
        return power_of_two(code, code.binary(arith.MulfOp, apart, steepness))

    def slope(self, code: Code, free: SSAValue) -> SSAValue | None:
        """What a score changes by with the product that it is made of, but for the scale; None
        where that is 1. `free` is the score before its bias.
        """
        if self.softcap <= 0:
            return None
        one = code.constant(1, memory_type(self.element), lane_count(free))
        share = self.times(code, free, 1 / self.softcap)
        return code.binary(arith.SubfOp, one, code.binary(arith.MulfOp, share, share))

    def change(
        self,
        code: Code,
        weight: SSAValue,
        seen: SSAValue,
        own: SSAValue,
        free: SSAValue,
    ) -> SSAValue:
        """The gradient of a product of a query and a key, from what its weight's gradient is made
        of, but for the scale.
        """
        found = code.binary(arith.MulfOp, weight, code.binary(arith.SubfOp, seen, own))
        slope = self.slope(code, free)
        return found if slope is None else code.binary(arith.MulfOp, found, slope)

    def unless_biased_away(self, code: Code, change: SSAValue, bias: SSAValue | None) -> SSAValue:
        """0 where a bias stands in the place of the score."""
        if bias is None:
            return change
        type, count = memory_type(self.element), lane_count(change)
        hiding = code.compare_floats("ole", bias, code.constant(HIDING, type, count))
        return code.select(hiding, code.constant(0, type, count), change)

    def hidden_in(self, code: Code, key: Index, keys: int, row: Index, rows: int) -> Index | int:
        """1 where one of so many rows of queries does not see one of so many keys, else 0. All
        work-items of a group that have the same tiles go through as many turns of a loop.
        """
        if self.bias is not None:
            return 1
        limit = at(self.limit(code.bounded(row, self.own)))
        start = at(self.first(code.bounded(row + (rows - 1), self.own)))
        return ((key + keys - limit).clamp(0, 1) + (start - key).clamp(0, 1)).clamp(0, 1)

    def first_row(self, key: Index) -> Index | int:
        """The rows of queries before this do not see a key."""
        if not self.causal:
            return 0
        return (key - (self.keys - self.queries)).clamp(0, self.queries) * self.group

    def row_limit(self, key: Index) -> Index | int:
        """The rows of queries from this on do not see a key."""
        if not self.window:
            return self.rows
        end = key + (self.window - (self.keys - self.queries))
        return end.clamp(0, self.queries) * self.group


@dataclass(frozen=True)
class HeadOperands:
    """The operands of a key head of a batch, each read along the last axis."""

    job: Job
    attention: AttentionGradient
    batch: Indices
    head: Index

    def along(self, number: int, line: Index, column: Index, width: int) -> SSAValue:
        """So many numbers of an operand's row or key, from a column of the head on."""
        attention = self.attention
        size = attention.depth if number in (Q, K) else attention.width
        if number in (K, V):
            own = (line, self.head * size + column + lanes(width))
        else:
            own = (attention.query(line), self._head(line) * size + column + lanes(width))
        return self._at(self.job.evaluator(width), number, own)

    def of_row(self, number: int, row: Index, width: int) -> SSAValue:
        """What a row of queries has one of, or rows that vary by lanes: its log-sum-exp, which is
        inf where no key is seen, or the sum of g times attention's result.
        """
        value = self._at(
            self.job.evaluator(width), number, (self.attention.query(row), self._head(row))
        )
        if number == OWN:
            return value
        code, type = self.job.code, memory_type(self.attention.element)
        nothing = code.constant(-numbers.inf, type, width)
        blind = code.compare_floats("oeq", value, nothing)
        return code.select(blind, code.constant(numbers.inf, type, width), value)

    def bias(self, row: Index, key: Index, width: int) -> SSAValue | None:
        """The bias of a row's score, where there is one; either may vary by lanes."""
        if self.attention.bias is None:
            return None
        evaluator = self.job.evaluator(width)
        return self.attention.bias_values(evaluator, self.batch, self.head, row, key)

    def _head(self, row: Index) -> Index:
        """The query head of a row."""
        return self.head * self.attention.group + row % self.attention.group

    def _at(self, evaluator: Evaluator, number: int, own: Indices) -> SSAValue:
        node = self.attention.node.operands[number]
        index = (*broadcast_index(self.batch, node.shape[:-2]), *own)
        return widened(self.job.code, evaluator.lanes_at(node, index), node.element)

    def write(self, row: Index, which: int, column: Index, value: SSAValue) -> None:
        """Stores neighbouring numbers of a row's sum, and what follows from them: of one of the
        sums that it has.
        """
        attention, node = self.attention, self.attention.node
        column = column + lanes(lane_count(value))
        if not attention.of_keys:
            own = (attention.query(row), self._head(row) * attention.depth + column)
            self._store(value, lambda _: ((*self.batch, *own), node.shape))
            return
        own = self.head * attention.sums[which] + column
        first = which * attention.kv_heads * attention.depth
        width = attention.kv_heads * attention.sums[which]

        def place(result: Node) -> tuple[Indices, Shape] | None:
            part = _part_of(result, node)
            if part is None:
                return (*self.batch, row, own + first), node.shape
            shape = (*node.shape[:-1], width)
            return ((*self.batch, row, own), shape) if part == which else None

        self._store(value, place)

    def write_total(self, row: Index, value: SSAValue) -> None:
        """Stores the log-sum-exp of a row."""
        own = (self.attention.query(row), self._head(row))
        self._store(value, lambda node: ((*self.batch, *own), node.shape))

    def _store(
        self, value: SSAValue, place: Callable[[Node], tuple[Indices, Shape] | None]
    ) -> None:
        """Stores the results that have a place of the values, which is an index in a shape."""
        evaluator = self.job.evaluator(lane_count(value))
        value = narrowed(self.job.code, value, self.attention.node.element)
        evaluator.given[self.attention.node] = lambda _: value
        found = [(n, node, place(node)) for n, node in enumerate(self.job.body.written)]
        self.job.write(
            evaluator,
            [
                (n, node, reshaped_index(*own, node.shape))
                for n, node, own in found
                if own is not None
            ],
        )


def _part_of(result: Node, heavy: Node) -> int | None:
    """Which part of keys and values a result follows: 0 the keys, 1 the values; None for both."""
    if result is heavy:
        return None
    if result.name == "slice" and result.operands[0] is heavy:
        width = heavy.operands[K].shape[-1]
        return takes_part(heavy.shape, width, result.values)
    parts = (_part_of(item, heavy) for item in result.operands)
    return next((part for part in parts if part is not None), None)


def at(index: Index | int) -> Index:
    """A bound as an index."""
    return constant(index) if isinstance(index, int) else index
