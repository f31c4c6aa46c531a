"""Which tile of a product a work-group takes.

In: a product and the sizes of tiles. Out: the tile's batch, its row and its column among tiles.
Groups that follow each other take a strip of rows of tiles column by column, and so find operands
in the cache that their neighbours have read.
"""

from dataclasses import dataclass
from math import prod

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, delinearised
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.product.local_tiles import Tiling
from mgn.passes.schedules.product.matrix_tiles import TensorTiling


@dataclass(frozen=True)
class GroupTile:
    """A tile of a product, and the number of a work-item in its group of `items`."""

    groups: int
    items: int
    place: Index
    batch: Indices
    row: Index
    column: Index

    @staticmethod
    def of(job: Job, product: Product, sizes: Tiling | TensorTiling) -> "GroupTile":
        """The tile of the group that runs; strips of rows of tiles divide those there are."""
        across = ceil_div(product.columns, sizes.tile_columns)
        down = ceil_div(product.rows, sizes.tile_rows)
        groups, strip = across * down * prod(product.batch), job.number("strip", 1)
        group = job.code.counter(kernel.GroupIdOp, 0, groups)
        place = job.code.counter(kernel.LocalIdOp, 0, sizes.items)
        inner, outer = group % (strip * across), group // (strip * across)
        batch = delinearised(outer // (down // strip), product.batch)
        row = outer % (down // strip) * strip + inner % strip
        return GroupTile(groups, sizes.items, place, batch, row, inner // strip)

    @property
    def launch(self) -> Launch:
        return Launch((self.groups * self.items,), (self.items,))
