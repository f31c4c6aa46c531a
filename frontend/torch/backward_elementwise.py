"""Gradients of elementwise functions and of softmax, as AOT autograd leaves them.

In: the gradient of a result, with the operand or the result of the function. Out: the gradient of
the operand, by its formula.
"""

from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.torch.backward import pulled_back
from mgn.frontend.torch.table import Call, as_element, aten, axis_of


def _enter_pulled(name: str, operation: str) -> None:
    @aten(f"{name}_backward")
    def build(b: Emitter, call: Call, grad: SSAValue, x: SSAValue) -> SSAValue:
        return pulled_back(b, grad, [x], lambda own, item: own.call(operation, item))[0]


for _name, _operation in {
    "silu": "silu",
    "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
}.items():
    _enter_pulled(_name, _operation)


@aten("gelu_backward")
def gelu_backward(
    b: Emitter, call: Call, grad: SSAValue, x: SSAValue, approximate: str = "none"
) -> SSAValue:
    """By the derivative of x·Φ(x)."""
    return pulled_back(b, grad, [x], lambda own, item: own.gelu(item, approx=approximate))[0]


@aten("threshold_backward")
def threshold_backward(
    b: Emitter, call: Call, grad: SSAValue, x: SSAValue, threshold: float
) -> SSAValue:
    """Where x is above a number; where it is NaN too."""
    return b.where(b.le(x, threshold), 0, grad)


@aten("sigmoid_backward")
def sigmoid_backward(b: Emitter, call: Call, grad: SSAValue, y: SSAValue) -> SSAValue:
    """grad·y·(1 - y)."""
    return b.mul(grad, b.mul(b.sub(1, y), y))


@aten("tanh_backward")
def tanh_backward(b: Emitter, call: Call, grad: SSAValue, y: SSAValue) -> SSAValue:
    """grad·(1 - y²)."""
    return b.mul(grad, b.sub(1, b.mul(y, y)))


@aten("hardtanh_backward")
def hardtanh_backward(
    b: Emitter, call: Call, grad: SSAValue, x: SSAValue, min_val: float, max_val: float
) -> SSAValue:
    """Where x is between the bounds."""
    outside = b.logical_or(b.le(x, min_val), b.ge(x, max_val))
    return b.where(outside, 0, grad)


@aten("leaky_relu_backward")
def leaky_relu_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    negative_slope: float,
    self_is_result: bool,
) -> SSAValue:
    """All where x is positive, else a share."""
    return b.where(b.gt(x, 0), grad, b.mul(grad, float(negative_slope)))


@aten("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(
    b: Emitter, call: Call, grad: SSAValue, y: SSAValue, dim: int, *rest: Any
) -> SSAValue:
    """By the result: each row less what its sum takes."""
    if not shape_of(y):
        return b.full((), 0.0, T=call.element)
    wide = ELEMENT_TYPES["f32"] if element_type_of(y).bits == 16 else element_type_of(y)
    sent, result = as_element(b, grad, wide), as_element(b, y, wide)
    axis = (axis_of(dim, len(shape_of(y))),)
    if "log" in call.name:
        return b.sub(sent, b.mul(b.exp(result), b.sum(sent, axis=axis, keepdims=True)))
    weighted = b.mul(sent, result)
    return b.sub(weighted, b.mul(result, b.sum(weighted, axis=axis, keepdims=True)))
