"""What an attention kernel has to compute: products of the scores that are seen, tile by tile.

In: the signature of an attention, a device. Out: seconds, and how often each operand is asked for
an element. Scores and weights stay in registers and local memory and move no bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mgn.dialects.fusion.forms import ATTENTION_PARTS, HALVES
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature

EFFICIENCY = {True: 0.8, False: 0.81}
"""The share of a device's rate for products that the template reaches, on CPUs and on GPUs."""

UNIT_EFFICIENCY = {"tf32": 0.41, "bf16": 0.7, "f16": 0.6}
"""The same of the rate of a matrix unit, which multiplies weights of tf32 twice. Measured on an
NVIDIA H200, heads of 32 to 128 and 256 to 4096 keys.
"""

UNIT_LATENCY = 4.0e-6
"""Seconds until a group has queries and a first tile of keys, which all wait for."""

GPU_POWER = 4.0
"""What a power of two costs a GPU, in simple operations."""

SCORE_STEPS = {True: 4.0, False: 20.0}
"""Simple operations on a score beside its products and its power: masks, the largest, sums; on CPUs
and on GPUs, which do them while a unit multiplies halves.
"""

KEYS = {True: 32, False: 64}
"""The keys of a tile: what is computed past the last key that is seen."""


@dataclass(frozen=True)
class Tile:
    """Rows that are computed together; the share of a compute unit's best rate that this reaches
    alone there, and among as many as it holds.
    """

    rows: int
    alone: float
    crowded: float


CPU_TILES = (Tile(64, 1.0, 1.0), Tile(32, 0.95, 0.95), Tile(16, 0.85, 0.85), Tile(8, 0.7, 0.7))
GPU_TILES = (
    Tile(64, 0.70, 1.00),
    Tile(32, 0.45, 0.85),
    Tile(16, 0.26, 0.68),
    Tile(8, 0.15, 0.50),
    Tile(4, 0.14, 0.25),
)
"""The template's tiles, measured on an NVIDIA H200."""

SHARED = {True: 1, False: 4}
"""Tiles that a compute unit works on at once."""

UNEVEN = 0.15
"""How much of what a tile of the most keys takes longer than others is waited for, where all tiles
are worked on at once.
"""

GROUPS = 4
"""How many groups of parts a compute unit of a GPU should have, so that it always waits for memory.
"""

LEAST_KEYS, LEAST_PARTS = 128, 4
"""The fewest keys of a part, and how many parts are worth a second launch."""

WHOLE = 64
"""Keys of which a part holds a multiple, so that all tiles of keys fit."""


def keys_of_a_part(signature: Signature, device: Device) -> int | None:
    """The keys of a part where the keys of an attention on a GPU may be looked at in parts, for
    more groups than rows and key heads make; None where they may not.
    """
    values, (*batch, queries, _) = signature.values, signature.shape
    keys, kv_heads = signature.operand_shapes[1][-2], values["kv_heads"]
    rows = queries * (values["heads"] // kv_heads)
    if 0 < values["window"] < keys:
        return None
    groups = math.prod(batch) * kv_heads * math.ceil(rows / GPU_TILES[0].rows)
    parts = min(GROUPS * device.compute_units // max(groups, 1), keys // LEAST_KEYS)
    if parts < LEAST_PARTS:
        return None
    return math.ceil(keys / parts / WHOLE) * WHOLE


@lru_cache(maxsize=1024)
def visited_keys(
    queries: int, keys: int, causal: bool, window: int, rows: int, block: int
) -> tuple[int, ...]:
    """How many keys each tile of query rows visits, whole blocks counted."""
    counts: list[int] = []
    for start in range(0, queries, rows):
        last = min(start + rows, queries) - 1
        end = min(max(last + keys - queries + 1, 0), keys) if causal else keys
        begin = max(start + keys - queries - window + 1, 0) if window else 0
        counts.append(max(math.ceil(end / block) - begin // block, 0) * block)
    return tuple(counts)


@dataclass(frozen=True)
class Plan:
    """How an attention is cut: the rows of a tile, the keys that each tile visits, into how many
    parts these are cut, how many key heads with their parts there are, and the time in which so
    many scores are done, in that of one at the best rate.
    """

    rows: int
    visited: tuple[int, ...]
    parts: int
    outer: int
    scores: float

    @property
    def total(self) -> float:
        """The scores that are computed, seen or not."""
        return float(self.outer * sum(self.visited) * self.rows)


def plan_of(signature: Signature, device: Device, on_unit: bool = False) -> Plan:
    """The cut that takes the least time; for a matrix unit the one into the largest tiles."""
    values = signature.values
    heads, kv_heads = values["heads"], values["kv_heads"]
    in_parts = signature.name == ATTENTION_PARTS
    *batch, queries = signature.shape[1:-2] if in_parts else signature.shape[:-1]
    keys, group = signature.operand_shapes[1][-2], heads // kv_heads
    parts, each = (signature.shape[0], values["each"]) if in_parts else (1, keys)
    outer = math.prod(batch) * kv_heads * parts
    units, shared = device.compute_units, SHARED[device.is_cpu]
    plans: list[Plan] = []
    tiles = _tiles(device, queries * group)
    for tile in tiles[:1] if on_unit else tiles:
        rows = max(tile.rows // group, 1)
        window, block = values["window"], KEYS[device.is_cpu]
        visited = visited_keys(queries, keys, bool(values["causal"]), window, rows, block)
        visited = tuple(min(count, each) if in_parts else count for count in visited)
        share = math.ceil(outer * len(visited) / units)
        rounds, rest = divmod(share, shared)
        turns = rounds * max(1 / tile.alone, shared / tile.crowded)
        turns += max(1 / tile.alone, rest / tile.crowded) if rest else 0.0
        longest, mean = max(visited, default=0), sum(visited) / max(len(visited), 1)
        keys_done = turns * mean
        if share <= shared:
            uneven = UNEVEN * turns * (longest - mean)
            keys_done = min(max(longest / tile.alone, keys_done) + uneven, turns * longest)
        plans.append(Plan(tile.rows, visited, parts, outer, keys_done * tile.rows * units))
    return min(plans, key=lambda plan: plan.scores)


def _tiles(device: Device, rows: int) -> Sequence[Tile]:
    """The tiles that are not mostly empty, and the smallest one."""
    tiles = CPU_TILES if device.is_cpu else GPU_TILES
    return [tile for tile in tiles if tile.rows < 2 * rows] or tiles[-1:]


def least_memory(signature: Signature, device: Device) -> int:
    """Bytes of local memory that the template's smallest tiles take."""
    depth, width = head_sizes(signature)
    rows, keys = (1, 32) if device.is_cpu else (4, 8)
    size = max(element_of(signature.type).bytes, 4)
    return size * (rows * (depth + width + 32) + keys * (depth + width + 32))


def head_sizes(signature: Signature) -> tuple[int, int]:
    """The size of a head in keys and in values."""
    heads = signature.values["heads"]
    width = signature.operand_shapes[2][-1] // signature.values["kv_heads"]
    return signature.operand_shapes[0][-1] // heads, width


def attention_seconds(signature: Signature, device: Device, unit: str | None = None) -> float:
    """Seconds of computing, by what a matrix unit multiplies where it does; infinite where no tile
    fits into local memory.
    """
    if least_memory(signature, device) > device.local_memory:
        return math.inf
    power = ELEMENT_COST["exp"].cpu if device.is_cpu else GPU_POWER
    products, rate = 2.0 * sum(head_sizes(signature)), device.rate(signature.element)
    beside = 0.0 if unit in HALVES else SCORE_STEPS[device.is_cpu]
    steps = 2.0 * (power + beside) / rate
    scores = plan_of(signature, device, unit is not None).scores
    if unit is None:
        return scores * (products / (rate * EFFICIENCY[device.is_cpu]) + steps)
    reached = device.matrix_rates[unit] * UNIT_EFFICIENCY[unit]
    return UNIT_LATENCY + scores * (products / reached + steps)


def attention_demands(signature: Signature, device: Device) -> list[float]:
    """How many times each operand is asked for an element: keys and values once a tile of rows.

    What is computed on the way takes longer where compute units are idle, like the products do.
    """
    plan = plan_of(signature, device)
    keys = max(signature.operand_shapes[1][-2], 1)
    stretch = max(plan.scores / max(plan.total, 1.0), 1.0)
    passes = sum(plan.visited) * plan.parts / keys * stretch
    counts = [float(size) for size in signature.operand_sizes]
    demands = [counts[0] * stretch, counts[1] * passes, counts[2] * passes]
    if len(counts) > 3:
        demands.append(plan.total * stretch)
    return demands
