"""More kernels that are bound by memory, for devices with much of it.

See `benchmarks.contests.cases`.
"""

import numpy as np

from benchmarks.contests.cases import Case


def rms_norm(rows: int, columns: int) -> Case:
    """RMS norm over rows."""
    return Case(
        f"rms_norm {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}], w: f32[{columns}]) "
        "{ return y = rms_norm(x, w, eps = 1e-5) }",
        {"x": (rows, columns), "w": (columns,)},
        lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w,
        lambda torch, x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-5),
        2 * 4 * rows * columns,
        4 * rows * columns,
        "copy",
        ("x",),
    )


def swiglu(rows: int, columns: int) -> Case:
    """`silu(a) * b`."""
    shape = (rows, columns)
    return Case(
        f"swiglu {rows}x{columns}",
        f"graph g(a: f32[{rows}, {columns}], b: f32[{rows}, {columns}]) "
        "{ return y = silu(a) * b }",
        {"a": shape, "b": shape},
        lambda a, b: a / (1 + np.exp(-a)) * b,
        lambda torch, a, b: torch.nn.functional.silu(a) * b,
        3 * 4 * rows * columns,
        4 * rows * columns,
        "copy",
        ("a", "b"),
    )


def _row_losses(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    high = x.max(-1, keepdims=True)
    sums = np.log(np.exp(x - high).sum(-1)) + high[:, 0]
    return sums - np.take_along_axis(x, labels.astype(np.int64)[:, None], 1)[:, 0]


def cross_entropy(rows: int, columns: int) -> Case:
    """The loss of every row."""
    return Case(
        f"cross_entropy {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}], t: i32[{rows}]) "
        '{ return y = cross_entropy(x, t, reduction = "none") }',
        {"x": (rows, columns), "t": (rows,)},
        _row_losses,
        lambda torch, x, t: torch.nn.functional.cross_entropy(x, t.long(), reduction="none"),
        4 * rows * (columns + 2),
        4 * rows * columns,
        "copy",
        ("x", "t"),
        {"t": columns},
    )


def transpose(rows: int, columns: int) -> Case:
    """A transposed copy."""
    return Case(
        f"transpose {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = x.T }}",
        {"x": (rows, columns)},
        lambda x: x.T,
        lambda torch, x: x.T.contiguous(),
        2 * 4 * rows * columns,
        0,
        "copy",
    )


def column_sum(rows: int, columns: int) -> Case:
    """Sums of the columns."""
    return Case(
        f"column sum {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = sum(x, axis = 0) }}",
        {"x": (rows, columns)},
        lambda x: x.sum(0),
        lambda torch, x: x.sum(0),
        4 * rows * columns + 4 * columns,
        rows * columns,
        "copy",
    )


def depthwise(batch: int, channels: int, size: int, window: int, precision: str = "f32") -> Case:
    """A depthwise convolution of square images that keep their size."""
    shape, sides = (batch, channels, size, size), window // 2
    image, bytes = f"[{batch}, {channels}, {size}, {size}]", 2 if precision == "bf16" else 4

    def summed(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        padded = np.pad(x, ((0, 0), (0, 0), (sides, sides), (sides, sides)))
        total = np.zeros_like(x)
        for down, across in np.ndindex(window, window):
            part = padded[:, :, down : down + size, across : across + size]
            total += part * w[:, 0, down, across, None, None]
        return total

    suffix = "" if precision == "f32" else f" {precision}"
    return Case(
        f"depthwise {window}x{window} {batch}x{channels}x{size}x{size}{suffix}",
        f"graph g(x: {precision}{image}, w: {precision}[{channels}, 1, {window}, {window}]) "
        f"{{ return y = conv2d(x, w, padding = {sides}, groups = {channels}) }}",
        {"x": shape, "w": (channels, 1, window, window)},
        summed,
        lambda torch, x, w: torch.nn.functional.conv2d(x, w, None, 1, sides, 1, channels),
        2 * bytes * batch * channels * size * size,
        2 * window * window * batch * channels * size * size,
        "copy",
        ("x",),
        precision=precision,
    )
