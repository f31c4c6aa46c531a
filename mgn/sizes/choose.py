"""Chooses sizes to compile for: those whose programs together take the least time for all sizes.

In: what a run of some sizes costs, in seconds. Out: a few sizes, the largest among them, so that
the mean over all sizes of the range, each run by the program for the least chosen size that is not
smaller, is least. A size from 64 to 127 is taken to be as likely as one from 32 to 63: a size's
weight is its reciprocal. The choice is the best of all, by dynamic programming; between two sizes
with a price, prices are taken to lie on a line.

    choose([1, 2, …, 64], {1: 1e-6, 64: 64e-6}, most = 3)      [7, 27, 64]
"""

from collections.abc import Mapping, Sequence

import numpy as np

MOST_SIZES = 2048
"""Sizes of a range that are looked at; of a longer one evenly spread ones."""

PRICED = 6
"""Sizes that prices are found for."""

ENOUGH = 1.01
"""Fewer programs do where they take at most so many times what more of them would."""


def anchors(sizes: Sequence[int]) -> list[int]:
    """The sizes whose prices are found: the ends, and some between, by factors."""
    low, high = max(sizes[0], 1), max(sizes[-1], 1)
    wanted = [low * (high / low) ** (step / (PRICED - 1)) for step in range(PRICED)]
    array = np.asarray(sizes)
    return sorted({sizes[int(np.argmin(np.abs(array - item)))] for item in wanted})


def candidates(sizes: Sequence[int]) -> list[int]:
    """The sizes that may be chosen: all, or evenly spread ones, with both ends."""
    if len(sizes) <= MOST_SIZES:
        return list(sizes)
    places = np.linspace(0, len(sizes) - 1, MOST_SIZES).round().astype(int)
    return [sizes[place] for place in places]


def price_line(sizes: Sequence[int], prices: Mapping[int, float]) -> np.ndarray:
    """The price of each size, on lines between those that are known."""
    known = sorted(prices)
    return np.interp(np.asarray(sizes, float), known, [prices[size] for size in known])


def weights(sizes: Sequence[int]) -> np.ndarray:
    """How likely each size is, but for a factor."""
    return 1.0 / np.maximum(np.asarray(sizes, float), 1.0)


def choose(sizes: Sequence[int], prices: Mapping[int, float], most: int) -> list[int]:
    """At most so many of the sizes, the last among them, of least time for all together; the fewest
    that come near enough to it.
    """
    kept = candidates(sizes)
    cost = price_line(kept, prices)
    count = len(kept)
    ends = np.searchsorted(np.asarray(sizes), np.asarray(kept), side="right")
    sums = np.concatenate([[0.0], np.cumsum(weights(sizes))])
    before = np.concatenate([[0.0], sums[ends]])  # the weight of all sizes up to each candidate
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    cuts: list[np.ndarray] = []
    last: list[float] = []
    for _ in range(min(most, count)):
        following = np.full(count + 1, np.inf)
        cut = np.zeros(count + 1, int)
        for end in range(1, count + 1):
            ways = best[:end] + (before[end] - before[:end]) * cost[end - 1]
            cut[end] = int(np.argmin(ways))
            following[end] = ways[cut[end]]
        best = following
        cuts.append(cut)
        last.append(float(best[count]))
    used = next(number for number, total in enumerate(last) if total <= ENOUGH * min(last))
    chosen: list[int] = []
    end = count
    for cut in reversed(cuts[: used + 1]):
        chosen.append(kept[end - 1])
        end = int(cut[end])
    return chosen[::-1]
