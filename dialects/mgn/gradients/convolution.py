"""Gradients of convolutions: the input's is a transposed one, or windows that are laid on each
other where there are few; the weights' one product over batch and space of what came in as windows,
and of what came back.
"""

from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import in_single_precision, shape_of
from mgn.dialects.mgn.gradients.movement import added_windows
from mgn.dialects.mgn.gradients.reverse import through_decomposition
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient
from mgn.dialects.mgn.operations.images.convolution import AXIS_NAMES, window_places
from mgn.dialects.spatial import Ints, Pairs, padded, spans


@gradient("conv1d", "conv2d", "conv3d")
def of_axes(b: Emitter, at: Site) -> Gradients:
    """With the bias: the sum for each channel."""
    x, w, bias = at.operands
    if _is_empty(x, w):
        return through_decomposition(b, at)
    return [
        _of_input(b, at, x, w) if at.wants(0) else None,
        _of_weights(b, x, at.g, shape_of(w), **at.values) if at.wants(1) else None,
        None if bias is None else _of_bias(b, at.g),
    ]


@gradient("convolution")
def convolution(b: Emitter, at: Site) -> Gradients:
    """Without a bias."""
    x, w = at.operands
    if len(shape_of(x)) - 2 not in AXIS_NAMES or _is_empty(x, w):
        return through_decomposition(b, at)
    return [
        _of_input(b, at, x, w) if at.wants(0) else None,
        _of_weights(b, x, at.g, shape_of(w), **at.values) if at.wants(1) else None,
    ]


@gradient("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed(b: Emitter, at: Site) -> Gradients:
    """The convolution whose transpose it is, and its product with the parts exchanged."""
    x, w, bias = at.operands
    if _is_empty(x, w):
        return through_decomposition(b, at)
    how = {name: value for name, value in at.values.items() if name != "output_padding"}
    inputs = b.convolution(at.g, w, **how)
    if shape_of(inputs) != shape_of(x):
        inputs = b.slice(inputs, (0,) * len(shape_of(x)), shape_of(x))
    weights = _of_weights(b, at.g, x, shape_of(w), **how)
    return [inputs, weights, None if bias is None else _of_bias(b, at.g)]


def _is_empty(x: SSAValue, w: SSAValue) -> bool:
    """Whether there is nothing to be added up."""
    return 0 in (*shape_of(x), *shape_of(w))


def _of_bias(b: Emitter, g: SSAValue) -> SSAValue:
    return b.sum(g, axis=[i for i in range(len(shape_of(g))) if i != 1])


def _of_input(b: Emitter, at: Site, x: SSAValue, w: SSAValue) -> SSAValue:
    """A transposed convolution, with as much behind it as the windows did not reach.

    That transposes the weights. Where these have more columns than there are places, the windows'
    gradient is a product with the weights as they lie, and is laid on an image.
    """
    batch, filters, *places = shape_of(at.g)
    if at.values["groups"] == 1 and batch * prod(places) < filters:
        how = {name: at.values[name] for name in ("stride", "padding", "dilation")}
        return _by_windows(b, at.g, w, shape=shape_of(x), **how)
    stride, padding, dilation = (at.values[name] for name in ("stride", "padding", "dilation"))
    spatial, sizes, counts = shape_of(x)[2:], shape_of(w)[2:], shape_of(at.g)[2:]
    whole = zip(spatial, counts, stride, padding, spans(sizes, dilation), strict=True)
    missed = [n + low + high - (count - 1) * s - span for n, count, s, (low, high), span in whole]
    return b.call(
        f"conv_transpose{len(spatial)}d",
        at.g,
        w,
        stride=stride,
        padding=padding,
        output_padding=missed,
        dilation=dilation,
        groups=at.values["groups"],
    )


@in_single_precision
def _by_windows(
    b: Emitter,
    g: SSAValue,
    w: SSAValue,
    shape: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
) -> SSAValue:
    """An input's gradient of a shape `[N, C, …]`: g `[N·places, O]` times weights `[O, C·sizes]`
    are the gradients of windows.
    """
    batch, channels, *spatial = shape
    filters, _, *sizes = shape_of(w)
    counts = shape_of(g)[2:]
    axes = len(sizes)
    rows = b.transpose(g, (0, *range(2, 2 + axes), 1))
    rows = b.reshape(rows, (batch * prod(counts), filters))
    found = b.matmul(rows, b.reshape(w, (filters, channels * prod(sizes))))
    found = b.reshape(found, (batch, *counts, channels, *sizes))
    found = b.transpose(found, (0, 1 + axes, *range(1, 1 + axes), *range(2 + axes, 2 + 2 * axes)))
    whole = (batch, channels, *padded(spatial, padding))
    laid = added_windows(b, found, whole, tuple(sizes), stride, dilation)
    starts = (0, 0, *(low for low, _ in padding))
    stops = [start + n for start, n in zip(starts, shape, strict=True)]
    return b.slice(laid, starts, stops)


def _of_weights(
    b: Emitter,
    x: SSAValue,
    g: SSAValue,
    shape: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> SSAValue:
    """Weights of a shape `[O, C/groups, *sizes]`: for each group, g `[O, N·places]` times the
    windows of x `[C·sizes, N·places]` transposed.
    """
    out, each, *sizes = shape
    batch, channels, *_ = shape_of(x)
    counts = shape_of(g)[2:]
    axes = len(sizes)
    found = window_places(b, x, tuple(sizes), stride, padding, dilation)
    found = b.slice(found, (0,) * len(shape_of(found)), (batch, channels, *counts, *sizes))
    places, elements = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    if each == 1 and groups > 1:
        return _of_channels(b, b.transpose(found, (0, 1, *elements, *places)), g, shape)
    columns = b.transpose(found, (1, *elements, 0, *places))
    rows = b.transpose(g, (1, 0, *places))
    length = batch * prod(counts)
    group = (groups,) if groups > 1 else ()
    columns = b.reshape(columns, (*group, each * prod(sizes), length))
    rows = b.reshape(rows, (*group, out // groups, length))
    return b.reshape(b.matmul(rows, columns, transpose_b=True), shape)


def _of_channels(b: Emitter, found: SSAValue, g: SSAValue, shape: Ints) -> SSAValue:
    """Weights of one channel a group: windows `[N, C, *sizes, *places]` times g, added up."""
    batch, channels, *rest = shape_of(found)
    axes = len(rest) // 2
    sizes, counts = rest[:axes], rest[axes:]
    several = shape[0] // channels
    found = b.reshape(found, (batch, channels, 1, *sizes, *counts))
    given = b.reshape(g, (batch, channels, several, *(1,) * axes, *counts))
    summed = (0, *range(3 + axes, 3 + 2 * axes))
    return b.reshape(b.sum(b.mul(found, given), axis=summed), shape)
