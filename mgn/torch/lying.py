"""How tensors lie in memory.

In: a tensor of known sizes. Out: its sizes and strides as numbers, and the order of its axes.
"""

from collections.abc import Sequence
from math import prod
from typing import Any


def numbers(like: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides of a tensor."""
    return tuple(map(int, like.shape)), tuple(map(int, like.stride()))


def plain_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array of these sizes."""
    return tuple(prod(max(size, 1) for size in sizes[axis + 1 :]) for axis in range(len(sizes)))


def lies_plainly(like: Any) -> bool:
    """Whether a tensor lies as an array of its sizes does, where that can be told."""
    sizes, strides = numbers(like)
    plain = plain_strides(sizes)
    return all(
        size == 1 or step == own for size, step, own in zip(sizes, strides, plain, strict=True)
    )


def dense_order(like: Any) -> tuple[int, ...] | None:
    """The axes of a tensor as they lie in memory, the outermost first; None where that is their
    own order, or where elements lie apart or in one place.
    """
    sizes, strides = numbers(like)
    order = tuple(sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis)))
    lying = [sizes[axis] for axis in order]
    found = zip(lying, (strides[axis] for axis in order), plain_strides(lying), strict=True)
    dense = all(size == 1 or step == plain for size, step, plain in found)
    return order if dense and order != tuple(range(len(sizes))) and like.numel() > 1 else None
