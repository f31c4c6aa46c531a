"""Operators of the domain com.microsoft: what ONNX Runtime's optimiser and exporters write."""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
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


@define("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(c: Call) -> SSAValue:
    """pairs of each head turned by angles of a table, at positions"""
    x, places, b = c[0], c[1], c.b
    heads, turned = c.attribute("num_heads", 0), c.attribute("rotary_embedding_dim", 0)
    half = shape(c[2])[1]
    by_heads = rank(x) == 4
    if by_heads:
        whole = b.transpose(x, perm=[0, 2, 1, 3])
    else:
        size = shape(x)[2] // heads if heads else (turned or 2 * half)
        whole = b.reshape(x, [*shape(x)[:2], -1, size])
    n, steps, count, size = shape(whole)
    turned = turned or size
    if shape(places) == (1,):
        places = b.add(b.iota([n, steps], axis=1, T=element(places).name), places)
    cos, sin = (b.expand_dims(b.gather(c[number], places, axis=0), 2) for number in (2, 3))
    head = b.slice(whole, starts=[0] * 4, stops=[n, steps, count, turned])
    interleaved = bool(c.attribute("interleaved", 0))
    parts = [n, steps, count, turned // 2, 2] if interleaved else [n, steps, count, 2, turned // 2]
    axis = 4 if interleaved else 3
    one, two = (
        b.squeeze(part, axis=axis)
        for part in b.split(b.reshape(head, parts), sizes=[1, 1], axis=axis)
    )
    first = b.sub(b.mul(one, cos), b.mul(two, sin))
    second = b.add(b.mul(one, sin), b.mul(two, cos))
    found = b.reshape(b.stack([first, second], axis=axis), [n, steps, count, turned])
    if turned < size:
        rest = b.slice(whole, starts=[0, 0, 0, turned], stops=[n, steps, count, size])
        found = b.concat([found, rest], axis=3)
    if by_heads:
        return b.transpose(found, perm=[0, 2, 1, 3])
    return b.reshape(found, list(shape(x)))


@define("Attention", domain=DOMAIN)
def attention(c: Call) -> SSAValue:
    """a product for q, k and v, and `attention`"""
    b, x, heads = c.b, c[0], c.required("num_heads")
    _refuse(c, {4: "past"}, ("do_rotary",))
    columns = shape(c[1])[1]
    sizes = c.attribute("qkv_hidden_sizes") or [columns // 3] * 3
    whole = b.matmul(x, c[1])
    whole = whole if c.get(2) is None else b.add(whole, c[2])
    q, k, v = b.split(whole, sizes=sizes, axis=2)
    return _attention(c, (q, k, v), heads, c.get(3), c.get(5))


@define("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(c: Call) -> SSAValue:
    """`attention`"""
    b, heads = c.b, c.required("num_heads")
    _refuse(c, {6: "past_key", 7: "past_value"}, ())
    if c.get(1) is None:  # q, k and v in one, [batch, steps, heads, 3, size]
        n, steps, _, _, size = shape(c[0])
        packed = b.split(c[0], sizes=[1, 1, 1], axis=3)
        values = [b.reshape(part, [n, steps, heads * size]) for part in packed]
    else:
        values = [c[0], c[1], c[2]]
    values = [_joined(c, value) for value in values]
    if c.get(3) is not None:
        biases = b.split(c[3], sizes=[shape(value)[2] for value in values], axis=0)
        values = [b.add(value, bias) for value, bias in zip(values, biases, strict=True)]
    return _attention(c, (values[0], values[1], values[2]), heads, c.get(4), c.get(5))


def _joined(c: Call, value: SSAValue) -> SSAValue:
    """[batch, heads, steps, size] as [batch, steps, heads·size]."""
    if rank(value) != 4:
        return value
    n, heads, steps, size = shape(value)
    return c.b.reshape(c.b.transpose(value, perm=[0, 2, 1, 3]), [n, steps, heads * size])


def _refuse(c: Call, inputs: dict[int, str], attributes: tuple[str, ...]) -> None:
    for number, name in inputs.items():
        if c.get(number) is not None:
            c.fail(f"the input '{name}' is not supported")
    for name in attributes:
        if c.attribute(name, 0):
            c.fail(f"'{name}' is not supported")


def _attention(
    c: Call,
    values: tuple[SSAValue, SSAValue, SSAValue],
    heads: int,
    mask: SSAValue | None,
    bias: SSAValue | None,
) -> SSAValue:
    """`attention` with a mask of keys, as lengths or truth values, and a bias."""
    b, (q, k, v) = c.b, values
    if mask is not None:
        hidden = _hidden(c, mask, shape(k)[1], element(q).name)
        bias = hidden if bias is None else b.add(bias, hidden)
    options: dict[str, Any] = {"heads": heads, "causal": bool(c.attribute("unidirectional", 0))}
    if c.attribute("scale", 0.0):
        options["scale"] = c.attribute("scale")
    more = [] if bias is None else [bias]
    return b.attention(q, k, v, *more, **options)


def _hidden(c: Call, mask: SSAValue, keys: int, kind: str) -> SSAValue:
    """What is added to scores: the filter value where a mask says that a key is hidden."""
    b = c.b
    if rank(mask) == 1:
        places = c.constant(np.arange(keys), element(mask).dtype)
        kept = b.lt(places, b.expand_dims(mask, 1))
    else:
        kept = b.ne(mask, c.like(0, mask))
    kept = b.expand_dims(kept, [1, 2] if rank(kept) == 2 else [1])
    value = c.attribute("mask_filter_value", -10000.0)
    return b.cast(b.where(kept, 0.0, value), kind)
