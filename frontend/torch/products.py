"""Products of matrices and vectors.

In: operands as PyTorch has them. Out: `matmul` and `linear`, whose sums are in f32 or wider.
"""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.frontend.torch.elementwise import call_in
from mgn.frontend.torch.table import Call, aten, reshaped


@aten("mm", "bmm")
def mm(b: Emitter, call: Call, x: SSAValue, y: SSAValue) -> SSAValue:
    """The product of matrices."""
    return b.matmul(x, y)


@aten("matmul", "mv", "dot", "vdot")
def matmul(b: Emitter, call: Call, x: SSAValue, y: SSAValue) -> SSAValue:
    """The product, with an axis for each vector that is taken away again."""
    left, right = shape_of(x), shape_of(y)
    if len(left) == 1:
        x = b.reshape(x, (1, *left))
    if len(right) == 1:
        y = b.reshape(y, (*right, 1))
    return reshaped(b, b.matmul(x, y), call.shape)


@aten("linear")
def linear(
    b: Emitter, call: Call, x: SSAValue, weight: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    """x times the transpose of the weight, plus the bias."""
    if len(shape_of(weight)) == 1:
        return _plus(b, call, reshaped(b, matmul(b, call, x, weight), call.shape), bias)
    return b.linear(x, weight, bias)


def _plus(b: Emitter, call: Call, x: SSAValue, bias: SSAValue | None) -> SSAValue:
    return x if bias is None else call_in(b, "add", call.element, x, bias)


@aten("addmm", "baddbmm", "addmv")
def addmm(
    b: Emitter,
    call: Call,
    bias: SSAValue,
    x: SSAValue,
    y: SSAValue,
    beta: float = 1,
    alpha: float = 1,
) -> SSAValue:
    """beta·bias + alpha·x·y; a bias that counts 0 times is not looked at."""
    product = matmul(b, call, x, y)
    if alpha != 1:
        product = call_in(b, "mul", call.element, product, alpha)
    if beta == 0:
        return product
    if beta != 1:
        bias = call_in(b, "mul", call.element, bias, beta)
    return b.add(product, bias)


@aten("einsum")
def einsum(
    b: Emitter, call: Call, equation: str, tensors: Sequence[SSAValue], **named: Any
) -> SSAValue:
    """The sum of products over the labels that the result lacks."""
    return b.einsum(equation.replace(" ", ""), *tensors)


@aten("_trilinear")
def trilinear(
    b: Emitter,
    call: Call,
    x: SSAValue,
    y: SSAValue,
    z: SSAValue,
    without_x: Sequence[int],
    without_y: Sequence[int],
    without_z: Sequence[int],
    summed: Sequence[int],
    unroll: int = 1,
) -> SSAValue:
    """The sum over some axes of the product of three values, each of which lacks some axes."""
    labels = ascii_lowercase[: len(shape_of(x)) + len(without_x)]

    def kept(lacking: Sequence[int]) -> str:
        return "".join(label for axis, label in enumerate(labels) if axis not in lacking)

    taken = ",".join(map(kept, (without_x, without_y, without_z)))
    return b.einsum(f"{taken}->{kept(summed)}", x, y, z)
