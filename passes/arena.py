"""Offsets in one arena for values that live for a while: the packing that `plan-memory` uses.

In: intervals (a size, the first and the last step of a life). Out: a `Layout` in which no two
intervals that live at one step overlap, with its size and the least size there could be.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

BEST_FIT_LIMIT = 16_384
"""The most intervals for which the quadratic packing is tried."""


@dataclass(frozen=True)
class Interval:
    """A block of `size` bytes that is in use from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """An offset for each interval, the arena's size, and the largest sum live at one step."""

    offsets: list[int]
    size: int
    lower_bound: int


def pack(intervals: Sequence[Interval], alignment: int) -> Layout:
    """The smaller of two packings: first fit in order of time, and best fit by falling size.

    The second costs time quadratic in the number of intervals, so it runs only where the first is
    not perfect and there are at most `BEST_FIT_LIMIT`.
    """
    if not intervals:
        return Layout([], 0, 0)
    sizes = np.array([aligned(interval.size, alignment) for interval in intervals], np.int64)
    first = np.array([interval.first for interval in intervals], np.int32)
    last = np.array([interval.last for interval in intervals], np.int32)
    bound = _largest_live_sum(sizes, first, last)
    by_time = _first_fit(sizes, first, last)
    height = _height(by_time, sizes)
    if height > bound and len(intervals) <= BEST_FIT_LIMIT:
        by_size = _best_fit(sizes, first, last)
        if _height(by_size, sizes) < height:
            by_time, height = by_size, _height(by_size, sizes)
    return Layout(by_time.tolist(), height, bound)


def aligned(size: int, alignment: int) -> int:
    """What so many bytes take of an arena."""
    return max(-(-size // alignment), 1) * alignment


def _largest_live_sum(sizes: Array, first: Array, last: Array) -> int:
    change = np.zeros(int(last.max()) + 2, np.int64)
    np.add.at(change, first, sizes)
    np.add.at(change, last + 1, -sizes)
    return int(np.cumsum(change).max())


def _first_fit(sizes: Array, first: Array, last: Array) -> Array:
    """In order of birth, each interval into the lowest gap between the living ones."""
    offsets = np.zeros(len(sizes), np.int64)
    gaps = [(0, int(sizes.sum()))]
    dying = np.argsort(last, kind="stable").tolist()
    dead = 0
    for index in np.lexsort((-sizes, first)).tolist():
        while last[dying[dead]] < first[index]:
            start = int(offsets[dying[dead]])
            _release(gaps, start, start + int(sizes[dying[dead]]))
            dead += 1
        offsets[index] = _take(gaps, int(sizes[index]))
    return offsets


def _take(gaps: list[tuple[int, int]], size: int) -> int:
    """Cut `size` bytes off the lowest gap that has them."""
    position = next(i for i, (start, end) in enumerate(gaps) if end - start >= size)
    start, end = gaps[position]
    gaps[position : position + 1] = [(start + size, end)] if end > start + size else []
    return start


def _release(gaps: list[tuple[int, int]], start: int, end: int) -> None:
    """Give bytes back, joined with the gaps on either side."""
    position = bisect_left(gaps, (start, end))
    low = high = position
    if position > 0 and gaps[position - 1][1] == start:
        low, start = position - 1, gaps[position - 1][0]
    if position < len(gaps) and gaps[position][0] == end:
        high, end = position + 1, gaps[position][1]
    gaps[low:high] = [(start, end)]


def _best_fit(sizes: Array, first: Array, last: Array) -> Array:
    """In order of falling size, each into the smallest gap left by those that live beside it."""
    offsets = np.zeros(len(sizes), np.int64)
    placed = _Placed(len(sizes))
    for index in np.lexsort((first, -sizes)).tolist():
        size, birth, death = int(sizes[index]), int(first[index]), int(last[index])
        starts, ends = placed.living(birth, death)
        offset = _smallest_gap(starts, ends, size)
        placed.insert(offset, offset + size, birth, death)
        offsets[index] = offset
    return offsets


class _Placed:
    """The intervals put down so far, sorted by offset."""

    def __init__(self, capacity: int) -> None:
        self._count = 0
        self._bytes = np.zeros((2, capacity), np.int64)
        self._steps = np.zeros((2, capacity), np.int32)

    def living(self, first: int, last: int) -> tuple[Array, Array]:
        """Where the ones that live during `first` to `last` start and end, by rising start."""
        births, deaths = self._steps[:, : self._count]
        together = np.flatnonzero((births <= last) & (deaths >= first))
        return self._bytes[0, together], self._bytes[1, together]

    def insert(self, start: int, end: int, first: int, last: int) -> None:
        count = self._count
        position = int(np.searchsorted(self._bytes[0, :count], start))
        for table, column in ((self._bytes, (start, end)), (self._steps, (first, last))):
            table[:, position + 1 : count + 1] = table[:, position:count]
            table[:, position] = column
        self._count += 1


def _smallest_gap(starts: Array, ends: Array, size: int) -> int:
    if not len(starts):
        return 0
    reached = np.maximum.accumulate(ends)
    gaps = starts.copy()
    gaps[1:] -= reached[:-1]
    fitting = np.flatnonzero(gaps >= size)
    if not len(fitting):
        return int(reached[-1])
    chosen = int(fitting[np.argmin(gaps[fitting])])
    return int(reached[chosen - 1]) if chosen else 0


def _height(offsets: Array, sizes: Array) -> int:
    return int((offsets + sizes).max())
