"""Gradients of norms, as AOT autograd leaves them.

In: the gradient of the normalised value, the value, and the statistics that the forward graph kept.
Out: the gradients of the value, of the weight and of the bias; None for what is not asked for.

With `n = (x - mean)·rstd` and `s = grad·weight`, the gradient of x is `rstd·(s - mean(s) -
n·mean(s·n))`, the means over what was normalised together.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.frontend.torch.normalisation import channel_line, inverse_deviation
from mgn.frontend.torch.table import Call, as_element, aten

Asked = list[SSAValue | None]


def through_statistics(
    b: Emitter, sent: SSAValue, normal: SSAValue, rstd: SSAValue, axes: Sequence[int]
) -> SSAValue:
    """What a normalised value sends back to the value."""
    mean = b.mean(sent, axis=tuple(axes), keepdims=True)
    along = b.mul(normal, b.mean(b.mul(sent, normal), axis=tuple(axes), keepdims=True))
    return b.mul(rstd, b.sub(b.sub(sent, mean), along))


def statistics_element(value: SSAValue) -> ElementType:
    """The element type that a gradient of a norm is computed in: that of the statistics, or f32
    where they are narrower, as PyTorch has them of values in bf16.
    """
    found = element_type_of(value)
    return ELEMENT_TYPES["f32"] if found.bits == 16 else found


def asked(b: Emitter, call: Call, mask: Sequence[bool], values: Sequence[SSAValue]) -> Asked:
    """Those gradients that are asked for."""
    return [value if wanted else None for value, wanted in zip(values, mask, strict=True)]


@aten("native_layer_norm_backward")
def layer_norm_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    normalized_shape: Sequence[int],
    mean: SSAValue,
    rstd: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    output_mask: Sequence[bool],
) -> Asked:
    """Normalised together: the trailing axes."""
    rank = len(shape_of(x))
    first = rank - len(normalized_shape)
    wide = statistics_element(mean)
    sent, value, mean, rstd = (as_element(b, item, wide) for item in (grad, x, mean, rstd))
    normal = b.mul(b.sub(value, mean), rstd)
    scaled = sent if weight is None else b.mul(sent, as_element(b, weight, wide))
    of_x = through_statistics(b, scaled, normal, rstd, range(first, rank))
    of_weight, of_bias = b.mul(sent, normal), sent
    if first:
        rows = tuple(range(first))
        of_weight, of_bias = (
            b.sum(item, axis=rows, keepdims=False) for item in (of_weight, of_bias)
        )
    return asked(b, call, output_mask, (of_x, of_weight, of_bias))


@aten("native_group_norm_backward")
def group_norm_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    mean: SSAValue,
    rstd: SSAValue,
    weight: SSAValue | None,
    samples: int,
    channels: int,
    places: int,
    group: int,
    output_mask: Sequence[bool],
) -> Asked:
    """Normalised together: a group of channels of a sample."""
    wide = statistics_element(mean)
    shape = (samples, group, channels // group, places)
    sent, value = (b.reshape(as_element(b, item, wide), shape) for item in (grad, x))
    own = (samples, group, 1, 1)
    middle, deviation = (b.reshape(as_element(b, item, wide), own) for item in (mean, rstd))
    normal = b.mul(b.sub(value, middle), deviation)
    scaled = sent
    if weight is not None:
        line = b.reshape(as_element(b, weight, wide), (1, group, channels // group, 1))
        scaled = b.mul(sent, line)
    of_x = b.reshape(through_statistics(b, scaled, normal, deviation, (2, 3)), shape_of(x))
    of_weight, of_bias = (
        b.reshape(b.sum(item, axis=(0, 3), keepdims=False), (channels,))
        for item in (b.mul(sent, normal), sent)
    )
    return asked(b, call, output_mask, (of_x, of_weight, of_bias))


@aten("native_batch_norm_backward")
def batch_norm_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    x: SSAValue,
    weight: SSAValue | None,
    running_mean: SSAValue | None,
    running_var: SSAValue | None,
    save_mean: SSAValue | None,
    save_invstd: SSAValue | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Asked:
    """Normalised together: a channel of all samples; out of training, the statistics are given."""
    mean, rstd = save_mean, save_invstd
    if not train:
        assert running_mean is not None and running_var is not None
        mean, rstd = running_mean, inverse_deviation(b, running_var, eps)
    assert mean is not None and rstd is not None
    axes = tuple(axis for axis in range(len(shape_of(x))) if axis != 1)
    wide = statistics_element(mean)
    sent, value, mean, rstd = (as_element(b, item, wide) for item in (grad, x, mean, rstd))
    deviation = channel_line(b, rstd, x)
    normal = b.mul(b.sub(value, channel_line(b, mean, x)), deviation)
    scaled = sent
    if weight is not None:
        scaled = b.mul(sent, channel_line(b, as_element(b, weight, wide), x))
    of_x = (
        through_statistics(b, scaled, normal, deviation, axes)
        if train
        else b.mul(scaled, deviation)
    )
    of_weight = b.sum(b.mul(sent, normal), axis=axes, keepdims=False)
    of_bias = b.sum(sent, axis=axes, keepdims=False)
    return asked(b, call, output_mask, (of_x, of_weight, of_bias))


@aten("_weight_norm_interface_backward")
def weight_norm_backward(
    b: Emitter,
    call: Call,
    grad: SSAValue,
    v: SSAValue,
    g: SSAValue,
    norms: SSAValue,
    dim: int,
) -> list[SSAValue]:
    """Of a weight `v·g/|v|`, its norms over all axes but one: the gradients of v and of g."""
    wide = statistics_element(norms)
    sent, value, scale, norm = (as_element(b, item, wide) for item in (grad, v, g, norms))
    rank = len(shape_of(v))
    axes = tuple(axis for axis in range(rank) if axis != dim % rank)
    product = b.mul(sent, value)
    of_scale = b.div(b.sum(product, axis=axes, keepdims=True) if axes else product, norm)
    along = b.mul(value, b.div(of_scale, norm))
    return [b.mul(b.div(scale, norm), b.sub(sent, along)), of_scale]
