"""The cheapest way to cut an order of launches into resident launches and single ones.

In: for each launch its price alone and as a stage, the places it is given, and where barriers must
stand. Out: segments, each with the work-items of its groups. The choice is exact: a segment's price
is a sum over its launches and barriers, so the best cut of the first `n` launches is the best of
the first `m` and one more segment, for some `m`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SIZES = {"gpu": (256, 512, 1024), "cpu": (1, 64, 256)}
"""Work-items of a resident group, by the kind of device."""

MOST_STAGES = 512
MOST_ARGUMENTS = 500
"""What fits into the 4352 bytes that NVIDIA's driver has for a kernel's arguments."""

MOST_KERNELS, MOST_OPERATIONS = 40, 2500
"""Different kernels in one, and the operations of all of these: the driver's compiler takes longer
than in proportion, over a minute for 4,400 operations.
"""


@dataclass(frozen=True)
class Stage:
    """A launch as segments see it. `alone` is its price as a launch of its own. `seconds` has its
    time as a stage by the sizes of groups, where it can be one; that is less by `hidden` where no
    barrier follows, and groups go on at once. Its kernel has so many `operations`.
    """

    kernel: str
    alone: float
    seconds: dict[int, float]
    places: frozenset[object]
    operations: int = 0
    hidden: float = 0.0


@dataclass(frozen=True)
class Segment:
    """The launches from `first` to before `end`: one launch of groups of `items`, or a single one
    as it was, where that is 0. `seconds` is its price.
    """

    first: int
    end: int
    items: int
    seconds: float


def cheapest_segments(
    stages: Sequence[Stage], barriers: Sequence[int], launch: float, barrier: float
) -> list[Segment]:
    """The cut of least price. `barriers` has for each launch the first one behind it from which a
    barrier parts a span that begins with the launch.
    """
    best = [0.0] + [float("inf")] * len(stages)
    last: list[Segment | None] = [None] * (len(stages) + 1)
    for first, stage in enumerate(stages):
        single = Segment(first, first + 1, 0, stage.alone)
        _keep(single, best, last)
        for segment in _beginning_at(first, stages, barriers, launch, barrier):
            _keep(segment, best, last)
    found: list[Segment] = []
    end = len(stages)
    while end:
        segment = last[end]
        assert segment is not None
        found.append(segment)
        end = segment.first
    return found[::-1]


def _keep(segment: Segment, best: list[float], last: list[Segment | None]) -> None:
    total = best[segment.first] + segment.seconds
    if total < best[segment.end]:
        best[segment.end], last[segment.end] = total, segment


def _beginning_at(
    first: int, stages: Sequence[Stage], barriers: Sequence[int], launch: float, barrier: float
) -> list[Segment]:
    """The best segment of each length from a launch on."""
    found: list[Segment] = []
    sums = dict.fromkeys(stages[first].seconds, launch)
    places: set[object] = set()
    kernels: dict[str, int] = {}
    span_end = barriers[first]
    for number in range(first, min(len(stages), first + MOST_STAGES)):
        stage = stages[number]
        places |= stage.places
        kernels[stage.kernel] = stage.operations
        if len(places) > MOST_ARGUMENTS or len(kernels) > MOST_KERNELS:
            break
        if sum(kernels.values()) > MOST_OPERATIONS:
            break
        waits = -stages[number - 1].hidden if number > first else 0.0
        if number == span_end:
            waits = barrier
            span_end = barriers[number]
        sums = {
            size: total + waits + stage.seconds[size]
            for size, total in sums.items()
            if size in stage.seconds
        }
        if not sums:
            break
        if number > first:
            size = min(sums, key=lambda size: (sums[size], size))
            found.append(Segment(first, number + 1, size, sums[size]))
    return found
