"""The cheapest way to cut orders of launches into resident launches and single ones.

In: for each launch its price alone and as a stage, the places it is given, and where barriers must
stand. Out: segments, each with the work-items of its groups.

The host hands launches over while the device works, so a run ends when the slower of both has
ended. The search finds a cut for each of some weights of the host's time against the device's. It
takes the cut with which a run ends first. The cut for a weight is exact: the price of a segment is
that of its own launches and barriers. So the best cut of the first `n` launches is, for some `m`,
the best cut of the first `m` and one more segment.

About half of the processes are slow hosts: the cores that a process runs on decide that, and they
are not known before. So a cut counts by the mean of when a run ends on a quick and a slow host.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mgn.dialects.kernel.residency import MOST_INLINED

SIZES = {"gpu": (256, 384, 512, 1024), "cpu": (1, 64, 256)}
"""Work-items of a resident group, by the kind of device."""

WEIGHTS = tuple(eighths / 8 for eighths in range(9))
"""Weights of the host's time for which a cut is sought."""

SLOW_HOST = 2.0
"""How many times as long as was measured a slow host takes for a launch."""

MOST_STAGES = 512
MOST_ARGUMENTS = 500
"""What fits into the 4352 bytes that NVIDIA's driver has for a kernel's arguments."""

MOST_KERNELS, MOST_OPERATIONS = 40, 10_000
"""Different kernels in one launch, and the operations of all of these: the driver's compiler takes
some seconds for that.
"""


@dataclass(frozen=True)
class Stage:
    """A launch as segments see it. `alone` is the device's time for it as a launch of its own.
    `seconds` has its time as a stage by the sizes of groups, where it can be one; that is less by
    `hidden` where no barrier follows, and groups go on at once. Its kernel has so many
    `operations`.
    """

    kernel: str
    alone: float
    seconds: dict[int, float]
    places: frozenset[object]
    operations: int = 0
    hidden: float = 0.0


@dataclass(frozen=True)
class Order:
    """Launches that nothing stands between. `barriers` has for each launch the first one behind it
    from which a barrier parts a span that begins with the launch.
    """

    stages: Sequence[Stage]
    barriers: Sequence[int]


@dataclass(frozen=True)
class Prices:
    """Seconds that a launch takes the host, that the device takes to begin one, and that a barrier
    takes. A resident launch takes `near` besides for each operation of its kernels where these are
    inlined, and `far` where they are not.
    """

    host: float
    begin: float
    barrier: float
    near: float = 0.0
    far: float = 0.0


@dataclass(frozen=True)
class Segment:
    """The launches from `first` to before `end`: one launch of groups of `items`, or a single one
    as it was, where that is 0. `seconds` is the device's time for it.
    """

    first: int
    end: int
    items: int
    seconds: float


@dataclass(frozen=True)
class Cut:
    """The segments of each order, and the weight that the host's time had."""

    weight: float
    orders: list[list[Segment]]

    def seconds(self, host: float) -> float:
        """When a run ends: the device begins a launch when it was handed over, and the one before
        it has ended.
        """
        handed = ended = 0.0
        for segment in (segment for order in self.orders for segment in order):
            handed += host
            ended = max(ended, handed) + segment.seconds
        return ended

    @property
    def launches(self) -> int:
        return sum(map(len, self.orders))


def best_cut(orders: Sequence[Order], prices: Prices) -> Cut:
    """Of the cuts for each weight, and that without resident launches, the one with which a run of
    all orders ends first in the mean of a host as measured and a slow one.
    """
    found = [_segments(order, prices) for order in orders]
    apart = Cut(0.0, [[beginning[0] for beginning in segments] for segments in found])
    cuts = [*(_cut(found, prices.host, weight) for weight in WEIGHTS), apart]
    hosts = (prices.host, SLOW_HOST * prices.host)
    return min(cuts, key=lambda cut: (sum(map(cut.seconds, hosts)), cut.launches))


def cheapest_cut(orders: Sequence[Order], prices: Prices, weight: float) -> Cut:
    """The cut of least price for one weight of the host's time."""
    return _cut([_segments(order, prices) for order in orders], prices.host, weight)


def _cut(found: Sequence[Sequence[Sequence[Segment]]], host: float, weight: float) -> Cut:
    return Cut(weight, [_cheapest(segments, host, weight) for segments in found])


def _segments(order: Order, prices: Prices) -> list[list[Segment]]:
    """What can begin at each launch, the launch alone first."""
    return [
        [Segment(first, first + 1, 0, stage.alone), *_beginning_at(first, order, prices)]
        for first, stage in enumerate(order.stages)
    ]


def _cheapest(segments: Sequence[Sequence[Segment]], host: float, weight: float) -> list[Segment]:
    """The cut of least price, which is `weight` of the host's time and the rest of the device's."""
    best = [0.0] + [float("inf")] * len(segments)
    last: list[Segment | None] = [None] * (len(segments) + 1)
    for first, beginning in enumerate(segments):
        for segment in beginning:
            total = best[first] + weight * host + (1.0 - weight) * segment.seconds
            if total < best[segment.end]:
                best[segment.end], last[segment.end] = total, segment
    found: list[Segment] = []
    end = len(segments)
    while end:
        segment = last[end]
        assert segment is not None
        found.append(segment)
        end = segment.first
    return found[::-1]


def _beginning_at(first: int, order: Order, prices: Prices) -> list[Segment]:
    """The best segment of each length above one from a launch on."""
    stages, barriers = order.stages, order.barriers
    found: list[Segment] = []
    sums = dict.fromkeys(stages[first].seconds, prices.begin)
    places: set[object] = set()
    kernels: dict[str, int] = {}
    span_end = barriers[first]
    for number in range(first, min(len(stages), first + MOST_STAGES)):
        stage = stages[number]
        places |= stage.places
        kernels[stage.kernel] = stage.operations
        if len(places) > MOST_ARGUMENTS or len(kernels) > MOST_KERNELS:
            break
        operations = sum(kernels.values())
        if operations > MOST_OPERATIONS:
            break
        waits = -stages[number - 1].hidden if number > first else 0.0
        if number == span_end:
            waits = prices.barrier
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
            text = operations * (prices.near if operations <= MOST_INLINED else prices.far)
            found.append(Segment(first, number + 1, size, sums[size] + text))
    return found
