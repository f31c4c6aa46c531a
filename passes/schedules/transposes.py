"""How a body that transposes what it reads is cut: squares, rows side by side, or tiles.

In: a pointwise body. Out: the axis along which operands lie in memory, and tiles of a group on a
GPU, whose loads of such operands local memory serves.
"""

from dataclasses import dataclass

from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.body import Body
from mgn.passes.kernels.index import Atom, Clamped, Counter, Index
from mgn.passes.kernels.loads import is_plain, plain_loads
from mgn.passes.schedules.core.schedule import Request

LONGEST_BODY = 12
"""Up to how many operations are worth writing out for each row of a square."""


def row_axis(body: Body, shape: tuple[int, ...], width: int) -> int | None:
    """The axis of the result along which an operand is contiguous; None where squares do not help.

    Found by what the body loads at an index of plain counters.
    """
    turned = any(node.name == "transpose" for node in body.nodes)
    if not turned or len(body.nodes) > LONGEST_BODY or len(shape) < 2 or shape[-1] < width:
        return None
    counters, loads = plain_loads(body, shape)
    for _, index in loads:
        strides = dict(index.terms)
        if strides.get(counters[-1], 0) in (0, 1) or not is_plain(index, counters[-1]):
            continue
        for axis, counter in enumerate(counters[:-1]):
            if strides.get(counter) == 1 and shape[axis] >= width and is_plain(index, counter):
                return axis
    return None


TOGETHER = 256
"""Elements of neighbouring rows that are read together."""


def interleaved_axis(body: Body, shape: tuple[int, ...]) -> int | None:
    """The axis along which rows of the result are neighbours in an operand; None where the rows
    that follow each other in the result are, or where a row is long enough to be read by itself.
    """
    turned = any(node.name == "transpose" for node in body.nodes)
    if not turned or len(shape) < 3 or shape[-2] == 1 or 2 * shape[-1] > TOGETHER:
        return None
    counters, loads = plain_loads(body, shape)
    for _, index in loads:
        strides = {_within(atom): stride for atom, stride in index.terms}
        if strides.get(counters[-1]) != 1 or strides.get(counters[-2], 0) <= shape[-1]:
            continue
        for axis, counter in enumerate(counters[:-2]):
            if strides.get(counter) == shape[-1] and is_plain(index, *counters[-2:]):
                return axis
    return None


def _within(atom: Atom) -> Atom:
    """The counter that is clamped to the part of a tensor that is read, as of a concatenation."""
    if isinstance(atom, Clamped) and [step for _, step in atom.inner.terms] == [1]:
        return atom.inner.terms[0][0]
    return atom


TILE_BYTES = 256
"""The length of a tile's rows in memory."""

MOST_TURNED = 2
"""How many operands may pass through local memory."""

LEAST_TILE = 16
"""Axes shorter than this do not fill a tile."""

SEGMENT = 32
"""The work-items of a sub-group; so many numbers of 4 bytes are a segment of memory."""

RAGGED_TILE, SEGMENT_ITEMS = (64, 128), 512
"""Rows and columns of a tile, and the work-items of a group, where it moves whole segments."""

RAGGED_TILES = {4: (96, 64), 8: (64, 64)}
"""Rows and columns of a tile whose lines begin anywhere between two vectors, by the bytes of an
element of all operands that it turns.
"""

WIDE_BYTES = 4
"""Numbers of fewer bytes share a bank of local memory, where vectors of them would collide."""

RAGGED_ITEMS = 256
"""Work-items of a group of them: several groups share a compute unit."""


@dataclass(frozen=True)
class Turned:
    """A load that a tile's local memory serves: the input, and its index in plain counters."""

    number: int
    index: Index


@dataclass(frozen=True)
class TurnedLoads:
    """Loads of operands that lie along another axis than the results, and the counters used."""

    loads: tuple[Turned, ...]
    counters: tuple[Counter, ...]


def turned_loads(body: Body, shape: tuple[int, ...], axis: int) -> TurnedLoads:
    """The loads that lie along an axis."""
    counters, loads = plain_loads(body, shape)
    turned = [
        Turned(number, index)
        for number, index in loads
        if _is_turned(index, counters[axis], counters[-1])
    ]
    return TurnedLoads(tuple(dict.fromkeys(turned)), counters)


def tiled_axis(body: Body, shape: tuple[int, ...]) -> int | None:
    """The axis along which tiles turn what lies so; None where tiles do not help."""
    turns = any(node.name == "transpose" for node in body.nodes)
    if not turns or len(shape) < 2 or shape[-1] < LEAST_TILE:
        return None
    for axis, size in enumerate(shape[:-1]):
        if size >= LEAST_TILE and 1 <= len(turned_loads(body, shape, axis).loads) <= MOST_TURNED:
            return axis
    return None


def _is_turned(index: Index, row: Counter, column: Counter) -> bool:
    strides = dict(index.terms)
    plain = is_plain(index, row) and is_plain(index, column)
    return plain and strides.get(row) == 1 and strides.get(column, 0) not in (0, 1)


def has_vectors(request: Request, shape: tuple[int, ...], axis: int) -> bool:
    """Whether lines that begin anywhere are worth moving in vectors."""
    body, most = request.body, request.number("lanes", 4)
    odd = shape[axis] % most or shape[-1] % most
    sizes = turned_bytes(body, turned_loads(body, shape, axis))
    wide = min(*sizes, *(node.element.bytes for node in body.written)) >= WIDE_BYTES
    there = sum(sizes) in RAGGED_TILES and request.number("tile_items", 1) >= RAGGED_ITEMS
    return bool(odd) and wide and there


def turned_bytes(body: Body, turned: TurnedLoads) -> list[int]:
    """The bytes of an element of each of the turned operands."""
    return [body.inputs[load.number].element.bytes for load in turned.loads]


@dataclass(frozen=True)
class TileSizes:
    """Rows and columns of a group's tile, and its work-items; in `segments` where lines begin
    anywhere, which a sub-group reads or writes whole.
    """

    rows: int
    columns: int
    items: int
    segments: bool


def tile_sizes(request: Request, shape: tuple[int, ...], axis: int) -> TileSizes:
    """The tile of a group."""
    body, most = request.body, request.number("lanes", 4)
    tile = min(64, TILE_BYTES // max(turned_bytes(body, turned_loads(body, shape, axis))))
    local = min(request.number("tile_items", 1), SEGMENT_ITEMS)
    widths = (dividing_lanes(shape[axis], most), dividing_lanes(shape[-1], most))
    if local >= SEGMENT and min(widths) < most:
        return TileSizes(*RAGGED_TILE, local, True)
    return TileSizes(tile, tile, min(request.number("local", 256), tile * tile // most), False)
