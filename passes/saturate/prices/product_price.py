"""What a matrix product takes: tiles of its result, and on a CPU the packing of its operands.

In: the signature of a product, a device. Out: seconds, and how often each operand is asked for an
element.

A CPU's template computes blocks of the result, cut as `packed_blocking` says for the device's
schedule. For each it packs the right operand's columns into panels, unless they lie in memory so,
and the left operand's rows unless they lie side by side and are read once; it evaluates on the way
what comes before the product. The steps are in multiply-adds, measured on an Intel Xeon (AVX-512).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from mgn.dialects.fusion.forms import HALVES
from mgn.dialects.kernel.device import Device
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.schedules.figures import product_figures
from mgn.passes.schedules.packed_blocking import Extent, Limits, cut_product

GPU_TILE = (64, 64)
"""Rows and columns of the result that one pass computes on a GPU."""

GPU_EFFICIENCY = 0.86
"""The share of a GPU's rate that the template reaches without a matrix unit."""

UNIT_LATENCY = 5.0e-6
"""Seconds until a matrix unit has its first tiles, and its last ones are written."""

GPU_SEEN = 0.7
"""The share of moving that a GPU does not do while it multiplies: of reading, but of writing where
a matrix unit multiplies, whose operands come while it does. Measured on an NVIDIA H200, batches of
products with a shared axis of 64 to 4096 and as few columns.
"""

CPU_TILE = 32
"""Columns that a CPU computes at once where it packs nothing."""

FEW_ROWS = 4
"""Products of so few rows read both operands where they lie, once."""

LOADS = 1.7
"""How many rows more a register tile would multiply in the time that it loads a step's columns."""

PACK, PACK_TURNED, PACK_TURNED_HALF = 12.0, 26.0, 120.0
"""Steps to pack an element of the right operand where its rows lie side by side in memory, where
its columns do, and then in half precision.
"""

PACK_APART = 14.0
"""The same of a right operand whose rows lie side by side, columns from both halves of each."""

PACK_LEFT, MEET = 4.4, 5.4
"""Steps to pack an element of the left operand; and to store a sum between blocks of the shared
axis and fetch it.
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
    """How often the template goes over the left and the right operand, to pack it or what comes
    before it; the multiplications of a step of all tiles, with those past the edge, of lanes that
    stay empty and of what a tile loads; in how many blocks of the shared axis; and by how much the
    longest share of a unit exceeds the mean.
    """

    left: int
    right: int
    packs_left: bool
    computed: float
    blocks: int
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
    if rows <= FEW_ROWS or columns == 1 or not useful:
        return useful
    passes = cpu_passes(signature, device, lie)
    steps = passes.computed * inner
    if not lie.packed:
        steps += batches * columns * inner * passes.right * _packing(signature, lie)
    if passes.packs_left:
        steps += batches * rows * inner * passes.left * PACK_LEFT
    if passes.blocks > 1:
        steps += batches * rows * columns * passes.blocks * MEET
    return 2.0 * steps * passes.imbalance / rate


def _packing(signature: Signature, lie: Lie) -> float:
    """Steps to pack an element of the right operand."""
    half = signature.element in HALVES
    if lie.turned:
        return PACK_TURNED_HALF if half else PACK_TURNED
    return PACK_APART if lie.apart and not half else PACK


def product_demands(
    signature: Signature, device: Device, packed: bool = False
) -> tuple[float, float]:
    """How many times the template asks for an element of each operand."""
    _, rows, columns, _ = product_shape(signature)
    left, right = signature.operand_sizes
    if not device.is_cpu:
        return (
            float(left * math.ceil(columns / GPU_TILE[1])),
            float(right * math.ceil(rows / GPU_TILE[0])),
        )
    if rows <= FEW_ROWS or columns == 1 or not left * right:
        return float(left * math.ceil(columns / CPU_TILE)), float(right)
    passes = cpu_passes(signature, device, Lie(False, False, packed))
    return float(left * passes.left), float(right * passes.right)


def cpu_passes(signature: Signature, device: Device, lie: Lie) -> Passes:
    """How a CPU's template cuts a product."""
    bytes = max(4, element_of(signature.type).bytes)
    limits = Limits.of(product_figures(bytes, device))
    return _passes(*product_shape(signature), bytes, limits, lie)


@lru_cache(maxsize=4096)
def _passes(
    batches: int, rows: int, columns: int, inner: int, bytes: int, limits: Limits, lie: Lie
) -> Passes:
    halves = 2 if lie.apart else 1
    extent = Extent(batches, rows, columns, inner, halves, bytes, lie.in_place, lie.packed)
    sizes = cut_product(extent, limits)
    tiles_down = math.ceil(rows / sizes.rows)
    tiles_across = math.ceil(columns // halves / sizes.span)
    down, across = math.ceil(tiles_down / sizes.down), math.ceil(tiles_across / sizes.across)
    shares = down * across * batches / limits.units
    return Passes(
        across,
        down,
        sizes.copies_left,
        batches * tiles_down * tiles_across * (sizes.rows + LOADS) * sizes.vectors * limits.lanes,
        math.ceil(inner / sizes.depth),
        math.ceil(shares) / shares,
    )


def tiled_seconds(
    signature: Signature, device: Device, unit_rate: float | None, waits: bool
) -> float:
    """Tiles in waves of one for each of a GPU's units, which groups of few tiles share, unless the
    product `waits` for them; at the rate of a matrix unit, where one multiplies.
    """
    element = "f32" if signature.element in HALVES else signature.element
    rate = unit_rate or GPU_EFFICIENCY * device.rate(element)
    _, rows, columns, inner = product_shape(signature)
    tiles = _gpu_tiles(signature)
    waves = math.ceil(max(tiles, 1) / device.compute_units)
    padded = waves * 2.0 * GPU_TILE[0] * GPU_TILE[1] * inner / (rate / device.compute_units)
    useful = 2.0 * math.prod(product_shape(signature)) / rate
    most = padded if waits else min(padded, 4.0 * useful)
    latency = 0.0 if unit_rate is None else UNIT_LATENCY
    return latency + max(useful, most if rows * columns else 0.0)


def seen_seconds(
    signature: Signature, device: Device, seconds: float, read: float, written: float, on_unit: bool
) -> float:
    """How much longer a product that takes so many seconds of multiplying takes a GPU, all of whose
    units have tiles, for the bytes that it reads and writes.
    """
    if device.is_cpu or _gpu_tiles(signature) < device.compute_units:
        return 0.0
    moving = (written if on_unit else read) / device.bandwidth
    return GPU_SEEN * min(moving, seconds)


def idle_factor(signature: Signature, device: Device) -> float:
    """How many of a GPU's units there are for each tile; 1 where all have work."""
    return max(device.compute_units / max(_gpu_tiles(signature), 1), 1.0)


def _gpu_tiles(signature: Signature) -> int:
    batches, rows, columns, _ = product_shape(signature)
    return batches * math.ceil(rows / GPU_TILE[0]) * math.ceil(columns / GPU_TILE[1])
