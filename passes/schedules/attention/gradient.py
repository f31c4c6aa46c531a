"""The schedules of what attention's gradient is made of: tiles of rows, and a walk over the others.

In: a body with one of its operations, a request. Out: schedules, the quickest first. A work-group
holds a tile of rows and copies a tile of the others at a time to local memory. On a GPU its
work-items have the sums of their rows in registers. On a CPU a group is one work-item, vectors lie
along the rows, and sums are in local memory, of which a panel of columns is added to at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention_gradient import GradientSizes
from mgn.passes.schedules.attention.gradient_matrix import matrix_walks
from mgn.passes.schedules.attention.seconds import GPU_POWER, visited_keys
from mgn.passes.schedules.core.schedule import Entries, Request, Schedule, Schedules
from mgn.passes.schedules.core.tilings import Shape, group_seconds


class GradientVariant(StrEnum):
    """A variant of the template."""

    WALK = "walk"
    MATRIX = "matrix walk"


NAMES = ("tile_down", "tile_across", "item_rows", "item_keys", "panels", "vector")
"""What a schedule calls the numbers of a tiling."""

VECTOR_BYTES = 16
"""What a work-item of a GPU reads at once."""

GPU_SHAPES: tuple[tuple[tuple[int, ...], float, float], ...] = (
    ((8, 16, 8, 4), 0.42, 0.84),
    ((16, 8, 4, 8), 0.40, 0.80),
    ((16, 8, 4, 4), 0.36, 0.78),
    ((8, 16, 4, 4), 0.37, 0.65),
    ((8, 8, 4, 8), 0.18, 0.66),
    ((8, 8, 4, 4), 0.16, 0.60),
    ((4, 8, 4, 4), 0.09, 0.40),
    ((2, 16, 4, 2), 0.07, 0.25),
    ((1, 32, 1, 1), 0.02, 0.08),
)
"""Work-items down and across a tile, rows and walked numbers of each; which share of the rate of a
compute unit one group reaches, and as many as there is room for.
"""

MOST_RESIDENT = 4
"""Groups that a compute unit holds at once, by their registers."""

CPU_VECTORS, CPU_KEYS, CPU_PANELS = 2, 8, 8
"""Vectors of rows, walked numbers and panels of these of a CPU's tile."""

CPU_SHARE, GROUP_SECONDS = 0.8, 3.5e-6
"""The share of a core's best rate that products reach, and what a group takes besides."""

STEPS = {True: 8.0, False: 16.0}
"""Simple operations on a score beside its products and its power, on CPUs and GPUs."""

LATENCY = 4e-6
"""Seconds until a group of a GPU has its rows and a first tile."""


@dataclass(frozen=True)
class Walk:
    """A group has `down` x `across` work-items: `across` share rows. In a panel a work-item has the
    scores of `rows` x `keys`; `panels` make a tile of what is walked. `vector` numbers of a line
    are read at once, `lanes` rows are one vector.
    """

    attention: GradientSizes
    down: int
    across: int
    rows: int
    keys: int
    panels: int
    vector: int
    lanes: int

    @staticmethod
    def of(entries: Entries, attention: GradientSizes) -> "Walk":
        """The tiling that a schedule says."""
        numbers = [int(entries[name]) for name in (*NAMES, "row_lanes")]
        return Walk(attention, *numbers)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.down, self.across, self.rows, self.keys, self.panels, self.vector)
        return {**dict(zip(NAMES, numbers, strict=True)), "row_lanes": self.lanes}

    @property
    def items(self) -> int:
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows

    @property
    def panel_keys(self) -> int:
        """Walked numbers of a panel."""
        return self.across * self.keys

    @property
    def tile_keys(self) -> int:
        """Walked numbers of a tile."""
        return self.panels * self.panel_keys

    @property
    def in_registers(self) -> bool:
        """Whether sums stay in registers: all work-items of a group have all columns of its rows.

        A work-item that is a group by itself has them in local memory.
        """
        return self.items > 1

    def columns(self, size: int) -> int:
        """Columns of a sum that a work-item adds to at a time."""
        if not self.in_registers:
            return min(self.keys, size)
        return ceil_div(ceil_div(size, self.across), self.vector) * self.vector

    def line(self, size: int) -> int:
        """Numbers of a line in local memory: zeros follow those of a head."""
        step = self.across * self.columns(size) if size else 1
        return ceil_div(size, step) * step

    @property
    def products(self) -> int:
        """Products of a score, those with the zeros behind a head among them."""
        attention = self.attention
        return attention.products + sum(self.line(size) - size for size in attention.sums)

    @property
    def line_pairs(self) -> int:
        """Numbers of both lines of a row: of q or k, and of g or v."""
        depth, width = self.attention.depth, self.attention.width
        return self.line(depth) + self.line(width)

    @property
    def memory(self) -> int:
        """Numbers in local memory."""
        attention = self.attention
        lines = (self.tile_rows + self.tile_keys) * self.line_pairs
        if attention.of_totals:
            return lines + 2 * self.across * self.tile_rows
        weights = len(attention.sums) * self.tile_keys * self.tile_rows
        sums = 0 if self.in_registers else self.tile_rows * sum(map(self.line, attention.sums))
        return lines + weights + sums + 2 * self.tile_keys

    @property
    def registers(self) -> int:
        """Sums and scores of a work-item."""
        sums = sum(map(self.columns, self.attention.sums)) if self.in_registers else 0
        return self.rows * (2 * self.keys + sums)


MOST_REGISTERS = 176
"""Of f32, of a work-item of a GPU."""


def attention_gradient_schedules(request: Request) -> Schedules:
    """The schedules, the quickest first. VerifyException where heads are too large for all."""
    attention = GradientSizes.of_body(request.body)
    if not attention.own or not attention.walked:
        raise VerifyException(
            "fusion.kernel attention_gradient: there is no row, or nothing to walk"
        )
    unit = request.word("matrix")
    found = _on_unit(request, attention, unit) if unit else []
    if found:
        return sorted(found, key=lambda schedule: schedule.seconds)
    facts = request.facts("form")
    room = request.number("local_memory", 1 << 15) // attention.element.bytes
    walks = _of_gpu(request, attention) if request.is_gpu else _of_cpu(request, attention)
    for walk in walks:
        if walk.memory <= room:
            seconds, passes = _seconds(request, attention, walk), _passes(attention, walk.tile_rows)
            found.append(Schedule(GradientVariant.WALK, walk.entries, facts, seconds, passes))
    if not found:
        raise VerifyException(
            f"fusion.kernel attention_gradient: heads of {attention.depth} and {attention.width} "
            "elements do not fit into the device's local memory"
        )
    return sorted(found, key=lambda schedule: schedule.seconds)


def _on_unit(request: Request, attention: GradientSizes, unit: str) -> list[Schedule]:
    """The schedules on a matrix unit."""
    facts = request.facts("form", "matrix")
    return [
        Schedule(
            GradientVariant.MATRIX, walk.entries, facts, seconds, _passes(attention, walk.tile.rows)
        )
        for seconds, walk in matrix_walks(request, attention, unit, partial(_visited, attention))
    ]


def _of_gpu(request: Request, attention: GradientSizes) -> Iterator[Walk]:
    vector = max(VECTOR_BYTES // attention.element.bytes, 1)
    fixed = {name: request.number(name, 0) for name in NAMES}
    for numbers, _, _ in GPU_SHAPES:
        named = dict(zip(NAMES, numbers, strict=False))
        down, across, rows, keys = (fixed[name] or number for name, number in named.items())
        walk = Walk(attention, down, across, rows, keys, 1, vector, min(vector, rows))
        fits = walk.registers * attention.element.bytes <= 4 * MOST_REGISTERS
        if fits and walk.items <= request.number("largest_group", 256):
            yield walk


def _of_cpu(request: Request, attention: GradientSizes) -> Iterator[Walk]:
    lanes = request.number("lanes", 16)
    keys = min(CPU_KEYS, max(attention.walked, 1))
    panels = min(CPU_PANELS, max(ceil_div(attention.walked, keys), 1))
    for vectors in (CPU_VECTORS, 1):
        if vectors == 1 or attention.own > lanes:
            yield Walk(attention, 1, 1, vectors * lanes, keys, panels, 1, lanes)


def _passes(attention: GradientSizes, tile_rows: int) -> tuple[float, ...]:
    """How often operands are gone over: what is walked once a tile of rows."""
    again = float(ceil_div(attention.own, tile_rows))
    queries, keys = (again, 1.0) if attention.of_keys else (1.0, again)
    of_bias = 0.0
    if attention.bias is not None:
        scores = attention.rows * attention.keys * attention.groups
        of_bias = scores / max(attention.bias.count, 1)
    if attention.of_totals:
        found = (queries, keys)
    else:
        found = (queries, keys, keys, queries, queries, queries)
    return found if attention.bias is None else (*found, of_bias)


def _visited(attention: GradientSizes, tile_rows: int, tile_keys: int) -> list[int]:
    """How many each tile of rows walks, whole tiles counted, as if of queries that see keys.

    What keys are seen by is counted from the last one on: it is as many, in another order.
    """
    queries, keys, group = attention.queries, attention.keys, attention.group
    sizes = (attention.causal, attention.window)
    if not attention.of_keys:
        rows = max(tile_rows // group, 1)
        return list(visited_keys(queries, keys, *sizes, rows, tile_keys))
    if attention.window:
        seen = min(attention.window + tile_rows, queries)
        return [min(seen * group, attention.rows)] * ceil_div(keys, tile_rows)
    step = max(tile_keys // group, 1)
    found = visited_keys(keys, queries, *sizes, tile_rows, step)
    return [number * group for number in found]


def _seconds(request: Request, attention: GradientSizes, walk: Walk) -> float:
    """What the groups of a tiling take, on all units."""
    device, units = request.device, request.number("units", 1)
    rate = device.rate(attention.element.name)
    visited = _visited(attention, walk.tile_rows, walk.tile_keys) or [0]
    power = device.function_share * ELEMENT_COST["exp"].cpu if device.is_cpu else GPU_POWER
    score = 2.0 * (power + STEPS[device.is_cpu]) / rate * units
    score += 2.0 * walk.products / rate * units
    groups = len(visited) * attention.groups
    mean = sum(visited) / len(visited) * walk.tile_rows * score
    longest = max(visited) * walk.tile_rows * score
    if device.is_cpu:
        full = walk.lanes * walk.rows / (walk.lanes * CPU_VECTORS * walk.lanes)
        share = CPU_SHARE * min(1.0, 0.6 + 0.4 * full)
        rounds = ceil_div(groups, units) * (mean / share + GROUP_SECONDS)
        return max(rounds, longest / share)
    numbers = (walk.down, walk.across, walk.rows, walk.keys)
    shares = next(((a, c) for item, a, c in GPU_SHAPES if item == numbers), (0.1, 0.3))
    held = request.number("local_memory", 1 << 15) // (walk.memory * attention.element.bytes)
    resident = max(min(held, MOST_RESIDENT), 1)
    shape = Shape({}, MOST_RESIDENT, shares[0], min(shares[0] * resident, shares[1]))
    return LATENCY + group_seconds(ceil_div(groups, units), resident, shape, mean, longest)
