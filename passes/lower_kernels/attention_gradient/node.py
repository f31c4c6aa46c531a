"""An operation of attention's gradient as its template writes it: scores, weights, operands.

In: a body with one such operation. Out: its `AttentionGradient`, and the `Lines` of a key head.
"""

import math as numbers
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operations.products.attention import HIDING
from mgn.passes.kernels.attention_gradient import GradientSizes
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.kernels.index_maps import broadcast_index
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

    def slope(self, code: Code, free: SSAValue, bias: SSAValue | None) -> SSAValue | None:
        """What a score changes by with the product that it is made of, but for the scale; None
        where that is 1. `free` is the score before its bias.
        """
        type, count = memory_type(self.element), lane_count(free)
        one, found = code.constant(1, type, count), None
        if self.softcap > 0:
            share = self.times(code, free, 1 / self.softcap)
            found = code.binary(arith.SubfOp, one, code.binary(arith.MulfOp, share, share))
        if bias is None:
            return found
        hiding = code.compare_floats("ole", bias, code.constant(HIDING, type, count))
        zero = code.constant(0, type, count)
        return code.select(hiding, zero, one if found is None else found)

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
        """Stores neighbouring numbers of a row's sum: of one of the sums that it has."""
        attention = self.attention
        column = column + lanes(lane_count(value))
        if not attention.of_keys:
            place = (attention.query(row), self._head(row) * attention.depth + column)
        else:
            first = which * attention.kv_heads * attention.depth
            place = (row, self.head * attention.sums[which] + column + first)
        self._store(place, value)

    def write_total(self, row: Index, value: SSAValue) -> None:
        """Stores the log-sum-exp of a row."""
        self._store((self.attention.query(row), self._head(row)), value)

    def _store(self, own: Indices, value: SSAValue) -> None:
        evaluator = self.job.evaluator(lane_count(value))
        value = narrowed(self.job.code, value, self.attention.node.element)
        evaluator.given[self.attention.node] = lambda _: value
        self.job.write_at(evaluator, lambda _: (*self.batch, *own))


def at(index: Index | int) -> Index:
    """A bound as an index."""
    return constant(index) if isinstance(index, int) else index
