"""Operators of the domain com.microsoft: what ONNX Runtime's optimiser and exporters write."""

from typing import Any

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.convolution import convolved

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


@define("FusedMatMul", domain=DOMAIN)
def fused_matmul(c: Call) -> SSAValue:
    """`matmul` with its transposes, scaled"""
    for name in ("transBatchA", "transBatchB"):
        if c.attribute(name, 0):
            c.fail(f"'{name}' is not supported")
    flags = {f"transpose_{key}": bool(c.attribute(f"trans{key.upper()}", 0)) for key in "ab"}
    found = c.b.matmul(c[0], c[1], **flags)
    alpha = c.attribute("alpha", 1.0)
    return found if alpha == 1.0 else c.b.mul(found, c.like(alpha, found))


@define("FusedConv", domain=DOMAIN)
def fused_conv(c: Call) -> SSAValue:
    """a convolution, the sum with another value, and an activation"""
    found = convolved(c, c[0], c[1], c.get(2))
    found = found if c.get(3) is None else c.b.add(found, c[3])
    return activated(c, found, c.attribute("activation", ""), c.attribute("activation_params"))


@define("FusedGemm", domain=DOMAIN)
def fused_gemm(c: Call) -> SSAValue:
    """`matmul` with its transposes, the sum with C, and an activation"""
    b = c.b
    flags = {f"transpose_{key}": bool(c.attribute(f"trans{key.upper()}", 0)) for key in "ab"}
    found = b.matmul(c[0], c[1], **flags)
    alpha, beta = c.attribute("alpha", 1.0), c.attribute("beta", 1.0)
    found = found if alpha == 1.0 else b.mul(found, c.like(alpha, found))
    if c.get(2) is not None:
        found = b.add(found, c[2] if beta == 1.0 else b.mul(c[2], c.like(beta, found)))
    slope = c.attribute("activation_alpha")
    return activated(c, found, c.attribute("activation", ""), [] if slope is None else [slope])


def activated(c: Call, x: SSAValue, name: str, parameters: Any) -> SSAValue:
    """An activation by its name."""
    first = list(parameters or [])
    makers = {
        "": lambda: x,
        "Relu": lambda: c.b.relu(x),
        "Tanh": lambda: c.b.tanh(x),
        "Sigmoid": lambda: c.b.sigmoid(x),
        "LeakyRelu": lambda: c.b.leaky_relu(x, slope=first[0] if first else 0.01),
        "Clip": lambda: c.b.clamp(x, min=first[0], max=first[1]),
        "HardSigmoid": lambda: c.b.clamp(c.b.add(c.b.mul(x, first[0]), first[1]), min=0.0, max=1.0),
    }
    if name not in makers:
        c.fail(f"the activation '{name}' is not supported")
    return makers[name]()


@define("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalisation(c: Call) -> Any:
    """`layer_norm` of the sum of `embedding`s"""
    b, ids = c.b, c[0]
    places = c.get(8)
    if places is None:
        places = b.iota(list(shape(ids)), axis=1)
    total = b.add(b.embedding(ids, c[2]), b.embedding(places, c[3]))
    if c.get(1) is not None:
        total = b.add(total, b.embedding(c[1], c[4]))
    found = b.layer_norm(total, c[5], c[6], eps=c.attribute("epsilon", 1e-12))
    if c.get(7) is None:
        counts = b.full([shape(ids)[0]], 0, T="i32")
    else:
        counts = b.sum(b.cast(c[7], "i32"), axis=1)
    return found, counts, total
