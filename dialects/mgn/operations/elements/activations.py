"""Elementwise composites: activations and gates, each an expression of core elementwise operations.

Half precision is computed in f32 and rounded once, as PyTorch does. All broadcast as NumPy does.
"""

import math
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import FLOAT, NUMBER, STRING
from mgn.dialects.mgn.build import Emitter, literal_array
from mgn.dialects.mgn.composite import composite, in_single_precision
from mgn.dialects.mgn.operation import FLOATS, NUMERIC, AttributeSpec, Kind, OperandSpec
from mgn.dialects.mgn.operations.elements.elementwise import infer_broadcast
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of

X = OperandSpec("x", FLOATS)
GATE = OperandSpec("gate", FLOATS)
UP = OperandSpec("up", FLOATS)
APPROX = AttributeSpec("approx", STRING, "none")


@composite("relu", (OperandSpec("x", NUMERIC),), infer_broadcast, Kind.ELEMENTWISE)
def relu(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = relu(x)`: the larger of x and 0; nan passes on.

    Shape: that of x. Any numeric element type.
    """
    return b.max(x, 0)


@composite(
    "leaky_relu", (X, AttributeSpec("slope", FLOAT, 0.01)), infer_broadcast, Kind.ELEMENTWISE
)
@in_single_precision
def leaky_relu(b: Emitter, x: SSAValue, slope: float) -> SSAValue:
    """`y = leaky_relu(x, slope = 0.01)`: x where positive, else slope·x.

    Shape: that of x.
    """
    return b.where(b.gt(x, 0.0), x, b.mul(x, slope))


@composite("elu", (X, AttributeSpec("alpha", FLOAT, 1.0)), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def elu(b: Emitter, x: SSAValue, alpha: float) -> SSAValue:
    """`y = elu(x, alpha = 1.0)`: x where positive, else alpha·(exp(x) - 1).

    Shape: that of x. Clevert, Unterthiner, Hochreiter 2015 (arXiv:1511.07289).
    """
    return b.where(b.gt(x, 0.0), x, b.mul(b.expm1(x), alpha))


@composite("softplus", (X,), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def softplus(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = softplus(x)`: log(1 + exp(x)), without overflow.

    Shape: that of x.
    """
    return b.add(b.max(x, 0.0), b.log1p(b.exp(b.neg(b.abs(x)))))


@composite("sigmoid", (X,), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def sigmoid(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = sigmoid(x)`: 1 / (1 + exp(-x)).

    Shape: that of x. An overflow of exp(-x) gives the right limit, 0.
    """
    return b.recip(b.add(b.exp(b.neg(x)), 1.0))


@composite("silu", (X,), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def silu(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = silu(x)`: x·sigmoid(x), also known as swish.

    Shape: that of x. Elfwing, Uchibe, Doya 2017 (arXiv:1702.03118).
    """
    return b.mul(x, b.sigmoid(x))


def _infer_gelu(*types: TensorType, approx: str) -> TensorType:
    if approx not in ("none", "tanh"):
        raise ShapeError(f'approx must be "none" or "tanh", not "{approx}"')
    return infer_broadcast(*types)


@composite("gelu", (X, APPROX), _infer_gelu, Kind.ELEMENTWISE)
@in_single_precision
def gelu(b: Emitter, x: SSAValue, approx: str) -> SSAValue:
    """`y = gelu(x, approx = "tanh")`: x·Φ(x), Φ the normal distribution function, by erf or by
    tanh.

    Shape: that of x. Error: any other `approx`. Hendrycks, Gimpel 2016 (arXiv:1606.08415).
    """
    half = b.mul(x, 0.5)
    if approx == "none":
        return b.mul(half, b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1.0))
    cube = b.mul(b.mul(b.mul(x, x), x), 0.044715)
    inner = b.mul(b.add(x, cube), math.sqrt(2.0 / math.pi))
    return b.mul(half, b.add(b.tanh(inner), 1.0))


@composite("hard_sigmoid", (X,), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def hard_sigmoid(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = hard_sigmoid(x)`: (x + 3) / 6, held between 0 and 1.

    Shape: that of x. Howard et al. 2019 (arXiv:1905.02244), as in PyTorch.
    """
    return b.div(b.clamp(b.add(x, 3.0), min=0.0, max=6.0), 6.0)


@composite("hard_swish", (X,), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def hard_swish(b: Emitter, x: SSAValue) -> SSAValue:
    """`y = hard_swish(x)`: x·hard_sigmoid(x).

    Shape: that of x. Howard et al. 2019 (arXiv:1905.02244).
    """
    return b.mul(x, b.hard_sigmoid(x))


def _infer_clamp(x: TensorType, min: float | None, max: float | None) -> TensorType:
    for bound in (min, max):
        if bound is not None:
            literal_array(bound, element_of(x), "; use cast(x, f32)")
    return x


@composite(
    "clamp",
    (
        OperandSpec("x", NUMERIC),
        AttributeSpec("min", NUMBER, None),
        AttributeSpec("max", NUMBER, None),
    ),
    _infer_clamp,
    Kind.ELEMENTWISE,
)
def clamp(b: Emitter, x: SSAValue, min: float | None, max: float | None) -> SSAValue:
    """`y = clamp(x, min = 0.0, max = 1.0)`: x held between the bounds given; nan passes on.

    Shape: that of x. Error: a bound that the element type cannot hold. With min > max, max.
    """
    raised: Any = x if min is None else b.max(x, min)
    lowered: Any = raised if max is None else b.min(raised, max)
    return b.identity(x) if lowered is x else lowered


@composite("swiglu", (GATE, UP), infer_broadcast, Kind.ELEMENTWISE)
@in_single_precision
def swiglu(b: Emitter, gate: SSAValue, up: SSAValue) -> SSAValue:
    """`y = swiglu(gate, up)`: silu(gate)·up.

    Shape: both broadcast. Shazeer 2020 (arXiv:2002.05202).
    """
    return b.mul(b.silu(gate), up)


@composite("geglu", (GATE, UP, APPROX), _infer_gelu, Kind.ELEMENTWISE)
@in_single_precision
def geglu(b: Emitter, gate: SSAValue, up: SSAValue, approx: str) -> SSAValue:
    """`y = geglu(gate, up, approx = "none")`: gelu(gate)·up.

    Shape: both broadcast. Error: as gelu. Shazeer 2020 (arXiv:2002.05202).
    """
    return b.mul(b.gelu(gate, approx=approx), up)
