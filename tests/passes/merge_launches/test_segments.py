"""The cut of orders of launches into resident launches and single ones is the cheapest for each
weight of the host's time, and the one with which a run ends first.
"""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgn.dialects.kernel.residency import MOST_INLINED
from mgn.passes.merge_launches.segments import (
    MOST_OPERATIONS,
    SLOW_HOST,
    WEIGHTS,
    Cut,
    Order,
    Prices,
    Segment,
    Stage,
    best_cut,
    cheapest_cut,
)

PRICES = Prices(host=5.0, begin=2.0, barrier=1.0, near=1 / 1024, far=1 / 256)
OPERATIONS = {"k0": 400, "k1": 1000, "k2": 1600}
"""Of kernels, of which the last two are too many to be inlined together."""


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Up to seven launches, of which some cannot be stages, and where barriers must stand."""
    count = draw(st.integers(1, 7))
    stages = [
        Stage(
            kernel := draw(st.sampled_from(sorted(OPERATIONS))),
            PRICES.begin + (own := draw(st.integers(0, 8))),
            {
                size: own * draw(st.sampled_from([1.0, 1.5, 3.0]))
                for size in draw(st.sets(st.sampled_from([256, 512])))
            },
            frozenset(draw(st.sets(st.integers(0, 3)))),
            OPERATIONS[kernel],
            hidden=draw(st.sampled_from([0.0, 0.5])),
        )
        for _ in range(count)
    ]
    barriers = [min(n + draw(st.integers(1, 3)), count) for n in range(count)]
    return Order(stages, [min(barriers[n:]) for n in range(count)])


def device_seconds(order: Order, first: int, end: int) -> float:
    """The device's time for one launch of some launches, infinite where it cannot be."""
    stages, barriers = order.stages[first:end], order.barriers
    if end == first + 1:
        return stages[0].alone
    meets, start = {end}, first
    while barriers[start] < end:
        start = barriers[start]
        meets.add(start)
    saved = sum(order.stages[n].hidden for n in range(first, end) if n + 1 not in meets)
    sizes = set.intersection(*(set(stage.seconds) for stage in stages))
    times = [sum(stage.seconds[size] for stage in stages) for size in sizes]
    barrier = PRICES.barrier * (len(meets) - 1)
    operations = sum(OPERATIONS[name] for name in {stage.kernel for stage in stages})
    text = operations * (PRICES.near if operations <= MOST_INLINED else PRICES.far)
    return PRICES.begin + barrier + min(times, default=float("inf")) - saved + text


def cuts(order: Order) -> list[list[Segment]]:
    """Every way to cut an order."""
    count = len(order.stages)
    found: list[list[Segment]] = []
    for parted in product([False, True], repeat=count - 1):
        ends = [0, *(n for n, part in enumerate(parted, 1) if part), count]
        found.append(
            [Segment(a, b, int(b > a + 1), device_seconds(order, a, b)) for a, b in pairwise(ends)]
        )
    return found


def price(segments: list[Segment], weight: float) -> float:
    return sum(weight * PRICES.host + (1 - weight) * segment.seconds for segment in segments)


@settings(max_examples=120, deadline=None)
@given(orders(), st.sampled_from(WEIGHTS))
def test_no_other_cut_is_cheaper_with_a_weight(order: Order, weight: float) -> None:
    (found,) = cheapest_cut([order], PRICES, weight).orders
    edges = [0, *(segment.end for segment in found)]
    assert edges[-1] == len(order.stages) and [s.first for s in found] == edges[:-1]
    for segment in found:
        assert segment.seconds == device_seconds(order, segment.first, segment.end)
        assert bool(segment.items) == (segment.end > segment.first + 1)
    possible = [cut for cut in cuts(order) if all(item.seconds < 1e9 for item in cut)]
    assert price(found, weight) == min(price(cut, weight) for cut in possible)


@settings(max_examples=120, deadline=None)
@given(st.lists(orders(), min_size=1, max_size=3))
def test_in_the_mean_of_both_hosts_a_run_ends_as_early_as_with_any_weight(
    found: list[Order],
) -> None:
    def mean(cut: Cut) -> float:
        return (cut.seconds(PRICES.host) + cut.seconds(SLOW_HOST * PRICES.host)) / 2

    best = best_cut(found, PRICES)
    for cut in [apart(found), *(cheapest_cut(found, PRICES, weight) for weight in WEIGHTS)]:
        assert mean(best) <= mean(cut)


def apart(orders: list[Order]) -> Cut:
    """Each launch by itself."""
    return Cut(
        0.0,
        [
            [Segment(n, n + 1, 0, stage.alone) for n, stage in enumerate(order.stages)]
            for order in orders
        ],
    )


@pytest.mark.parametrize(("seconds", "launches"), [(1.0, 1), (40.0, 3)])
def test_launches_are_joined_where_the_host_is_the_slower_one(
    seconds: float, launches: int
) -> None:
    """A stage takes 1.2 times as long as its kernel: where kernels are long, the host waits."""
    stage = Stage("k", PRICES.begin + seconds, {256: 1.2 * seconds}, frozenset(), hidden=0.0)
    cut = best_cut([Order([stage] * 3, [1, 2, 3])], PRICES)
    assert cut.launches == launches


def test_the_device_begins_what_was_handed_over_when_the_launch_before_has_ended() -> None:
    cut = Cut(0.5, [[Segment(0, 1, 0, 1.0), Segment(1, 2, 0, 9.0)], [Segment(0, 1, 0, 2.0)]])
    assert cut.seconds(5.0) == 5.0 + 5.0 + 9.0 + 2.0
    assert cut.seconds(0.0) == 1.0 + 9.0 + 2.0


def test_kernels_of_too_many_operations_together_stay_apart() -> None:
    def stage(kernel: str, operations: int) -> Stage:
        return Stage(kernel, PRICES.begin + 1.0, {256: 1.0}, frozenset(), operations)

    def ends(*stages: Stage) -> list[int]:
        order = Order(stages, [len(stages)] * len(stages))
        (segments,) = best_cut([order], Prices(host=5.0, begin=2.0, barrier=1.0)).orders
        return [item.end for item in segments]

    most = MOST_OPERATIONS
    assert ends(stage("a", most - 1), stage("b", 1), stage("a", most - 1)) == [3]
    assert len(ends(stage("a", most), stage("b", 1))) == 2


def test_a_launch_takes_longer_by_what_fetching_its_instructions_takes() -> None:
    def seconds(operations: int) -> float:
        stage = Stage("k", 100.0, {256: 1.0}, frozenset(), operations)
        prices = Prices(host=5.0, begin=2.0, barrier=1.0, near=0.001, far=0.01)
        (segments,) = cheapest_cut([Order([stage] * 4, [4] * 4)], prices, weight=0.5).orders
        (segment,) = segments
        return segment.seconds

    few, many = MOST_INLINED, MOST_INLINED + 1
    assert seconds(few) == pytest.approx(2.0 + 4 * 1.0 + 0.001 * few)
    assert seconds(many) == pytest.approx(2.0 + 4 * 1.0 + 0.01 * many)
