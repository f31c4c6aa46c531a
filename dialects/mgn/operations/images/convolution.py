"""Convolutions: windows of the padded input, multiplied with weights as one matrix product.

A convolution of one channel a group is a sum over its windows instead. Half precision is summed in
f32 and rounded once, after the bias.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import INT, PADDING, SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, in_single_precision, shape_of
from mgn.dialects.mgn.operation import NUMERIC, AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError
from mgn.dialects.spatial import Ints, Pairs, padded, places, resolved_padding, spread_over
from mgn.dialects.types import element_of, tensor

SIGNATURE = (
    OperandSpec("x", NUMERIC),
    OperandSpec("w", NUMERIC),
    OperandSpec("b", NUMERIC, optional=True),
    AttributeSpec("stride", SHAPE, 1),
    AttributeSpec("padding", PADDING, 0),
    AttributeSpec("dilation", SHAPE, 1),
    AttributeSpec("groups", INT, 1),
)
PLAIN = (*SIGNATURE[:2], *SIGNATURE[3:])
"""The same without a bias."""

AXIS_NAMES = {1: "[N, C, L]", 2: "[N, C, H, W]", 3: "[N, C, D, H, W]"}


def check_ranks(x: TensorType, w: TensorType, axes: int) -> None:
    """Raises ShapeError where an image or weights have another number of axes."""
    for name, type in (("x", x), ("w", w)):
        if len(type.get_shape()) != axes + 2:
            wanted = AXIS_NAMES.get(axes, "") if name == "x" else f"of rank {axes + 2}"
            raise ShapeError(f"{name} must be {wanted}, not {list(type.get_shape())}")


def check_groups(channels: int, out: int, groups: int) -> None:
    """Raises ShapeError where groups do not divide the channels."""
    if groups < 1 or channels % groups or out % groups:
        raise ShapeError(f"{groups} groups do not divide {channels} channels into {out}")


def check_bias(b: TensorType | None, channels: int) -> None:
    """Raises ShapeError where a bias is no vector of the channels."""
    if b is not None and b.get_shape() != (channels,):
        raise ShapeError(f"b must be [{channels}], not {list(b.get_shape())}")


def _canonical(
    x: TensorType,
    w: TensorType,
    stride: Ints,
    padding: Pairs | str,
    dilation: Ints,
    groups: int,
) -> Mapping[str, Any]:
    axes = len(x.get_shape()) - 2
    if axes < 1 or len(w.get_shape()) != axes + 2:
        return {}
    stride, dilation = spread_over(stride, axes, "stride"), spread_over(dilation, axes, "dilation")
    spatial, sizes = x.get_shape()[2:], w.get_shape()[2:]
    resolved = resolved_padding(padding, spatial, sizes, stride, dilation)
    return {"stride": stride, "padding": resolved, "dilation": dilation}


def _canonical_of_axes(
    x: TensorType, w: TensorType, b: TensorType | None, **how: Any
) -> Mapping[str, Any]:
    return _canonical(x, w, **how)


def _infer(
    x: TensorType,
    w: TensorType,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> TensorType:
    axes = len(x.get_shape()) - 2
    if axes < 1:
        raise ShapeError(f"x must be [N, C, …], not {list(x.get_shape())}")
    check_ranks(x, w, axes)
    (batch, channels, *spatial), (out, each, *sizes) = x.get_shape(), w.get_shape()
    check_groups(channels, out, groups)
    if each != channels // groups:
        raise ShapeError(
            f"w must be [{out}, {channels // groups}, …] for {channels} channels in {groups} "
            f"groups, not {list(w.get_shape())}"
        )
    counts = places(padded(spatial, padding), tuple(sizes), stride, dilation)
    return tensor(element_of(x), [batch, out, *counts])


def _infer_of_axes(axes: int) -> Any:
    def infer(x: TensorType, w: TensorType, b: TensorType | None, **how: Any) -> TensorType:
        check_ranks(x, w, axes)
        check_bias(b, w.get_shape()[0])
        return _infer(x, w, **how)

    return infer


def _convolve(
    b: Emitter,
    x: SSAValue,
    w: SSAValue,
    bias: SSAValue | None,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> SSAValue:
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return b.convolution(x, w, **how) if bias is None else _affine(b, x, w, bias, **how)


@in_single_precision
def _affine(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue, **how: Any) -> SSAValue:
    ones = (1,) * len(how["stride"])
    return b.add(b.convolution(x, w, **how), b.reshape(bias, (*shape_of(bias), *ones)))


@composite("convolution", PLAIN, _infer, canonical=_canonical)
def convolution(
    b: Emitter,
    x: SSAValue,
    w: SSAValue,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> SSAValue:
    """`y = convolution(x, w, stride = 1, padding = 1)`: what conv1d, conv2d and conv3d are, but for
    the bias.

    Shape: x `[N, C, …]` and w `[O, C/groups, …]` with as many axes give `[N, O, …]`. Half precision
    is summed in f32 and rounded once. Errors: those of conv2d.
    """
    found = window_places(b, x, shape_of(w)[2:], stride, padding, dilation)
    return weighted_windows(b, found, w, groups)


def window_places(
    b: Emitter, x: SSAValue, sizes: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> SSAValue:
    """Windows of x, padded with zeros: `[N, C, *places, *sizes]`. Those of one element are a slice
    of x.
    """
    x = surrounded(b, x, padding)
    if any(size != 1 for size in sizes):
        return b.windows(x, sizes, stride, dilation)
    shape = shape_of(x)
    outer = len(shape) - len(sizes)
    if any(step != 1 for step in stride):
        x = b.slice(x, (0,) * len(shape), shape, (*(1,) * outer, *stride))
    return b.reshape(x, (*shape_of(x), *sizes))


def surrounded(b: Emitter, x: SSAValue, padding: Pairs, value: float = 0.0) -> SSAValue:
    """x with its last axes padded."""
    if not any(side for pair in padding for side in pair):
        return x
    outer = ((0, 0),) * (len(shape_of(x)) - len(padding))
    return b.pad(x, (*outer, *padding), value)


def elements_first(b: Emitter, found: SSAValue, axes: int) -> SSAValue:
    """Windows with the axes of their elements before those of their places, which neighbours in
    memory differ in.
    """
    elements = range(2 + axes, 2 + 2 * axes)
    return b.transpose(found, (0, 1, *elements, *range(2, 2 + axes)))


def weighted_windows(b: Emitter, found: SSAValue, w: SSAValue, groups: int) -> SSAValue:
    """Windows `[N, C, *places, *sizes]` weighted by `[O, C/groups, *sizes]` and added up:
    `[N, O, *places]`.
    """
    depthwise = groups == shape_of(found)[1] and groups > 1
    return _sums(b, found, w, groups=groups) if depthwise else _product(b, found, w, groups)


def _product(b: Emitter, found: SSAValue, w: SSAValue, groups: int) -> SSAValue:
    """Weights times windows: `[O, C·sizes] @ [N, C·sizes, places]`, groups as a batch axis."""
    out, each, *sizes = shape_of(w)
    axes = len(sizes)
    batch, _, *rest = shape_of(found)
    counts, depth = rest[:axes], each * prod(sizes)
    columns = elements_first(b, found, axes)
    group = (groups,) if groups > 1 else ()
    outer = group if batch == 1 else (batch, *group)
    columns = b.reshape(columns, (*outer, depth, prod(counts)))
    rows = b.reshape(w, (*group, out // groups, depth))
    return b.reshape(b.matmul(rows, columns), (batch, out, *counts))


@in_single_precision
def _sums(b: Emitter, found: SSAValue, w: SSAValue, groups: int) -> SSAValue:
    """Each channel's windows, weighted and added up."""
    out, _, *sizes = shape_of(w)
    axes, each = len(sizes), out // groups
    batch, channels, *rest = shape_of(found)
    several = (each,) if each > 1 else ()
    found = elements_first(b, found, axes)
    if several:
        found = b.reshape(found, (batch, channels, 1, *shape_of(found)[2:]))
    weights = b.reshape(w, (channels, *several, *sizes, *(1,) * axes))
    first = 2 + len(several)
    total = b.sum(b.mul(found, weights), axis=tuple(range(first, first + axes)))
    return b.reshape(total, (batch, out, *rest[:axes])) if several else total


def _example(axes: int, sizes: str) -> str:
    return (
        f"`y = conv{axes}d(x, w, b, stride = 1, padding = 1)`: x {AXIS_NAMES[axes]} with weights "
        f"`[O, C/groups, {sizes}]`, as PyTorch and ONNX have it."
    )


_DETAILS = """

Shape: `[N, O, …]` with as many places as the windows have; b `[O]` may be left out. padding: one
number, one for each axis, `[[low, high], …]`, "same" or "valid". Half precision is summed in f32
and rounded once. Errors: groups that do not divide the channels, a window that does not fit."""

for _axes, _sizes in ((1, "k"), (2, "kh, kw"), (3, "kd, kh, kw")):
    _convolve.__doc__ = _example(_axes, _sizes) + _DETAILS
    composite(f"conv{_axes}d", SIGNATURE, _infer_of_axes(_axes), canonical=_canonical_of_axes)(
        _convolve
    )
