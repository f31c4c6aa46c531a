"""Signals: Fourier transforms as products with matrices, and filters that are known."""

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


@define("DFT", since=17)
def dft(c: Call) -> SSAValue:
    """`matmul` with sines and cosines"""
    x = c[0]
    axis = c.attribute("axis", 1) if c.version < 20 else int(c.number(2, -2))
    axis = normalise_axis(axis, rank(x))
    length = c.number(1, shape(x)[axis])
    inverse, onesided = bool(c.attribute("inverse", 0)), bool(c.attribute("onesided", 0))
    if inverse and onesided:
        return _real_inverse(c, x, axis, int(length if c.get(1) else 2 * shape(x)[axis] - 2))
    return _transformed(c, x, axis, int(length), inverse, onesided)


def _transformed(
    c: Call, x: SSAValue, axis: int, length: int, inverse: bool, onesided: bool
) -> SSAValue:
    """The transform of `[…, n, …, 1 or 2]` along an axis; the last axis is real and imaginary."""
    b, size = c.b, shape(x)[axis]
    used = min(size, length)
    count = length // 2 + 1 if onesided else length
    angles = np.outer(np.arange(used), np.arange(count)) * (2 * np.pi / length)
    factor = 1 / length if inverse else 1.0
    real, imaginary = np.cos(angles) * factor, np.sin(angles) * factor * (1 if inverse else -1)
    stops = [used if place == axis else item for place, item in enumerate(shape(x))]
    cut = b.slice(x, starts=[0] * rank(x), stops=stops)
    others = [place for place in range(rank(x)) if place not in (axis, rank(x) - 1)]
    perm = [*others, axis, rank(x) - 1]
    moved = b.transpose(cut, perm=perm)
    parts = shape(x)[-1]
    flat = b.reshape(moved, [*(shape(x)[place] for place in others), used * parts])
    matrix = np.zeros((used, parts, count, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = real, imaginary
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -imaginary, real
    weights = c.constant(matrix.reshape(used * parts, count * 2), element(x).dtype)
    found = b.matmul(b.expand_dims(flat, -2), weights)
    whole = b.reshape(found, [*shape(flat)[:-1], count, 2])
    return b.transpose(whole, perm=[perm.index(place) for place in range(rank(x))])


def _real_inverse(c: Call, x: SSAValue, axis: int, length: int) -> SSAValue:
    """The real values `[…, n, …, 1]` of the half of a transform along an axis."""
    b, used = c.b, min(shape(x)[axis], length // 2 + 1)
    stops = [used if place == axis else item for place, item in enumerate(shape(x))]
    cut = b.slice(x, starts=[0] * rank(x), stops=stops)
    places = np.arange(used)
    weight = np.where((places == 0) | (2 * places == length), 1.0, 2.0) / length
    angles = np.outer(np.arange(length), places) * (2 * np.pi / length)
    matrix = np.stack([np.cos(angles) * weight, -np.sin(angles) * weight], axis=-1)
    others = [place for place in range(rank(x) - 1) if place != axis]
    perm = [*others, axis, rank(x) - 1]
    flat = b.reshape(b.transpose(cut, perm=perm), [*(shape(x)[place] for place in others), -1, 1])
    weights = c.constant(matrix.reshape(length, used * 2), element(x).dtype)
    found = b.matmul(weights, flat)
    return b.transpose(found, perm=[perm.index(place) for place in range(rank(x))])


@define("STFT", since=17)
def stft(c: Call) -> SSAValue:
    """`windows` of the signal, and the transform of each"""
    x, b = c[0], c.b
    step = int(c.number(1))
    window = c.get(2)
    length = int(c.number(3, shape(window)[0] if window is not None else None))
    parts = shape(x)[2] if rank(x) == 3 else 1
    flat = b.transpose(b.reshape(x, [shape(x)[0], shape(x)[1], parts]), perm=[0, 2, 1])
    frames = b.windows(flat, sizes=[length], strides=[step])
    if window is not None:
        less = length - shape(window)[0]
        if less:
            window = b.pad(window, [[less // 2, less - less // 2]], 0.0)
        frames = b.mul(frames, window)
    frames = b.transpose(frames, perm=[0, 2, 3, 1])
    return _transformed(c, frames, 2, length, False, bool(c.attribute("onesided", 1)))


@define("MelWeightMatrix", since=17)
def mel_weight_matrix(c: Call) -> SSAValue:
    """a constant"""
    bins, length, rate = (int(c.number(number)) for number in range(3))
    low, high = float(c.number(3)), float(c.number(4))
    spectrum = length // 2 + 1
    edges = 2595 * np.log10(1 + np.array([low, high]) / 700)
    step = (edges[1] - edges[0]) / (bins + 2)
    mels = np.arange(bins + 2) * step + edges[0]
    places = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    matrix = np.zeros((spectrum, bins))
    for number in range(bins):
        first, centre, last = places[number : number + 3]
        if centre == first:
            matrix[centre, number] = 1
        else:
            for place in range(first, centre + 1):
                matrix[place, number] = (place - first) / (centre - first)
        for place in range(centre, last):
            matrix[place, number] = (last - place) / (last - centre)
    return c.constant(matrix, c.dtype("output_datatype", np.float32).dtype)
