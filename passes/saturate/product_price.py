"""What a matrix product takes: tiles of its result, and on a CPU the packing of its operands.

In: the signature of a product, a device. Out: seconds, and how often each operand is asked for an
element.

A CPU's template computes blocks of the result. For each it packs the right operand's columns into
panels, and the left operand's rows unless they lie side by side in memory, and evaluates on the way
what comes before the product. The steps are in multiply-adds, measured on an Intel Xeon (AVX-512):
fifty products of 8 to 1024 rows in all forms, alone on the machine, took 0.7 to 1.5 times as long
as this says.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel_forms import HALVES
from mgn.passes.saturate.view import Signature

GPU_TILE = (64, 64)
"""Rows and columns of the result that one pass computes on a GPU."""

CPU_TILE, CPU_LANES = (8, 32), 16
CPU_BLOCK = (128, 64)
"""The same on a CPU, in vectors of so many lanes, and of the block for which operands are packed
together.
"""

BLOCKS_A_UNIT = 8
"""Blocks that each of a CPU's units should have, for which blocks get smaller."""

FEW_ROWS = 4
"""Products of so few rows read both operands where they lie, once."""

REACHED = 0.64
"""The share of a CPU's rate at which register tiles multiply."""

PACK, PACK_TURNED, PACK_TURNED_HALF, PACK_LEFT = 22.0, 50.0, 120.0, 14.0
"""Steps to pack an element: of the right operand where its rows lie side by side in memory, where
its columns do, and then in half precision; and of the left one.
"""

PACK_APART = 25.0
"""The same of a right operand whose rows lie side by side, columns from both halves of each."""

LONGEST_DEPTH, MEET = 512, 90.0
"""From which shared axis on sums wait in local memory, and the steps of storing and fetching one.
"""


def product_shape(signature: Signature) -> tuple[int, int, int, int]:
    """Batches, rows, columns and the inner size of a matrix product."""
    left, right = map(list, signature.operand_shapes)
    inner = left[-2] if signature.values["transpose_a"] and len(left) > 1 else left[-1]
    vector_a, vector_b = len(left) == 1, len(right) == 1
    columns = 1 if vector_b else signature.shape[-1]
    rows = 1 if vector_a else signature.shape[-1 if vector_b else -2]
    batches = signature.size // max(rows * columns, 1)
    return batches, rows, columns, inner


@dataclass(frozen=True)
class Passes:
    """How often the template goes over the left and the right operand; elements of the result that
    it computes, with those of tiles that reach past the edge and of lanes that stay empty; and by
    how much the longest share of a unit exceeds the mean.
    """

    left: int
    right: int
    computed: int
    imbalance: float


@dataclass(frozen=True)
class Lie:
    """How operands lie in memory: whether the left one's rows lie side by side, whether the right
    one's columns do, whether that one is packed there, and is read from both halves of its rows.
    """

    in_place: bool
    turned: bool
    packed: bool = False
    apart: bool = False


def product_seconds(signature: Signature, device: Device, rate: float, lie: Lie) -> float:
    """Seconds of multiplying at a rate on a CPU."""
    batches, rows, columns, inner = product_shape(signature)
    useful = 2.0 * batches * rows * columns * inner / rate
    if rows <= FEW_ROWS or columns == 1:
        return useful
    passes = cpu_passes(batches, rows, columns, device.compute_units)
    steps = passes.computed * inner * passes.imbalance / REACHED
    if not lie.packed:
        steps += batches * columns * inner * passes.right * _packing(signature, lie)
    if not lie.in_place:
        steps += batches * rows * inner * passes.left * PACK_LEFT
    if inner > LONGEST_DEPTH:
        steps += passes.computed * math.ceil(inner / LONGEST_DEPTH) * MEET
    return 2.0 * steps / rate


def _packing(signature: Signature, lie: Lie) -> float:
    """Steps to pack an element of the right operand."""
    half = signature.element in HALVES
    if lie.turned:
        return PACK_TURNED_HALF if half else PACK_TURNED
    return PACK_APART if lie.apart and not half else PACK


def product_demands(signature: Signature, device: Device) -> list[float]:
    """How many times the template asks for an element of each operand."""
    batches, rows, columns, _ = product_shape(signature)
    left, right = signature.operand_sizes
    if not device.is_cpu:
        return [
            float(left * math.ceil(columns / GPU_TILE[1])),
            float(right * math.ceil(rows / GPU_TILE[0])),
        ]
    if rows <= FEW_ROWS or columns == 1:
        return [float(left * math.ceil(columns / CPU_TILE[1])), float(right)]
    passes = cpu_passes(batches, rows, columns, device.compute_units)
    return [float(left * passes.left), float(right * passes.right)]


@lru_cache(maxsize=1024)
def cpu_passes(batches: int, rows: int, columns: int, units: int) -> Passes:
    """How a CPU's template cuts a product: blocks of up to `CPU_BLOCK`, fewer tiles in each where
    units would be without work.
    """
    tile_rows = min(CPU_TILE[0], rows)
    width = min(CPU_LANES, 1 << (max(columns, 1).bit_length() - 1))
    tile_columns = width * max(min(CPU_TILE[1] // CPU_LANES, columns // width), 1)
    down, across = math.ceil(rows / tile_rows), math.ceil(columns / tile_columns)
    block_down = min(CPU_BLOCK[0] // tile_rows, down)
    block_across = max(1, min(CPU_BLOCK[1] // tile_columns, across))

    def blocks() -> int:
        return math.ceil(down / block_down) * math.ceil(across / block_across) * batches

    while block_down * block_across > 1 and blocks() < BLOCKS_A_UNIT * units:
        if block_across > 1:
            block_across = math.ceil(block_across / 2)
        else:
            block_down = math.ceil(block_down / 2)
    shares = blocks() / units
    return Passes(
        math.ceil(across / block_across),
        math.ceil(down / block_down),
        batches * down * across * tile_rows * tile_columns * CPU_LANES // width,
        math.ceil(shares) / max(shares, 1e-9),
    )


def tiled_seconds(signature: Signature, device: Device, rate: float, waits: bool) -> float:
    """Tiles in waves of one for each of a GPU's units, which groups of few tiles share, unless the
    product `waits` for them.
    """
    _, rows, columns, inner = product_shape(signature)
    tiles = _gpu_tiles(signature)
    waves = math.ceil(max(tiles, 1) / device.compute_units)
    padded = waves * 2.0 * GPU_TILE[0] * GPU_TILE[1] * inner / (rate / device.compute_units)
    useful = 2.0 * math.prod(product_shape(signature)) / rate
    most = padded if waits else min(padded, 4.0 * useful)
    return max(useful, most if rows * columns else 0.0)


def idle_factor(signature: Signature, device: Device) -> float:
    """How many of a GPU's units there are for each tile; 1 where all have work."""
    return max(device.compute_units / max(_gpu_tiles(signature), 1), 1.0)


def _gpu_tiles(signature: Signature) -> int:
    batches, rows, columns, _ = product_shape(signature)
    return batches * math.ceil(rows / GPU_TILE[0]) * math.ceil(columns / GPU_TILE[1])
