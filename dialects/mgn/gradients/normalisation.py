"""Gradients of softmax, the norms and rope.

Each is a formula over the rows that the operation went over, in which the forward's statistics
stand again as they are there: the e-graph finds them equal, so one pass can compute both.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, in_full, summed_to


@gradient("softmax")
@in_full
def softmax(b: Emitter, at: Site) -> Gradients:
    """s (g - Σ g s)."""
    total = b.sum(b.mul(at.g, at.y), axis=at.values["axis"], keepdims=True)
    return [b.mul(at.y, b.sub(at.g, total))]


@gradient("log_softmax")
@in_full
def log_softmax(b: Emitter, at: Site) -> Gradients:
    """g - softmax Σ g."""
    total = b.sum(at.g, axis=at.values["axis"], keepdims=True)
    return [b.sub(at.g, b.mul(b.exp(at.y), total))]


def _trailing(x: SSAValue, w: SSAValue | None) -> tuple[int, ...]:
    rank = len(shape_of(x))
    return tuple(range(rank - (1 if w is None else len(shape_of(w))), rank))


@gradient("rms_norm")
@in_full
def rms_norm(b: Emitter, at: Site) -> Gradients:
    """dw = Σ g x r; dx = r (g w - x r² mean(g w x))."""
    x, w = at.operands
    axes = _trailing(x, w)
    square = b.mean(b.mul(x, x), axis=axes, keepdims=True)
    r = b.rsqrt(b.add(square, at.values["eps"]))
    scaled = at.g if w is None else b.mul(at.g, w)
    together = b.mean(b.mul(scaled, x), axis=axes, keepdims=True)
    inputs = b.mul(r, b.sub(scaled, b.mul(x, b.mul(b.mul(r, r), together))))
    if w is None:
        return [inputs, None]
    return [inputs, summed_to(b, b.mul(at.g, b.mul(x, r)), shape_of(w))]


@gradient("layer_norm")
@in_full
def layer_norm(b: Emitter, at: Site) -> Gradients:
    """dw = Σ g x̂; db = Σ g; dx = rstd (g w - mean(g w) - x̂ mean(g w x̂))."""
    x, w, bias = at.operands
    inputs, normal = _centred(b, x, at.g, w, _trailing(x, w), at.values["eps"])
    weights = None if w is None else summed_to(b, b.mul(at.g, normal), shape_of(w))
    return [inputs, weights, None if bias is None else summed_to(b, at.g, shape_of(bias))]


def _centred(
    b: Emitter, x: SSAValue, g: SSAValue, w: SSAValue | None, axes: Sequence[int], eps: float
) -> tuple[SSAValue, SSAValue]:
    """The gradient of x, and x normalised along axes."""
    centred = b.sub(x, b.mean(x, axis=axes, keepdims=True))
    variance = b.mean(b.mul(centred, centred), axis=axes, keepdims=True)
    scale = b.rsqrt(b.add(variance, eps))
    normal = b.mul(centred, scale)
    scaled = g if w is None else b.mul(g, w)
    level = b.mean(scaled, axis=axes, keepdims=True)
    along = b.mean(b.mul(scaled, normal), axis=axes, keepdims=True)
    return b.mul(scale, b.sub(b.sub(scaled, level), b.mul(normal, along))), normal


@gradient("group_norm")
@in_full
def group_norm(b: Emitter, at: Site) -> Gradients:
    """As layer_norm, with means over a group and sums for each channel."""
    x, w, bias = at.operands
    shape, groups = shape_of(x), at.values["groups"]
    channels = (groups, shape[1] // groups)
    split = (shape[0], *channels, *shape[2:])
    axes = tuple(range(2, len(split)))
    scale = None if w is None else b.reshape(w, (*channels, *(1,) * (len(shape) - 2)))
    g = b.reshape(at.g, split)
    inputs, normal = _centred(b, b.reshape(x, split), g, scale, axes, at.values["eps"])
    others = (0, *range(2, len(shape)))
    weights = None if w is None else b.sum(b.mul(at.g, b.reshape(normal, shape)), axis=others)
    return [
        b.reshape(inputs, shape),
        weights,
        None if bias is None else b.sum(at.g, axis=others),
    ]


@gradient("rope")
@in_full
def rope(b: Emitter, at: Site) -> Gradients:
    """The inverse rotation, with the same offset.

    To turn back is to mirror, to turn, and to mirror: the second element of each pair changes its
    sign before and after.
    """
    x, offset = at.operands
    head = at.values["head_dim"]
    numbers = np.arange(head)
    second = numbers % 2 == 1 if at.values["interleaved"] else numbers >= head // 2
    heads = shape_of(x)[-1] // head
    signs = np.tile(np.where(second, -1.0, 1.0), heads).astype(element_type_of(at.g).dtype)
    assert prod(signs.shape) == shape_of(x)[-1]
    mirror = b.constant_array(signs)
    return [b.mul(b.rope(b.mul(at.g, mirror), offset=offset, **at.values), mirror), None]
