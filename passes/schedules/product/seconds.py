"""What the variants of the contraction template take: multiplying, packing, waiting for operands.

In: a product, the numbers of a schedule, a device. Out: seconds, and how often each operand is gone
over.

A CPU's template computes blocks of the result. For each block it packs the right operand's columns
into panels, unless they lie in memory so. It packs the left operand's rows, unless they lie side by
side and are read once. While it packs, it evaluates the operations before the product. The steps
are in multiply-adds, measured on an Intel Xeon (AVX-512).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mgn.dialects.fusion.forms import HALVES
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import INPUT, Body, Node
from mgn.passes.kernels.product import Product, lies_in_memory, statistics_bytes
from mgn.passes.schedules.core.figures import USUAL_CACHE
from mgn.passes.schedules.core.packed_blocking import Blocking, may_lie_in_panels
from mgn.passes.schedules.core.schedule import Request
from mgn.passes.schedules.core.tilings import Room

Passes = tuple[float, float]
"""How often the left and the right operand are gone over."""

GPU_EFFICIENCY = 0.98
"""The share of a GPU's rate that the best tiles reach without a matrix unit."""

TILE_LATENCY, NUMBER_WRITTEN = 2.5e-6, 7.6e-11
"""Seconds until groups of a GPU have their first tiles, and the last ones are written; and of
groups that feed a matrix unit, which have larger tiles, for each number of a tile besides. Measured
on an NVIDIA H200, products drawn at random, of which the work takes under 12 µs.
"""

ROW_WAIT = 0.03e-6
"""Seconds that a group alone on its compute unit waits at each step along the shared axis for each
of a few rows but the first; others there are busy meanwhile. Measured on an NVIDIA H200, 4 rows of
4096 in f32, whole and in two parts.
"""

READ_LATENCY = 1.0e-6
"""Seconds until a GPU's memory answers a group that reads by itself. Measured on an NVIDIA H200, 64
groups of 512 work-items that read 117 MB.
"""

FUNCTION_WAIT = 0.01e-6
"""Seconds that a work-item waits for a function, such as exp, of an element of the left operand
before it multiplies: few others of its compute unit have anything to do meanwhile. Measured on an
NVIDIA H200, silu and swiglu, of two functions, of 1 and 2 rows of 512 to 14336: 0.006 to 0.026.
"""

STEP_LATENCY = 0.1e-6
"""Seconds of a step along the shared axis for a work-item of a GPU that reads its operands where
they lie: it waits for each, however few there are. Measured on an NVIDIA H200, 512 steps.
"""

COMPUTED = 0.06
"""The share of its rate that the unit reaches at most on operands that are computed before the
product; of norms, whose price says so, it is not.
"""

LOADS = 0.6
"""How many rows more a register tile would multiply in the time that it loads a step's columns.
Measured on an AMD EPYC (AVX-512), tiles of 13 x 2 vectors.
"""

PACK, PACK_TURNED, PACK_TURNED_HALF = 12.0, 26.0, 120.0
"""Steps to pack an element of the right operand where its rows lie side by side in memory, where
its columns do, and then in half precision.
"""

PACK_APART = 14.0
"""The same of a right operand whose rows lie side by side, columns from both halves of each."""

GATHERED, GATHERED_FAR = 20.0, 120.0
"""Steps to read an element of the right operand where it lies, away from those of other columns;
and where the operand takes more than half of a core's second cache. Measured on an AMD EPYC
(AVX-512).
"""

AGAIN, AGAIN_FAR = 1.6, 3.0
"""Steps to read an element again of what the products of a batch share, where no tile keeps it: a
vector for each multiply-add; and where that takes more than a core's second cache. Measured on an
Intel Xeon (AVX-512), 64 to 4096 products of a row with one matrix of 128 × 128 to 2304 × 768.
"""

IN_PLACE = (0.08, 0.16, 0.3, 0.45)
"""By how much longer a CPU reads a matrix for a product of 1 to 4 rows where it lies than in
panels, which it reads from front to back. Measured on an AMD EPYC (AVX-512): matrices of 1 to 235
MB, which were 0 to 0.08, 0.05 to 0.4, 0.1 to 1 and 0.1 to 1.5, and a decoder's step, 0.08.
"""

WINDOWED = 32.0
"""Steps to find an element of windows in vectors of places, most of which go on in the next row.
Measured on an AMD EPYC (AVX-512), 3 × 3 windows of rows of 28 and 43.
"""

PACK_LEFT, MEET = 4.4, 5.4
"""Steps to pack an element of the left operand; and to store a sum between blocks of the shared
axis and fetch it.
"""


def useful_seconds(product: Product, rate: float) -> float:
    """Seconds of the multiplications at a rate."""
    return 2.0 * prod(product.batch) * product.rows * product.columns * product.depth / rate


def plain_rate(product: Product, device: Device) -> float:
    """The rate of a product without a matrix unit: half precision is added up in f32."""
    name = product.element.name
    return device.rate("f32" if name in HALVES else name)


@dataclass(frozen=True)
class Extent:
    """The sizes of a product on a GPU, and the bytes of local memory that a row takes besides."""

    batches: int
    rows: int
    columns: int
    depth: int
    row_bytes: int

    @staticmethod
    def of(body: Body, product: Product) -> "Extent":
        row_bytes = statistics_bytes(body, product)
        return Extent(prod(product.batch), product.rows, product.columns, product.depth, row_bytes)

    def groups(self, tile: tuple[int, int]) -> int:
        """How many tiles of rows and columns there are."""
        rows, columns = tile
        return self.batches * ceil_div(self.rows, rows) * ceil_div(self.columns, columns)

    def tile_seconds(self, tile: tuple[int, int], room: Room) -> float:
        """Seconds of a tile of rows and columns on one compute unit."""
        return 2.0 * prod(tile) * self.depth * room.units / room.rate


def tile_passes(product: Product, tile: tuple[int, int]) -> Passes:
    """A row of tiles goes over the right operand, a column of them over the left one."""
    rows, columns = tile
    return float(ceil_div(product.columns, columns)), float(ceil_div(product.rows, rows))


def packed_seconds(request: Request, product: Product, sizes: Blocking) -> tuple[float, Passes]:
    """What blocks of packed panels take, where units have uneven shares of them."""
    batches, lanes = prod(product.batch), request.number("lanes", 16)
    units = request.number("units", 2)
    tiles_down = ceil_div(product.rows, sizes.rows)
    tiles_across = ceil_div(product.columns // sizes.halves, sizes.span)
    down, across = ceil_div(tiles_down, sizes.down), ceil_div(tiles_across, sizes.across)
    tiles = batches * tiles_down * tiles_across
    steps = tiles * (sizes.rows + LOADS) * sizes.vectors * lanes * product.depth
    if sizes.copies_right:
        steps += batches * product.columns * product.depth * down * _packing(product)
    if sizes.copies_left:
        steps += batches * product.rows * product.depth * across * PACK_LEFT
    blocks = ceil_div(product.depth, sizes.depth)
    if blocks > 1:
        steps += batches * product.rows * product.columns * blocks * MEET
    shares = down * across * batches / units
    seconds = 2.0 * steps * ceil_div(down * across * batches, units) / shares
    return seconds / plain_rate(product, request.device), (float(across), float(down))


def gathered_seconds(product: Product, device: Device) -> float:
    """Reading a right operand whose columns lie apart, each element by itself."""
    right = product.node.operands[1]
    near = 2 * right.count * right.element.bytes <= (device.l2_cache or USUAL_CACHE)
    steps = GATHERED if near else GATHERED_FAR
    return 2.0 * steps * right.count / plain_rate(product, device)


def shared_seconds(product: Product, device: Device) -> float:
    """Reading again an operand that products of a batch have in common, for each but the first. A
    GPU has it in a cache, which all of its compute units read about as fast as memory.
    """
    steps = moved = 0.0
    for operand, side in zip(product.node.operands, (product.rows, product.columns), strict=True):
        matrix = side * product.depth
        again, size = prod(product.batch) * matrix - operand.count, operand.element.bytes
        if again > 0:
            span = matrix * _matrices_gone_over(product.batch, operand.shape[:-2])
            near = span * size <= (device.l2_cache or USUAL_CACHE)
            steps += again * (AGAIN if near else AGAIN_FAR)
            moved += again * size
    return 2.0 * steps / plain_rate(product, device) if device.is_cpu else moved / device.bandwidth


def _matrices_gone_over(batch: Sequence[int], own: Sequence[int]) -> int:
    """How many matrices of an operand lie between two reads of one: those along the axes of a batch
    behind the first one that they share.
    """
    axes = (*(1 for _ in batch[len(own) :]), *own)
    shared = next(n for n, size in enumerate(axes) if size < batch[n])
    return prod(axes[shared + 1 :])


def waits_in_place(product: Product, device: Device) -> float:
    """How long a CPU waits for a right operand of few rows besides, since it is in no panels."""
    right = product.node.operands[1]
    if not device.is_cpu or product.rows > len(IN_PLACE) or not may_lie_in_panels(right):
        return 0.0
    if not lies_in_memory(right):
        return 0.0
    return IN_PLACE[product.rows - 1] * device.seconds_to_move(right.count * right.element.bytes)


def windows_seconds(product: Product, device: Device) -> float:
    """Finding the elements of a right operand that is windows, once each, to pack them."""
    return 2.0 * WINDOWED * product.node.operands[1].count / plain_rate(product, device)


def _packing(product: Product) -> float:
    """Steps to pack an element of the right operand."""
    half = product.element.name in HALVES
    right = product.node.operands[1]
    if bool(product.node.values["transpose_b"]) is not is_turned(right):
        return PACK_TURNED_HALF if half else PACK_TURNED
    return PACK_APART if product.halves > 1 and not half else PACK


def is_turned(node: Node) -> bool:
    """Whether what a value is computed from lies in memory with its last axis elsewhere."""
    turned = False
    while node.kind in (Kind.MOVEMENT, Kind.ELEMENTWISE) and node.name != INPUT:
        if node.name == "transpose":
            perm = node.values["perm"]
            turned ^= perm[-1] != len(perm) - 1
        turned ^= node.name == "windows"  # whose places come before their elements
        node = node.operands[0]
    return turned
