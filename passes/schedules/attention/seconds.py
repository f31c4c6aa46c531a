"""What attention takes: the products of the scores that are seen, tile by tile.

In: the sizes of an attention, a tile's rows and keys. Out: seconds, and how often each operand is
gone over. Scores and weights stay in registers and local memory and move no bytes.
"""

from dataclasses import dataclass
from functools import lru_cache

from mgn.dialects.fusion.forms import HALVES
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes

EFFICIENCY = {True: 0.84, False: 0.81}
"""The share of a device's rate for products that the best tiles reach, on CPUs and on GPUs."""

UNIT_EFFICIENCY = {"tf32": 0.43, "bf16": 0.45, "f16": 0.39}
"""The share of the rate of a matrix unit that the tables of tiles take for 1, where weights are
multiplied twice; those that are rounded are not. Measured on an NVIDIA H200, heads of 32 to 128 and
256 to 4096 keys.
"""

TILE_LATENCY, UNIT_LATENCY = 2.5e-6, 4.0e-6
"""Seconds until a group of a GPU, and one that feeds a matrix unit, has queries and a first tile of
keys, which all wait for.
"""

GPU_POWER = 4.0
"""What a power of two costs a GPU, in simple operations."""

SCORE_STEPS = {True: 4.0, False: 20.0}
"""Simple operations on a score beside its products and its power: masks, the largest, sums; on CPUs
and on GPUs, which do them while a unit multiplies halves.
"""


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
        counts.append(max(ceil_div(end, block) - begin // block, 0) * block)
    return tuple(counts)


@dataclass(frozen=True)
class Scores:
    """The scores of the groups of an attention: how many a group computes in the mean and at most,
    seen or not, and of all groups together.
    """

    mean: float
    most: float
    groups: int
    rows: int

    @staticmethod
    def of(attention: AttentionSizes, rows: int, block: int) -> "Scores":
        """Those of groups of so many rows, which visit blocks of so many keys."""
        queries = max(rows // attention.group, 1)
        sizes = (attention.queries, attention.keys, attention.causal, attention.window)
        visited = visited_keys(*sizes, queries, block)
        if attention.in_parts:
            visited = tuple(min(count, attention.part_keys) for count in visited)
        mean = sum(visited) / max(len(visited), 1) * rows
        groups = ceil_div(attention.rows, rows) * attention.groups
        return Scores(mean, max(visited, default=0) * rows, groups, rows)

    def passes(self, attention: AttentionSizes, stretch: float) -> tuple[float, ...]:
        """How often operands are gone over: keys and values once a tile of rows.

        What is computed on the way takes longer where compute units are idle, as products do.
        """
        tiles = self.groups / max(attention.groups, 1)
        keys = max(attention.part_keys, 1) * self.rows
        both = self.mean * tiles / keys * stretch
        found = (stretch, both, both)
        if attention.bias is None:
            return found
        return (*found, self.mean * self.groups * stretch / max(attention.bias.count, 1))


def multiplies_once(attention: AttentionSizes, unit: str) -> bool:
    """Whether weights are one number to a unit that multiplies operands of a type."""
    return attention.rounded_weights and unit == "bf16"


def score_seconds(attention: AttentionSizes, device: Device, unit: str = "") -> float:
    """Seconds of a score at the best rate of the device, or of its unit where one multiplies."""
    power = device.function_share * ELEMENT_COST["exp"].cpu if device.is_cpu else GPU_POWER
    products, rate = 2.0 * (attention.depth + attention.width), device.rate(attention.element.name)
    steps = 2.0 * (power + (0.0 if unit in HALVES else SCORE_STEPS[device.is_cpu])) / rate
    if unit:
        if multiplies_once(attention, unit):
            products *= products / (products + 2.0 * attention.width)
        return products / (device.matrix_rates[unit] * UNIT_EFFICIENCY[unit]) + steps
    return products / (rate * EFFICIENCY[device.is_cpu]) + steps
