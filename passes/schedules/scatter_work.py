"""What schedules of scatters share: their variants, how work is dealt, what looking takes."""

from collections.abc import Iterator
from enum import StrEnum

from mgn.passes.kernels.arithmetic import ceil_div, power_above
from mgn.passes.kernels.body import Node
from mgn.passes.schedules.core.schedule import Request

LONG_SORTED = 1 << 16
"""Ids in order that may be one run, or in one bucket, which a group of a GPU does not go over
alone. An NVIDIA H200 takes 12.2 ms for 2^24 with one id, and 0.64 for 2^20.
"""

LOOK = 3.0
"""Steps that it takes to look at an id."""

ITEMS_A_UNIT = 4
"""Work-items for each core of a CPU, so that none waits for one with many ids."""

TURN = 1e-6
"""Seconds of a group for a turn of the search for where a block begins, which waits for memory."""


class ScatterVariant(StrEnum):
    """A variant of the scatter template."""

    EACH = "each id"
    OWNERS = "owners"
    RUNS = "runs"
    PART_TOTALS = "part totals"
    BLOCKS = "blocks"
    BUCKETS = "buckets"
    BUCKET_TOTALS = "bucket totals"
    TABLES = "tables"
    ATOMICS = "atomics"


def search_steps(count: int, items: int) -> Iterator[int]:
    """How many of so many elements in order each of some work-items stands for, in each turn of a
    search. What a turn leaves open lies between two of those that were looked at.
    """
    while count:
        step = ceil_div(count, items)
        yield step
        count = step - 1


def scatter_seconds(request: Request, node: Node, steps: float) -> float:
    """How long a device takes for so many steps of a work-item."""
    width = request.number("lanes", 16) if not request.is_gpu else 1
    return 2.0 * steps * width / request.device.rate(node.element.name)


def split_vectors(request: Request, node: Node, width: int) -> dict[str, int]:
    """How vectors of the result are dealt to work-items."""
    vectors = node.count // width
    if request.is_gpu:
        return {"width": width, "items": group_of(request, vectors), "block": 1}
    share = ceil_div(vectors, ITEMS_A_UNIT * request.number("units", 1))
    return {"width": width, "items": 1, "block": max(1, share)}


def group_of(request: Request, vectors: int) -> int:
    """How many work-items a group of a GPU has that share so many vectors."""
    return min(request.number("local", 256), power_above(max(vectors, 1)))
