"""The schedules of a scatter: who looks at which ids.

`each id`: every work-item goes over all ids, for a few elements of the result, and combines in
registers what is meant for them. `owners`: on a CPU a work-item owns some of the places along the
axis. It copies them, then goes over all ids once, and combines in memory what is meant for its own.
`runs`: ids are in order, and each element goes over its own run of them. `part totals`: ids are in
order, and each element goes over a part of them whose ids are one. Work-items of a GPU may share an
element of these two. `blocks`: ids are in order, and a group of a GPU goes over those of a block of
places. `tables`: such a group goes over all ids of its row, which are in no order, a chunk at a
time. `buckets`: ids are in order but for their lowest bits, and a sub-group of a GPU goes over
those of a bucket; `bucket totals`: over those of a part, where they are of one bucket. `atomics`:
integers are combined where what was there before lies, by atomic operations of a GPU.
"""

from collections.abc import Iterator
from math import ceil, isqrt, prod

from mgn.dialects.fusion.forms import COMBINED, IN_PLACE
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.places.scatter import ADD, LARGEST
from mgn.dialects.types import ElementType
from mgn.passes.kernels.accumulation import accumulator, neutral
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above, power_below
from mgn.passes.kernels.body import Node
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules
from mgn.passes.schedules.scatter_buckets import bucket_schedules, bucket_total_schedules
from mgn.passes.schedules.scatter_work import (
    LONG_SORTED,
    LOOK,
    TURN,
    ScatterVariant,
    scatter_seconds,
    search_steps,
    split_vectors,
)

JOIN = 4.0
"""Steps that it takes to combine a vector in memory."""

SURPRISE = 40.0
"""Steps that a core of a CPU loses where it finds that an id in no order is one of its own."""

WALKED, LOOKED = 1.5e-7, 5e-8
"""Seconds that a work-item of a GPU takes for an element of a run, which it waits for, and for an
id that it looks at. Measured on an NVIDIA H200: 16,384 elements of a run take 1.19 ms, and 262,144,
which no cache holds, 56 ms. It looks at 65,536 ids in 2.4 ms, and in 3.3 where the largest stays;
128,000 work-items look at 2048 each in 106 µs.
"""

SHARERS, MEETING = (1, 2, 4, 8, 16, 32), 1e-6
"""How many work-items of a GPU may share a run, and seconds that they take to put together what
they have: a barrier, and as many additions.
"""

LONG_RUN = 2048
"""Ids that may be one run which a work-item of a GPU does not go over alone. Measured on an NVIDIA
H200, slices of 64 with one id: 16,384 take 1.19 ms so, and 262,144 take 56 ms.
"""

SEGMENTED = 180.0
"""Steps of combining an element with its neighbours where a group goes over a block's. Measured on
an NVIDIA H200: 2^24 random ids in order take 136 µs to as many places, and 2^20 take 17.
"""

LOCAL_ITEMS, ELEMENTS = 256, 8
"""Work-items of a group that goes over a block's elements, and how many each combines at a time."""

GROUPS_A_UNIT = 4
"""Groups that a compute unit of a GPU needs to be busy."""

MOST_PLACES, LINE = 2048, 32
"""The most places of a block, and what their number is a multiple of where it is larger: 32 numbers
of 4 bytes are a line of memory.
"""

SPREAD = 3
"""How many square roots of a chunk's elements a chunk is larger than what a block has on average.
By random ids, so few blocks have more than a chunk that a group goes over one as a rule.
"""

BLOCK_TRIP = 1.3e-6
"""Seconds of a group for a chunk of a block's elements. Measured on an NVIDIA H200: 512 chunks of
2^20 equal ids take 0.64 ms, and 8192 of 2^24 take 12.2.
"""

LEAST_ITEMS = 8
"""The fewest work-items that search together. One alone would take a turn for each element."""

CHUNK, MOST_TOTALS = 64, 4096
"""Elements of a table's chunk, and the most places of a table."""

TABLE_TRIP, TABLE_STEPS, FILLED = 5e-7, 6.5, 1.5e-6
"""Seconds of a group for a chunk, steps of an element of it with each other one, and seconds to
fill a table and to write it. Measured on an NVIDIA H200: 512 groups take 21.6 µs for 32 chunks each
of 2^20 ids, to 1000 places, which gives the first. Of 2^24 ids they take 332 µs to 1000 places and
270 to one, for 512 chunks each, which gives the second.
"""

ATOMIC = {ADD: ("i32", "u32"), LARGEST: ("i32",)}
"""Element types that are combined by atomic operations."""

CELLS, COMBINED_AT_ONCE, MOST_TRIPS = 1024, 4, 8
"""Cells in which a group combines numbers first, the elements that a work-item reads at a time, and
how often it does so at most.
"""

COMBINING, COMBINING_FIRST, COMBINING_TRIP = 2.9e-11, 1.3e-12, 1.4e-6
"""Seconds of combining a number with one in global memory, and with one in local memory; and of a
group's trip. Measured on an NVIDIA H200: 2^24 random ids to as many places take 516 µs, which gives
the first. To one place they take some 22, in sixteen trips, which gives the others.
"""

HANDING_OVER = 1.4e-11
"""Seconds of combining what a group has in a cell with the result: groups meet at the same places,
most of which have a larger number by then. Measured on an NVIDIA H200: 2^24 ids to 1000 places take
57 µs, and 29 to one.
"""


def scatter_schedules(request: Request) -> Schedules:
    """The schedules of a scatter, the fastest first."""
    (node,) = request.body.of_kind(Kind.SCATTER)
    if node.name == "part_totals":
        return _part_totals(request, node)
    if node.name == "bucket_totals":
        return sorted(bucket_total_schedules(request, node), key=lambda schedule: schedule.seconds)
    if node.name in ("scatter_runs", "scatter_runs_in_parts"):
        return _runs(request, node)
    if request.word(COMBINED) == IN_PLACE:
        return [_atomics(request, node)]
    found = [_each(request, node), *_owners(request, node), *_blocks(request, node)]
    found += bucket_schedules(request, node) if node.name == "scatter_in_buckets" else []
    found += _tables(request, node) if node.name == "scatter_along" else []
    return sorted(found, key=lambda schedule: schedule.seconds)


def no_change(combine: str, element: ElementType) -> float | int:
    """What changes no value that it is combined with; -0.0 leaves the sign of a zero."""
    if combine == ADD:
        return -0.0 if element.is_float else 0
    return neutral("max_reduce", element)


def inner_size(node: Node) -> int:
    """How many elements lie in a line behind the axis of a scatter."""
    return prod(node.shape[node.values["axis"] + 1 :])


def looks_once(node: Node) -> bool:
    """Whether all elements of a line behind the axis have one id."""
    return prod(node.operands[1].shape[node.values["axis"] + 1 :]) == 1


def _rises(node: Node) -> bool:
    """Whether ids are in order."""
    return node.name == "scatter_along_in_parts" or bool(node.values.get("sorted"))


def _of_totals(node: Node) -> tuple[float, ...]:
    """How often the totals of parts are read, where there are some: runs are short as a rule."""
    return (0.0,) if "part" in node.values else ()


def _each(request: Request, node: Node) -> Schedule:
    last = node.shape[-1] if node.shape else 1
    width = dividing_lanes(last, request.number("lanes", 16))
    vectors, ids = node.count // width, node.operands[2].shape[node.values["axis"]]
    alike = inner_size(node) > 1 and looks_once(node)
    looking = vectors * (1 if alike or not request.is_gpu else width)
    numbers = split_vectors(request, node, width)
    asked = vectors * ids / max(node.operands[1].count, 1)
    facts = request.facts("form")
    if request.is_gpu:
        seconds = each_seconds(request.device, node.element, looking, ids)
    else:
        seconds = scatter_seconds(request, node, looking * ids * LOOK)
    passes = (1.0, asked, 1.0, *_of_totals(node))
    return Schedule(ScatterVariant.EACH, numbers, facts, seconds, passes)


def _runs(request: Request, node: Node) -> Schedules:
    """Each vector of the result has one run."""
    alike = inner_size(node) > 1 and looks_once(node)
    width = dividing_lanes(node.shape[-1], request.number("lanes", 16)) if alike else 1
    steps = (node.count + node.operands[3].count) / width * LOOK
    seconds = scatter_seconds(request, node, steps)
    asked = node.count / width / max(node.operands[1].count, 1)
    passes = (1.0, asked, 1.0, 1.0, *_of_totals(node))
    waits = _elements_of_a_run(node)
    return _shared(request, node, ScatterVariant.RUNS, width, seconds, waits, passes)


def _shared(
    request: Request,
    node: Node,
    variant: ScatterVariant,
    width: int,
    seconds: float,
    turns: float,
    passes: tuple[float, ...],
) -> Schedules:
    """The schedules by how many work-items of a GPU share so many turns of a vector, the fastest
    first. `seconds` is what all turns take where nothing is waited for.
    """
    facts, vectors = request.facts("form"), node.count // width
    if not request.is_gpu:
        numbers = {**split_vectors(request, node, width), "sharers": 1}
        return [Schedule(variant, numbers, facts, seconds, passes)]
    room = power_below(request.number("local", LOCAL_ITEMS))
    at_once = request.number("units", 1) * GROUPS_A_UNIT * LOCAL_ITEMS
    fixed, found = request.number("sharers", 0), list[Schedule]()
    for sharers in (fixed,) if fixed else SHARERS:
        if sharers > room:
            continue
        items = min(room, power_above(max(vectors, 1)) * sharers)
        turns_each = ceil_div(ceil(turns), sharers)
        waves = max(vectors * sharers / at_once, 1.0)
        waited = WALKED * turns_each * waves + (MEETING if sharers > 1 else 0.0)
        numbers = {"width": width, "items": items, "block": 1, "sharers": sharers}
        found.append(Schedule(variant, numbers, facts, max(seconds, waited), passes))
    return sorted(found, key=lambda schedule: schedule.seconds)


def _elements_of_a_run(node: Node) -> float:
    """How many elements, or totals of parts, a place has where all have as many."""
    axis = node.values["axis"]
    own = node.operands[3].shape[axis] / max(node.shape[axis], 1)
    if node.name == "scatter_runs":
        return own
    part = node.values["part"]
    return min(own, 2 * part + own / part)


def _part_totals(request: Request, node: Node) -> Schedules:
    """Each vector of a part's total looks at two ids, and few parts have one id alone. Whoever has
    one is waited for.
    """
    alike = inner_size(node) > 1 and looks_once(node)
    width = dividing_lanes(node.shape[-1], request.number("lanes", 16)) if alike else 1
    vectors = node.count / width
    seconds = scatter_seconds(request, node, vectors * 2 * LOOK)
    passes = (2.0 * vectors / max(node.operands[0].count, 1), 0.0, 0.0)
    part = node.values["part"]
    return _shared(request, node, ScatterVariant.PART_TOTALS, width, seconds, part, passes)


def sorted_part(count: int) -> int | None:
    """How long parts of so many ids in order are, so that no group goes over a long run by itself.
    A whole part takes a turn, which is half a chunk's or less.
    """
    longest = isqrt(count * LOCAL_ITEMS * ELEMENTS // 4)
    return power_below(longest) if count >= LONG_SORTED else None


def run_part(count: int) -> int | None:
    """How long parts of so many ids in order are, so that no work-item of a GPU goes over a long
    run: it goes over a part before and behind whole ones, whose totals it adds up. None where a run
    is short anyway.
    """
    return power_below(isqrt(count // 2)) if count >= LONG_RUN else None


def _blocks(request: Request, node: Node) -> Iterator[Schedule]:
    """Where each element has an id of its own, and ids are in order."""
    alike = node.operands[1].shape == node.operands[2].shape
    axis, shape = node.values["axis"], node.shape
    count = node.operands[2].shape[axis]
    if not request.is_gpu or not alike or not _rises(node) or not 0 < count < 1 << 31:
        return
    items = power_below(min(request.number("local", LOCAL_ITEMS), LOCAL_ITEMS))
    if items < LEAST_ITEMS:
        return
    rows = node.count // shape[axis]
    chunk = items * ELEMENTS
    busy = GROUPS_A_UNIT * request.number("units", 1)
    fitting = (chunk - SPREAD * isqrt(chunk)) * shape[axis] // count
    block = max(min(fitting, rows * shape[axis] // busy, MOST_PLACES), 1)
    block -= block % LINE if block > LINE else 0
    steps = node.operands[2].count * SEGMENTED + node.count * LOOK
    trips = ceil_div(ceil_div(count, ceil_div(shape[axis], block)), chunk)
    turns = len(list(search_steps(count, items)))
    seconds = max(scatter_seconds(request, node, steps), trips * BLOCK_TRIP) + turns * TURN
    numbers = {"items": items, "each": ELEMENTS, "block": block}
    facts = request.facts("form")
    passes = (1.0, 1.0, 1.0, *_of_totals(node))
    yield Schedule(ScatterVariant.BLOCKS, numbers, facts, seconds, passes)


def _tables(request: Request, node: Node) -> Iterator[Schedule]:
    """Where each element has an id of its own."""
    count = node.operands[2].shape[node.values["axis"]]
    if not request.is_gpu or node.operands[1].shape != node.operands[2].shape or not count:
        return
    places = node.shape[node.values["axis"]]
    block = table_places(request.device, node.element, places)
    blocks = ceil_div(places, block)
    items = min(power_below(request.number("local", 256)), CHUNK)
    seconds = table_seconds(request.device, node.count // places * blocks, count)
    numbers = {"items": items, "block": block}
    passes = (1.0, 1.0 * blocks, 1.0 * blocks)
    yield Schedule(ScatterVariant.TABLES, numbers, request.facts("form"), seconds, passes)


def each_seconds(device: Device, element: ElementType, vectors: int, ids: int) -> float:
    """How long a GPU takes that looks at so many ids for each of so many vectors."""
    steps = vectors * ids * LOOK
    return max(2.0 * steps / device.rate(element.name), ids * LOOKED)


def may_combine_in_place(element: ElementType, combine: str, size: int) -> bool:
    """Whether a GPU has atomic operations that combine such numbers, in any order to the same."""
    return element.name in ATOMIC[combine] and 0 < size < 1 << 31


def _atomics(request: Request, node: Node) -> Schedule:
    """Groups have several trips where there are groups enough."""
    items, units = power_below(request.number("local", 256)), request.number("units", 1)
    count, chunk = node.operands[2].count, items * COMBINED_AT_ONCE
    wanted = ceil_div(count, GROUPS_A_UNIT * units * chunk)
    trips = max(min(wanted, MOST_TRIPS), 1)
    cells = min(CELLS, power_below(request.device.local_memory // 16))
    groups = ceil_div(count, chunk * trips)
    waves = ceil_div(groups, 2 * GROUPS_A_UNIT * units)
    alone = count * max(1.0 - cells / node.count, 0.0)
    handed = groups * min(cells, node.count, chunk * trips)
    combined = alone * COMBINING + handed * HANDING_OVER + count * COMBINING_FIRST
    seconds = max(combined, waves * trips * COMBINING_TRIP) + FILLED
    numbers = {"items": items, "each": COMBINED_AT_ONCE, "trips": trips, "cells": cells}
    facts = request.facts("form", COMBINED)
    return Schedule(ScatterVariant.ATOMICS, numbers, facts, seconds, (0.0, 1.0, 1.0))


def table_places(device: Device, element: ElementType, places: int) -> int:
    """How many places a table has."""
    bytes = accumulator(element).bytes
    room = device.local_memory // 2 // bytes
    return min(MOST_TOTALS, power_below(room), power_above(places))


def table_seconds(device: Device, groups: int, count: int) -> float:
    """How long so many groups take that go over so many elements each."""
    trips = ceil_div(count, CHUNK)
    shared = groups * trips * CHUNK * CHUNK * TABLE_STEPS * 2.0 / device.rate("f32")
    return max(trips * TABLE_TRIP, shared) + FILLED


def _owners(request: Request, node: Node) -> Iterator[Schedule]:
    """What is combined in memory is not rounded there, and nothing follows it."""
    plain = accumulator(node.element) is node.element and request.body.written == [node]
    if request.is_gpu or not plain:
        return
    axis, inner = node.values["axis"], inner_size(node)
    outer, places = prod(node.shape[:axis]), node.shape[axis]
    units, ids = request.number("units", 1), node.operands[2].shape[axis]
    last = node.shape[-1] if inner > 1 else 1
    width = dividing_lanes(last, request.number("lanes", 16)) if looks_once(node) else 1
    looked = outer * ids * (1 if looks_once(node) else inner)

    def seconds_of(parts: int) -> float:
        surprise = 0.0 if parts == 1 or _rises(node) else SURPRISE
        steps = looked * (parts * LOOK + surprise) + outer * ids * inner / width * JOIN
        return scatter_seconds(request, node, steps) * units / max(min(outer * parts, units), 1)

    parts = min(ceil_div(units, max(outer, 1)), max(places, 1))
    parts = min((parts, 1), key=seconds_of)
    asked = outer * parts * ids / max(node.operands[1].count, 1)
    numbers = {"width": width, "parts": parts}
    facts, seconds = request.facts("form"), seconds_of(parts)
    passes = (1.0, max(asked, 1.0), 1.0, *_of_totals(node))
    yield Schedule(ScatterVariant.OWNERS, numbers, facts, seconds, passes)
