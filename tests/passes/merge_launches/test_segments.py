"""The cut of an order of launches into resident launches is the cheapest that there is."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from mgn.passes.merge_launches.segments import MOST_OPERATIONS, Stage, cheapest_segments

LAUNCH, BARRIER = 5.0, 1.0


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[Stage], list[int]]:
    """Up to seven launches, of which some cannot be stages, and where barriers must stand."""
    count = draw(st.integers(1, 7))
    stages = [
        Stage(
            f"k{draw(st.integers(0, 2))}",
            LAUNCH + (own := draw(st.integers(0, 8))),
            {
                size: own * draw(st.sampled_from([1.0, 1.5, 3.0]))
                for size in draw(st.sets(st.sampled_from([256, 512])))
            },
            frozenset(draw(st.sets(st.integers(0, 3)))),
            hidden=draw(st.sampled_from([0.0, 0.5])),
        )
        for _ in range(count)
    ]
    barriers = [min(n + draw(st.integers(1, 3)), count) for n in range(count)]
    return stages, [min(barriers[n:]) for n in range(count)]


def price(stages: list[Stage], barriers: list[int], first: int, end: int) -> float:
    """The price of one launch of some launches, infinite where it cannot be."""
    if end == first + 1:
        return stages[first].alone
    meets, start = {end}, first
    while barriers[start] < end:
        start = barriers[start]
        meets.add(start)
    saved = sum(stages[n].hidden for n in range(first, end) if n + 1 not in meets)
    sizes = set.intersection(*(set(stage.seconds) for stage in stages[first:end]))
    times = [sum(stage.seconds[size] for stage in stages[first:end]) for size in sizes]
    return LAUNCH + BARRIER * (len(meets) - 1) + min(times, default=float("inf")) - saved


@settings(max_examples=120, deadline=None)
@given(orders())
def test_no_other_cut_is_cheaper(order: tuple[list[Stage], list[int]]) -> None:
    stages, barriers = order
    found = cheapest_segments(stages, barriers, LAUNCH, BARRIER)
    edges = [0, *(segment.end for segment in found)]
    assert edges[-1] == len(stages) and [s.first for s in found] == edges[:-1]
    for segment in found:
        assert segment.seconds == price(stages, barriers, segment.first, segment.end)
        assert bool(segment.items) == (segment.end > segment.first + 1)
    prices: list[float] = []
    for cuts in product([False, True], repeat=len(stages) - 1):
        ends = [0, *(n for n, cut in enumerate(cuts, 1) if cut), len(stages)]
        pairs = pairwise(ends)
        prices.append(sum(price(stages, barriers, first, end) for first, end in pairs))
    assert sum(segment.seconds for segment in found) == min(prices)


def test_kernels_of_too_many_operations_together_stay_apart() -> None:
    def stage(kernel: str, operations: int) -> Stage:
        return Stage(kernel, LAUNCH + 1.0, {256: 1.0}, frozenset(), operations)

    def ends(*stages: Stage) -> list[int]:
        barriers = [len(stages)] * len(stages)
        return [item.end for item in cheapest_segments(stages, barriers, LAUNCH, BARRIER)]

    most = MOST_OPERATIONS
    assert ends(stage("a", most - 1), stage("b", 1), stage("a", most - 1)) == [3]
    assert len(ends(stage("a", most), stage("b", 1))) == 2
