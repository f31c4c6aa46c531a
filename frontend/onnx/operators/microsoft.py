"""Operators of the domain com.microsoft: what ONNX Runtime's optimiser and exporters write."""

from typing import Any

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call
from mgn.frontend.onnx.core.operator import define

DOMAIN = "com.microsoft"


@define("Gelu", domain=DOMAIN)
def gelu(c: Call) -> SSAValue:
    """`gelu`"""
    return c.b.gelu(c[0])


@define("BiasGelu", domain=DOMAIN)
def bias_gelu(c: Call) -> SSAValue:
    """`gelu` of the sum with the bias"""
    return c.b.gelu(c.b.add(c[0], c[1]))


@define("FastGelu", domain=DOMAIN)
def fast_gelu(c: Call) -> SSAValue:
    """`gelu(approx = "tanh")` of the sum with the bias"""
    x = c[0] if c.get(1) is None else c.b.add(c[0], c[1])
    return c.b.gelu(x, approx="tanh")


@define("QuickGelu", domain=DOMAIN)
def quick_gelu(c: Call) -> SSAValue:
    """x·sigmoid(alpha·x)"""
    x = c[0]
    return c.b.mul(x, c.b.sigmoid(c.b.mul(x, c.like(c.attribute("alpha", 1.702), x))))


def _with_norm(c: Call, x: SSAValue, w: SSAValue, bias: SSAValue | None) -> SSAValue:
    eps = c.attribute("epsilon", 1e-12)
    more = [] if bias is None else [bias]
    return c.b.layer_norm(x, w, *more, eps=eps)


@define("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalisation(c: Call) -> Any:
    """`layer_norm` of the sum of two values and a bias"""
    total = c.b.add(c[0], c[1])
    total = total if c.get(4) is None else c.b.add(total, c[4])
    return _with_norm(c, total, c[2], c.get(3)), None, None, total


@define("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_rms_normalisation(c: Call) -> Any:
    """`rms_norm` of the sum of two values and a bias"""
    total = c.b.add(c[0], c[1])
    total = total if c.get(3) is None else c.b.add(total, c[3])
    found = c.b.rms_norm(total, c[2], eps=c.attribute("epsilon", 1e-12))
    return found, None, None, total


@define("SimplifiedLayerNormalization", domain="")
@define("SimplifiedLayerNormalization", domain=DOMAIN)
def rms_normalisation(c: Call) -> SSAValue:
    """`rms_norm`"""
    return c.b.rms_norm(c[0], c[1], eps=c.attribute("epsilon", 1e-5))
