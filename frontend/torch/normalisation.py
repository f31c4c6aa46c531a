"""Norms and softmax.

In: values with weights, or none. Out: mgn's norms where the operator is one, with the statistics
beside it that PyTorch keeps for the gradient.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.torch.table import Call, Unsupported, as_element, aten, axis_of, reshaped

EPS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


@aten("softmax.int", "_softmax", "_safe_softmax", "log_softmax.int", "_log_softmax")
def softmax(
    b: Emitter, call: Call, x: SSAValue, dim: int, half_to_float: Any = False, **named: Any
) -> SSAValue:
    """Softmax and its logarithm; the safe one gives zeros where all is -inf."""
    value = as_element(b, x, call.element)
    if not shape_of(value):
        return b.full((), 0.0 if "log" in call.name else 1.0, T=call.element)
    axis = axis_of(dim, len(shape_of(value)))
    if "log" in call.name:
        return b.log_softmax(value, axis=axis)
    found = b.softmax(value, axis=axis)
    if "safe" not in call.name:
        return found
    hidden = b.eq(b.max_reduce(value, axis=axis, keepdims=True), float("-inf"))
    return b.where(hidden, 0.0, found)


def inverse_deviation(b: Emitter, variance: SSAValue, eps: float) -> SSAValue:
    """1 / sqrt(variance + eps)."""
    return b.rsqrt(b.add(variance, float(eps)))


def statistics(
    b: Emitter, x: SSAValue, axes: Sequence[int], eps: float, keepdims: bool
) -> tuple[SSAValue, SSAValue]:
    """The mean and the inverse deviation over axes, in f32 or wider."""
    wide = as_element(b, x, ELEMENT_TYPES["f32"]) if element_type_of(x).bits == 16 else x
    mean = b.mean(wide, axis=tuple(axes), keepdims=keepdims)
    variance = b.var(wide, axis=tuple(axes), keepdims=keepdims)
    return mean, inverse_deviation(b, variance, eps)


def alike(b: Emitter, x: SSAValue, *weights: SSAValue | None) -> list[Any]:
    """A value and its weights in one element type: in f32 where they have several, as under
    autocast.
    """
    given = [x, *weights]
    kinds = {element_type_of(item) for item in given if item is not None}
    if len(kinds) == 1:
        return given
    wide = ELEMENT_TYPES["f32"]
    return [None if item is None else as_element(b, item, wide) for item in given]


def normalised_layer(
    b: Emitter,
    x: SSAValue,
    shape: Sequence[int],
    weight: SSAValue | None,
    bias: SSAValue | None,
    eps: float,
) -> SSAValue:
    """Normalised over the trailing axes of a shape."""
    x, weight, bias = alike(b, x, weight, bias)
    if weight is None and len(shape) > 1:
        flat = b.reshape(x, (*shape_of(x)[: -len(shape)], -1))
        found = b.reshape(b.layer_norm(flat, eps=eps), shape_of(x))
        return found if bias is None else b.add(found, bias)
    if weight is None and bias is not None:
        return b.add(b.layer_norm(x, eps=eps), bias)
    return b.layer_norm(x, weight, bias, eps=eps)


@aten("layer_norm", "native_layer_norm")
def layer_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    normalized_shape: Sequence[int],
    weight: SSAValue | None = None,
    bias: SSAValue | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """Normalised over trailing axes; with the statistics where PyTorch keeps them."""
    found = normalised_layer(b, x, normalized_shape, weight, bias, eps)
    if len(call.results) == 1:
        return found
    rank = len(shape_of(x))
    axes = range(rank - len(normalized_shape), rank)
    return found, *statistics(b, x, axes, eps, keepdims=True)


@aten("rms_norm", "_fused_rms_norm")
def rms_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    normalized_shape: Sequence[int],
    weight: SSAValue | None = None,
    eps: float | None = None,
) -> Any:
    """Divided by the root of the mean square over trailing axes."""
    if eps is None:
        eps = EPS[element_type_of(x).name]
    x, weight = alike(b, x, weight)
    if weight is None and len(normalized_shape) > 1:
        flat = b.reshape(x, (*shape_of(x)[: -len(normalized_shape)], -1))
        found = b.reshape(b.rms_norm(flat, eps=eps), shape_of(x))
    else:
        found = b.rms_norm(x, weight, eps=eps)
    if len(call.results) == 1:
        return found
    rank = len(shape_of(x))
    axes = tuple(range(rank - len(normalized_shape), rank))
    wide = as_element(b, x, ELEMENT_TYPES["f32"]) if element_type_of(x).bits == 16 else x
    return found, inverse_deviation(b, b.mean(b.mul(wide, wide), axis=axes, keepdims=True), eps)


@aten("group_norm")
def group_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    num_groups: int,
    weight: SSAValue | None = None,
    bias: SSAValue | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> SSAValue:
    """Each group of channels of each sample normalised."""
    return normalised_groups(b, x, weight, bias, num_groups, eps)


def normalised_groups(
    b: Emitter,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    groups: int,
    eps: float,
) -> SSAValue:
    """Each group of channels of each sample normalised; a bias may come without a weight."""
    x, weight, bias = alike(b, x, weight, bias)
    if weight is None and bias is not None:
        line = b.reshape(bias, (-1, *[1] * (len(shape_of(x)) - 2)))
        return b.add(b.group_norm(x, groups=groups, eps=eps), line)
    return b.group_norm(x, weight, bias, groups=groups, eps=eps)


@aten("native_group_norm")
def native_group_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    samples: int,
    channels: int,
    places: int,
    group: int,
    eps: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The same with the statistics of each group."""
    found = normalised_groups(b, x, weight, bias, group, eps)
    flat = b.reshape(x, (samples, group, channels // group * places))
    return found, *statistics(b, flat, (2,), eps, keepdims=False)


def channel_line(b: Emitter, value: SSAValue, x: SSAValue) -> SSAValue:
    """A number for each channel, as an operand beside `x[N, C, …]`."""
    return b.reshape(value, (-1, *[1] * (len(shape_of(x)) - 2)))


def normalised_channels(
    b: Emitter,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue,
    variance: SSAValue,
    eps: float,
) -> SSAValue:
    """Each channel normalised by given statistics."""
    channels, element = shape_of(mean), element_type_of(mean)
    scale: SSAValue = b.full(channels, 1.0, T=element) if weight is None else weight
    offset: SSAValue = b.full(channels, 0.0, T=element) if bias is None else bias
    given = (scale, offset, mean, variance)
    if element_type_of(x) == element_type_of(mean) == element_type_of(scale):
        return b.batch_norm(x, *given, eps=eps)
    wide = [as_element(b, item, ELEMENT_TYPES["f32"]) for item in (x, *given)]
    return b.cast(b.batch_norm(*wide, eps=eps), element_type_of(x))


@aten("_native_batch_norm_legit_no_training")
def batch_norm_in_inference(
    b: Emitter,
    call: Call,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue,
    variance: SSAValue,
    momentum: float,
    eps: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """By the running statistics; nothing is kept."""
    found = normalised_channels(b, x, weight, bias, mean, variance, eps)
    kept = [b.full(item[1], 0.0, T=item[0]) for item in call.results[1:] if item is not None]
    return found, kept[0], kept[1]


@aten("_native_batch_norm_legit_functional")
def batch_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    mean: SSAValue,
    variance: SSAValue,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[SSAValue, ...]:
    """By the statistics of the batch, with those, and with the running ones as they are next; out
    of training by the running ones.
    """
    if not training:
        found = normalised_channels(b, x, weight, bias, mean, variance, eps)
        empty = [b.full(item[1], 0.0, T=item[0]) for item in call.results[1:3] if item is not None]
        return found, *empty, mean, variance
    found, own, deviation, spread = _normalised_batch(b, x, weight, bias, eps)
    count = 1
    for axis, size in enumerate(shape_of(x)):
        count *= 1 if axis == 1 else size
    unbiased = b.mul(spread, count / max(count - 1, 1))
    following = [
        b.add(b.mul(old, 1 - momentum), b.mul(as_element(b, new, element_type_of(old)), momentum))
        for old, new in ((mean, own), (variance, unbiased))
    ]
    return found, own, deviation, *following


def _normalised_batch(
    b: Emitter, x: SSAValue, weight: SSAValue | None, bias: SSAValue | None, eps: float
) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """x normalised by its own statistics; its mean, its inverse deviation, its variance."""
    axes = tuple(axis for axis in range(len(shape_of(x))) if axis != 1)
    wide = as_element(b, x, ELEMENT_TYPES["f32"]) if element_type_of(x).bits == 16 else x
    mean = b.mean(wide, axis=axes, keepdims=False)
    spread = b.var(wide, axis=axes, keepdims=False)
    found = normalised_channels(b, x, weight, bias, mean, spread, eps)
    return found, mean, inverse_deviation(b, spread, eps), spread


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    b: Emitter,
    call: Call,
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """By the statistics of the batch."""
    if not training:
        raise Unsupported("batch norm without statistics")
    found, mean, deviation, _ = _normalised_batch(b, x, weight, bias, eps)
    return found, mean, deviation


@aten("linalg_vector_norm")
def vector_norm(
    b: Emitter,
    call: Call,
    x: SSAValue,
    order: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    **named: Any,
) -> SSAValue:
    """The norm of vectors: the root of the sum of squares, the sum or the largest of the sizes."""
    axes = None if dim is None else tuple([dim] if isinstance(dim, int) else dim) or None
    value = as_element(b, x, call.element)
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdim}
    if order == 2:
        return reshaped(b, b.sqrt(b.sum(b.mul(value, value), **options)), call.shape)
    if order == 1:
        return b.sum(b.abs(value), **options)
    if order == float("inf"):
        return b.max_reduce(b.abs(value), **options)
    raise Unsupported(f"a norm of order {order:g}")


@aten("_cdist_forward")
def distances(
    b: Emitter, call: Call, x: SSAValue, y: SSAValue, order: float, compute_mode: int | None = None
) -> SSAValue:
    """The norm of the difference of each row of x and each of y."""
    rank = len(shape_of(x))
    between = b.sub(b.expand_dims(x, rank - 1), b.expand_dims(y, rank - 2))
    return vector_norm(b, call, between, order, -1)


@aten("_weight_norm_interface")
def weight_norm(
    b: Emitter, call: Call, v: SSAValue, g: SSAValue, dim: int = 0
) -> tuple[SSAValue, SSAValue]:
    """A weight `v·g/|v|`, and its norms `|v|`, each over all axes but one; of values in 16 bits in
    f32, as in PyTorch.
    """
    wide = ELEMENT_TYPES["f32"] if element_type_of(v).bits == 16 else element_type_of(v)
    value, scale = (as_element(b, item, wide) for item in (v, g))
    rank = len(shape_of(v))
    axes = tuple(axis for axis in range(rank) if axis != axis_of(dim, rank))
    norms = b.abs(value)
    if axes:
        norms = b.sqrt(b.sum(b.mul(value, value), axis=axes, keepdims=True))
    return b.mul(value, b.div(scale, norms)), norms
