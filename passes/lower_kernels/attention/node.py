"""An attention node as templates see it: sizes, index maps, masks, and how scores are computed.

In: a body with one attention. Out: its `Attention`, and what every form of the template writes.

Query heads that share keys are taken together: *row* r of a key head is query r // group of its
head r % group, so that a tile of keys serves them all. Differences of scores are multiplied by
log2(e): powers of two are what devices compute.
"""

import math as numbers
from functools import cached_property

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from mgn.dialects.fusion.attention_bodies import TOTALS
from mgn.dialects.mgn.operations.products.attention import HIDING, lowering
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.kernels.attention import AttentionSizes
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import ZERO, Index, constant
from mgn.passes.kernels.index_maps import broadcast_index, reshaped_index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type
from mgn.passes.lower_kernels.core.scalar import cast, narrowed, unary, widened
from mgn.passes.lower_kernels.core.template import Job

MODERATE = 2.0**-100
"""A factor from this on, up to its inverse, is a number of every type that scores have."""

APPROXIMATE = arith.FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
LOG2_E = 1 / numbers.log(2)


class Attention(AttentionSizes):
    """An attention as templates write it: its sizes, and what it computes."""

    # What a row sees

    def limit(self, row: Index) -> Index | int:
        """The keys below this are seen."""
        if not self.causal:
            return self.keys
        return (self.query(row) + (self.keys - self.queries + 1)).clamp(0, self.keys)

    def first(self, row: Index) -> Index | int:
        """The keys from this on are seen."""
        if not self.window:
            return 0
        start = self.query(row) + (self.keys - self.queries - self.window + 1)
        return start.clamp(0, self.keys)

    def bias_values(
        self, evaluator: Evaluator, batch: Indices, head: Index, row: Index, key: Index
    ) -> SSAValue:
        """The bias of a row's scores at keys, or of rows' scores at a key."""
        bias = self.bias
        assert bias is not None
        full = (*batch, head * self.group + row % self.group, self.query(row), key)
        value = evaluator.lanes_at(bias, broadcast_index(full, bias.shape))
        return widened(evaluator.code, value, bias.element)

    @property
    def same_bias(self) -> bool:
        """Whether all rows of a key head have the same bias."""
        assert self.bias is not None
        shape = (1, 1, 1, *self.bias.shape)
        return shape[-2] == 1 and (shape[-3] == 1 or self.group == 1)

    def masked(
        self,
        code: Code,
        score: SSAValue,
        key: Index,
        limit: Index | int,
        start: Index | int,
        hidden: float = -numbers.inf,
    ) -> SSAValue:
        """A score, or what lies as it does; another number where the key is not from `start` on and
        below `limit`. Lanes are keys of a row, or rows with bounds of their own.
        """
        count = lane_count(score)
        nothing = code.constant(hidden, memory_type(self.element), count)

        def compare(predicate: str, bound: Index | int) -> SSAValue:
            bound = constant(bound) if isinstance(bound, int) else bound
            sides = [
                code.lanes_index(side, count, i32)
                if side.varies
                else code.convert("index_cast", code.index(side), i32)
                for side in (key, bound)
            ]
            return code.compare_integers(predicate, *sides)

        if isinstance(limit, Index) or key.high >= limit:
            score = code.select(compare("slt", limit), score, nothing)
        if isinstance(start, Index):
            score = code.select(compare("sge", start), score, nothing)
        return score

    # Scores and results

    @cached_property
    def scale(self) -> float:
        return self.node.values["scale"]

    @cached_property
    def scaled_late(self) -> bool:
        """Whether scores are products without their scale, and differences of scores are scaled.
        Two products whose difference overflows are so far apart that the smaller one weighs
        nothing.
        """
        plain = self.bias is None and not self.softcap
        return plain and self.scale > 0 and _is_moderate(self.scale)

    @property
    def steepness(self) -> float:
        """What differences of scores are multiplied by to be exponents of two."""
        return LOG2_E * self.scale if self.scaled_late else LOG2_E

    def score(self, code: Code, product: SSAValue, bias: SSAValue | None) -> SSAValue:
        """The score of a product of a query and a key; it lacks its scale where that comes late.

        As in the operation's definition the product is scaled, not the query, which might overflow.
        """
        type, count = memory_type(self.element), lane_count(product)
        if self.scaled_late:
            return product
        score = self.times(code, product, self.scale)
        if self.softcap > 0:
            cap = code.constant(self.softcap, type, count)
            score = self.times(code, product, self.scale, 1 / self.softcap)
            score = code.binary(arith.MulfOp, unary(code, math.TanhOp, score), cap)
        return score if bias is None else self.biased(code, score, bias)

    def biased(self, code: Code, score: SSAValue, bias: SSAValue) -> SSAValue:
        """A score with its bias, or the bias in its place."""
        type, count = memory_type(self.element), lane_count(score)
        hiding = code.compare_floats("ole", bias, code.constant(HIDING, type, count))
        return code.select(hiding, bias, code.binary(arith.AddfOp, score, bias))

    def times(self, code: Code, value: SSAValue, *factors: float) -> SSAValue:
        """A value times all factors: times their product, where that is of moderate size."""
        whole = numbers.prod(factors)
        for factor in (whole,) if _is_moderate(whole) else factors:
            parts = [factor]
            if not _is_moderate(factor):
                root = numbers.sqrt(abs(factor))
                parts = [root, numbers.copysign(root, factor)]
            for part in parts:
                constant = code.constant(part, memory_type(self.element), lane_count(value))
                value = code.binary(arith.MulfOp, value, constant)
        return value

    def power(self, code: Code, score: SSAValue, shift: SSAValue, raised: float = 0.0) -> SSAValue:
        """The weight of a score beside its row's largest one, raised by so many powers of two."""
        type, count = memory_type(self.element), lane_count(score)
        steepness, added = (code.constant(n, type, count) for n in (self.steepness, raised))
        apart = code.binary(arith.SubfOp, score, shift)
        if not raised:
            return power_of_two(code, code.binary(arith.MulfOp, apart, steepness))
        return power_of_two(code, multiply_add(code, self.element, apart, steepness, added))

    def multiplied(self, code: Code, weight: SSAValue) -> SSAValue:
        """A weight as its value is multiplied by it."""
        if not self.rounded_weights:
            return weight
        half = cast(code, weight, self.element, ELEMENT_TYPES["bf16"])
        return cast(code, half, ELEMENT_TYPES["bf16"], self.element)

    @property
    def lowered(self) -> float:
        """The exponent, below 0, of the power of two by which weights are multiplied, so that no
        sum of values times weights overflows.
        """
        return -float(lowering(self.keys))

    def shift(self, code: Code, largest: SSAValue) -> SSAValue:
        """The number subtracted from scores before powers are taken: the largest, or 0 for -inf."""
        type, count = memory_type(self.element), lane_count(largest)
        nothing = code.constant(-numbers.inf, type, count)
        blind = code.compare_floats("oeq", largest, nothing)
        return code.select(blind, code.constant(0, type, count), largest)

    def natural(self, code: Code, largest: SSAValue) -> SSAValue:
        """A largest score with its scale."""
        if not self.scaled_late:
            return largest
        unit = code.constant(self.scale, memory_type(self.element), lane_count(largest))
        return code.binary(arith.MulfOp, largest, unit)

    def reciprocal(self, code: Code, total: SSAValue) -> SSAValue:
        """What sums of weighted values are multiplied by in the end."""
        type, count = memory_type(self.element), lane_count(total)
        one = code.constant(1, type, count)
        if self.may_be_blind:
            blind = code.compare_floats("oeq", total, code.constant(0, type, count))
            total = code.select(blind, one, total)
        return code.binary(arith.DivfOp, one, total)

    def write(
        self,
        job: Job,
        batch: Indices,
        head: Index,
        row: Index,
        column: Index,
        value: SSAValue,
        part: Index = ZERO,
    ) -> None:
        """Evaluates what follows on neighbouring results of a row, and stores it; nothing follows
        those of a part.
        """
        evaluator = job.evaluator(lane_count(value))
        value = narrowed(job.code, value, self.node.element)
        evaluator.given[self.node] = lambda _: value
        own = head * self.group + row % self.group
        index = (part, *batch, self.query(row), own, column)
        if not self.in_parts:
            index = (*batch, self.query(row), own * self.width + column)
        job.write_at(
            evaluator,
            lambda node: reshaped_index(index, self.node.shape, node.shape),
            lambda node: node.name != TOTALS,
        )

    def write_totals(
        self,
        job: Job,
        batch: Indices,
        head: Index,
        row: Index,
        largest: SSAValue,
        total: SSAValue,
        raised: float,
    ) -> None:
        """Stores the log-sum-exp of a row, where the kernel writes that, from its largest score and
        the total of its weights, raised by so many powers of two.
        """
        (totals,) = [node for node in job.body.nodes if node.name == TOTALS]
        code, type = job.code, memory_type(self.element)
        value = code.binary(
            arith.AddfOp, unary(code, math.LogOp, total), self.natural(code, largest)
        )
        lowered = code.constant(-raised * numbers.log(2), type)
        value = narrowed(code, code.binary(arith.AddfOp, value, lowered), totals.element)
        evaluator = job.evaluator()
        evaluator.given[totals] = lambda _: value
        own = head * self.group + row % self.group
        index = (*broadcast_index(batch, totals.shape[:-2]), self.query(row), own)
        job.write_at(evaluator, lambda _: index, lambda node: node is totals)


def has_totals(job: Job) -> bool:
    """Whether a kernel writes the log-sum-exp of its rows."""
    return any(node.name == TOTALS for node in job.body.written)


def _is_moderate(factor: float) -> bool:
    return factor == 0 or MODERATE <= abs(factor) <= 1 / MODERATE


def power_of_two(code: Code, value: SSAValue) -> SSAValue:
    """2 to the power of the value: 0 for -inf, and possibly 0 for a result that is subnormal."""
    return code.pure(math.Exp2Op, [value], value.type, fastmath=APPROXIMATE)
