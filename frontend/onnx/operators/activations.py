"""Activations: functions of one value that networks put between layers."""

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


@define("Relu")
def relu(c: Call) -> SSAValue:
    """`relu`"""
    return c.b.relu(c[0])


@define("Sigmoid")
def sigmoid(c: Call) -> SSAValue:
    """`sigmoid`"""
    return c.b.sigmoid(c[0])


@define("Softplus")
def softplus(c: Call) -> SSAValue:
    """`softplus`"""
    return c.b.softplus(c[0])


@define("HardSwish", since=14)
def hard_swish(c: Call) -> SSAValue:
    """`hard_swish`"""
    return c.b.hard_swish(c[0])


@define("LeakyRelu")
def leaky_relu(c: Call) -> SSAValue:
    """`leaky_relu`"""
    return c.b.leaky_relu(c[0], slope=c.attribute("alpha", 0.01))


@define("Elu")
def elu(c: Call) -> SSAValue:
    """`elu`"""
    return c.b.elu(c[0], alpha=c.attribute("alpha", 1.0))


@define("Celu", since=12)
def celu(c: Call) -> SSAValue:
    """max(0, x) + min(0, alpha·(exp(x / alpha) - 1))"""
    b, x, alpha = c.b, c[0], c.attribute("alpha", 1.0)
    if not alpha:
        c.fail("alpha is 0")
    below = b.mul(b.expm1(b.mul(b.min(x, 0.0), 1 / alpha)), alpha)
    return b.add(b.relu(x), below)


@define("Selu")
def selu(c: Call) -> SSAValue:
    """gamma·`elu`"""
    alpha = c.attribute("alpha", 1.67326319217681884765625)
    return c.b.mul(c.b.elu(c[0], alpha=alpha), c.attribute("gamma", 1.05070102214813232421875))


@define("ThresholdedRelu", since=10)
def thresholded_relu(c: Call) -> SSAValue:
    """x where it is above alpha, else 0"""
    return c.b.where(c.b.gt(c[0], c.attribute("alpha", 1.0)), c[0], 0.0)


@define("HardSigmoid")
def hard_sigmoid(c: Call) -> SSAValue:
    """alpha·x + beta, held between 0 and 1; `hard_sigmoid` where alpha is 1/6 and beta 1/2"""
    alpha, beta = c.attribute("alpha", 0.2), c.attribute("beta", 0.5)
    if np.float32(alpha) == np.float32(1 / 6) and beta == 0.5:
        return c.b.hard_sigmoid(c[0])
    return c.b.clamp(c.b.add(c.b.mul(c[0], alpha), beta), min=0.0, max=1.0)


@define("Softsign")
def softsign(c: Call) -> SSAValue:
    """x / (1 + |x|)"""
    return c.b.div(c[0], c.b.add(c.b.abs(c[0]), 1.0))


@define("Shrink", since=9)
def shrink(c: Call) -> SSAValue:
    """x moved towards 0 by bias beyond lambd, else 0"""
    b, x = c.b, c[0]
    bound, bias = c.like(c.attribute("lambd", 0.5), x), c.like(c.attribute("bias", 0.0), x)
    low = b.where(b.lt(x, b.neg(bound)), b.add(x, bias), c.like(0, x))
    return b.where(b.gt(x, bound), b.sub(x, bias), low)


@define("Mish", since=18)
def mish(c: Call) -> SSAValue:
    """x·tanh(softplus(x))"""
    return c.b.mul(c[0], c.b.tanh(c.b.softplus(c[0])))


@define("Gelu", since=20)
def gelu(c: Call) -> SSAValue:
    """`gelu`"""
    return c.b.gelu(c[0], approx=c.attribute("approximate", "none"))


@define("Swish", since=24)
def swish(c: Call) -> SSAValue:
    """`silu`, or x·sigmoid(alpha·x)"""
    alpha = c.attribute("alpha", 1.0)
    if alpha == 1.0:
        return c.b.silu(c[0])
    return c.b.mul(c[0], c.b.sigmoid(c.b.mul(c[0], alpha)))


@define("PRelu")
def prelu(c: Call) -> SSAValue:
    """x where positive, else slope·x"""
    x, slope = c[0], c[1]
    if c.version < 9 and rank(slope) == 1 and rank(x) > 2:
        slope = c.b.reshape(slope, [shape(slope)[0], *[1] * (rank(x) - 2)])
    return c.b.where(c.b.lt(x, c.like(0, x)), c.b.mul(x, slope), x)


@define("Softmax")
def softmax_of_rows(c: Call) -> SSAValue:
    """`softmax` over all axes from `axis` on"""
    return _of_rows(c, "softmax")


@define("LogSoftmax")
def log_softmax_of_rows(c: Call) -> SSAValue:
    """`log_softmax` over all axes from `axis` on"""
    return _of_rows(c, "log_softmax")


@define("Softmax", since=13)
def softmax(c: Call) -> SSAValue:
    """`softmax`"""
    return c.b.softmax(c[0], axis=c.attribute("axis", -1))


@define("LogSoftmax", since=13)
def log_softmax(c: Call) -> SSAValue:
    """`log_softmax`"""
    return c.b.log_softmax(c[0], axis=c.attribute("axis", -1))


@define("Hardmax")
def hardmax_of_rows(c: Call) -> SSAValue:
    """1 at the first largest element of all axes from `axis` on, else 0"""
    x = c[0]
    rows = as_rows(c, x, c.axis(x, 1))
    return c.b.reshape(_hardmax(c, rows, 1), list(shape(x)))


@define("Hardmax", since=13)
def hardmax(c: Call) -> SSAValue:
    """1 at the first largest element along an axis, else 0"""
    return _hardmax(c, c[0], c.axis(c[0], -1))


def _hardmax(c: Call, x: SSAValue, axis: int) -> SSAValue:
    b, sizes = c.b, list(shape(x))
    if 0 in sizes:
        return x
    place = b.argmax(x, axis=axis, keepdims=True)
    return b.cast(b.eq(b.iota(sizes, axis=axis), place), element(x).name)


def _of_rows(c: Call, name: str) -> SSAValue:
    x = c[0]
    axis = c.axis(x, 1)
    if axis == rank(x) - 1:
        return c.b.call(name, x, axis=axis)
    return c.b.reshape(c.b.call(name, as_rows(c, x, axis), axis=1), list(shape(x)))


def as_rows(c: Call, x: SSAValue, axis: int) -> SSAValue:
    """A value as a matrix: the axes before one, and the others."""
    sizes = shape(x)
    return c.b.reshape(x, [int(np.prod(sizes[:axis])), int(np.prod(sizes[axis:]))])
