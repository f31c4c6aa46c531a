"""The contraction template for GPUs: a work-group computes a tile of the result from local memory.

For each block of the shared axis the group copies a tile of either operand into local memory. While
one block is added up, the next ones are read into registers. Each work-item adds up a small square.
The last tile of an axis ends with the axis, and so overlaps the tile before. Where an axis is
shorter than a tile, its last element is read again, and what lies past the axis is not written.
"""

from xdsl.ir import SSAValue

from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, constant
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.long_sums import MOST_WIDE, WIDE_BLOCK, long_loop
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.pooled import need_whole_groups
from mgn.passes.lower_kernels.core.product import add_products
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.pooled_results import PooledResults
from mgn.passes.lower_kernels.product.tile_order import GroupTile
from mgn.passes.lower_kernels.product.tile_results import MOST_AHEAD, TileResults
from mgn.passes.lower_kernels.reduction.row_statistics import RowStatistics
from mgn.passes.lower_kernels.staging.panel_copies import (
    WARP,
    Copier,
    Panel,
    left_panel,
    right_panel,
)
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.schedules.product.local_tiles import STAGES, Tiling

WARP_ACROSS = 8
"""How many of the work-items that run together lie side by side in a tile."""

LARGEST_STEP = 4
"""Tiles begin at multiples of this where sizes allow, so that vectors are aligned."""


def lower_tiled(job: Job, product: Product) -> Launch:
    """Writes a contraction kernel of local-memory tiles."""
    return _Tiled(job, product).write()


class _Tiled:
    def __init__(self, job: Job, product: Product) -> None:
        self.job, self.product, self.code = job, product, job.code
        self.element = accumulator(product.element)
        self.sizes = Tiling.of(job.schedule, self.element)
        need_whole_groups(product, self.sizes.width)
        self.type = memory_type(self.element)
        self.memory = self.code.local(self.type, self.sizes.memory)

    def write(self) -> Launch:
        product, sizes = self.product, self.sizes
        tile = GroupTile.of(self.job, product, sizes)
        self.place, self.batch = tile.place, tile.batch
        self.first_row = _tile_start(tile.row, sizes.tile_rows, product.rows)
        self.first_column = _tile_start(tile.column, sizes.tile_columns, product.columns)
        self._own_place()
        panels = (
            left_panel(self.code, product, sizes, self.first_row),
            right_panel(self.code, product, sizes, self.first_column),
        )
        operands = Operand.both(self.job, product, self.batch)
        self.copiers = [
            Copier(operand, sizes, panel, self.place)
            for operand, panel in zip(operands, panels, strict=True)
        ]
        left, right = self.copiers
        rights = self._first_blocks(right) if right.held.inputs else None
        self.code.await_stages()
        lefts = self._first_blocks(left) if left.held.inputs else None
        rows = (self.batch, self.first_row, sizes.tile_rows)
        RowStatistics(self.job, product, *rows, sizes.items, self.place).write()
        if sizes.slices > 1 and product.pool is None:
            self._read_ahead()
        lefts = self._first_blocks(left) if lefts is None else lefts
        rights = self._first_blocks(right) if rights is None else rights
        totals = self._sums(panels, [[*a, *b] for a, b in zip(lefts, rights, strict=True)])
        if sizes.slices > 1:
            self._add_slices(totals)
        else:
            self._results(totals)
        return tile.launch

    def _own_place(self) -> None:
        """Where in the tile the work-item's results begin, and which slice it adds up."""
        sizes = self.sizes
        self.slice = self.place // sizes.square
        square = self.place % sizes.square
        side = min(WARP_ACROSS, sizes.across)
        warp, lane = square // WARP, square % WARP
        warps_across = sizes.across // side
        self.row = (warp // warps_across * (WARP // side) + lane // side) * sizes.width
        self.column = (warp % warps_across * side + lane % side) * sizes.width

    @property
    def blocks(self) -> int:
        """Blocks of the shared axis."""
        return ceil_div(self.product.depth, self.sizes.steps)

    def _first_blocks(self, copier: Copier) -> list[list[SSAValue]]:
        """What is read of an operand before the first block is multiplied. Weights are read while
        stages before this one end, other inputs while rows are reduced.
        """
        count = min(self.sizes.ahead, self.blocks)
        return [copier.read(constant(number)) for number in range(count)]

    def _sums(self, panels: tuple[Panel, Panel], first: list[list[SSAValue]]) -> list[SSAValue]:
        """The work-item's sums over its slices of the shared axis.

        The loop takes a block for each stage at a time, so that every place in local memory is a
        fixed distance from the work-item's first; the last blocks follow it. Of the `ahead` blocks
        after the one that is multiplied, a work-item's numbers are on their way or wait in
        registers. What a step multiplies is read during the step before, and the barrier comes
        before a block's last step, when nothing more is read of it.
        """
        sizes, code, blocks = self.sizes, self.code, self.blocks
        self._store(constant(0), first[0], 0)
        code.barrier()
        zero = code.constant(0, self.type, sizes.width)
        count = sizes.rows * sizes.columns // sizes.width
        factors = (sizes.rows + sizes.columns) // sizes.width

        def block(number: Index, stage: int, held: list[SSAValue]) -> list[SSAValue]:
            after = (stage + 1) % STAGES
            totals, ready, later = held[:count], held[count:][:factors], held[count + factors :]
            if number.low + sizes.ahead < blocks:
                later = [*later, *self._read(number + sizes.ahead)]
            for step in range(1, sizes.depth):
                following = self._factors(panels, stage, step)
                totals = self._multiply_add(ready, totals)
                ready = following
            following: list[SSAValue] = []
            if number.low + 1 < blocks:
                copied = sum(copier.count for copier in self.copiers)
                self._store(number + 1, later[:copied], after)
                later = later[copied:]
                code.barrier()
                following = self._factors(panels, after, 0)
            return [*self._multiply_add(ready, totals), *following, *later]

        def blocks_of_all_stages(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            for stage in range(STAGES):
                held = block(number * STAGES + stage, stage, held)
            return held

        waiting = [value for values in first[1:] for value in values]
        held = [*[zero] * count, *self._factors(panels, 0, 0), *waiting]
        rounds = max(blocks - sizes.ahead, 0) // STAGES
        sums = [n < count and self.element.is_float for n in range(len(held))]
        steps = STAGES * sizes.depth
        held = long_loop(
            code,
            0,
            rounds,
            blocks_of_all_stages,
            held,
            sums,
            block=WIDE_BLOCK // steps,
            most=MOST_WIDE // steps,
        )
        for number in range(rounds * STAGES, blocks):
            held = block(constant(number), number % STAGES, held)
        return held[:count]

    def _read(self, block: Index) -> list[SSAValue]:
        """What the work-item copies of a block of both operands, as it waits in registers."""
        return [value for copier in self.copiers for value in copier.read(block)]

    def _store(self, block: Index, values: list[SSAValue], stage: int) -> None:
        rest = values
        for copier in self.copiers:
            own, rest = rest[: copier.count], rest[copier.count :]
            copier.write(block, own, self.memory, constant(stage * self.sizes.stage))

    def _factors(self, panels: tuple[Panel, Panel], stage: int, step: int) -> list[SSAValue]:
        """What the work-item multiplies at a step of a block: of its rows, then of its columns."""
        sizes, code = self.sizes, self.code
        at = self.slice * sizes.depth + step
        sides = (
            (panels[0], self.row, sizes.down, sizes.rows),
            (panels[1], self.column, sizes.across, sizes.columns),
        )
        result: list[SSAValue] = []
        for panel, own, side, count in sides:
            for part in range(count // sizes.width):
                place = panel.place(at, own + part * side * sizes.width) + stage * sizes.stage
                result.append(
                    code.load(self.memory, code.index(place), sizes.width, place.multiple)
                )
        return result

    def _multiply_add(self, factors: list[SSAValue], held: list[SSAValue]) -> list[SSAValue]:
        """Adds the products of a step to the sums."""
        sizes, code = self.sizes, self.code
        left = factors[: sizes.rows // sizes.width]
        right = factors[sizes.rows // sizes.width :]
        rows = (
            lane_of(code, left[row // sizes.width], row % sizes.width) for row in range(sizes.rows)
        )
        return add_products(code, self.element, rows, right, held)

    def _results(self, totals: list[SSAValue]) -> None:
        sizes, together = self.sizes, self._together
        parts = sizes.columns // sizes.width
        for i in range(0, sizes.rows, together):
            row = self.row + i // sizes.width * sizes.down * sizes.width + i % sizes.width
            for j in range(parts):
                column = self.column + j * sizes.across * sizes.width
                own = totals[i * parts + j :: parts][:together]
                self._write(self.first_row + row, self.first_column + column, own)

    def _write(self, row: Index, column: Index, totals: list[SSAValue]) -> None:
        """Writes vectors of neighbouring sums, of rows that are written together."""
        if self.product.pool is not None:
            PooledResults(*self._result_facts).write(row, column, totals)
        else:
            (total,) = totals
            self._tile_results.write(row, column, total)

    @property
    def _together(self) -> int:
        """How many rows are written together, which a work-item has as neighbours."""
        return 1 if self.product.pool is None else PooledResults(*self._result_facts).together

    def _add_slices(self, totals: list[SSAValue]) -> None:
        """Adds up the sums of all slices through local memory; work-items share the results.

        Where local memory has room for half of the slices, the upper half is added to the lower
        first.
        """
        sizes, code = self.sizes, self.code
        meeting = sizes.meeting
        code.barrier()
        if meeting < sizes.slices:
            lower = code.is_below(self.slice, meeting, 1)
            places = self._places(self.slice % meeting)
            upper = code.is_below(self.slice * -1, 1 - meeting, 1)
            code.when(upper, lambda: self._put(totals, places))
            code.barrier()

            def add() -> None:
                for total, place in zip(totals, places, strict=True):
                    sum = combine(code, "sum", self.element, total, self._sum_at(place))
                    code.store(sum, self.memory, code.index(place), place.multiple)

            code.when(lower, add)
        else:
            self._put(totals, self._places(self.slice))
        code.barrier()

        def add_up(number: Index) -> None:
            row, column = self._place_of(number)
            places = [row * sizes.tile_columns + column + n * sizes.tile_columns
                      for n in range(self._together)]  # fmt: skip
            own = (self.first_row + row, self.first_column + column)
            self._write(*own, [self._whole_sum(place) for place in places])

        for turn in range(self._pieces.turns):
            self._pieces.inside(turn, lambda turn=turn: add_up(self._own_piece(turn)))

    def _whole_sum(self, place: Index) -> SSAValue:
        """The sum of all slices that meet, of a vector of the tile's results."""
        sizes, total = self.sizes, self._sum_at(place)
        for n in range(1, sizes.meeting):
            part = self._sum_at(place + n * (sizes.tile_rows * sizes.tile_columns))
            total = combine(self.code, "sum", self.element, total, part)
        return total

    @property
    def _pieces(self) -> Pieces:
        """The vectors of the tile's results, which the work-items of all slices write."""
        sizes = self.sizes
        vectors = sizes.tile_rows * sizes.tile_columns // sizes.width // self._together
        return Pieces(self.code, vectors, sizes.items, self.place)

    def _own_piece(self, turn: int) -> Index:
        """The number of the vector that a work-item writes in a turn, or the last one."""
        return bounded(self._pieces.number(turn), self._pieces.count, 1)

    def _place_of(self, number: Index) -> tuple[Index, Index]:
        """The row of the tile and the first column of a vector of results."""
        across = self.sizes.tile_columns // self.sizes.width
        return number // across * self._together, number % across * self.sizes.width

    def _read_ahead(self) -> None:
        """Reads what the work-item's results need besides the sums, if they are few. Memory answers
        while the sums are added up.
        """
        turns = self._pieces.turns
        for turn in range(turns if turns <= MOST_AHEAD else 0):
            row, column = self._place_of(self._own_piece(turn))
            at = (self.first_row + row, self.first_column + column)
            self._tile_results.read_ahead(*at, self.sizes.width)

    def _places(self, slice: Index) -> list[Index]:
        """Where local memory holds the work-item's sums as those of a slice."""
        sizes = self.sizes
        result: list[Index] = []
        for i in range(sizes.rows):
            row = self.row + i // sizes.width * sizes.down * sizes.width + i % sizes.width
            for j in range(sizes.columns // sizes.width):
                column = self.column + j * sizes.across * sizes.width
                result.append((slice * sizes.tile_rows + row) * sizes.tile_columns + column)
        return result

    @property
    def _tile_results(self) -> TileResults:
        return TileResults(*self._result_facts)

    @property
    def _result_facts(self) -> tuple[Job, Product, Indices, bool, bool, bool]:
        """What there is to say of the tile's results. Of an axis shorter than a tile, some are not
        there.
        """
        product, sizes = self.product, self.sizes
        rows_end = product.rows < sizes.tile_rows
        columns_end = product.columns < sizes.tile_columns
        apart = columns_end and product.columns % sizes.width != 0
        return self.job, product, self.batch, rows_end, columns_end, apart

    def _put(self, totals: list[SSAValue], places: list[Index]) -> None:
        for value, place in zip(totals, places, strict=True):
            self.code.store(value, self.memory, self.code.index(place), place.multiple)

    def _sum_at(self, place: Index) -> SSAValue:
        return self.code.load(self.memory, self.code.index(place), self.sizes.width, place.multiple)


def _tile_start(tile: Index, size: int, limit: int) -> Index:
    """Where a tile begins; the last of several ends with the axis."""
    if limit < size:
        return constant(0)
    step = LARGEST_STEP
    while size % step or limit % step:
        step //= 2
    return (tile * (size // step)).clamp(0, (limit - size) // step) * step
