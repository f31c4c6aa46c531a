"""The schedules of scatters by ids in order but for their lowest bits: a sub-group has a bucket."""

from collections.abc import Iterator
from math import isqrt

from mgn.dialects.kernel import Device
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.dialects.types import ElementType
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div, power_below
from mgn.passes.kernels.body import Node
from mgn.passes.schedules.core.schedule import VARIANT, Request, Schedule
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP
from mgn.passes.schedules.scatter_work import (
    LONG_SORTED,
    LOOK,
    TURN,
    ScatterVariant,
    scatter_seconds,
    search_steps,
    split_vectors,
)

BUCKET_BITS, LARGE_BUCKET_BITS, MANY_BUCKETS = 8, 9, 128
"""The bits in which ids of a bucket differ, and those where a GPU has so many large buckets for
each of its units. Measured on an NVIDIA H200: 2^24 random ids to as many places take 116 µs in
buckets of 512; 2^22 take 36 µs in buckets of 256, and 40 in those of 512.
"""

BUCKETED, BUCKET_TRIP, BUCKET_ELEMENTS = 170.0, 4e-7, 4
"""Steps of adding an element to a place of its bucket, seconds of a sub-group for an element of
each work-item, and how many of these it reads at a time. Measured on an NVIDIA H200, as above; and
with 2^20 ids, which take 13 µs.
"""

BUCKET_ITEMS = 128
"""Work-items of a group of sub-groups that have buckets."""


def bucket_bits(places: int, ids: int, device: Device) -> int | None:
    """In how many bits the ids of a bucket differ; None where there are few ids, or few buckets."""
    large = places >> LARGE_BUCKET_BITS >= MANY_BUCKETS * device.compute_units
    bits = LARGE_BUCKET_BITS if large else BUCKET_BITS
    return bits if ids >= LONG_SORTED and places >> bits >= device.compute_units else None


def bucket_part(count: int) -> int:
    """How long parts of so many ids in buckets are. No sub-group goes over a long bucket by itself,
    but over two parts at most, and the totals of others. An NVIDIA H200 takes some 1.5 µs for 32
    elements of one place, and 0.6 for the totals of a part.
    """
    return power_below(4 * isqrt(count))


def adds_in_buckets(element: ElementType, combine: str, device: Device) -> bool:
    """Whether a device's sub-groups add such numbers to buckets of places, in order."""
    adds = device.vendor == "nvidia" and device.sub_group_size == SUB_GROUP
    return adds and combine == ADD and accumulator(element).name == "f32"


def _bucket_group(request: Request, node: Node, variant: ScatterVariant) -> int | None:
    """Work-items of a group, whose totals lie in local memory beside their marks; None for devices
    whose sub-groups do not add in order. Where a test asks for it on such a device, a group has one
    sub-group.
    """
    adds = request.number("sub_group", 1) == SUB_GROUP
    if not request.is_gpu or not (adds or request.word(VARIANT) == variant):
        return None
    room = request.device.local_memory // 2 // (8 << node.values["bits"])
    most = min(request.number("local", BUCKET_ITEMS), BUCKET_ITEMS) if adds else SUB_GROUP
    fits = room and accumulator(node.element).name == "f32"
    return max(power_below(min(most, SUB_GROUP * room)), SUB_GROUP) if fits else None


def bucket_schedules(request: Request, node: Node) -> Iterator[Schedule]:
    """Where each element has an id of its own. They are spread evenly as a rule, and then no bucket
    has a whole part.
    """
    axis, bits = node.values["axis"], node.values["bits"]
    count = node.operands[2].shape[axis]
    items = _bucket_group(request, node, ScatterVariant.BUCKETS)
    if items is None or node.operands[1].shape != node.operands[2].shape or not 0 < count < 1 << 30:
        return
    turns = len(list(search_steps(count, items)))
    trips = ceil_div(ceil_div(count, max(node.shape[axis] >> bits, 1)), SUB_GROUP)
    steps = node.operands[2].count * BUCKETED + node.count * LOOK
    seconds = max(scatter_seconds(request, node, steps), trips * BUCKET_TRIP) + turns * TURN
    numbers = {"items": items, "each": BUCKET_ELEMENTS, "block": items // SUB_GROUP << bits}
    facts, passes = request.facts("form", "sub_group"), (1.0, 1.0, 1.0, 0.0)
    yield Schedule(ScatterVariant.BUCKETS, numbers, facts, seconds, passes)


def bucket_total_schedules(request: Request, node: Node) -> Iterator[Schedule]:
    """Each part looks at two ids, and few parts are of one bucket. Without sub-groups that add in
    order a work-item has a place of a part.
    """
    facts = request.facts("form", "sub_group")
    numbers, part = split_vectors(request, node, 1), node.values["part"]
    seconds = scatter_seconds(request, node, node.count * part * LOOK)
    yield Schedule(ScatterVariant.EACH, numbers, facts, seconds, (1.0, 1.0))
    items = _bucket_group(request, node, ScatterVariant.BUCKET_TOTALS)
    if items is not None and node.operands[1].count < 1 << 30:
        numbers = {"items": items, "each": BUCKET_ELEMENTS}
        seconds = scatter_seconds(request, node, node.count * LOOK) + TURN
        passes = (2.0 / part, 0.0)
        yield Schedule(ScatterVariant.BUCKET_TOTALS, numbers, facts, seconds, passes)
