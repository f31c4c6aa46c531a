"""Rows of attention are computed again where a hidden value is not finite.

Templates multiply hidden values by a weight of 0. That does not hide a nan or an infinity: 0 times
either is nan. A row is *spoilt* where its sums are not finite although the total of its weights is.
In: a spoilt row. Out: its scores key by key, and its sums over the keys that it sees. Such rows are
rare.
"""

import math as numbers
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, SSAValue

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.attention.products import Operands
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type, scalar_type
from mgn.passes.lower_kernels.core.scalar import across_lanes, unary
from mgn.passes.lower_kernels.core.template import Job


def nothing_of(code: Code, value: SSAValue, held: SSAValue) -> SSAValue:
    """`held` plus 0 times a value. `held` begins as 0, and is nan after the first value that is not
    finite.
    """
    zero = code.constant(0, scalar_type(value), lane_count(value))
    return code.binary(arith.AddfOp, held, code.binary(arith.MulfOp, value, zero))


def is_spoilt(code: Code, nothing: SSAValue, total: SSAValue) -> SSAValue:
    """Whether a row is to be computed again: its sums are not finite, so that their `nothing_of` is
    nan, although the total of its weights is finite.
    """
    zero = code.constant(0, scalar_type(total), lane_count(total))
    of_total = nothing_of(code, total, zero)
    unknown = code.compare_floats("uno", nothing, nothing)
    return code.binary(arith.AndIOp, unknown, code.compare_floats("ord", of_total, of_total))


@dataclass(frozen=True)
class Repair:
    """Scores and weighted values of a key head of a batch, read from where the operands are."""

    job: Job
    attention: Attention
    batch: Indices
    head: Index
    unroll: int = 0
    """So many steps at a time are asked for, of what is no more than a loop."""

    def score(self, row: Index, key: Index) -> SSAValue:
        """A row's score of a key, whether masks let it see that or not."""
        attention, code = self.attention, self.job.code
        width = dividing_lanes(attention.depth, self.job.number("lanes", 4))

        def step(part: Index, held: list[SSAValue]) -> list[SSAValue]:
            query, of_key = self._pair(row, key, part * width + lanes(width), width)
            return [multiply_add(code, attention.element, query, of_key, held[0])]

        zero = code.constant(0, self._type, width)
        (found,) = code.loop(0, attention.depth // width, step, [zero], unroll=self.unroll)
        product = across_lanes(code, "sum", attention.element, found)
        bias = None
        if attention.bias is not None:
            evaluator = self.job.evaluator(1)
            bias = attention.bias_values(evaluator, self.batch, self.head, row, key)
        return attention.score(code, product, bias)

    def product(self, rows: Index, key: Index, count: int) -> SSAValue:
        """The products of so many rows and a key."""
        attention, code = self.attention, self.job.code

        def step(k: Index, held: list[SSAValue]) -> list[SSAValue]:
            query, of_key = self._pair(rows, key, k, count)
            return [multiply_add(code, attention.element, query, of_key, held[0])]

        zero = code.constant(0, self._type, count)
        (product,) = code.loop(0, attention.depth, step, [zero])
        return product

    @property
    def operands(self) -> Operands:
        return Operands.of(self.job, self.attention, self.batch, self.head)

    def _pair(self, row: Index, key: Index, k: Index, count: int) -> tuple[SSAValue, SSAValue]:
        """Elements of queries and of keys."""
        return self.operands.queries.at(row, k, count), self.operands.keys.at(key, k, count)

    def value(self, key: Index, column: Index, width: int = 1) -> SSAValue:
        """A key's values in columns."""
        return self.operands.values.at(column, key, width)

    def term(self, score: SSAValue, weight: SSAValue, value: SSAValue) -> SSAValue:
        """What a key adds to a row's sums: its value times its weight. A value that is not finite
        is added as it is, and the value of a hidden key, whose score is -inf, is not added.
        """
        code, count = self.job.code, max(lane_count(value), lane_count(score))
        weight = self.attention.multiplied(code, weight)
        score, weight, value = (code.spread(x, count) for x in (score, weight, value))
        infinity, zero, nothing = (
            code.constant(number, self._type, count) for number in (numbers.inf, 0, -numbers.inf)
        )
        finite = code.compare_floats("olt", unary(code, math.AbsFOp, value), infinity)
        term = code.select(finite, code.binary(arith.MulfOp, weight, value), value)
        return code.select(code.compare_floats("oeq", score, nothing), zero, term)

    @property
    def _type(self) -> Attribute:
        return memory_type(self.attention.element)
