"""mixed-precision: what goes into f32 products and comes out of them is of half precision.

Before, with `mixed-precision{precision=bf16}`:
    %y = mgn.linear(%x, %w) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
    %z = mgn.gelu(%y) : tensor<4x2xf32>
After:
    %0 = mgn.cast(%x) T = bf16 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %1 = mgn.cast(%0) T = f32 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %y = mgn.linear(%1, %w) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
    %2 = mgn.cast(%y) T = bf16 : (tensor<4x2xf32>) -> tensor<4x2xbf16>
    %3 = mgn.cast(%2) T = f32 : (tensor<4x2xbf16>) -> tensor<4x2xf32>
    %z = mgn.gelu(%3) : tensor<4x2xf32>

It comes before `differentiate`, so that the gradients of these values are rounded where they are: a
kernel then stores them in two bytes, forward and backward. All that is between them is computed in
f32: norms, softmaxes, losses, sums of a residual stream. Parameters are f32, and so are their
gradients: `convert-precision` rounds a copy for each product. Scores stay as they are, from the
product that makes them to the one that weighs values by their softmax, which attention never
stores. `f32` and `tf32` change nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.states import ReadStateOp
from mgn.dialects.mgn.structure import ReadOp, graphs_of
from mgn.dialects.types import element_of
from mgn.passes.convert_precision import PRECISIONS, Roundings, check_known, hides_product
from mgn.passes.rewriting import erase_dead

PRODUCTS = {
    **dict.fromkeys(("matmul", "linear", "einsum"), 2),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), 2),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 2),
    "attention": 3,
}
"""Operations whose results are rounded, and how many of their operands are. Composites that have
products inside, such as `lstm`, keep what they give.
"""

ROUNDED = ("bf16", "f16")
"""The precisions that have a type of their own."""

PASSING = (Kind.ELEMENTWISE, Kind.MOVEMENT)
"""What scores go through on their way to what compares them, as a softmax does."""

SCORES_END = ("softmax",)
"""Operations whose operands are scores, which stay in f32."""


@dataclass(frozen=True)
class MixedPrecision(ModulePass):
    """Rounds operands and results of the f32 products of a module's graphs."""

    name = "mixed-precision"
    precision: str = "f32"

    def __post_init__(self) -> None:
        check_known(self.precision)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        round_products(op, self.precision)


def round_products(module: ModuleOp, precision: str) -> None:
    """Does in place what the pass does."""
    rounding = PRECISIONS[precision]
    if precision not in ROUNDED or rounding is None:
        return
    for graph in graphs_of(module):
        _convert(graph.block, Roundings(precision, rounding))


def _convert(block: Block, roundings: Roundings) -> None:
    """One walk over a block."""
    for op in list(block.ops):
        if not isinstance(op, TensorOp) or not _is_product(op):
            continue
        for number, operand in enumerate(op.operands[: PRODUCTS[op.spec.name]]):
            if element_of(operand.type).name == "f32" and not _is_left(operand):
                op.operands[number] = roundings.of(operand)
        (result,) = op.results
        if element_of(result.type).name == "f32" and not reaches(result, SCORES_END):
            _replace(result, roundings)
    erase_dead(block)


def _replace(result: SSAValue, roundings: Roundings) -> None:
    """Has all that reads a product's result read it as it is stored."""
    uses = list(result.uses)
    stored = roundings.new(result)
    stored.name_hint, result.name_hint = result.name_hint, None
    for use in uses:
        use.operation.operands[use.index] = stored


def _is_product(op: TensorOp) -> bool:
    """Whether an operation is computed by products of matrices: a depthwise convolution is not."""
    is_core = op.spec.kind is Kind.CONTRACTION
    return op.spec.name in PRODUCTS and (is_core or hides_product(op, {}))


def _is_left(value: SSAValue) -> bool:
    """Whether an operand stays as it is: a parameter or a softmax, or what only moves one."""
    owner = moved_from(value).owner
    if isinstance(owner, ReadOp | ReadStateOp):
        return True
    return isinstance(owner, TensorOp) and owner.spec.name == "softmax"


def moved_from(value: SSAValue) -> SSAValue:
    """What a value is moved from."""
    while isinstance(value.owner, TensorOp) and value.owner.spec.kind is Kind.MOVEMENT:
        value = value.owner.operands[0]
    return value


def reaches(value: SSAValue, names: Collection[str]) -> bool:
    """Whether one of some operations is what comes of a value, behind scales and masks."""
    ahead: list[Operation] = [use.operation for use in value.uses]
    seen: set[Operation] = set()
    while ahead:
        op = ahead.pop()
        if op in seen or not isinstance(op, TensorOp):
            continue
        seen.add(op)
        if op.spec.name in names:
            return True
        if op.spec.kind in PASSING:
            ahead += [use.operation for item in op.results for use in item.uses]
    return False
