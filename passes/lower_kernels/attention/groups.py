"""Attention by groups of four sub-groups whose unit reads keys and values from local memory.

In: an attention as in matrix.py, of heads that fill lines of local memory. Out: its two
products as `kernel.group_mma`. Queries stay in local memory, behind the tiles of keys and values;
weights come from the work-items' registers. While a group waits for its products, others that are
on the same compute unit weigh their scores.
"""

from xdsl.dialects.builtin import f32

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.matrix import MatrixAttention, Vectors
from mgn.passes.lower_kernels.attention.weights import HELD
from mgn.passes.lower_kernels.staging.tensor_panels import LINE
from mgn.passes.schedules.product.matrix_tiles import LINE_CHUNKS, STEP_CHUNKS


class GroupAttention(MatrixAttention):
    """The kernel whose products are those of groups."""

    def queries(self) -> Vectors:
        """None in registers: the unit reads them from local memory."""
        self.begin_copies()
        return []

    def arrive(self) -> None:
        self.code.block.add_op(kernel.WaitCopiesOp(0))
        self.code.effect(kernel.PublishCopiesOp, [])
        self.code.barrier()

    def products(self, turn: Index, queries: Vectors) -> Vectors:
        sizes, code = self.sizes, self.code
        totals: Vectors = [code.constant(0, f32, HELD)] * self.tiles
        own = self.place // kernel.GROUP_ITEMS * kernel.GROUP_ROWS
        for line in range(sizes.depth_line // LINE):
            queries_at = own * LINE + (sizes.queries + line * sizes.rows * LINE)
            keys_at = self.stage(turn) + line * sizes.keys * LINE
            places = (code.index(queries_at), code.index(keys_at))
            steps = LINE_CHUNKS // STEP_CHUNKS
            op = kernel.GroupMmaOp(self.memory, *places, totals, steps, (0, 0))
            code.block.add_op(op)
            totals = [*op.results]
        return self._complete(totals)

    def add_values(self, turn: Index, weights: Vectors, sums: Vectors) -> Vectors:
        _, values = self.panels(turn)
        at = self.code.index(self.stage(turn) + values.start(constant(0)))
        for terms in zip(*self.fragments(weights), strict=True):
            op = kernel.GroupMmaHeldOp(terms, self.memory, at, sums, values.part_bytes)
            self.code.block.add_op(op)
            sums = [*op.results]
        return self._complete(sums)

    def _complete(self, sums: Vectors) -> Vectors:
        """Sums of products, which may be read from now on."""
        wait = kernel.WaitProductsOp(0, sums)
        self.code.block.add_op(wait)
        return list(wait.results)
