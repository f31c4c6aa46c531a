"""Gradients of activations: `(b, g, y, *operands, **attributes)` to one for each operand.

Each is a formula of its own where that of the decomposition would form 0·inf, or would differ from
PyTorch at a corner: `relu` at 0 gives 0.
"""

import math
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.gradients.rules import ELEMENTWISE, elementwise

ELEMENTWISE.update(
    {
        "relu": lambda b, g, y, x: (b.where(b.le(x, 0.0), 0.0, g),),
        "leaky_relu": lambda b, g, y, x, slope: (b.where(b.gt(x, 0.0), g, b.mul(g, slope)),),
        "elu": lambda b, g, y, x, alpha: (
            b.where(b.gt(x, 0.0), g, b.mul(g, b.mul(b.exp(x), alpha))),
        ),
        "softplus": lambda b, g, y, x: (b.mul(g, b.sigmoid(x)),),
        "sigmoid": lambda b, g, y, x: (b.mul(g, b.mul(y, b.sub(1.0, y))),),
        "hard_sigmoid": lambda b, g, y, x: (b.where(b.lt(b.abs(x), 3.0), b.div(g, 6.0), 0.0),),
    }
)


@elementwise("silu")
def silu(b: Emitter, g: SSAValue, y: SSAValue, x: SSAValue) -> Any:
    """σ (1 + x (1 - σ))."""
    gate = b.sigmoid(x)
    return (b.mul(g, b.mul(gate, b.add(b.mul(x, b.sub(1.0, gate)), 1.0))),)


@elementwise("gelu")
def gelu(b: Emitter, g: SSAValue, y: SSAValue, x: SSAValue, approx: str) -> Any:
    """Φ + x φ, or the derivative of the form by tanh."""
    if approx == "none":
        share = b.mul(b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0), 0.5)
        density = b.mul(b.exp(b.mul(b.mul(x, x), -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
        return (b.mul(g, b.add(share, b.mul(x, density))),)
    root = math.sqrt(2.0 / math.pi)
    square = b.mul(x, x)
    bend = b.tanh(b.mul(b.mul(x, b.add(b.mul(square, 0.044715), 1.0)), root))
    slope = b.mul(b.add(b.mul(square, 3 * 0.044715), 1.0), root)
    steep = b.mul(b.mul(x, slope), b.sub(1.0, b.mul(bend, bend)))
    return (b.mul(g, b.mul(b.add(b.add(bend, 1.0), steep), 0.5)),)


@elementwise("hard_swish")
def hard_swish(b: Emitter, g: SSAValue, y: SSAValue, x: SSAValue) -> Any:
    """0 up to -3, 1 from 3 on, x / 3 + 1 / 2 between."""
    between = b.mul(g, b.add(b.div(x, 3.0), 0.5))
    return (b.where(b.le(x, -3.0), 0.0, b.where(b.ge(x, 3.0), g, between)),)


@elementwise("clamp")
def clamp(
    b: Emitter, g: SSAValue, y: SSAValue, x: SSAValue, min: float | None, max: float | None
) -> Any:
    """All of it within the bounds, these included."""
    if min is not None:
        g = b.where(b.ge(x, min), g, 0.0)
    if max is not None:
        g = b.where(b.le(x, max), g, 0.0)
    return (g,)
