"""Attention and rotated positions of the domain com.microsoft, with caches of keys and values.

Keys and values of a cache are [batch, heads, places, size], those of `attention` [batch, places,
heads · size].
"""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.operators.microsoft import DOMAIN


@define("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(c: Call) -> SSAValue:
    """pairs of each head turned by angles of a table, at positions"""
    x, places, b = c[0], c[1], c.b
    heads, turned = c.attribute("num_heads", 0), c.attribute("rotary_embedding_dim", 0)
    interleaved = bool(c.attribute("interleaved", 0))
    by_heads = rank(x) == 4
    if rank(x) not in (3, 4) or rank(c[2]) != 2 or rank(c[3]) != 2:
        c.fail("x has three axes or four, and the tables have two")
    if by_heads:
        whole = b.transpose(x, perm=[0, 2, 1, 3])
    else:
        size = shape(x)[2] // heads if heads else (turned or 2 * shape(c[2])[1])
        whole = b.reshape(x, [*shape(x)[:2], -1, size])
    n, steps, _, size = shape(whole)
    if shape(places) == (1,):
        places = b.add(b.iota([n, steps], axis=1, T=element(places).name), places)
    found = _turned(c, whole, places, (c[2], c[3]), turned or size, interleaved)
    if by_heads:
        return b.transpose(found, perm=[0, 2, 1, 3])
    return b.reshape(found, list(shape(x)))


def _turned(
    c: Call,
    whole: SSAValue,
    places: SSAValue,
    tables: tuple[SSAValue, SSAValue],
    turned: int,
    interleaved: bool,
) -> SSAValue:
    """[batch, steps, heads, size], the first `turned` of each head as pairs that are turned."""
    b = c.b
    n, steps, count, size = shape(whole)
    cos, sin = (b.expand_dims(b.gather(table, places, axis=0), 2) for table in tables)
    head = b.slice(whole, starts=[0] * 4, stops=[n, steps, count, turned])
    parts = [n, steps, count, turned // 2, 2] if interleaved else [n, steps, count, 2, turned // 2]
    axis = 4 if interleaved else 3
    one, two = (
        b.squeeze(part, axis=axis)
        for part in b.split(b.reshape(head, parts), sizes=[1, 1], axis=axis)
    )
    first = b.sub(b.mul(one, cos), b.mul(two, sin))
    second = b.add(b.mul(one, sin), b.mul(two, cos))
    found = b.reshape(b.stack([first, second], axis=axis), [n, steps, count, turned])
    if turned == size:
        return found
    rest = b.slice(whole, starts=[0, 0, 0, turned], stops=[n, steps, count, size])
    return b.concat([found, rest], axis=3)


@define("Attention", domain=DOMAIN)
def attention(c: Call) -> Any:
    """a product for q, k and v, and `attention` of what `concat` adds to a cache"""
    _refuse(c, {6: "past_sequence_length"}, ("past_present_share_buffer",))
    whole = c.b.matmul(c[0], c[1])
    whole = whole if c.get(2) is None else c.b.add(whole, c[2])
    return attention_of(c, whole, c.get(3), c.get(4), c.get(5))


def attention_of(
    c: Call,
    whole: SSAValue,
    mask: SSAValue | None,
    cache: SSAValue | None,
    bias: SSAValue | None = None,
) -> Any:
    """The results for q, k and v in one value, with a mask, a cache of both and a bias."""
    b, heads = c.b, c.required("num_heads")
    _refuse(c, {}, ("do_rotary",))
    sizes = c.attribute("qkv_hidden_sizes") or [shape(whole)[2] // 3] * 3
    q, k, v = b.split(whole, sizes=sizes, axis=2)
    past: tuple[SSAValue | None, ...] = (None, None)
    if cache is not None:
        past = tuple(b.squeeze(part, axis=0) for part in b.split(cache, sizes=[1, 1], axis=0))
    k, v = (_grown(c, *pair, heads) for pair in zip(past, (k, v), strict=True))
    found = _attention(c, (q, k, v), heads, mask, bias)
    if not c.wants(1):
        return found
    return found, b.stack([_by_heads(c, item, heads) for item in (k, v)], axis=0)


@define("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(c: Call) -> Any:
    """`attention` of what `concat` adds to a cache"""
    b, heads = c.b, c.required("num_heads")
    _refuse(c, {8: "past_sequence_length", 9: "cache_indirection"}, ())
    if c.get(1) is None:  # q, k and v in one, [batch, steps, heads, 3, size]
        n, steps, _, _, size = shape(c[0])
        packed = b.split(c[0], sizes=[1, 1, 1], axis=3)
        values = [b.reshape(part, [n, steps, heads * size]) for part in packed]
    elif c.get(2) is None:  # k and v in one, [batch, steps, heads, 2, size]
        n, steps, _, _, size = shape(c[1])
        packed = b.split(c[1], sizes=[1, 1], axis=3)
        values = [c[0], *(b.reshape(part, [n, steps, heads * size]) for part in packed)]
    else:
        values = [c[0], c[1], c[2]]
    values = [_joined(c, value) for value in values]
    if c.get(3) is not None:
        biases = b.split(c[3], sizes=[shape(value)[2] for value in values], axis=0)
        values = [b.add(value, bias) for value, bias in zip(values, biases, strict=True)]
    q = values[0]
    k, v = (_grown(c, c.get(number), values[number - 5], heads) for number in (6, 7))
    found = _attention(c, (q, k, v), heads, c.get(4), c.get(5))
    if not (c.wants(1) or c.wants(2)):
        return found
    return found, _by_heads(c, k, heads), _by_heads(c, v, heads)


@define("GroupQueryAttention", domain=DOMAIN)
def grouped_attention(c: Call) -> Any:
    """`attention` of fewer heads of keys than of queries, after a cache; positions may be turned"""
    b, heads, fewer = c.b, c.required("num_heads"), c.required("kv_num_heads")
    refused = ("smooth_softmax", "qk_output", "k_quant_type", "v_quant_type")
    _refuse(c, {11: "head_sink", 12: "k_scale", 13: "v_scale"}, refused)
    q, k, v = _three(c, heads, fewer)
    n, steps, _ = shape(q)
    places = 0 if c.get(3) is None else shape(c[3])[2]
    total = c.number(6) if c.is_known(6) else places + steps
    before = _before(c, total, steps)
    if c.attribute("do_rotary", 0):
        if c.get(9) is not None:
            at = b.reshape(c[9], [n, steps])
        else:
            at = b.add(b.iota([n, steps], axis=1), _column(c, before))
        q, k = (_turned_heads(c, *pair, at) for pair in ((q, heads), (k, fewer)))
    whole = [
        _written(c, c.get(number), _by_heads(c, value, fewer), before, max(places, total))
        for number, value in ((3, k), (4, v))
    ]
    seen = [_joined(c, _first(c, value, total)) for value in whole]
    window = max(c.attribute("local_window_size", -1), 0)
    options: dict[str, Any] = {"heads": heads, "kv_heads": fewer}
    for name in ("scale", "softcap"):
        if c.attribute(name, 0.0):
            options[name] = c.attribute(name)
    bias = c.get(10)
    if isinstance(before, int):
        options |= {"causal": True, "window": window}
    else:
        kept = _seen(c, before, (steps, total), window)
        hidden = b.cast(b.where(kept, 0.0, -np.inf), element(q).name)
        bias = hidden if bias is None else b.add(bias, hidden)
    more = [] if bias is None else [bias]
    return b.attention(q, seen[0], seen[1], *more, **options), *whole


def _three(c: Call, heads: int, fewer: int) -> tuple[SSAValue, ...]:
    """Queries, keys and values, which may be one value."""
    if c.get(1) is not None:
        return c[0], c[1], c[2]
    size = shape(c[0])[2] // (heads + 2 * fewer)
    return tuple(c.b.split(c[0], sizes=[heads * size, fewer * size, fewer * size], axis=2))


def _before(c: Call, total: int, steps: int) -> int | SSAValue:
    """How many places of the cache come before the new ones: a number for all samples where that is
    known, else one for each, from the lengths without one.
    """
    if total == steps:
        return 0
    if c.is_known(5) and np.all(c.known(5) == total - 1):
        return total - steps
    return c.b.add(c.b.reshape(c[5], [-1]), c.like(1 - steps, c[5]))


def _column(c: Call, before: int | SSAValue) -> SSAValue:
    """A number for each sample as a column."""
    if isinstance(before, int):
        return c.constant(before, np.int32)
    return c.b.expand_dims(before, 1)


def _turned_heads(c: Call, x: SSAValue, heads: int, at: SSAValue) -> SSAValue:
    """[batch, steps, heads·size] with the positions of each head turned."""
    n, steps, columns = shape(x)
    whole = c.b.reshape(x, [n, steps, heads, columns // heads])
    interleaved = bool(c.attribute("rotary_interleaved", 0))
    found = _turned(c, whole, at, (c[7], c[8]), 2 * shape(c[7])[1], interleaved)
    return c.b.reshape(found, [n, steps, columns])


def _written(
    c: Call, past: SSAValue | None, new: SSAValue, before: int | SSAValue, places: int
) -> SSAValue:
    """A cache of so many places with new ones behind those before."""
    b = c.b
    n, heads, steps, size = shape(new)
    empty: SSAValue = b.full([n, heads, 0, size], 0.0, T=element(new).name)
    old = empty if past is None else past
    there = shape(old)[2]
    if isinstance(before, int):
        if before > there:
            c.fail(f"the cache has {there} places, and {before} come before")
        rest = b.slice(old, starts=[0, 0, min(before + steps, there), 0], stops=list(shape(old)))
        return _first(c, b.concat([_first(c, old, before), new, rest], axis=2), places)
    place = b.iota([n, places], axis=1)
    of_new = b.add(b.sub(place, b.expand_dims(before, 1)), c.constant(there, np.int32))
    source = b.where(b.lt(place, b.expand_dims(before, 1)), place, of_new)
    last = c.constant(there + steps - 1, np.int32)
    source = b.reshape(b.min(source, last), [n, 1, places, 1])
    source = b.broadcast_to(source, [n, heads, places, size])
    return b.take_along_axis(b.concat([old, new], axis=2), source, axis=2)


def _first(c: Call, cache: SSAValue, count: int) -> SSAValue:
    """The first places of a cache."""
    n, heads, places, size = shape(cache)
    if places == count:
        return cache
    return c.b.slice(cache, starts=[0] * 4, stops=[n, heads, count, size])


def _seen(c: Call, before: SSAValue, sizes: tuple[int, int], window: int) -> SSAValue:
    """Which places each new one sees: [batch, 1, steps, places]."""
    b, (steps, total) = c.b, sizes
    own = b.add(b.expand_dims(before, [1, 2, 3]), b.iota([1, 1, steps, 1], axis=2))
    place = b.iota([1, 1, 1, total], axis=3)
    kept = b.le(place, own)
    if not window:
        return kept
    return b.logical_and(kept, b.gt(place, b.sub(own, c.constant(window, np.int32))))


def _grown(c: Call, past: SSAValue | None, new: SSAValue, heads: int) -> SSAValue:
    """[batch, steps, heads·size] behind what a cache has."""
    if past is None:
        return new
    return _joined(c, c.b.concat([past, _by_heads(c, new, heads)], axis=2))


def _joined(c: Call, value: SSAValue) -> SSAValue:
    """[batch, heads, steps, size] as [batch, steps, heads·size]."""
    if rank(value) != 4:
        return value
    n, heads, steps, size = shape(value)
    return c.b.reshape(c.b.transpose(value, perm=[0, 2, 1, 3]), [n, steps, heads * size])


def _by_heads(c: Call, value: SSAValue, heads: int) -> SSAValue:
    """[batch, steps, heads·size] as [batch, heads, steps, size]."""
    n, steps, columns = shape(value)
    whole = c.b.reshape(value, [n, steps, heads, columns // heads])
    return c.b.transpose(whole, perm=[0, 2, 1, 3])


def _refuse(c: Call, inputs: dict[int, str], attributes: tuple[str, ...]) -> None:
    for number, name in inputs.items():
        if c.get(number) is not None:
            c.fail(f"the input '{name}' is not supported")
    for name in attributes:
        if c.attribute(name, 0) not in (0, "NONE"):
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
