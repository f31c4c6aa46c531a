"""Tiles of attention's gradient on a matrix unit.

In: an operation whose operands are rounded to what the unit multiplies, a request. Out: the
`MatrixWalk`s that fit, with their seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention_gradient import GradientSizes
from mgn.passes.schedules.attention.matrix import STAGES, MatrixTiling
from mgn.passes.schedules.attention.seconds import GPU_POWER, UNIT_EFFICIENCY, UNIT_LATENCY
from mgn.passes.schedules.core.figures import ENLARGED_MEMORY
from mgn.passes.schedules.core.schedule import Entries, Request
from mgn.passes.schedules.core.tilings import Shape, group_seconds
from mgn.passes.schedules.product.matrix_tiles import held_element

Visited = Callable[[int, int], Sequence[int]]
"""How many lines each tile of so many rows walks, by tiles of so many."""

NAMES = ("tile_down", "tile_keys")
"""What a schedule calls the numbers of a tiling."""

UNITS = ("bf16", "tf32")
"""What the template's operands are rounded to: its weights are signed, and of any size."""

SHAPES: tuple[tuple[int, int, int, float, float], ...] = (
    (4, 64, 2, 0.40, 0.75),
    (8, 32, 1, 0.60, 0.75),
    (4, 32, 2, 0.36, 0.68),
    (2, 32, 4, 0.18, 0.60),
    (1, 32, 8, 0.10, 0.50),
)
"""Sub-groups of a group, lines of a tile, how many groups a compute unit holds, and which share of
the unit's rate one of them reaches, and all of them.
"""

STEPS = 12.0
"""Simple operations on a score beside its products and its power."""

ONE_OF = 2
"""Numbers of f32 that a query has beside its lines."""


@dataclass(frozen=True)
class MatrixWalk:
    """A group's own rows lie behind two tiles of what it walks."""

    tile: MatrixTiling

    @staticmethod
    def of(entries: Entries, attention: GradientSizes, name: str) -> "MatrixWalk":
        """The tiling that a schedule says for operands of a type of the unit."""
        warps, keys = (int(entries[entry]) for entry in NAMES)
        sizes = (attention.depth, attention.width, held_element(name).bytes)
        return MatrixWalk(MatrixTiling(warps, keys, *sizes))

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        return dict(zip(NAMES, (self.tile.warps, self.tile.keys), strict=True))

    @property
    def own(self) -> int:
        """Where own rows begin."""
        return STAGES * self.tile.stage

    @property
    def memory(self) -> int:
        """Elements of local memory."""
        tile = self.tile
        return self.own + tile.rows * (tile.depth_line + tile.width_line)

    @property
    def memory_bytes(self) -> int:
        """Bytes of local memory, with what queries have one of."""
        return self.memory * self.tile.element_bytes + STAGES * ONE_OF * 4 * self.tile.keys


def is_for_unit(attention: GradientSizes, name: str) -> bool:
    """Whether the template computes an operation with operands of a type of the unit."""
    return name in UNITS and attention.bias is None


def matrix_walks(
    request: Request, attention: GradientSizes, name: str, visited_of: Visited
) -> Iterator[tuple[float, MatrixWalk]]:
    """The tilings that fit and their seconds."""
    if not is_for_unit(attention, name):
        return
    device, units = request.device, request.number("units", 1)
    wgmma = request.word("matrix_unit") == "wgmma"
    memory = ENLARGED_MEMORY if wgmma else request.number("local_memory", 1 << 15)
    multiplied = attention.depth + attention.width + 2 * sum(attention.sums)
    rate = device.matrix_rates[name] * UNIT_EFFICIENCY[name] * 2
    score = 2.0 * multiplied / rate
    score += 2.0 * (GPU_POWER + STEPS) / device.rate(attention.element.name)
    for warps, keys, resident, alone, crowded in SHAPES:
        warps, keys = request.number("tile_down", warps), request.number("tile_keys", keys)
        walk = MatrixWalk.of({"tile_down": warps, "tile_keys": keys}, attention, name)
        held = min(memory // walk.memory_bytes, resident)
        if not held or walk.tile.items > request.number("largest_group", 256):
            continue
        visited = visited_of(walk.tile.rows, keys)
        groups = len(visited) * attention.groups
        own = walk.tile.rows * score * units
        mean, longest = sum(visited) / len(visited) * own, max(visited) * own
        shape = Shape({}, held, alone, max(alone, crowded * held / resident))
        seconds = group_seconds(ceil_div(groups, units), held, shape, mean, longest)
        yield UNIT_LATENCY + seconds, walk
