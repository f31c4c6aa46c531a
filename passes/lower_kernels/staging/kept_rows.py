"""Rows of a left operand that lie in local memory over the whole shared axis.

In: the panel of an operand that is computed on the way to a matrix unit, and how many blocks the
shared axis has. Out: its numbers, computed once, before the product of the first block. So memory
is waited for once, and not in each block.
"""

from dataclasses import dataclass

from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.scalar import cast
from mgn.passes.lower_kernels.staging.tensor_panels import Panel
from mgn.passes.lower_kernels.staging.tile_copies import Spot

AT_ONCE = 12
"""About how many chunks a work-item reads before it stores the first."""


@dataclass(frozen=True)
class KeptRows:
    """The rows of a panel; past the shared axis, up to the end of its last block, are zeros."""

    panel: Panel
    blocks: int

    @property
    def length(self) -> int:
        """Elements of a row in local memory."""
        return self.blocks * self.panel.sizes.depth

    def fill(self) -> None:
        """Computes all of the tile, by the work-items in turn."""
        panel, code = self.panel, self.panel.code
        together = max(AT_ONCE // panel.pieces.turns, 1)
        while self.blocks % together:
            together -= 1

        def some(number: Index) -> None:
            blocks = [number * together + n for n in range(together)]
            values = [panel.read(block) for block in blocks]
            for block, own in zip(blocks, values, strict=True):
                panel.copy(block, panel.stage(block), own)

        code.each(0, self.blocks // together, some)

    def put(self, evaluator: Evaluator, line: Index, start: Index, inside: Spot) -> None:
        """Stores the neighbours of a line from a place on, as many as the evaluator has lanes;
        `inside` are the operand's row and step, brought inside the operand.
        """
        panel, code, width = self.panel, self.panel.code, evaluator.lanes
        depth, chunk = panel.sizes.depth, panel.sizes.chunk

        def store() -> None:
            own, step = inside
            index = panel.index_of(own, step + lanes(width))
            value = evaluator.lanes_at(panel.node, index)
            value = cast(code, value, panel.node.element, panel.element)
            value = code.or_zeros(code.is_below(start, panel.product.depth, 1), value)
            inner = start % depth
            place = panel.stage(start // depth) + panel.spot(inner // chunk, line) + inner % chunk
            code.store(value, panel.memory, code.index(place), place.multiple)

        tests = [code.is_below(line, panel.size, 1), code.is_below(start, self.length, 1)]
        code.when(code.all_of(tests), store)
