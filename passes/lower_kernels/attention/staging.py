"""Copies of a group's queries, and of keys and values a tile at a time, into local memory.

In: an attention, the place of a work-item and the buffers in local memory. Out: copies. A tile that
takes few registers is read into them while the one before is added up, or while queries are copied,
and is stored later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.kernels.product import lies_in_memory
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.attention.places import Places
from mgn.passes.lower_kernels.attention.products import Operands
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.tile_copies import Lines, Read, TileCopy

AT_ONCE = 4
"""Vectors of an operand that a work-item reads before it stores the first."""

STAGED = 16
"""Up to how many vectors of a tile of keys and values a work-item reads before it needs them. It is
half as many where they are computed from what is read while the tile before is added up.
"""


@dataclass
class Staging:
    """How the operands of a key head of a batch come into `queries`, `keys` and `values`."""

    job: Job
    attention: Attention
    own: Places
    operands: Operands
    queries: SSAValue
    keys: SSAValue
    values: SSAValue

    def copy_queries(self, first_row: Index) -> None:
        """Copies the rows of a tile from one on."""
        attention, sizes, code = self.attention, self.own.sizes, self.job.code

        def read(line: Index, k: Index, width: int) -> SSAValue:
            row = code.bounded(first_row + line, attention.rows)
            return self.operands.queries.along_depth(row, k, width)

        size = sizes.parts * sizes.vector
        own = (self.queries, lambda line, k: line * size + k)
        rows = Lines(code, sizes.tile_rows, attention.depth, size, sizes.vector, *own)
        self._copy_of(rows).copy(rows.padded(read), rows.store, AT_ONCE)

    def read(self, first: Index) -> list[SSAValue]:
        """What the work-item copies of a tile of keys, in registers; nothing where that is too
        much.
        """
        if not self._fits_registers:
            return []
        return [
            value
            for n, lines in enumerate(self._lines)
            for value in self._copy_of(lines).read(self._reader(lines, first, bool(n)))
        ]

    def fill(self, first: Index, staged: Sequence[SSAValue]) -> None:
        """Stores a tile's keys and values, which were read before or are read now."""
        rest = list(staged)
        for n, lines in enumerate(self._lines):
            copy = self._copy_of(lines)
            if self._fits_registers:
                copy.write(rest[: copy.pieces.turns], lines.store)
                rest = rest[copy.pieces.turns :]
            else:
                copy.copy(self._reader(lines, first, bool(n)), lines.store, AT_ONCE)

    @property
    def is_single(self) -> bool:
        """Whether a part has one tile of keys, so that nothing is added up while it is read."""
        return self.attention.part_keys <= self.own.sizes.tile_keys

    @cached_property
    def _fits_registers(self) -> bool:
        plain = all(map(lies_in_memory, self.attention.node.operands[1:3]))
        most = STAGED if self.is_single or plain else STAGED // 2
        return sum(self._copy_of(lines).pieces.turns for lines in self._lines) <= most

    @cached_property
    def _lines(self) -> tuple[Lines, Lines]:
        """A tile's keys and values."""
        attention, sizes, code = self.attention, self.own.sizes, self.job.code

        def key_place(line: Index, k: Index) -> Index:
            return self.own.of_key(line, k // sizes.vector) + k % sizes.vector

        def value_place(line: Index, column: Index) -> Index:
            return line * sizes.width + column

        count, vector, length = sizes.tile_keys, sizes.vector, sizes.parts * sizes.vector
        return (
            Lines(code, count, attention.depth, length, vector, self.keys, key_place),
            Lines(code, count, attention.width, sizes.width, vector, self.values, value_place),
        )

    def _copy_of(self, lines: Lines) -> TileCopy:
        return lines.copied_by(self.own.sizes.items, self.own.item)

    def _reader(self, lines: Lines, first: Index, of_values: bool) -> Read:
        """Reads elements of the keys, or of the values, of a tile that begins at a key. Past the
        last key a value is 0: a weight of 0 times an infinite one would be nan.
        """
        attention, code = self.attention, self.job.code

        def read(line: Index, column: Index, width: int) -> SSAValue:
            key = code.bounded(first + line, attention.keys)
            if not of_values:
                return self.operands.keys.along_depth(key, column, width)
            value = self.operands.values.across(column, key, width)
            if attention.keys % self.own.sizes.tile_keys == 0:
                return value
            return code.or_zeros(code.is_below(first + line, attention.keys, 1), value)

        return lines.padded(read)
