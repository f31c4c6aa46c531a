"""The arithmetic of sliding windows: where they stand along axes, and what surrounds these.

In: sizes of axes and of windows, strides, dilation, padding as it was written. Out: one number, or
one pair, for each axis, or a `ShapeError`.
"""

from collections.abc import Sequence

from mgn.dialects.shapes import ShapeError

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def spread_over(numbers: Ints, axes: int, name: str, least: int = 1) -> Ints:
    """One number for each axis: a single one stands for all of them."""
    if len(numbers) not in (1, axes):
        raise ShapeError(f"{name} {list(numbers)} needs one number, or one for each of {axes} axes")
    if any(number < least for number in numbers):
        raise ShapeError(f"{name} must be {least} or more, not {min(numbers)}")
    return numbers * axes if len(numbers) != axes else numbers


def spans(sizes: Ints, dilation: Ints) -> Ints:
    """From the first to the last element of a window, both included."""
    return tuple((n - 1) * apart + 1 for n, apart in zip(sizes, dilation, strict=True))


def places(shape: Sequence[int], sizes: Ints, strides: Ints, dilation: Ints) -> Ints:
    """How many places a window has along each axis. ShapeError where it has none."""
    spread_over(sizes, len(sizes), "a window's size")
    rows = zip(shape, spans(sizes, dilation), strides, strict=True)
    return tuple(_places(whole, span, stride) for whole, span, stride in rows)


def _places(whole: int, span: int, stride: int) -> int:
    if span > whole:
        raise ShapeError(f"a window that spans {span} does not fit an axis of {whole}")
    return (whole - span) // stride + 1


def resolved_padding(
    padding: Pairs | str, shape: Sequence[int], sizes: Ints, strides: Ints, dilation: Ints
) -> Pairs:
    """A pair for each axis. "same" makes as many places as strides fit into an axis; where its sum
    is odd, the high side has one more, as in PyTorch and ONNX's SAME_UPPER.
    """
    if isinstance(padding, str):
        rows = zip(shape, spans(sizes, dilation), strides, strict=True)
        missing = [max((-(-n // step) - 1) * step + span - n, 0) for n, span, step in rows]
        return tuple((count // 2, count - count // 2) for count in missing)
    if len(padding) not in (0, 1, len(shape)):
        raise ShapeError(
            f"padding needs a number or a [low, high] pair, or one for each of {len(shape)} axes"
        )
    if any(side < 0 for pair in padding for side in pair):
        raise ShapeError("padding must not be negative; use slice to crop")
    padding = padding or ((0, 0),)
    return padding * len(shape) if len(padding) != len(shape) else padding


def padded(shape: Sequence[int], padding: Pairs) -> Ints:
    """The sizes of padded axes."""
    return tuple(n + low + high for n, (low, high) in zip(shape, padding, strict=True))
