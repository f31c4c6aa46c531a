"""Random calls of the operations that slide windows over images, or resize them.

In: an operation's name, a number. Out: `Drawn`, the shapes of its operands and its attributes. Axes
may be 1, batches and channels 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np

from tests.dialects import spatial_references as references

Array = np.ndarray


@dataclass(frozen=True)
class Drawn:
    """A call: operands' shapes, attributes, and by how many terms a result is added up."""

    shapes: list[tuple[int, ...]]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    terms: int = 1


def _kept(rng: Random, attributes: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """Attributes; defaults are written half of the time."""
    return {
        name: value
        for name, value in attributes.items()
        if value != defaults.get(name, "") or rng.random() < 0.5
    }


def _padding(rng: Random, axes: int, most: list[int]) -> Any:
    """Padding in one of the ways that it is written; sides up to `most` of each axis."""
    if rng.random() < 0.2:
        return rng.choice(("same", "valid"))
    if rng.random() < 0.3:
        return rng.randint(0, min(most))
    if rng.random() < 0.5:
        return [rng.randint(0, one) for one in most]
    return [[rng.randint(0, one), rng.randint(0, one)] for one in most]


def _stride(rng: Random, axes: int) -> Any:
    return rng.choice((1, 2, 3, [rng.randint(1, 3) for _ in range(axes)]))


def _extent(rng: Random, kernel: list[int], dilation: list[int]) -> list[int]:
    """Sizes of axes that windows fit without padding, as often as not just so."""
    return [
        d * (k - 1) + 1 + rng.choice((0, 0, 1, 2, 3, 5, 8))
        for k, d in zip(kernel, dilation, strict=True)
    ]


def _convolution(axes: int, transposed: bool) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        kernel = [rng.choice((1, 2, 3, 3, 5)) for _ in range(axes)]
        dilation = [rng.choice((1, 1, 2, 3)) for _ in range(axes)]
        stride = _stride(rng, axes)
        groups = rng.choice((1, 1, 2, 3))
        each, own = rng.choice((0, 1, 1, 2, 3)), rng.choice((1, 1, 2, 4))
        batch = rng.choice((1, 1, 2, 0) if rng.random() < 0.2 else (1, 2))
        sizes = _extent(rng, kernel, dilation)
        channels, out = each * groups, own * groups
        shapes: list[tuple[int, ...]] = [(batch, channels, *sizes)]
        shapes.append((channels, own, *kernel) if transposed else (out, each, *kernel))
        if rng.random() < 0.5:
            shapes.append((out,))
        attributes: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
        if transposed:
            steps = references.each_axis(stride, axes)
            most = [min(s, d) - 1 for s, d in zip(steps, dilation, strict=True)]
            attributes["output_padding"] = [rng.randint(0, one) for one in most]
            whole = [
                (n - 1) * s + d * (k - 1) + 1
                for n, s, k, d in zip(sizes, steps, kernel, dilation, strict=True)
            ]
            attributes["padding"] = _padding(rng, axes, [(n - 1) // 2 for n in whole])
            spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
            if attributes["padding"] == "same" and any(
                n < s for n, s in zip(spans, steps, strict=True)
            ):
                attributes["padding"] = 0
        else:
            attributes["padding"] = _padding(rng, axes, [3] * axes)
        terms = each * int(np.prod(kernel))
        plain = {"stride": 1, "padding": 0, "groups": 1}
        return Drawn(shapes, _kept(rng, attributes, **plain), max(terms, 1))

    return draw


def _any_convolution(rng: Random) -> Drawn:
    call = _convolution(rng.choice((1, 2, 3)), False)(rng)
    return Drawn(call.shapes[:2], call.attributes, call.terms)


def _pooling(axes: int, average: bool) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        kernel = [rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(axes)]
        dilation = [rng.choice((1, 1, 1, 2)) for _ in range(axes)]
        sizes = [n + rng.choice((0, 3, 17)) for n in _extent(rng, kernel, dilation)]
        attributes: dict[str, Any] = {
            "kernel": rng.choice((kernel, kernel, kernel[0])),
            "stride": rng.choice((None, _stride(rng, axes))),
            "dilation": dilation,
            "ceil_mode": rng.random() < 0.4,
        }
        if isinstance(attributes["kernel"], int):
            kernel = [kernel[0]] * axes
            sizes = [n + 6 for n in sizes]
        attributes["padding"] = _padding(rng, axes, [k // 2 for k in kernel])
        if average:
            attributes["count_include_pad"] = rng.random() < 0.5
        outer = (rng.choice((1, 2, 3)), rng.choice((1, 2, 5, 0)))
        plain = {"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True}
        return Drawn([(*outer, *sizes)], _kept(rng, attributes, **plain), int(np.prod(kernel)))

    return draw


def _image(rng: Random, axes: int, least: int = 1) -> tuple[int, ...]:
    sizes = [rng.choice((1, 2, 3, 5, 7, 8, 16)) + least - 1 for _ in range(axes)]
    return (rng.choice((1, 2)), rng.choice((1, 3, 4)), *sizes)


def _global(rng: Random) -> Drawn:
    shape = _image(rng, rng.choice((1, 2, 3)))
    return Drawn([shape], {}, int(np.prod(shape[2:])))


def _adaptive(rng: Random) -> Drawn:
    shape = _image(rng, 2)
    size = rng.choice((1, 2, [rng.randint(1, 9), rng.randint(1, 9)]))
    return Drawn([shape], {"size": size}, int(np.prod(shape[2:])))


def _upsample(rng: Random) -> Drawn:
    mode = rng.choice(("nearest", "bilinear"))
    axes = 2 if mode == "bilinear" else rng.choice((1, 2, 3))
    attributes: dict[str, Any] = {"mode": mode}
    if rng.random() < 0.4:
        attributes["scale"] = rng.choice((1, 2, 3, [rng.randint(1, 4) for _ in range(axes)]))
    else:
        attributes["size"] = [rng.randint(1, 17) for _ in range(axes)]
    if mode == "bilinear" and rng.random() < 0.5:
        attributes["align_corners"] = True
    return Drawn([_image(rng, axes)], attributes, 4)


def _pixels(back: bool) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        factor = rng.choice((1, 2, 2, 3))
        channels, height, width = (rng.choice((1, 2, 3, 5)) for _ in range(3))
        by = factor if back else 1
        size = (channels * (1 if back else factor**2), height * by, width * by)
        outer = tuple(rng.choice((1, 2)) for _ in range(rng.randint(0, 2)))
        return Drawn([(*outer, *size)], {"factor": factor})

    return draw


def _windows(rng: Random) -> Drawn:
    axes = rng.choice((1, 2, 3))
    sizes = [rng.choice((1, 2, 3, 4)) for _ in range(axes)]
    dilation = [rng.choice((1, 1, 2)) for _ in range(axes)]
    outer = tuple(rng.choice((1, 2, 0, 5)) for _ in range(rng.randint(0, 2)))
    shape = (*outer, *_extent(rng, sizes, dilation))
    attributes = {"sizes": sizes, "strides": _stride(rng, axes), "dilation": dilation}
    return Drawn([shape], _kept(rng, attributes, strides=1))


SPATIAL: dict[str, tuple[Callable[[Random], Drawn], Callable[..., Array]]] = {
    **{f"conv{axes}d": (_convolution(axes, False), references.convolution) for axes in (1, 2, 3)},
    **{
        f"conv_transpose{axes}d": (_convolution(axes, True), references.transposed_convolution)
        for axes in (1, 2, 3)
    },
    **{f"max_pool{axes}d": (_pooling(axes, False), references.pool(True)) for axes in (1, 2, 3)},
    **{f"avg_pool{axes}d": (_pooling(axes, True), references.pool(False)) for axes in (1, 2, 3)},
    "global_avg_pool": (
        _global,
        lambda x: x.mean(tuple(range(2, x.ndim)), keepdims=True),
    ),
    "global_max_pool": (
        _global,
        lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
    ),
    "adaptive_avg_pool2d": (_adaptive, references.adaptive),
    "adaptive_max_pool2d": (_adaptive, partial(references.adaptive, of_window=np.max)),
    "upsample": (_upsample, references.resized),
    "pixel_shuffle": (_pixels(False), references.shuffled_pixels),
    "pixel_unshuffle": (_pixels(True), references.unshuffled_pixels),
    "convolution": (_any_convolution, references.convolution),
    "windows": (_windows, references.windows_of),
}
"""How a call of each operation is drawn, and its value by plain loops."""


def drawn(name: str, number: int) -> Drawn:
    """The call of that number."""
    return SPATIAL[name][0](Random(f"{name} {number}"))
