"""Activations, and other functions of one operand that take more than a row of a table.

In: a value, and numbers. Out: mgn's operation of the same meaning, or its formula.
"""

import math
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.frontend.torch.elementwise import call_in
from mgn.frontend.torch.table import Call, Operand, as_element, aten


@aten("gelu")
def gelu(b: Emitter, call: Call, x: SSAValue, approximate: str = "none") -> SSAValue:
    """x·Φ(x)."""
    return b.gelu(x, approx=approximate)


@aten("leaky_relu")
def leaky_relu(b: Emitter, call: Call, x: SSAValue, negative_slope: float = 0.01) -> SSAValue:
    """x where positive, else a share of it."""
    return b.leaky_relu(x, slope=float(negative_slope))


@aten("_prelu_kernel", "prelu")
def prelu(b: Emitter, call: Call, x: SSAValue, weight: SSAValue) -> SSAValue:
    """x where positive, else its channel's share of it."""
    if call.name == "aten.prelu.default" and len(shape_of(x)) > 1:
        weight = b.reshape(weight, (-1, *[1] * (len(shape_of(x)) - 2)))
    return b.where(b.gt(x, 0), x, b.mul(weight, x))


@aten("elu")
def elu(
    b: Emitter,
    call: Call,
    x: SSAValue,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
) -> SSAValue:
    """scale·x where positive, else scale·alpha·(exp(input_scale·x) - 1)."""
    if scale == input_scale == 1:
        return b.elu(x, alpha=float(alpha))
    below = b.mul(b.expm1(b.mul(b.min(x, 0.0), float(input_scale))), float(alpha))
    return b.mul(b.where(b.gt(x, 0), x, below), float(scale))


@aten("softplus")
def softplus(
    b: Emitter, call: Call, x: SSAValue, beta: float = 1, threshold: float = 20
) -> SSAValue:
    """log(1 + exp(beta·x)) / beta; x itself above the threshold."""
    scaled = x if beta == 1 else b.mul(x, float(beta))
    soft = b.softplus(scaled)
    soft = soft if beta == 1 else b.div(soft, float(beta))
    return b.where(b.gt(scaled, float(threshold)), x, soft)


@aten("mish")
def mish(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """x·tanh(softplus(x))."""
    return b.mul(x, b.tanh(b.softplus(x)))


@aten("log_sigmoid_forward", "log_sigmoid")
def log_sigmoid(b: Emitter, call: Call, x: SSAValue) -> Any:
    """The logarithm of the sigmoid; beside it exp(-|x|) where PyTorch keeps that."""
    found = b.neg(b.softplus(b.neg(x)))
    return found if len(call.results) == 1 else (found, b.exp(b.neg(b.abs(x))))


@aten("hardtanh")
def hardtanh(
    b: Emitter, call: Call, x: SSAValue, min_val: float = -1, max_val: float = 1
) -> SSAValue:
    """x, held between two numbers."""
    return b.clamp(x, min=min_val, max=max_val)


@aten("relu6")
def relu6(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """x, held between 0 and 6."""
    return b.clamp(x, min=0, max=6)


@aten("clamp", "clamp_min", "clamp_max", "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp(b: Emitter, call: Call, x: SSAValue, *bounds: Operand | None, **named: Any) -> SSAValue:
    """x, held between bounds."""
    only_max = call.name.startswith("aten.clamp_max")
    given = dict(zip(["max"] if only_max else ["min", "max"], bounds, strict=False), **named)
    value = as_element(b, x, call.element)
    for name, operation in (("min", "max"), ("max", "min")):
        bound = given.get(name)
        if bound is not None:
            value = call_in(b, operation, call.element, value, bound)
    return value


@aten("exp2", "log2", "log10")
def to_another_base(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """Powers of 2, and logarithms to the bases 2 and 10."""
    value = as_element(b, x, call.element)
    if "exp2" in call.name:
        return b.pow(b.full((), 2.0, T=call.element), value)
    base = 2.0 if "log2" in call.name else 10.0
    return b.div(b.log(value), math.log(base))


@aten("sinh", "cosh")
def hyperbolic(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """Hyperbolic functions, by squares of exp(|x| / 2), so that they are finite where their values
    are; the sine up to 20 by expm1, so that nothing cancels near 0.
    """
    value = as_element(b, x, call.element)
    size = b.abs(value)
    root = b.exp(b.mul(size, 0.5))
    half = b.mul(b.mul(root, 0.5), root)
    if "cosh" in call.name:
        small = b.recip(root)
        return b.add(half, b.mul(b.mul(small, 0.5), small))
    within = b.clamp(value, min=-20.0, max=20.0)
    near = b.mul(b.sub(b.expm1(within), b.expm1(b.neg(within))), 0.5)
    return b.where(b.gt(size, 20.0), b.mul(b.sign(value), half), near)


@aten("sign")
def sign(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """-1, 0 or 1; 0 of NaN, as in PyTorch."""
    found = b.sign(x)
    return b.where(b.isnan(x), 0, found) if element_type_of(x).is_float else found


@aten("square")
def square(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """x·x."""
    return b.mul(x, x)
