"""Attention's weights as a matrix unit takes them: fragments of two numbers each.

In: a work-item's weights of a tile of keys. The largest weight of a row is 1. Out: two fragments
for each step of keys, whose sum is the weights. The first is a little less than a weight: so
neither is 0, and infinite values stay infinite. Or one, of weights that are to be rounded.

f16 has few exponents. Weights in f16, and the rows' totals, are multiplied by a power of two. A
weight that is still too small for two numbers becomes the least one that is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, f32, i32, i64
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.product import multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_count, memory_type

HELD = 4
"""Numbers of a result that a work-item holds: two columns of each of two rows."""

LESS = {"bf16": 2.0**-8, "f16": 2.0**-10, "tf32": 2.0**-10}
"""The first of a weight's two numbers is less than the weight by this share of it."""

RAISED = {"f16": 15.0}
"""The exponent of the power of two by which weights are multiplied on the unit."""

LEAST, TAKEN = 2.0**-22, 1.5 * 2.0**-24
"""The least weight in f16, and what is taken from all for the second number to be above 0."""

TF32_BITS = -(1 << 13)
"""The bits of an f32 number that a tf32 operand counts."""

Vectors = list[SSAValue]


@dataclass(frozen=True)
class Weights:
    """Weights of type `element` for a unit that multiplies numbers of the type `name`."""

    code: Code
    element: ElementType
    name: str

    @property
    def raised(self) -> float:
        """By how many powers of two weights are to be larger."""
        return RAISED.get(self.name, 0.0)

    def bounded(self, weights: Vectors) -> Vectors:
        """Weights as the sum of two numbers of the unit's type can give them, or 0."""
        if not self.raised:
            return weights
        code = self.code
        zero, least = (code.constant(number, f32, HELD) for number in (0, LEAST))
        return [
            code.select(
                code.compare_floats("ogt", weight, zero),
                code.binary(arith.MaxnumfOp, weight, least),
                weight,
            )
            for weight in weights
        ]

    def terms(self, weights: Vectors) -> list[Vectors]:
        """For each step of keys, the fragments whose sum is the weights."""
        if self.name == "tf32":
            order = [0, 2, 1, 3]
            return [self._tf32_terms(self._shuffled(value, value, order)) for value in weights]
        return [self._half_terms(value) for value in self._pairs(weights)]

    def nearest(self, weights: Vectors) -> list[Vectors]:
        """For each step of keys, a fragment of the weights rounded to the unit's half precision."""
        return [[self._packed(value)] for value in self._pairs(weights)]

    def _pairs(self, weights: Vectors) -> Vectors:
        """The weights of two results, whose keys are a step, in the order of a fragment."""
        pairs = zip(weights[::2], weights[1::2], strict=True)
        return [self._shuffled(*pair, range(2 * HELD)) for pair in pairs]

    def _tf32_terms(self, value: SSAValue) -> Vectors:
        code = self.code
        bits = code.pure(vector.BitcastOp, [self._less(value)], VectorType(i32, [HELD]))
        kept = code.binary(arith.AndIOp, bits, code.constant(TF32_BITS, i32, HELD))
        first = code.pure(vector.BitcastOp, [kept], value.type)
        rest = code.binary(arith.SubfOp, value, first)
        return [first, code.pure(kernel.RoundTf32Op, [rest], value.type)]

    def _half_terms(self, value: SSAValue) -> Vectors:
        code, type = self.code, memory_type(ELEMENT_TYPES[self.name])
        first = self._packed(self._less(value))
        held = code.pure(kernel.UnpackOp, [first], VectorType(type, [2 * HELD]))
        rest = code.binary(arith.SubfOp, value, code.convert("extf", held, f32))
        return [first, self._packed(rest)]

    def _packed(self, value: SSAValue) -> SSAValue:
        """Numbers rounded to 16 bits, as fragments hold them."""
        narrow = self.code.convert("truncf", value, memory_type(ELEMENT_TYPES[self.name]))
        return self.code.pure(kernel.PackOp, [narrow], VectorType(i32, [HELD]))

    def _less(self, value: SSAValue) -> SSAValue:
        """A value without a small part of it."""
        code, count = self.code, lane_count(value)
        factor = code.constant(1 - LESS[self.name], f32, count)
        if not self.raised:
            return code.binary(arith.MulfOp, value, factor)
        taken, zero = (code.constant(number, f32, count) for number in (-TAKEN, 0))
        less = multiply_add(code, self.element, value, factor, taken)
        return code.binary(arith.MaxnumfOp, less, zero)

    def _shuffled(self, low: SSAValue, high: SSAValue, order: Sequence[int]) -> SSAValue:
        mask = DenseArrayBase.from_list(i64, list(order))
        return self.code.pure(
            vector.ShuffleOp, [low, high], VectorType(f32, [len(order)]), mask=mask
        )
