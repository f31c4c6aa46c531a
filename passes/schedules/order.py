"""The schedules of putting values in order: by a work-group in local memory, by a work-item in
memory of its own, or by merging runs that are in order.

`groups`: a work-group sorts a few runs by a bitonic network (Batcher 1968). `rows`: on a CPU a
work-item sorts a run by merging. `lanes`: it sorts as many rows as a vector has lanes by a network.
`selections`: it keeps the first few alone. `merges`: each work-item finds where its part of the
result begins in a pair of runs (Odeh, Green, Mwassi, Shmueli and Birk 2012, "Merge Path"), and
merges that part. `digit counts`, `digits` and `digit ranks`: a row is put in the order of a digit.
These return at once where they are told that a row is in order. Their seconds are those of rows
that are not: looking costs a comparison, and returning early is worth nothing beforehand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log, log2, prod

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.rows.digits import key_bits
from mgn.dialects.types import ElementType
from mgn.passes.kernels.arithmetic import ceil_div, power_above, power_below
from mgn.passes.kernels.body import Node
from mgn.passes.schedules.core.schedule import VARIANT, Request, Schedule, Schedules

GROUP_RUN = 4096
"""The longest run that a group sorts."""

HELD_STEPS = 3
HELD = 1 << HELD_STEPS
"""Steps of a network that work-items do in registers, and the records that they hold for it."""

GAP_AFTER = 16
"""Records after which local memory has a gap of one."""

RECORD_BYTES = {False: 8, True: 12}
"""Bytes of a record: of a key with its position, which more than 32 bits do not share."""

EXCHANGE, MERGED, SORTED, SEARCHED, PASSED = 14.0, 12.0, 58.0, 8.0, 6.0
"""Steps to compare two elements and exchange them, to merge one, and to merge one where a work-item
sorts by merging; of a turn of a search; to look at an element that is passed by.
"""

LOOKED, VECTOR_PASSED, INSERTED, VECTOR_MOVED = 14.0, {1: 18.0, 4: 13.0}, 130.0, 10.0
"""Steps on a CPU. `LOOKED`: to look at an element. `VECTOR_PASSED`: to look at a vector that is
passed by, by how many vectors are looked at together. `INSERTED`: to find an element that is to be
kept, a branch that the processor did not foresee. `VECTOR_MOVED`: to move a vector of kept records.
"""

LANE_EXCHANGE, LANE_MOVED, LANE_STEPS = 4.0, 3.0, 3
"""Steps of exchanging two vectors of records, and of reading an element of a row and writing it at
its place; and the steps of a network that are done in registers.
"""

DIGITS = ("sort_digits", "place_digits")
"""The operations that put a row in the order of a digit."""

COUNTED, PLACED = {True: 4.0, False: 8.0}, {True: 12.0, False: 450.0}
"""Steps of counting the digit of an element and of putting one in its place, on a CPU and on a GPU:
an NVIDIA H200 does this with 50 elements in a nanosecond.
"""

COMPARED = 2.0
"""Steps of comparing the key of an element with the one before it, which a cache has."""

GROUPS_A_UNIT = 4
"""Groups that a compute unit of a GPU needs to be busy."""

PLACES = 8
"""Elements of a tile that a work-item has."""

COUNTING = 32
"""The size of sub-groups that count in order; so many work-items share counts elsewhere, too."""

RANKED, RUN_ENDS, SHORT_TILE = 68.0, 52.0, 4096
"""Where sub-groups count in order. `RANKED`: steps of finding the place of an element, and as many
of putting each value there. `RUN_ENDS`: what each of these takes more in tiles of up to
`SHORT_TILE` elements, and less of it in longer ones, which have fewer runs of a digit. A run begins
and ends within a sector of 32 bytes, which memory reads before it is written.

In a nanosecond, an NVIDIA H200 puts 110 elements with one value each in their places in tiles of
4096, and 65 with two values; in tiles of 16,384 it puts 110 with two.
"""

HELD_COUNTS = 8
"""Elements that a work-item reads at a time to count their digits."""

HELD_ELEMENTS = (16, 8, 4)
"""How many elements of a tile a work-item may have whose sub-group counts in order."""

DIGIT_ITEMS, LARGER_GROUPS = 256, (1, 2, 4)
"""Work-items of a GPU's group that counts digits or puts elements in their order, and how many
times as many it may have where sub-groups count in order.
"""

LONGEST_TILE = DIGIT_ITEMS * max(LARGER_GROUPS) * max(HELD_ELEMENTS)
"""The most elements that such a group puts in order at a time, if local memory has room."""

PART = {True: 512, False: 8}
"""Elements of the result that a work-item merges, on a CPU and on a GPU."""


@dataclass(frozen=True)
class Passing:
    """The parts of a run that a selection goes over: vectors whose elements it looks at one by one,
    as many as are kept, then blocks of vectors, and where vectors end.
    """

    first: int
    blocks: int
    vectors: int

    @staticmethod
    def of(length: int, kept: int, width: int, together: int) -> "Passing":
        vectors = length // width
        first = min(ceil_div(kept, width), vectors)
        return Passing(first, (vectors - first) // together, vectors)


class OrderVariant(StrEnum):
    """A variant of the order template."""

    GROUPS = "groups"
    ROWS = "rows"
    LANES = "lanes"
    SELECTIONS = "selections"
    BEST = "best"
    MERGES = "merges"
    COUNTS = "digit counts"
    DIGITS = "digits"
    RANKS = "digit ranks"


@dataclass(frozen=True)
class Runs:
    """The runs of an order: rows, elements of a row, the length of a run, runs of a row, and how
    many in a row are in order already.
    """

    rows: int
    length: int
    run: int
    count: int
    ordered: int

    @property
    def all(self) -> int:
        return self.rows * self.count


def runs_of(node: Node) -> Runs:
    """The runs that a node puts in order."""
    shape, axis = node.operands[0].shape, node.values["axis"]
    length = shape[axis]
    rows = prod(shape) // max(length, 1)
    run = min(node.values.get("run") or node.values.get("part") or length, length)
    return Runs(rows, length, run, ceil_div(length, max(run, 1)), node.values.get("ordered", 0))


def order_schedules(request: Request) -> Schedules:
    """The schedules of an order."""
    node = request.body.of_kind(Kind.ORDER)[0]
    runs = runs_of(node)
    if node.name == "digit_counts":
        return [_counts(request, runs)]
    if node.name in DIGITS:
        found = [*_ranks(request, node, runs), _digits(request, runs)]
        return sorted(found, key=lambda schedule: schedule.seconds)
    if 1 < runs.ordered < runs.run:
        found = [_merges(request, runs)]
    elif request.is_gpu or request.word(VARIANT) == OrderVariant.GROUPS:
        found = [_groups(request, runs, node.operands[0].element)] if runs.run <= GROUP_RUN else []
        found += _best(request, node, runs)
        found.sort(key=lambda schedule: schedule.seconds)
    else:
        found = [_rows(request, runs), *_lanes(request, node, runs)]
        found += _selections(request, node, runs)
        found.sort(key=lambda schedule: schedule.seconds)
    return found


def _schedule(
    request: Request, variant: OrderVariant, steps: float, numbers: dict[str, int]
) -> Schedule:
    """A schedule of so many steps of work-items, all of them together."""
    width = 1 if request.is_gpu else request.number("lanes", 16)
    seconds = 2.0 * steps * width / request.device.rate("i32")
    (node, *_) = request.body.of_kind(Kind.ORDER)
    passes = (1.0,) * len(node.operands)
    return Schedule(variant, numbers, request.facts("form"), seconds, passes)


def _groups(request: Request, runs: Runs, element: ElementType) -> Schedule:
    slots = max(power_above(runs.run), 2)
    together = max(1, min(request.number("local", 256) // slots, runs.all))
    together = power_below(together)
    room = (together * slots) * (1 + 1 / GAP_AFTER) * RECORD_BYTES[key_bits(element) > 32]
    in_registers = slots >= HELD and room <= request.device.local_memory
    least = together * slots // (HELD if in_registers else 2)
    items = min(request.number("local", 256), least)
    stages = log2(slots)
    steps = runs.all * slots / 2 * stages * (stages + 1) / 2 * EXCHANGE
    numbers = {"slots": slots, "together": together, "items": items, "held": in_registers * HELD}
    return _schedule(request, OrderVariant.GROUPS, steps, numbers)


def _rows(request: Request, runs: Runs) -> Schedule:
    steps = runs.all * runs.run * max(log2(max(runs.run, 1)), 1.0) * SORTED
    units = request.number("units", 1)
    steps *= max(1.0, units / max(runs.all, 1))
    return _schedule(request, OrderVariant.ROWS, steps, {})


def _lanes(request: Request, node: Node, runs: Runs) -> Iterator[Schedule]:
    """Where rows are whole runs, and a record is one number that a vector has several of."""
    width = max(request.number("lanes", 16) // 2, 2)
    slots = max(power_above(runs.run), 2)
    room = slots * width * RECORD_BYTES[False]
    single = key_bits(node.operands[0].element) <= 32 and runs.count == 1
    if not single or runs.run < 2 or room > request.device.local_memory:
        return
    stages, groups = log2(slots), ceil_div(runs.rows, width)
    exchanges = slots / 2 * stages * (stages + 1) / 2
    steps = groups * (exchanges * LANE_EXCHANGE + slots * width * LANE_MOVED)
    steps *= max(1.0, request.number("units", 1) / groups)
    numbers = {"slots": slots, "width": width, "steps": min(LANE_STEPS, int(stages))}
    yield _schedule(request, OrderVariant.LANES, steps, numbers)


def _selections(request: Request, node: Node, runs: Runs) -> Iterator[Schedule]:
    """Where few of a row are wanted. In a row of random order, n-th elements are among the k first
    of those before with a chance of k in n.
    """
    kept = node.values["first"]
    if not 0 < kept < runs.length:
        return
    inserted = kept * (1.0 + log(runs.length / kept))
    bits = key_bits(node.operands[0].element)
    width = max(request.number("lanes", 16) * 32 // max(bits, 32), 1)
    moving = ceil_div(kept, width // 2) * VECTOR_MOVED if bits <= 32 else kept * MERGED
    for together, passed in VECTOR_PASSED.items():
        parts = Passing.of(runs.length, kept, width, together)
        vectors = parts.vectors - parts.first
        alone = runs.length - vectors * width + min(inserted, vectors) * width
        steps = vectors * passed + alone * LOOKED + inserted * (INSERTED + moving)
        steps *= max(runs.all, request.number("units", 1))
        numbers = {"width": width, "together": together}
        yield _schedule(request, OrderVariant.SELECTIONS, steps, numbers)


def _best(request: Request, node: Node, runs: Runs) -> Iterator[Schedule]:
    """Where few of a row are wanted, on a GPU: tiles of half the slots, which twice the number of
    those that are kept must fit.
    """
    kept, items = node.values["first"], request.number("local", 256)
    slots = max(power_above(2 * kept), 4 * items)
    if not 0 < kept < runs.length or runs.length < slots or slots > GROUP_RUN:
        return
    tiles = ceil_div(runs.length, slots // 2)
    sorts = 2.0 + kept * log(runs.length / (slots // 2)) / (slots // 2)
    stages = log2(slots)
    sorting = slots / 2 * stages * (stages + 1) / 2 * EXCHANGE
    steps = runs.rows * (sorts * sorting + runs.length * PASSED + tiles * items * 2 * log2(items))
    steps *= _idle(request, runs)
    yield _schedule(request, OrderVariant.BEST, steps, {"slots": slots, "items": items})


def _merges(request: Request, runs: Runs) -> Schedule:
    part = min(PART[not request.is_gpu], power_below(runs.ordered))
    parts = runs.rows * ceil_div(runs.length, part)
    steps = parts * (part * MERGED + log2(runs.ordered) * SEARCHED)
    items = min(request.number("local", 256), power_above(parts)) if request.is_gpu else 1
    return _schedule(request, OrderVariant.MERGES, steps, {"part": part, "items": items})


def _counts(request: Request, runs: Runs) -> Schedule:
    numbers = {"items": 1}
    if request.is_gpu:
        numbers = {"items": _digit_items(request), "held": HELD_COUNTS}
    (node, *_) = request.body.of_kind(Kind.ORDER)
    each = COUNTED[not request.is_gpu] + COMPARED * node.values["with_falls"]
    steps = runs.rows * runs.length * each
    return _schedule(request, OrderVariant.COUNTS, steps * _idle(request, runs), numbers)


def _digit_items(request: Request) -> int:
    return min(request.number("local", DIGIT_ITEMS), DIGIT_ITEMS)


def _digits(request: Request, runs: Runs) -> Schedule:
    items = _digit_items(request) if request.is_gpu else 1
    steps = runs.rows * runs.length * PLACED[not request.is_gpu]
    numbers = {"items": items, "each": PLACES} if request.is_gpu else {}
    return _schedule(request, OrderVariant.DIGITS, steps * _idle(request, runs), numbers)


def moved_values(nodes: Sequence[Node]) -> list[Node]:
    """The values that digits put in their places."""
    return list(dict.fromkeys(node.operands[1] for node in nodes))


def _ranks(request: Request, node: Node, runs: Runs) -> Iterator[Schedule]:
    """Where digits were counted, on a GPU whose sub-groups count in order."""
    asked = request.word(VARIANT) == OrderVariant.RANKS
    counts = asked or request.number("sub_group", 1) == COUNTING
    if not request.is_gpu or not counts or node.name != "place_digits":
        return
    moved = moved_values(request.body.of_kind(Kind.ORDER))
    for items, each in _ranked_tiles(request, 1 << node.values["bits"], moved):
        tile = items * each
        placed = RANKED + RUN_ENDS * min(1.0, SHORT_TILE / tile)
        steps = runs.all * ceil_div(runs.run, tile) * tile * placed * (1 + len(moved))
        numbers = {"items": items, "each": each}
        yield _schedule(request, OrderVariant.RANKS, steps * _idle(request, runs), numbers)


def _ranked_tiles(
    request: Request, digits: int, moved: Sequence[Node]
) -> Iterator[tuple[int, int]]:
    """The work-items of a group, and elements of each, whose tile local memory has room for.

    An element has its values and a digit of one byte there. Of each digit there are a count for
    each sub-group and three numbers, and sums of some digits, which are fewer.
    """
    record = 1 + sum(value.element.bytes for value in moved)
    least = _digit_items(request)
    most = request.number("largest_group", least)
    memory = request.number("local_memory", request.device.local_memory)
    for items in (least * times for times in LARGER_GROUPS if least * times <= most):
        room = memory - 4 * digits * (items // COUNTING + 4)
        fitting = [each for each in HELD_ELEMENTS if items * each * record <= room]
        if items % COUNTING == 0:
            yield from ((items, each) for each in fitting)


def _idle(request: Request, runs: Runs) -> float:
    """How much longer it takes than with parts enough for all units."""
    units = request.number("units", 1) * (1 if not request.is_gpu else GROUPS_A_UNIT)
    return max(1.0, units / max(runs.all, 1))
