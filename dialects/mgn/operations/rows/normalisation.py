"""Normalisation composites: softmax and the norms, along axes that stay in place (keepdims).

Half precision is computed in f32, statistics, scale and bias included, and rounded once.
"""

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import FLOAT, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, in_single_precision, shape_of
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, Neutral, OperandSpec
from mgn.dialects.shapes import ShapeError, normalise_axis

X = OperandSpec("x", FLOATS)
WEIGHT = OperandSpec("w", FLOATS, optional=True, neutral=Neutral(1.0, "b"))
BIAS = OperandSpec("b", FLOATS, optional=True)
EPS = AttributeSpec("eps", FLOAT, 1e-5)
SOFTMAX = (X, AttributeSpec("axis", INT, -1))


def _canonical_axis(x: TensorType, axis: int) -> Mapping[str, Any]:
    return {"axis": normalise_axis(axis, len(x.get_shape()))}


def _infer_same(x: TensorType, axis: int) -> TensorType:
    return x


@composite("softmax", SOFTMAX, _infer_same, canonical=_canonical_axis)
@in_single_precision
def softmax(b: Emitter, x: SSAValue, axis: int) -> SSAValue:
    """`y = softmax(x, axis = -1)`: exp(x) over its sum along an axis.

    Shape: that of x. The maximum is subtracted first. A row of -inf gives nan, as in PyTorch.
    """
    shifted = b.exp(b.sub(x, b.max_reduce(x, axis=axis, keepdims=True)))
    return b.div(shifted, b.sum(shifted, axis=axis, keepdims=True))


@composite("log_softmax", SOFTMAX, _infer_same, canonical=_canonical_axis)
@in_single_precision
def log_softmax(b: Emitter, x: SSAValue, axis: int) -> SSAValue:
    """`y = log_softmax(x, axis = -1)`: log(softmax(x)), without cancellation.

    Shape: that of x. A row of -inf gives nan, as in PyTorch.
    """
    centred = b.sub(x, b.max_reduce(x, axis=axis, keepdims=True))
    return b.sub(centred, b.log(b.sum(b.exp(centred), axis=axis, keepdims=True)))


def _affine(b: Emitter, x: SSAValue, w: SSAValue | None, bias: SSAValue | None) -> SSAValue:
    scaled: SSAValue = x if w is None else b.mul(x, w)
    return scaled if bias is None else b.add(scaled, bias)


def _centre_and_scale(b: Emitter, x: SSAValue, axes: tuple[int, ...], eps: float) -> SSAValue:
    centred = b.sub(x, b.mean(x, axis=axes, keepdims=True))
    variance = b.mean(b.mul(centred, centred), axis=axes, keepdims=True)
    return b.mul(centred, b.rsqrt(b.add(variance, eps)))


def _infer_trailing(
    x: TensorType, w: TensorType | None, b: TensorType | None = None, *, eps: float
) -> TensorType:
    shape = x.get_shape()
    if not shape:
        raise ShapeError("a norm needs rank 1 or more")
    for name, type in (("w", w), ("b", b)):
        if type is None:
            continue
        size = type.get_shape()
        if not size or shape[len(shape) - len(size) :] != size or len(size) > len(shape):
            raise ShapeError(f"{name} has shape {list(size)}, which does not end {list(shape)}")
    if w is not None and b is not None and w.get_shape() != b.get_shape():
        raise ShapeError("w and b have different shapes")
    return x


def _trailing_axes(x: SSAValue, w: SSAValue | None) -> tuple[int, ...]:
    rank = len(shape_of(x))
    return tuple(range(rank - (1 if w is None else len(shape_of(w))), rank))


@composite("layer_norm", (X, WEIGHT, BIAS, EPS), _infer_trailing)
@in_single_precision
def layer_norm(
    b: Emitter, x: SSAValue, w: SSAValue | None, bias: SSAValue | None, eps: float
) -> SSAValue:
    """`y = layer_norm(x, w, b, eps = 1e-5)`: (x - mean) / sqrt(var + eps)·w + b over trailing axes.

    Shape: that of x. The axes are those of w, or the last one without w; w and b may be left out.
    Error: w or b that is not the end of x's shape. Ba, Kiros, Hinton 2016 (arXiv:1607.06450).
    """
    return _affine(b, _centre_and_scale(b, x, _trailing_axes(x, w), eps), w, bias)


@composite("rms_norm", (X, WEIGHT, EPS), _infer_trailing)
@in_single_precision
def rms_norm(b: Emitter, x: SSAValue, w: SSAValue | None, eps: float) -> SSAValue:
    """`y = rms_norm(x, w, eps = 1e-5)`: x / sqrt(mean(x²) + eps)·w over trailing axes.

    Shape: that of x. The axes are those of w, or the last one without w.
    Error: w that is not the end of x's shape. Zhang, Sennrich 2019 (arXiv:1910.07467).
    """
    square = b.mean(b.mul(x, x), axis=_trailing_axes(x, w), keepdims=True)
    return _affine(b, b.mul(x, b.rsqrt(b.add(square, eps))), w, None)


def _infer_channels(x: TensorType, *parameters: TensorType | None, **_: Any) -> TensorType:
    shape = x.get_shape()
    if len(shape) < 2:
        raise ShapeError("x must be [N, C, …]")
    for type in parameters:
        if type is not None and type.get_shape() != (shape[1],):
            raise ShapeError(f"expected a vector of {shape[1]} channels, not {type.get_shape()}")
    return x


def _infer_group_norm(
    x: TensorType, *parameters: TensorType | None, groups: int, eps: float
) -> Any:
    result = _infer_channels(x, *parameters)
    if groups < 1 or x.get_shape()[1] % groups:
        raise ShapeError(f"{x.get_shape()[1]} channels do not divide into {groups} groups")
    return result


def normalised_groups(
    b: Emitter,
    x: SSAValue,
    w: SSAValue | None,
    bias: SSAValue | None,
    groups: int,
    eps: float,
    axis: int,
) -> SSAValue:
    """Each group of channels of each sample normalised; the channels lie along an axis of x."""
    shape = shape_of(x)
    channels = (groups, shape[axis] // groups)
    grouped = b.reshape(x, (*shape[:axis], *channels, *shape[axis + 1 :]))
    reduced = [n for n in range(1, len(shape) + 1) if n != axis]
    normal = _centre_and_scale(b, grouped, tuple(reduced), eps)
    ones = (1,) * (len(shape) - 1 - axis)
    scale = None if w is None else b.reshape(w, (*channels, *ones))
    shift = None if bias is None else b.reshape(bias, (*channels, *ones))
    return b.reshape(_affine(b, normal, scale, shift), shape)


@composite("group_norm", (X, WEIGHT, BIAS, AttributeSpec("groups", INT), EPS), _infer_group_norm)
@in_single_precision
def group_norm(
    b: Emitter, x: SSAValue, w: SSAValue | None, bias: SSAValue | None, groups: int, eps: float
) -> SSAValue:
    """`y = group_norm(x, w, b, groups = 8, eps = 1e-5)`: each group of channels of each sample
    normalised.

    Shape: that of x, `[N, C, …]`; w and b are `[C]`. Error: groups that do not divide C.
    Wu, He 2018 (arXiv:1803.08494).
    """
    return normalised_groups(b, x, w, bias, groups, eps, 1)


def _infer_instance_norm(x: TensorType, *parameters: TensorType | None, eps: float) -> Any:
    if len(x.get_shape()) < 3:
        raise ShapeError("x must be [N, C, …] with axes after the channels")
    return _infer_channels(x, *parameters)


@composite("instance_norm", (X, WEIGHT, BIAS, EPS), _infer_instance_norm)
def instance_norm(
    b: Emitter, x: SSAValue, w: SSAValue | None, bias: SSAValue | None, eps: float
) -> SSAValue:
    """`y = instance_norm(x, w, b, eps = 1e-5)`: each channel of each sample normalised.

    Shape: that of x, `[N, C, …]`; w and b are `[C]`, and may be left out. Ulyanov, Vedaldi,
    Lempitsky 2016 (arXiv:1607.08022).
    """
    return b.group_norm(x, w, bias, groups=max(shape_of(x)[1], 1), eps=eps)


@composite(
    "batch_norm",
    (
        X,
        OperandSpec("w", FLOATS),
        OperandSpec("b", FLOATS),
        OperandSpec("mean", FLOATS),
        OperandSpec("var", FLOATS),
        EPS,
    ),
    _infer_channels,
)
@in_single_precision
def batch_norm(
    b: Emitter,
    x: SSAValue,
    w: SSAValue,
    bias: SSAValue,
    mean: SSAValue,
    var: SSAValue,
    eps: float,
) -> SSAValue:
    """`y = batch_norm(x, w, b, mean, var, eps = 1e-5)`: (x - mean) / sqrt(var + eps)·w + b per
    channel.

    Shape: that of x, `[N, C, …]`; the others are `[C]`. Ioffe, Szegedy 2015 (arXiv:1502.03167).
    """
    channels = (shape_of(x)[1], *(1,) * (len(shape_of(x)) - 2))
    scale = b.mul(w, b.rsqrt(b.add(var, eps)))
    centred = b.sub(x, b.reshape(mean, channels))
    return b.add(b.mul(centred, b.reshape(scale, channels)), b.reshape(bias, channels))
