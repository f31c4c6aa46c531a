"""Operators that move elements: views, axes, parts, joins, borders.

In: a value, sizes and axes. Out: the same elements at other places; there are no views in mgn, so
that a view and its copy are the same.
"""

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.frontend.torch.elementwise import in_element
from mgn.frontend.torch.table import (
    Call,
    Operand,
    Unsupported,
    as_element,
    aten,
    axes_of,
    axis_of,
    broadcasted,
    reshaped,
    swapped,
    transposed,
)


@aten("view", "_unsafe_view", "reshape", "view_copy", "_reshape_copy", "flatten.using_ints")
@aten("unsqueeze", "unsqueeze_copy", "squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dim")
@aten("unflatten.int", "view_as", "_reshape_alias")
def reshape(b: Emitter, call: Call, x: SSAValue, *rest: Any, **named: Any) -> SSAValue:
    """The elements in their order, on the axes of the result."""
    return reshaped(b, x, call.shape)


@aten("permute", "permute_copy")
def permute(b: Emitter, call: Call, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The axes in another order."""
    rank = len(shape_of(x))
    return transposed(b, x, [axis_of(axis, rank) for axis in dims])


@aten("transpose.int", "transpose_copy.int")
def transpose(b: Emitter, call: Call, x: SSAValue, first: int, second: int) -> SSAValue:
    """Two axes change places."""
    rank = len(shape_of(x))
    if not rank:
        return x
    return transposed(b, x, swapped(rank, axis_of(first, rank), axis_of(second, rank)))


@aten("t", "t_copy", "numpy_T", "mT")
def t(b: Emitter, call: Call, x: SSAValue) -> SSAValue:
    """The two axes change places."""
    rank = len(shape_of(x))
    return x if rank < 2 else transposed(b, x, swapped(rank, rank - 2, rank - 1))


@aten("expand", "expand_copy", "broadcast_to", "expand_as")
def expand(b: Emitter, call: Call, x: SSAValue, *rest: Any, **named: Any) -> SSAValue:
    """Repeated along axes of size 1."""
    return broadcasted(b, x, call.shape)


def part_of(b: Emitter, x: SSAValue, axis: int, start: int, stop: int, step: int = 1) -> SSAValue:
    """The elements from start to stop along one axis."""
    shape = shape_of(x)
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    starts = [start if i == axis else 0 for i in range(len(shape))]
    stops = [stop if i == axis else size for i, size in enumerate(shape)]
    steps = [step if i == axis else 1 for i in range(len(shape))]
    return b.slice(x, starts, stops, steps)


def bounds(start: int | None, stop: int | None, size: int) -> tuple[int, int]:
    """A slice's bounds, as Python takes them."""
    first, last, _ = slice(start, stop).indices(size)
    return first, max(first, last)


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_along(
    b: Emitter,
    call: Call,
    x: SSAValue,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> SSAValue:
    """The elements from start to end along one axis."""
    axis = axis_of(dim, len(shape_of(x)))
    return part_of(b, x, axis, *bounds(start, end, shape_of(x)[axis]), step)


@aten("narrow")
def narrow(b: Emitter, call: Call, x: SSAValue, dim: int, start: int, length: int) -> SSAValue:
    """So many elements from a start on, along one axis."""
    axis = axis_of(dim, len(shape_of(x)))
    first = axis_of(start, shape_of(x)[axis])
    return part_of(b, x, axis, first, first + length)


@aten("select.int", "select_copy.int")
def select(b: Emitter, call: Call, x: SSAValue, dim: int, index: int) -> SSAValue:
    """The elements at one index of an axis."""
    axis = axis_of(dim, len(shape_of(x)))
    place = axis_of(index, shape_of(x)[axis])
    return reshaped(b, part_of(b, x, axis, place, place + 1), call.shape)


@aten("slice_scatter")
def slice_scatter(
    b: Emitter,
    call: Call,
    x: SSAValue,
    src: SSAValue,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> SSAValue:
    """x with a part of it replaced."""
    axis = axis_of(dim, len(shape_of(x)))
    first, last = bounds(start, end, shape_of(x)[axis])
    src = as_element(b, src, call.element)
    if first == last:
        return x
    count = -(-(last - first) // step)
    shape = [count if i == axis else size for i, size in enumerate(shape_of(x))]
    src = broadcasted(b, src, shape)
    return _with_part(b, x, _among(b, x, src, axis, first, last, step), axis, first)


def _among(
    b: Emitter, x: SSAValue, src: SSAValue, axis: int, first: int, last: int, step: int
) -> SSAValue:
    """The part of x from the first place to the last one replaced, each step-th of src."""
    whole = (last - first) // step
    if step == 1 or not whole:
        return src
    shape = shape_of(x)
    head, tail = shape[:axis], shape[axis + 1 :]
    runs = part_of(b, x, axis, first, first + whole * step)
    runs = reshaped(b, runs, (*head, whole, step, *tail))
    begun = reshaped(b, part_of(b, src, axis, 0, whole), (*head, whole, 1, *tail))
    runs = b.concat([begun, part_of(b, runs, axis + 1, 1, step)], axis=axis + 1)
    part = reshaped(b, runs, (*head, whole * step, *tail))
    if shape_of(src)[axis] == whole:
        return part
    return b.concat([part, part_of(b, src, axis, whole, whole + 1)], axis=axis)


@aten("select_scatter")
def select_scatter(
    b: Emitter, call: Call, x: SSAValue, src: SSAValue, dim: int, index: int
) -> SSAValue:
    """x with what is at one index of an axis replaced."""
    axis = axis_of(dim, len(shape_of(x)))
    shape = [1 if i == axis else size for i, size in enumerate(shape_of(x))]
    src = reshaped(b, as_element(b, src, call.element), shape)
    return _with_part(b, x, src, axis, axis_of(index, shape_of(x)[axis]))


def _with_part(b: Emitter, x: SSAValue, part: SSAValue, axis: int, first: int) -> SSAValue:
    size, last = shape_of(x)[axis], first + shape_of(part)[axis]
    pieces = [part]
    if first:
        pieces.insert(0, part_of(b, x, axis, 0, first))
    if last < size:
        pieces.append(part_of(b, x, axis, last, size))
    return pieces[0] if len(pieces) == 1 else b.concat(pieces, axis=axis)


@aten("cat", "concat")
def cat(b: Emitter, call: Call, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    """One after the other along an axis; what has no elements and one axis is left out."""
    parts = [as_element(b, x, call.element) for x in tensors if shape_of(x) != (0,)]
    if not parts:
        return as_element(b, tensors[0], call.element)
    axis = axis_of(dim, len(call.shape))
    return parts[0] if len(parts) == 1 else b.concat(parts, axis=axis)


@aten("stack")
def stack(b: Emitter, call: Call, tensors: Sequence[SSAValue], dim: int = 0) -> SSAValue:
    """Side by side along a new axis."""
    parts = [as_element(b, x, call.element) for x in tensors]
    return b.stack(parts, axis=axis_of(dim, len(call.shape)))


@aten("split_with_sizes", "split_with_sizes_copy", "split.Tensor", "split.sizes", "chunk")
@aten("tensor_split.sections")
def split(
    b: Emitter, call: Call, x: SSAValue, sizes: Any = None, dim: int = 0, **named: Any
) -> list[SSAValue]:
    """Parts along an axis, of the sizes that the results have."""
    axis = axis_of(dim, len(shape_of(x)))
    parts: list[SSAValue] = []
    place = 0
    for result in call.results:
        assert result is not None
        size = result[1][axis]
        parts.append(part_of(b, x, axis, place, place + size))
        place += size
    return parts


@aten("unbind.int", "unbind_copy.int")
def unbind(b: Emitter, call: Call, x: SSAValue, dim: int = 0) -> list[SSAValue]:
    """What is at each index of an axis."""
    shape = shape_of(x)
    axis = axis_of(dim, len(shape))
    rest = [size for i, size in enumerate(shape) if i != axis]
    return [reshaped(b, part_of(b, x, axis, i, i + 1), rest) for i in range(shape[axis])]


@aten("repeat", "tile")
def repeat(b: Emitter, call: Call, x: SSAValue, repeats: Sequence[int]) -> SSAValue:
    """Laid side by side."""
    return b.tile(x, tuple(repeats)) if repeats else x


@aten("repeat_interleave.self_int")
def repeat_interleave(
    b: Emitter, call: Call, x: SSAValue, repeats: int, dim: int | None = None, **named: Any
) -> SSAValue:
    """Each element several times."""
    axis = None if dim is None else axis_of(dim, len(shape_of(x)))
    return b.repeat(x, repeats, axis=axis)


@aten("flip")
def flip(b: Emitter, call: Call, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The other way round along axes."""
    return b.flip(x, axis=axes_of(list(dims), len(shape_of(x)))) if dims else x


@aten("roll")
def roll(
    b: Emitter, call: Call, x: SSAValue, shifts: Sequence[int], dims: Sequence[int] = ()
) -> SSAValue:
    """Moved along axes; what leaves one end comes in at the other."""
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    if not dims:
        flat = _rolled(b, b.reshape(x, (-1,)), shifts[0], 0)
        return reshaped(b, flat, call.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(b, x, shift, axis_of(dim, len(shape_of(x))))
    return x


def _rolled(b: Emitter, x: SSAValue, shift: int, axis: int) -> SSAValue:
    size = shape_of(x)[axis]
    place = -shift % size if size else 0
    if not place:
        return x
    return b.concat([part_of(b, x, axis, place, size), part_of(b, x, axis, 0, place)], axis=axis)


def sides(padding: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """What is added on both sides of each axis; PyTorch begins with the last one."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    return [(0, 0)] * (rank - len(pairs)) + [(low, high) for low, high in reversed(pairs)]


@aten("constant_pad_nd")
def constant_pad(
    b: Emitter, call: Call, x: SSAValue, pad: Sequence[int], value: Operand = 0
) -> SSAValue:
    """Surrounded by a value; a negative border takes away."""
    around = sides(pad, len(shape_of(x)))
    for axis, (low, high) in enumerate(around):
        x = part_of(b, x, axis, max(-low, 0), shape_of(x)[axis] - max(-high, 0))
    added = [[max(low, 0), max(high, 0)] for low, high in around]
    if not any(map(any, added)):
        return x
    number = in_element(b, value, call.element)
    if isinstance(number, SSAValue):
        raise Unsupported("padding with a tensor")
    return b.pad(x, added, value=float(number))


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(b: Emitter, call: Call, x: SSAValue, padding: Sequence[int]) -> SSAValue:
    """Surrounded by itself, mirrored at its borders."""
    rank = len(shape_of(x))
    for axis, (low, high) in enumerate(sides(padding, rank)):
        size = shape_of(x)[axis]
        pieces = [x]
        if low:
            pieces.insert(0, b.flip(part_of(b, x, axis, 1, low + 1), axis=(axis,)))
        if high:
            pieces.append(b.flip(part_of(b, x, axis, size - 1 - high, size - 1), axis=(axis,)))
        x = x if len(pieces) == 1 else b.concat(pieces, axis=axis)
    return x


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(b: Emitter, call: Call, x: SSAValue, padding: Sequence[int]) -> SSAValue:
    """Surrounded by its own borders."""
    rank = len(shape_of(x))
    for axis, (low, high) in enumerate(sides(padding, rank)):
        size = shape_of(x)[axis]
        pieces = [x]
        for at, count, place in ((0, low, 0), (len(pieces), high, size - 1)):
            if count:
                shape = [count if i == axis else n for i, n in enumerate(shape_of(x))]
                border = broadcasted(b, part_of(b, x, axis, place, place + 1), shape)
                pieces.insert(0 if at == 0 else len(pieces), border)
        x = x if len(pieces) == 1 else b.concat(pieces, axis=axis)
    return x


@aten("pixel_shuffle")
def pixel_shuffle(b: Emitter, call: Call, x: SSAValue, upscale_factor: int) -> SSAValue:
    """Blocks of channels as squares of pixels."""
    return b.pixel_shuffle(x, upscale_factor)


@aten("pixel_unshuffle")
def pixel_unshuffle(b: Emitter, call: Call, x: SSAValue, downscale_factor: int) -> SSAValue:
    """Squares of pixels as channels of their own."""
    return b.pixel_unshuffle(x, downscale_factor)


@aten("unfold", "unfold_copy")
def unfold(b: Emitter, call: Call, x: SSAValue, dimension: int, size: int, step: int) -> SSAValue:
    """Windows that slide along an axis, on a new last axis."""
    rank = len(shape_of(x))
    axis = axis_of(dimension, rank)
    order = [*(i for i in range(rank) if i != axis), axis]
    seen = b.windows(transposed(b, x, order), (size,), (step,))
    back = [*(order.index(i) for i in range(rank)), rank]
    return transposed(b, seen, back)


@aten("tril", "triu")
def triangle(b: Emitter, call: Call, x: SSAValue, diagonal: int = 0) -> SSAValue:
    """x on one side of a diagonal, 0 on the other."""
    return b.call("tril" if "tril" in call.name else "triu", x, k=diagonal)


@aten("diagonal", "diagonal_copy")
def diagonal(
    b: Emitter, call: Call, x: SSAValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> SSAValue:
    """The elements on a diagonal of two axes, on a new last axis: every (columns + 1)st one."""
    rank = len(shape_of(x))
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    rest = [i for i in range(rank) if i not in (first, second)]
    x = transposed(b, x, [*rest, first, second])
    outer = shape_of(x)[:-2]
    count = call.shape[-1]
    if not count:
        return b.full(call.shape, 0, T=call.element)
    row, column = max(-offset, 0), max(offset, 0)
    x = part_of(b, part_of(b, x, rank - 2, row, row + count), rank - 1, column, column + count)
    flat = b.reshape(x, (*outer, count * count))
    return part_of(b, flat, rank - 2, 0, count * count, count + 1)
