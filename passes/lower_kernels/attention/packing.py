"""Packing of the operands of attention on a CPU, so that a work-item's loops read them in order.

In: an attention, sizes of blocks and the work-item's buffers. Out: rows of queries, unchanged;
panels of a block of keys, transposed, so that vectors run along the keys; panels of columns of the
values.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.attention.products import Operands
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.panels import transposed
from mgn.passes.schedules.attention.blocks import Blocking


@dataclass
class Packing:
    """How operands of a key head of a batch come into `queries`, `keys` and `values`."""

    job: Job
    attention: Attention
    sizes: Blocking
    operands: Operands
    queries: SSAValue
    keys: SSAValue
    values: SSAValue

    def copy_query(self, row: Index, number: Index) -> None:
        """Copies a row of the queries to the place of a row of the tile."""
        sizes, code = self.sizes, self.job.code

        def put(k: Index, width: int) -> None:
            value = self.operands.queries.along_depth(row, k, width)
            code.store(value, self.queries, code.index(number * sizes.depth + k))

        self._along_depth(put)

    def pack(self, first: Index) -> None:
        """Packs a block of keys, and their values."""
        self._pack_keys(first)
        self._pack_values(first)

    def along_columns(self, put: Callable[[Index, int], None]) -> None:
        """Runs over a head's columns by vectors that do not cross panels."""
        attention, width = self.attention, self.sizes.lanes
        while attention.width % width:
            width //= 2
        count = attention.width // width
        self.job.code.each(0, count, lambda number: put(number * width, width))

    def _along_depth(self, put: Callable[[Index, int], None]) -> None:
        """Runs over the shared axis, a vector at a time; the last one ends with the axis."""
        code, width, count = self.job.code, self.sizes.lanes, self.attention.depth
        while width > count:
            width //= 2

        def one(number: Index) -> None:
            put(code.bounded(number * width, count - width + 1), width)

        if count:
            code.each(0, ceil_div(count, width), one)

    def _pack_keys(self, first: Index) -> None:
        """Squares of keys, transposed: vectors along keys for each element of the head."""
        attention, sizes, code = self.attention, self.sizes, self.job.code
        side = sizes.lanes
        while side > attention.depth and side > 1:
            side //= 2
        beside = sizes.key_panel // side

        def square(number: Index, k: Index) -> None:
            panel, part = number // beside, number % beside
            own = panel * sizes.key_panel + part * side
            keys = (code.bounded(first + own + c, attention.keys) for c in range(side))
            rows = [self.operands.keys.along_depth(key, k, side) for key in keys]
            base = panel * (attention.depth * sizes.key_panel) + part * side
            for offset, value in enumerate(transposed(code, rows)):
                place = base + (k + offset) * sizes.key_panel
                code.store(value, self.keys, code.index(place))

        def squares(number: Index) -> None:
            self._along_depth(lambda k, _: square(number, k))

        code.each(0, sizes.panels * beside, squares)

    def _pack_values(self, first: Index) -> None:
        attention, sizes, code = self.attention, self.sizes, self.job.code

        def one_key(j: Index) -> None:
            key = code.bounded(first + j, attention.keys)

            def put(column: Index, width: int) -> None:
                value = self.operands.values.across(column, key, width)
                code.store(value, self.values, code.index(self._value_place(j, column)))

            self.along_columns(put)

        code.each(0, sizes.keys, one_key)

    def _value_place(self, j: Index, column: Index) -> Index:
        sizes = self.sizes
        panel, rest = column // sizes.column_panel, column % sizes.column_panel
        return panel * (sizes.keys * sizes.column_panel) + j * sizes.column_panel + rest
