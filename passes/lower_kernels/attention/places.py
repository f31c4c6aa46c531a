"""The layout of an attention's tile: a work-item's part of it, and places in local memory.

In: a tiling, and a work-item's number in its group. Out: the rows, keys and columns of a tile that
the work-item computes, and the places of keys and weights in local memory. Lines are swizzled:
work-items that read one vector each of neighbouring lines read different banks.
"""

from xdsl.dialects import arith

from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.schedules.attention.tiles import BANK_GROUPS, Tiling


class Places:
    """The places of work-item `item`: part `across` of the rows that begin at `down`."""

    def __init__(self, code: Code, sizes: Tiling, item: Index) -> None:
        self.code, self.sizes, self.item = code, sizes, item
        self.down, self.across = item // sizes.across, item % sizes.across

    def row(self, part: int) -> Index:
        """The first row, in the tile, of a vector of the work-item's rows."""
        sizes = self.sizes
        return self.down * sizes.row_vector + part * sizes.down * sizes.row_vector

    def key(self, c: int) -> Index:
        """One of the work-item's keys in the tile."""
        return self.across + c * self.sizes.across

    def column(self, part: int) -> Index:
        """The first of a vector of the work-item's columns."""
        sizes = self.sizes
        return self.across * sizes.column_vector + part * sizes.across * sizes.column_vector

    def of_key(self, key: Index, part: Index) -> Index:
        """Where local memory has a vector of a key."""
        sizes = self.sizes
        own = self._swizzled(part, key, sizes.parts)
        return (key * sizes.parts + own) * sizes.vector

    def of_weights(self, key: Index, row: Index) -> Index:
        """Where local memory has a key's weights for a vector of rows."""
        sizes = self.sizes
        parts = sizes.tile_rows // sizes.row_vector
        own = self._swizzled(row // sizes.row_vector, key, parts)
        return key * sizes.tile_rows + own * sizes.row_vector

    def _swizzled(self, part: Index, line: Index, parts: int) -> Index:
        """The swizzled place of a vector in a line of so many."""
        code = self.code
        among = min(parts & -parts, BANK_GROUPS)
        if among == 1:
            return part
        mask = code.constant(among - 1, INDEX)
        low = code.pure(arith.AndIOp, [code.index(line), mask], INDEX)
        value = code.pure(arith.XOrIOp, [code.index(part), low], INDEX)
        return of(Counter(value, 0, parts - 1))
