"""The sizes that programs are compiled for are the best ones by price."""

from itertools import combinations

import numpy as np
import pytest

from mgn.sizes.choose import ENOUGH, MOST_SIZES, anchors, candidates, choose, price_line


def cost(sizes: range, prices: dict[int, float], chosen: tuple[int, ...]) -> float:
    """The sum of the prices of the least chosen ones that have room, by weight."""
    lines = dict(zip(chosen, price_line(chosen, prices), strict=True))
    return sum(lines[min(item for item in chosen if item >= size)] / max(size, 1) for size in sizes)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_choice_of_as_many_sizes_takes_less_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = range(int(rng.integers(0, 5)), 16, int(rng.integers(1, 3)))
    prices = {size: float(rng.random() + seed % 3 * size) for size in anchors(sizes)}
    most = int(rng.integers(1, 5))
    chosen = choose(sizes, prices, most)
    assert chosen == sorted(chosen) and chosen[-1] == sizes[-1] and len(chosen) <= most
    best = [
        min(cost(sizes, prices, (*rest, sizes[-1])) for rest in combinations(sizes[:-1], count))
        for count in range(most)
    ]
    found = cost(sizes, prices, tuple(chosen))
    assert found == pytest.approx(best[len(chosen) - 1], rel=1e-12)
    assert found <= ENOUGH * min(best) * (1 + 1e-12)


def test_equal_prices_need_one_program() -> None:
    assert choose(range(1, 65), {1: 2e-6, 64: 2e-6}, 6) == [64]


def test_prices_that_grow_with_the_size_spread_the_sizes_by_factors() -> None:
    assert choose(range(1, 65), {1: 1.0, 64: 64.0}, 3) == [7, 27, 64]


def test_a_long_range_is_looked_at_in_some_of_its_sizes() -> None:
    kept = candidates(range(1, 100_001))
    assert len(kept) == MOST_SIZES and kept[0] == 1 and kept[-1] == 100_000
    assert anchors(range(1, 100_001)) == [1, 10, 100, 1000, 10_000, 100_000]
