"""Normalisation by means and variances, and by norms."""

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


@define("BatchNormalization")
def batch_normalisation(c: Call) -> Any:
    """`batch_norm`; in training by the mean and variance of the batch"""
    x, b = c[0], c.b
    w, bias, mean, var = (c[number] for number in range(1, 5))
    eps = c.attribute("epsilon", 1e-5)
    training = c.attribute("training_mode", 0)
    if not training:
        parts = [_as(c, item, x) for item in (w, bias, mean, var)]
        return b.batch_norm(x, *parts, eps=eps)
    axes = [axis for axis in range(rank(x)) if axis != 1]
    own_mean, own_var = b.mean(x, axis=axes), b.var(x, axis=axes)
    keep = c.attribute("momentum", 0.9)
    parts = [_as(c, item, x) for item in (w, bias, own_mean, own_var)]
    next_mean = b.add(b.mul(mean, keep), b.mul(_as(c, own_mean, mean), 1 - keep))
    next_var = b.add(b.mul(var, keep), b.mul(_as(c, own_var, var), 1 - keep))
    return b.batch_norm(x, *parts, eps=eps), next_mean, next_var


def _as(c: Call, value: SSAValue, like: SSAValue) -> SSAValue:
    return value if element(value) == element(like) else c.b.cast(value, element(like).name)


@define("InstanceNormalization")
def instance_normalisation(c: Call) -> SSAValue:
    """`instance_norm`"""
    return c.b.instance_norm(c[0], c[1], c[2], eps=c.attribute("epsilon", 1e-5))


@define("LayerNormalization", since=17)
@define("LayerNormalization", domain="")
def layer_normalisation(c: Call) -> Any:
    """`layer_norm`"""
    return normalised(c, c[0], c[1], c.get(2))


def normalised(c: Call, x: SSAValue, w: SSAValue | None, bias: SSAValue | None) -> Any:
    """A value normalised over the axes from `axis` on, with the mean and 1 / deviation."""
    b, eps = c.b, c.attribute("epsilon", 1e-5)
    axis = c.axis(x, -1)
    tail = shape(x)[axis:]
    if w is not None and shape(w) == tail and (bias is None or shape(bias) == tail):
        more = [] if bias is None else [bias]
        found = b.layer_norm(x, w, *more, eps=eps)
    else:
        flat = b.reshape(x, [*shape(x)[:axis], prod(tail)])
        found = b.reshape(b.layer_norm(flat, eps=eps), list(shape(x)))
        found = b.mul(found, w) if w is not None else found
        found = b.add(found, bias) if bias is not None else found
    if not (c.wants(1) or c.wants(2)):
        return found
    wide = x if element(x).bits > 16 else b.cast(x, "f32")
    axes = list(range(axis, rank(x)))
    mean, var = (b.call(name, wide, axis=axes, keepdims=True) for name in ("mean", "var"))
    return found, mean, b.rsqrt(b.add(var, eps))


@define("RMSNormalization", since=23)
def rms_normalisation(c: Call) -> SSAValue:
    """`rms_norm`"""
    x, w, b = c[0], c[1], c.b
    axis, eps = c.axis(x, -1), c.attribute("epsilon", 1e-5)
    if shape(w) == shape(x)[axis:]:
        return b.rms_norm(x, w, eps=eps)
    flat = b.reshape(x, [*shape(x)[:axis], prod(shape(x)[axis:])])
    return b.mul(b.reshape(b.rms_norm(flat, eps=eps), list(shape(x))), w)


@define("GroupNormalization", since=18)
def group_normalisation_by_groups(c: Call) -> SSAValue:
    """`group_norm`, scale and bias given for each group"""
    groups, b = c.required("num_groups"), c.b
    each = shape(c[0])[1] // groups
    return _by_groups(c, b.repeat(c[1], each), b.repeat(c[2], each))


@define("GroupNormalization", since=21)
def group_normalisation(c: Call) -> SSAValue:
    """`group_norm`"""
    return _by_groups(c, c[1], c[2])


def _by_groups(c: Call, w: SSAValue, bias: SSAValue) -> SSAValue:
    eps = c.attribute("epsilon", 1e-5)
    return c.b.group_norm(c[0], w, bias, groups=c.required("num_groups"), eps=eps)


@define("LpNormalization")
def lp_normalisation(c: Call) -> SSAValue:
    """x divided by its norm along an axis; 0 where that is 0"""
    b, x, p = c.b, c[0], c.attribute("p", 2)
    axis = c.axis(x, -1)
    if p == 1:
        norm = b.sum(b.abs(x), axis=axis, keepdims=True)
    else:
        norm = b.sqrt(b.sum(b.mul(x, x), axis=axis, keepdims=True))
    zero = b.eq(norm, c.like(0, norm))
    return b.where(zero, c.like(0, x), b.div(x, b.where(zero, c.like(1, norm), norm)))


@define("MeanVarianceNormalization")
def mean_variance_normalisation(c: Call) -> SSAValue:
    """x less its mean, divided by its deviation"""
    b, x = c.b, c[0]
    axes = c.attribute("axes") or [0, 2, 3]
    centred = b.sub(x, b.mean(x, axis=axes, keepdims=True))
    deviation = b.sqrt(b.mean(b.mul(centred, centred), axis=axes, keepdims=True))
    return b.div(centred, b.add(deviation, 1e-9))
