"""`convert-precision`: the operands of f32 products are rounded to what matrix units multiply.

Before, with `convert-precision{precision=bf16}`:
    %y = mgn.matmul(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
After:
    %0 = mgn.cast(%a) T = bf16 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %1 = mgn.cast(%0) T = f32 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %2 = mgn.cast(%b) T = bf16 : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %3 = mgn.cast(%2) T = f32 : (tensor<8x2xbf16>) -> tensor<8x2xf32>
    %y = mgn.matmul(%1, %3) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>

Numbers from 1/8 to 1 that scale queries or keys scale their scores: a product of two values of more
than two axes is scaled behind it, in tf32 and bf16, and what is rounded is the unscaled value.

A product of numbers so rounded is exact in f32, so that sums on matrix units differ by their order
only. `tf32` rounds by `mgn.round_tf32`; `f32`, the default, rounds nothing. Composites made of
products are expanded, but for attention, which stays whole: its queries, keys and values are
rounded, its weights stay in f32. The module's attribute `mgn.precision` says what was rounded to:
`saturate` then takes rules that may say which factor of a product is rounded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.fold import scalar_constant
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.structure import PRECISION, graphs_of
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.rewriting import emitter_before, erase_dead, inline, rewrite_block

Rounding = Callable[[Emitter, SSAValue], SSAValue]


def _through(name: str) -> Rounding:
    """A rounding by way of a narrower element type."""

    def rounding(b: Emitter, value: SSAValue) -> SSAValue:
        return b.cast(b.cast(value, ELEMENT_TYPES[name]), ELEMENT_TYPES["f32"])

    return rounding


PRECISIONS: dict[str, Rounding | None] = {
    "f32": None,
    "tf32": lambda b, value: b.round_tf32(value),
    "bf16": _through("bf16"),
    "f16": _through("f16"),
}
"""What a run may ask for → how an operand of an f32 product is rounded; None for not at all."""

FAR_REACHING = frozenset({"tf32", "bf16"})
"""Precisions that hold numbers as large and as small as f32 does."""

WHOLE = {"attention": 3}
"""Composites that are not expanded for the products in them, and how many operands those have."""

_ATTENTION_GRADIENT = {
    "attention_lse": 2,
    "attention_query_gradient": 4,
    "attention_key_gradient": 4,
}
WHOLE_IN = {"bf16": _ATTENTION_GRADIENT, "tf32": _ATTENTION_GRADIENT}
"""The same where operands are rounded to a type."""

PASSED = ("transpose", "reshape", "broadcast_to", "windows", "pad")
"""Movement that stays next to the product it belongs to: what it moves is rounded before. Padding
is with zeros, which rounding leaves as they are.
"""

LEAST_SCALE = 1 / 8
"""The least scale, of 1 at most, that is taken out of the operands of scores: products of two
values of more than two axes. In range they stay, as attention's own scores do.
"""


def check_known(precision: str) -> None:
    """ValueError where there is no such precision."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ValueError(f"there is no precision '{precision}'; there are {known}")


@dataclass(frozen=True)
class ConvertPrecision(ModulePass):
    """Rounds the operands of all f32 products of a module."""

    name = "convert-precision"
    precision: str = "f32"

    def __post_init__(self) -> None:
        check_known(self.precision)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rounding = PRECISIONS[self.precision]
        if rounding is None:
            return
        op.attributes[PRECISION] = StringAttr(self.precision)
        for graph in graphs_of(op):
            whole = {**WHOLE, **WHOLE_IN.get(self.precision, {})}
            rewrite_block(graph.block, partial(_expanded, whole))
            _convert(graph.block, Roundings(self.precision, rounding), whole)
            erase_dead(graph.block)


def _expanded(whole: Mapping[str, int], b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
    """The parts of a composite that holds a product, but of those that stay whole."""
    if isinstance(op, TensorOp) and hides_product(op, whole):
        return inline(b, decomposition_of(op), op.operands)
    return None


def hides_product(op: TensorOp, whole: Mapping[str, int]) -> bool:
    """Whether a composite, but for some, has a product among its parts."""
    if op.spec.evaluate is not None or op.spec.name in whole:
        return False
    return any(
        isinstance(step, TensorOp)
        and (step.spec.kind is Kind.CONTRACTION or hides_product(step, whole))
        for step in decomposition_of(op).block.ops
    )


@dataclass
class Roundings:
    """Rounds values, each once, where it is made; what only moves others moves them rounded."""

    precision: str
    rounding: Rounding
    rounded: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def of(self, value: SSAValue) -> SSAValue:
        """A value as products read it."""
        if is_rounded(value, self.precision):
            return value
        if value not in self.rounded:
            owner = value.owner
            if isinstance(owner, TensorOp) and _is_passed(owner):
                inner = self.of(owner.operands[0])
                moved = _emitter_after(value).call(owner.spec.name, inner, **owner.values)
                assert isinstance(moved, SSAValue)
                self.rounded[value] = moved
            else:
                self.rounded[value] = self.new(value)
        return self.rounded[value]

    def unscaled(self, value: SSAValue) -> tuple[SSAValue, float]:
        """A value as products read it, but for a scale that is taken out of it, and that scale."""
        owner = value.owner
        if not isinstance(owner, TensorOp) or is_rounded(value, self.precision):
            return self.of(value), 1.0
        if owner.spec.name == "mul":
            for factor, other in (owner.operands, owner.operands[::-1]):
                scale = scalar_constant(other)
                if scale is not None and LEAST_SCALE <= scale <= 1 and factor.type == value.type:
                    return self.of(factor), float(scale)
        if _is_passed(owner):
            inner, scale = self.unscaled(owner.operands[0])
            if scale != 1:
                moved = _emitter_after(value).call(owner.spec.name, inner, **owner.values)
                assert isinstance(moved, SSAValue)
                return moved, scale
        return self.of(value), 1.0

    def new(self, value: SSAValue) -> SSAValue:
        """A value, rounded right behind it."""
        return self.rounding(_emitter_after(value), value)


def _convert(block: Block, roundings: Roundings, whole: Mapping[str, int]) -> None:
    """One walk over a block."""
    for op in list(block.ops):
        if not isinstance(op, TensorOp):
            continue
        count = 2 if op.spec.kind is Kind.CONTRACTION else whole.get(op.spec.name, 0)
        if not count or element_of(op.operands[0].type).name != "f32":
            continue
        if _makes_scores(op) and roundings.precision in FAR_REACHING:
            _scale_scores(op, roundings)
        else:
            for number, operand in enumerate(op.operands[:count]):
                op.operands[number] = roundings.of(operand)


def _makes_scores(op: TensorOp) -> bool:
    """Whether an operation is a product of two values of more than two axes."""
    return op.spec.name == "matmul" and min(len(shape_of(item)) for item in op.operands) > 2


def _scale_scores(op: TensorOp, roundings: Roundings) -> None:
    """Rounds the operands of a product without their scales, and scales the product."""
    found = [roundings.unscaled(operand) for operand in op.operands]
    for number, (operand, _) in enumerate(found):
        op.operands[number] = operand
    scale = prod(number for _, number in found)
    if scale != 1:
        (result,) = op.results
        b = _emitter_after(result)
        scaled = b.mul(result, b.constant(scale, "f32"))
        result.replace_uses_with_if(scaled, lambda use: use.operation is not scaled.owner)


def is_rounded(value: SSAValue, precision: str) -> bool:
    """Whether a value of f32 is a cast one of the type that operands are rounded to."""
    owner = value.owner
    if not isinstance(owner, TensorOp) or owner.spec.name != "cast":
        return False
    return element_of(owner.operands[0].type).name == precision


def _is_passed(op: TensorOp) -> bool:
    """Whether an operation is movement of numbers that are rounded before."""
    return op.spec.name in PASSED and not op.values.get("value", 0)


def _emitter_after(value: SSAValue) -> Emitter:
    """An emitter of operations that come right after a value, where all its users see them."""
    owner = value.owner
    if isinstance(owner, Block):
        first = owner.first_op
        assert first is not None
        return emitter_before(first)
    after = owner.next_op
    assert after is not None, "a graph's return comes last"
    return Emitter(emitter_before(after).insert, owner.location)
