"""Transposed convolutions: what a convolution of one channel of results would send back.

A stride cuts the result into phases: every stride-th element, which a small convolution of stride 1
computes of a part of the weights. No zeros are put between elements of the input, and none is
multiplied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, in_single_precision, shape_of
from mgn.dialects.mgn.operation import AttributeSpec
from mgn.dialects.mgn.operations.images.convolution import (
    AXIS_NAMES,
    SIGNATURE,
    check_bias,
    check_groups,
    check_ranks,
    surrounded,
    weighted_windows,
)
from mgn.dialects.shapes import ShapeError
from mgn.dialects.spatial import Ints, Pairs, resolved_padding, spans, spread_over
from mgn.dialects.types import element_of, tensor

TRANSPOSED = (*SIGNATURE[:5], AttributeSpec("output_padding", SHAPE, 0), *SIGNATURE[5:])
"""The signature of a convolution, and what its result is longer by at its end."""


def _canonical(
    x: TensorType,
    w: TensorType,
    b: TensorType | None,
    stride: Ints,
    padding: Pairs | str,
    output_padding: Ints,
    dilation: Ints,
    groups: int,
) -> Mapping[str, Any]:
    axes = len(x.get_shape()) - 2
    if axes < 1 or len(w.get_shape()) != axes + 2:
        return {}
    stride, dilation = spread_over(stride, axes, "stride"), spread_over(dilation, axes, "dilation")
    extra = spread_over(output_padding, axes, "output_padding", least=0)
    for more, step, apart in zip(extra, stride, dilation, strict=True):
        if more >= max(step, apart):
            raise ShapeError("output_padding must be less than the stride or the dilation")
    if isinstance(padding, str):
        whole = spans(tuple(w.get_shape()[2:]), dilation)
        missing = [n - step + more for n, step, more in zip(whole, stride, extra, strict=True)]
        if min(missing) < 0:
            raise ShapeError('padding "same" needs windows that span a stride')
        padding = tuple((count // 2, count - count // 2) for count in missing)
    resolved = resolved_padding(padding, x.get_shape()[2:], stride, stride, dilation)
    return {
        "stride": stride,
        "padding": resolved,
        "output_padding": extra,
        "dilation": dilation,
    }


def _infer(axes: int) -> Any:
    def infer(
        x: TensorType,
        w: TensorType,
        b: TensorType | None,
        stride: Ints,
        padding: Pairs,
        output_padding: Ints,
        dilation: Ints,
        groups: int,
    ) -> TensorType:
        check_ranks(x, w, axes)
        (batch, channels, *spatial), (own, each, *sizes) = x.get_shape(), w.get_shape()
        if own != channels:
            raise ShapeError(f"w must be [{channels}, O/groups, …], not {list(w.get_shape())}")
        check_groups(channels, each * groups, groups)
        check_bias(b, each * groups)
        spread_over(tuple(sizes), axes, "a window's size")
        rows = zip(
            spatial, stride, padding, spans(tuple(sizes), dilation), output_padding, strict=True
        )
        counts = [
            (n - 1) * step - low - high + span + more for n, step, (low, high), span, more in rows
        ]
        if min(counts) < 1:
            raise ShapeError(f"the result would have axes of {counts}")
        return tensor(element_of(x), [batch, each * groups, *counts])

    return infer


@dataclass(frozen=True)
class _Phases:
    """Neighbouring phases of one axis that take as many elements of the weights each: those from
    `first` on, every `apart`-th, of `count` phases. Element t of their windows is `spread` elements
    of the input after the one before; the last one is `back` elements before the phase's own.
    """

    count: int
    taps: int
    first: int
    apart: int
    spread: int
    back: int


def _phases(size: int, stride: int, dilation: int) -> list[_Phases]:
    """The phases of an axis in order: result q·stride + r, for each r below the stride."""
    step = gcd(stride, dilation)
    apart, spread = stride // step, dilation // step
    found: list[_Phases] = []
    for phase in range(stride):
        starts = [k for k in range(min(apart, size)) if k * dilation % stride == phase]
        first = starts[0] if starts else 0
        taps = len(range(first, size, apart)) if starts else 0
        back = (first * dilation - phase) // stride if starts else 0
        last = found[-1] if found else None
        if last and (last.taps, last.back) == (taps, back) and last.first + last.count == first:
            found[-1] = _Phases(last.count + 1, taps, last.first, apart, spread, back)
        else:
            found.append(_Phases(1, taps, first, apart, spread, back))
    return found


@in_single_precision
def _transposed(
    b: Emitter,
    x: SSAValue,
    w: SSAValue,
    bias: SSAValue | None,
    stride: Ints,
    padding: Pairs,
    output_padding: Ints,
    dilation: Ints,
    groups: int,
) -> SSAValue:
    (batch, _, *spatial), (_, each, *sizes) = shape_of(x), shape_of(w)
    out = each * groups
    rows = zip(spatial, stride, padding, spans(tuple(sizes), dilation), output_padding, strict=True)
    counts = [
        (n - 1) * step - low - high + span + more for n, step, (low, high), span, more in rows
    ]
    skipped = [low // step for (low, _), step in zip(padding, stride, strict=True)]
    ends = zip(padding, counts, stride, skipped, strict=True)
    own = [-(-(low + count) // step) - first for (low, _), count, step, first in ends]
    phases = [_phases(*row) for row in zip(sizes, stride, dilation, strict=True)]
    parts: dict[tuple[int, ...], SSAValue] = {}
    for numbers in product(*(range(len(found)) for found in phases)):
        chosen = [found[number] for found, number in zip(phases, numbers, strict=True)]
        found = (
            _of_phases(b, x, w, chosen, skipped, own, groups)
            if all(one.taps for one in chosen)
            else b.full(
                (batch, out, *(one.count for one in chosen), *own), 0.0, T=element_type_of(x)
            )
        )
        parts[numbers] = found
    whole = _joined(b, parts, [len(found) for found in phases])
    axes = len(spatial)
    order = [axis for n in range(axes) for axis in (2 + axes + n, 2 + n)]
    whole = b.transpose(whole, (0, 1, *order))
    whole = b.reshape(whole, (batch, out, *(n * step for n, step in zip(own, stride, strict=True))))
    rest = [low % step for (low, _), step in zip(padding, stride, strict=True)]
    stops = [low + count for low, count in zip(rest, counts, strict=True)]
    result = b.slice(whole, (0, 0, *rest), (batch, out, *stops))
    return result if bias is None else b.add(result, b.reshape(bias, (out, *(1,) * axes)))


def _of_phases(
    b: Emitter,
    x: SSAValue,
    w: SSAValue,
    chosen: Sequence[_Phases],
    skipped: Sequence[int],
    own: Sequence[int],
    groups: int,
) -> SSAValue:
    """The results of some phases, `[N, O, *phases, *places]`."""
    batch, channels, *spatial = shape_of(x)
    axes, each = len(spatial), shape_of(w)[1]
    starts = [
        first - one.back - (one.taps - 1) * one.spread
        for first, one in zip(skipped, chosen, strict=True)
    ]
    ends = [
        first - one.back + count for first, one, count in zip(skipped, chosen, own, strict=True)
    ]
    crops = [
        (max(low, 0), min(high, n)) for low, high, n in zip(starts, ends, spatial, strict=True)
    ]
    if any(low >= high for low, high in crops):
        shape = (batch, each * groups, *(one.count for one in chosen), *own)
        return b.full(shape, 0.0, T=element_type_of(x))
    lows, highs = zip(*crops, strict=True)
    x = b.slice(x, (0, 0, *lows), (batch, channels, *highs))
    sides = zip(starts, lows, ends, highs, strict=True)
    x = surrounded(b, x, tuple((low - start, end - high) for start, low, end, high in sides))
    sizes, ones = tuple(one.taps for one in chosen), (1,) * axes
    found = b.windows(x, sizes, ones, tuple(one.spread for one in chosen))
    phases = tuple(one.count for one in chosen)
    rows = each * groups * prod(phases)
    weights = b.reshape(_weights(b, w, chosen, groups), (rows, channels // groups, *sizes))
    result = weighted_windows(b, found, weights, groups)
    return b.reshape(result, (batch, each * groups, *phases, *own))


def _weights(b: Emitter, w: SSAValue, chosen: Sequence[_Phases], groups: int) -> SSAValue:
    """The weights of some phases: `[groups, O/groups, *phases, C/groups, *elements]`."""
    channels, each, *_ = shape_of(w)
    axes = len(chosen)
    firsts = [one.first for one in chosen]
    stops = [one.first + one.count + (one.taps - 1) * one.apart for one in chosen]
    w = b.slice(w, (0, 0, *firsts), (channels, each, *stops))
    sizes, ones = tuple(one.taps for one in chosen), (1,) * axes
    w = b.windows(w, sizes, ones, tuple(one.apart for one in chosen))
    w = b.flip(w, tuple(range(2 + axes, 2 + 2 * axes)))
    w = b.reshape(w, (groups, channels // groups, *shape_of(w)[1:]))
    phases, elements = range(3, 3 + axes), range(3 + axes, 3 + 2 * axes)
    return b.transpose(w, (0, 2, *phases, 1, *elements))


def _joined(b: Emitter, parts: dict[tuple[int, ...], SSAValue], counts: list[int]) -> SSAValue:
    """The parts side by side along the axes of their phases."""
    for axis in reversed(range(len(counts))):
        numbers = list(product(*(range(count) for count in counts[:axis])))
        rows = [[parts[(*outer, n)] for n in range(counts[axis])] for outer in numbers]
        joined = [b.concat(row, axis=2 + axis) if len(row) > 1 else row[0] for row in rows]
        parts = dict(zip(numbers, joined, strict=True))
    return parts[()]


_DETAILS = """

Shape: `[N, O, …]`, each axis `(n - 1)·stride - low - high + dilation·(k - 1) + 1 + output_padding`;
b `[O]` may be left out. padding is that of the convolution whose transpose this is, and takes away;
"same" makes n·stride. Half precision is summed in f32 and rounded once. Errors: groups that do not
divide the channels, an output_padding above both stride and dilation, an empty result."""

for _axes, _sizes in ((1, "k"), (2, "kh, kw"), (3, "kd, kh, kw")):
    _transposed.__doc__ = (
        f"`y = conv_transpose{_axes}d(x, w, b, stride = 2)`: x {AXIS_NAMES[_axes]} with weights "
        f"`[C, O/groups, {_sizes}]`, the transpose of a convolution, as PyTorch and ONNX have it."
        + _DETAILS
    )
    composite(f"conv_transpose{_axes}d", TRANSPOSED, _infer(_axes), canonical=_canonical)(
        _transposed
    )
