"""Which tile of a product a work-group takes.

In: the group's number, and how many tiles lie across and down. Out: the tile's batch, row and
column. Groups that follow each other take a strip of rows of tiles column by column, and so find
operands in the cache that their neighbours have read.
"""

from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Index, delinearised


def tile_of_group(
    group: Index, across: int, down: int, batches: tuple[int, ...], strip: int
) -> tuple[Indices, Index, Index]:
    """Batch, row and column of the tile of a group; `strip` rows of tiles divide `down`."""
    inner, outer = group % (strip * across), group // (strip * across)
    batch = delinearised(outer // (down // strip), batches)
    return batch, outer % (down // strip) * strip + inner % strip, inner // strip
