"""The sums of a tile by groups of four sub-groups whose unit reads operands from local memory.

In: the panels of a tile, the work-item's place, and how many blocks the shared axis has. Out: the
work-item's part of the sums.

While a block is multiplied, the work-items store the next block from registers, read the block
after it into registers, and start copies of later blocks. A stage is filled again only when the
product that reads it is known to be complete.
"""

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index, constant
from mgn.passes.kernels.index_maps import bounded
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.long_sums import MOST_UNIT, UNIT_BLOCK, loop_of_blocks
from mgn.passes.lower_kernels.staging.tensor_panels import Panel
from mgn.passes.lower_kernels.staging.tensor_staging import StagedPanel
from mgn.passes.schedules.product.matrix_tiles import FEW_STAGES, STEP_CHUNKS, TensorTiling


@dataclass
class GroupSums:
    """One tile: `memory` holds the stages, `blocks` is how many blocks are multiplied."""

    code: Code
    sizes: TensorTiling
    panels: tuple[Panel, Panel]
    memory: SSAValue
    place: Index
    blocks: int

    @property
    def _staged(self) -> list[StagedPanel]:
        return [panel for panel in self.panels if isinstance(panel, StagedPanel)]

    @property
    def _copied(self) -> list[Panel]:
        return [panel for panel in self.panels if not isinstance(panel, StagedPanel)]

    @property
    def _flying(self) -> int:
        """How many products are in flight while the next block is stored."""
        return int(not self._copied or self.sizes.stages > FEW_STAGES)

    @property
    def _ahead(self) -> int:
        """How many blocks copies are ahead of the product."""
        return self.sizes.stages - 1 - self._flying

    def totals(self) -> list[SSAValue]:
        """The sums of the whole shared axis."""
        for number in range(self._ahead):
            self._copy(constant(number))
        self._put(constant(0), self._hold(constant(0)))
        count = self.sizes.columns // 8
        zeros = [self.code.constant(0, f32, 4)] * count
        held = self._hold(constant(1))

        def block(number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            return self._block(number, carried[:count], carried[count:])

        def begin(carried: list[SSAValue]) -> list[SSAValue]:
            return [*zeros, *carried[count:]]

        def join(before: list[SSAValue], found: list[SSAValue]) -> list[SSAValue]:
            pairs = zip(before, self._finished(found[:count]), strict=False)
            return [*(self.code.binary(arith.AddfOp, *pair) for pair in pairs), *found[count:]]

        steps = self.sizes.chunks // STEP_CHUNKS
        carried = loop_of_blocks(
            self.code,
            0,
            self.blocks,
            block,
            [*zeros, *held],
            begin,
            join,
            block=max(UNIT_BLOCK // steps, 1),
            most=MOST_UNIT // steps,
        )
        return self._finished(carried[:count])

    def _finished(self, sums: list[SSAValue]) -> list[SSAValue]:
        """Sums when no product is under way."""
        wait = kernel.WaitProductsOp(0, sums)
        self.code.block.add_op(wait)
        return list(wait.results)

    def _block(self, number: Index, sums: list[SSAValue], held: list[SSAValue]) -> list[SSAValue]:
        code = self.code
        if self._copied:
            code.block.add_op(kernel.WaitCopiesOp(self._ahead - 1))
        code.effect(kernel.PublishCopiesOp, [])
        code.barrier()
        sums = self._product(self._stage(number), sums)
        self._copy(number + self._ahead)
        if held:
            follows = code.is_below(number + 1, self.blocks, 1)
            code.when(follows, lambda: self._put(number + 1, held))
        following = self._hold(number + 2)
        code.block.add_op(kernel.WaitProductsOp(self._flying))
        return [*sums, *following]

    def _hold(self, number: Index) -> list[SSAValue]:
        """The chunks of a block that pass through the work-item's registers."""
        safe = bounded(number, self.blocks, 1)
        return [chunk for panel in self._staged for chunk in panel.hold(safe)]

    def _put(self, number: Index, held: list[SSAValue]) -> None:
        chunks = iter(held)
        for panel in self._staged:
            own = [next(chunks) for _ in range(panel.held)]
            panel.put(number, self._stage(number), own)

    def _stage(self, number: Index) -> Index:
        return number % self.sizes.stages * self.sizes.stage

    def _copy(self, number: Index) -> None:
        """Starts the copies of a block, if there is one of that number."""
        if not self._copied:
            return

        def start() -> None:
            for panel in self._copied:
                panel.copy(bounded(number, self.blocks, 1), self._stage(number), [])

        self.code.when(self.code.is_below(number, self.blocks, 1), start)
        self.code.effect(kernel.CommitCopiesOp, [])

    def _product(self, stage: Index, sums: list[SSAValue]) -> list[SSAValue]:
        left, right = self.panels
        own = self.place // kernel.GROUP_ITEMS * kernel.GROUP_ROWS
        op = kernel.GroupMmaOp(
            self.memory,
            self.code.index(stage + left.start(own)),
            self.code.index(stage + right.start(constant(0))),
            sums,
            self.sizes.chunks // STEP_CHUNKS,
            (left.part_bytes, right.part_bytes),
        )
        self.code.block.add_op(op)
        return list(op.results)
