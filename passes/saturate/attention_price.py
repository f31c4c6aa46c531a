"""What an attention kernel has to compute: products of the scores that are seen, tile by tile.

In: the signature of an attention, a device. Out: seconds, and how often each operand is asked for
an element. Scores and weights stay in registers and local memory and move no bytes.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.types import element_of
from mgn.passes.saturate.view import Signature

EFFICIENCY = {True: 1.0, False: 0.55}
"""The share of a device's best rate that the template's products reach, on CPUs and on GPUs."""

GPU_POWER = 4.0
"""What a power of two costs a GPU, in simple operations."""

SCORE_STEPS = 4.0
"""Simple operations on a score beside its products and its power: masks, the largest, sums."""


@dataclass(frozen=True)
class AttentionTiles:
    """The template's tiles: rows and keys that are computed together, seen or not."""

    rows: int
    keys: int


def attention_tiles(device: Device, rows: int, outer: int) -> AttentionTiles:
    """The tiles that an attention of so many rows, `outer` times, is priced with."""
    size = 64
    while size > 8 and outer * math.ceil(rows / size) < device.compute_units:
        size //= 2
    return AttentionTiles(min(size, max(rows, 1)), 32 if device.is_cpu else 64)


@lru_cache(maxsize=256)
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
class _Sizes:
    """Sizes of an attention: `outer` key heads in all, `group` query heads for each."""

    outer: int
    group: int
    queries: int
    keys: int
    depth: int
    width: int
    visited: tuple[int, ...]
    rows: int


def _sizes(signature: Signature, device: Device) -> _Sizes:
    values, shapes = signature.values, signature.operand_shapes
    heads, kv_heads = values["heads"], values["kv_heads"]
    *batch, queries, columns = signature.shape
    keys, group = shapes[1][-2], heads // kv_heads
    outer = math.prod(batch) * kv_heads
    tiles = attention_tiles(device, queries * group, outer)
    visited = visited_keys(
        queries,
        keys,
        bool(values["causal"]),
        values["window"],
        max(tiles.rows // group, 1),
        tiles.keys,
    )
    depth, width = shapes[0][-1] // heads, columns // heads
    return _Sizes(outer, group, queries, keys, depth, width, visited, tiles.rows)


def least_memory(depth: int, width: int, signature: Signature, device: Device) -> int:
    """Bytes of local memory that the template's smallest tiles take."""
    rows, keys = (1, 32) if device.is_cpu else (4, 8)
    size = max(element_of(signature.type).bytes, 4)
    return size * (rows * (depth + width + 32) + keys * (depth + width + 32))


def attention_seconds(signature: Signature, device: Device) -> float:
    """Seconds of computing: every compute unit takes tiles of rows in turn."""
    sizes = _sizes(signature, device)
    if least_memory(sizes.depth, sizes.width, signature, device) > device.local_memory:
        return math.inf
    rate = device.rate(signature.element)
    power = ELEMENT_COST["exp"] if device.is_cpu else GPU_POWER
    products = 2.0 * (sizes.depth + sizes.width) / EFFICIENCY[device.is_cpu]
    a_score = products + 2.0 * (power + SCORE_STEPS)
    tiles = [keys * sizes.rows * a_score for keys in sizes.visited]
    total = sizes.outer * sum(tiles) / rate
    longest = max(tiles, default=0.0) * device.compute_units / rate
    return max(total, longest)


def attention_demands(signature: Signature, device: Device) -> list[float]:
    """How many times each operand is asked for an element: keys and values once a tile of rows."""
    sizes = _sizes(signature, device)
    passes = sum(sizes.visited) / max(sizes.keys, 1)
    counts = [float(size) for size in signature.operand_sizes]
    demands = [counts[0], counts[1] * passes, counts[2] * passes]
    if len(counts) > 3:
        scores = sizes.outer * sum(sizes.visited) * sizes.rows
        demands.append(float(scores))
    return demands
