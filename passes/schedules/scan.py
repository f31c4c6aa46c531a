"""The schedules of a scan: by work-items that walk rows, or on a GPU by groups that scan a row.

`rows`: a work-item walks a row, or a vector of neighbouring rows. `groups`: the work-items of a
group share a row, or a few short ones: each scans some neighbouring elements in registers, and what
they come to is scanned in local memory (Hillis and Steele 1986). Long rows take several trips. A
trip may have several pieces, in each of which a work-item's vector lies next to its neighbour's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above, power_below
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.rows import RowSpace, row_space
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules

STEPS = {True: 96.0, False: 4.0}
"""Steps an element of a scan takes on a CPU and on a GPU: one waits for the one before."""

ONE_BY_ONE = 0.75
"""What an element takes by itself on a CPU, in the time of a vector."""

WALKED = 1e-7
"""Seconds that a work-item of a GPU takes for an element of a row, which it waits for."""

SHARED = 12.0
"""Steps an element takes where work-items share a row."""

TRIP = 1.2e-6
"""Seconds of a group for a trip: it waits for memory, and for its work-items several times."""

GROUPS_A_UNIT = 6
"""Groups that take turns on a compute unit."""

VECTORS, ELEMENTS = 2, 8
"""The most vectors of a work-item in a trip, and elements of it where vectors are narrow."""

PIECES, WIDE = 4, 4
"""The most pieces of a trip, and the fewest elements of a vector where trips have some. Of narrow
vectors a work-item takes several neighbours, and exchanges once for all of them.
"""

EARLIER = 1.5e-6
"""Seconds of a group that adds up the totals of the parts before its own. Measured on an NVIDIA
H200 with 4096 parts.
"""


class ScanVariant(StrEnum):
    """A variant of the scan template."""

    ROWS = "rows"
    GROUPS = "groups"


@dataclass(frozen=True)
class Parts:
    """The parts of rows that are scanned by themselves: how many a row has, and how long they are;
    the last one may be shorter.
    """

    space: RowSpace
    count: int
    length: int

    @property
    def all(self) -> int:
        return self.space.rows * self.count

    def length_at(self, begin: Index) -> Index | int:
        """How long the part is that begins at an element."""
        whole = self.space.length
        if whole % self.length == 0:
            return self.length
        return (begin * -1 + whole).clamp(0, self.length)


def parts_of(node: Node, space: RowSpace) -> Parts:
    """The parts that a scan has."""
    length = min(node.values.get("part") or space.length, max(space.length, 1))
    return Parts(space, ceil_div(space.length, length), length)


def scan_schedules(request: Request) -> Schedules:
    """The schedules of a scan, the fastest first."""
    space = row_space(request.body, Kind.SCAN)
    (node,) = request.body.of_kind(Kind.SCAN)
    parts = parts_of(node, space)
    found = [_rows(request, node, parts), *_groups(request, node, parts)]
    return sorted(found, key=lambda schedule: schedule.seconds)


def _passes(node: Node) -> tuple[float, ...]:
    return (1.0,) * len(node.operands)


def _rows(request: Request, node: Node, parts: Parts) -> Schedule:
    width, inner, space = 1, 1, parts.space
    if space.innermost_is_kept:
        inner = next(size for size in reversed(space.kept_shape) if size != 1)
        width = request.number("lanes", 16)
        while width > inner:
            width //= 2
    walks = ceil_div(inner, width) * (space.rows // inner) * parts.count
    items = min(request.number("local", 64), walks) if request.is_gpu else 1
    cpu = not request.is_gpu
    seconds = 2.0 * STEPS[cpu] * node.count / request.device.rate(node.element.name)
    if not cpu:
        seconds = max(seconds, parts.length * WALKED)
    if node.values.get("totals"):
        seconds += parts.count * WALKED
    alone = max(ONE_BY_ONE * request.number("lanes", 16), 1.0) if cpu and width == 1 else 1.0
    numbers, facts = {"width": width, "items": items}, request.facts("form")
    return Schedule(ScanVariant.ROWS, numbers, facts, seconds, _passes(node), alone)


def _groups(request: Request, node: Node, parts: Parts) -> Iterator[Schedule]:
    """Along rows whose elements are neighbours in memory."""
    space, local = parts.space, request.number("local", 256)
    if not request.is_gpu or space.innermost_is_kept or parts.length < 2:
        return
    last = next((size for size in reversed(space.shape) if size != 1), 1)
    width = dividing_lanes(last, request.number("lanes", 4))
    if parts.count > 1:
        width = dividing_lanes(parts.length, width)
    most = power_above(ceil_div(parts.length, local * width))
    vectors, pieces = min(max(VECTORS, ELEMENTS // width), most), 1
    if width >= WIDE and most > 1:
        vectors, pieces = 1, min(PIECES, most)
    shares = min(local, power_above(ceil_div(parts.length, vectors * width)))
    together = max(1, min(local // shares, power_below(parts.all)))
    trips = ceil_div(parts.length, shares * vectors * width * pieces)
    waves = ceil_div(ceil_div(parts.all, together), GROUPS_A_UNIT * request.number("units", 1))
    seconds = 2.0 * SHARED * node.count / request.device.rate(node.element.name)
    seconds = max(seconds, waves * trips * TRIP)
    seconds += EARLIER if node.values.get("totals") else 0.0
    numbers = {"width": width, "vectors": vectors, "pieces": pieces}
    numbers |= {"shares": shares, "together": together}
    facts = request.facts("form", "sub_group")
    yield Schedule(ScanVariant.GROUPS, numbers, facts, seconds, _passes(node))
