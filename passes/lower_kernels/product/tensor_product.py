"""The contraction template for matrix units: tiles by `kernel.mma`, several stages deep.

While a block of the shared axis is multiplied, the copies of the next ones are under way. Operands
that lie in memory as the unit takes them are copied past the registers; others are computed while
the unit works, and stored after. Tiles that reach past the result copy its last row or column
instead, and do not write what lies past it; past the shared axis they hold zeros.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.product.shuffled_pools import ShuffledPools, need_rows_of_groups
from mgn.passes.lower_kernels.product.shuffled_results import NEIGHBOURS, PIECE_BYTES
from mgn.passes.lower_kernels.product.sub_group_product import SubGroupProduct
from mgn.passes.lower_kernels.product.tensor_groups import GroupSums
from mgn.passes.lower_kernels.product.tile_order import GroupTile
from mgn.passes.lower_kernels.product.tile_results import MOST_AHEAD, TileResults
from mgn.passes.lower_kernels.reduction.row_statistics import RowStatistics
from mgn.passes.lower_kernels.staging.kept_rows import KeptRows
from mgn.passes.lower_kernels.staging.tensor_panels import EIGHT, PAIR, Panel
from mgn.passes.lower_kernels.staging.tensor_staging import StagedPanel
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP, TensorTiling
from mgn.passes.schedules.product.operand_copies import held_element


def lower_tensor(job: Job, product: Product, name: str) -> Launch:
    """Writes a contraction kernel whose operands are rounded to a type of the matrix unit."""
    return _Tensor(job, product, name).write()


class _Tensor:
    def __init__(self, job: Job, product: Product, name: str) -> None:
        self.job, self.product, self.code, self.name = job, product, job.code, name
        element = held_element(name)
        self.sizes = TensorTiling.of(job.schedule, element.bytes)
        if product.pool is not None:
            need_rows_of_groups(product, self.sizes, name)
        self.kept = self.sizes.kept_elements(product.depth)
        count = self.kept + self.sizes.stages * self.sizes.stage
        self.memory = self.code.local(memory_type(element), count)

    def write(self) -> Launch:
        product, sizes, code = self.product, self.sizes, self.code
        tile = GroupTile.of(self.job, product, sizes)
        self.place, self.batch = tile.place, tile.batch
        self.first_row = tile.row * sizes.tile_rows
        self.first_column = tile.column * sizes.tile_columns
        warp = self.place // SUB_GROUP
        self.slice = warp // (sizes.down * sizes.across)
        self.row = warp // sizes.across % sizes.down * sizes.rows
        self.column = warp % sizes.across * sizes.columns
        self.panels = self._panels()
        own = (self.place, self.row, self.column, self.slice)
        self.sub_group = SubGroupProduct(code, sizes, self.name, self.panels, *own)
        totals = self._sums()
        if sizes.slices == 1:
            self._results(self._pieces(totals))
        else:
            self._add_slices(totals)
        return tile.launch

    def _panels(self) -> tuple[Panel, Panel]:
        product, sizes = self.product, self.sizes
        base = self.kept or sizes.tile_rows * sizes.depth
        return (
            self._panel(0, sizes.tile_rows, product.rows, self.first_row, 0),
            self._panel(1, sizes.tile_columns, product.columns, self.first_column, base),
        )

    def _panel(self, side: int, size: int, limit: int, first: Index, base: int) -> Panel:
        tile = (self.product, self.sizes, self.name, side, size, limit, self.batch, self.place)
        own = (self.job, first, base, self.memory)
        panel = Panel(*tile, *own, kept=self.sizes.kept and side == 0)
        dealt = self._tiles_of_a_piece() if side == 1 and panel.runs_by_depth else 1
        if not self.sizes.groups:
            return panel
        if panel.whole and self._comes_rounded():
            return replace(panel, dealt=dealt)
        return StagedPanel(*tile, *own, dealt=dealt)

    def _comes_rounded(self) -> bool:
        return self.name != "tf32" or "rounded" in self.job.schedule

    def _sums(self) -> list[SSAValue]:
        """The work-item's part of the sums of its sub-group's tile."""
        sizes, code = self.sizes, self.code
        blocks = ceil_div(self.product.depth, sizes.depth)
        if not sizes.groups:
            self.sub_group.begin(blocks)
        self._find_rows(blocks)
        if sizes.groups:
            loop = GroupSums(code, sizes, self.panels, self.memory, self.place, blocks)
            return loop.totals()
        if sizes.slices > 1:
            self._read_ahead()
        return self.sub_group.sums(blocks)

    def _read_ahead(self) -> None:
        """Reads what the work-item's results need besides the sums, if they are few. Memory answers
        while the sums are added up.
        """
        down, across = self.sub_group.tiles
        numbers = self._own_sums(down * across)
        if len(numbers) > MOST_AHEAD:
            return
        for number in numbers:
            for row, column in self.sub_group.places(bounded(number, down * across, 1)):
                self._tile_results.read_ahead(self.first_row + row, self.first_column + column, 2)

    def _find_rows(self, blocks: int) -> None:
        """Finds the reductions of the tile's rows, and the rows themselves where they are kept."""
        sizes = self.sizes
        rows = (self.batch, self.first_row, sizes.tile_rows)
        statistics = RowStatistics(self.job, self.product, *rows, sizes.items, self.place)
        kept = KeptRows(self.panels[0], blocks) if sizes.kept else None
        statistics.write(kept)
        if kept and not statistics.needed:
            kept.fill()

    def _add_slices(self, totals: list[SSAValue]) -> None:
        """The slices meet in local memory. Each adds up and writes a share of the sums. The code is
        the same for all slices, and so short.
        """
        sizes, code = self.sizes, self.code
        square = sizes.items // sizes.slices
        handed = code.local(f32, sizes.sums)
        inner, count = self.place % square, len(totals)

        def spot(other: Index, number: Index) -> Index:
            return (inner + number * square) * 4 + other * (count * square * 4)

        def total(number: Index) -> SSAValue:
            places = [spot(constant(other), number) for other in range(sizes.slices)]
            parts = [code.load(handed, code.index(place), 4, 4) for place in places]
            return reduce(self._added, parts)

        for number, own in enumerate(totals):
            code.store(own, handed, code.index(spot(self.slice, constant(number))), 4)
        code.barrier()
        for number in self._own_sums(count):
            inside = code.is_below(number, count, 1)
            number = bounded(number, count, 1)
            code.when(inside, lambda number=number: self._write_sum(number, total(number)))

    def _own_sums(self, count: int) -> list[Index]:
        """The numbers of the sums that the work-item's slice writes. Some may be past the last."""
        each = ceil_div(count, self.sizes.slices)
        return [self.slice * each + number for number in range(each)]

    def _write_sum(self, number: Index, total: SSAValue) -> None:
        """Writes the results of a sum of that number."""
        self._results(self.sub_group.results([(number, total)]))

    def _added(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(self.code, "sum", ELEMENT_TYPES["f32"], left, right)

    def _results(self, pieces: Iterable[tuple[Index, Index, SSAValue]]) -> None:
        """Writes pieces of the sub-group's tile."""
        for row, column, piece in pieces:
            at = (self.first_row + row, self.first_column + column)
            if self.product.pool is None:
                self._tile_results.write(*at, piece)
            else:
                lane = self.place % SUB_GROUP
                ShuffledPools(self.job, self.product, self.batch, lane).write(*at, piece)

    @property
    def _tile_results(self) -> TileResults:
        apart = self.product.columns % 2 != 0
        return TileResults(self.job, self.product, self.batch, True, True, apart)

    def _pieces(self, totals: list[SSAValue]) -> Iterator[tuple[Index, Index, SSAValue]]:
        """Sums side by side, with the row and the column of the first one in the tile."""
        dealt = self.panels[1].dealt
        if dealt > 1:
            return self.sub_group.dealt_results(totals, dealt)
        tiles = self._shuffled_tiles()
        if tiles > 1:
            return self.sub_group.shuffled_results(totals, tiles)
        return self.sub_group.results(
            (constant(number), total) for number, total in enumerate(totals)
        )

    def _tiles_of_a_piece(self) -> int:
        """Over how many tiles of a row a piece of 16 bytes of results goes; 1 where there are no
        such pieces.
        """
        written = max(2, *(node.element.bytes for node in self.job.body.written))
        width = PIECE_BYTES // written * self.product.halves
        tiles = width // PAIR
        while tiles > 1 and (
            self.product.columns % (PAIR * tiles) or self.sizes.columns % (EIGHT * tiles)
        ):
            tiles //= 2
        return max(tiles, 1)

    def _shuffled_tiles(self) -> int:
        """Over how many tiles results are shuffled. All work-items have to reach a shuffle, and
        a row has as many tiles as neighbours at most.
        """
        alone = self.sizes.slices == 1 and self.job.number("sub_group", 1) == SUB_GROUP
        plain = not any(panel.spread for panel in self.panels)
        return min(self._tiles_of_a_piece(), NEIGHBOURS) if alone and plain else 1
