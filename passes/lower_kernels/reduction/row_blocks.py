"""The template of rows in blocks: what is done with each row, and sums down the rows of a block.

CPU: a work-item takes a block and walks its rows one after another (row_walk.py). The sums of its
columns lie where they are written: in the block's row of each result, which stays in a cache. GPU:
grouped_blocks.py.
"""

from dataclasses import dataclass

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.rows import RowSpace, block_space, block_sums_of, stages_of
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.scalar import combine
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.grouped_blocks import lower_grouped_blocks
from mgn.passes.lower_kernels.reduction.row_walk import Row, RowWalk, homes_of
from mgn.passes.schedules.reduction.row_blocks import RowBlocksVariant


def lower_row_blocks(job: Job) -> Launch:
    """Writes a kernel of rows in blocks as its schedule says."""
    match job.variant(RowBlocksVariant):
        case RowBlocksVariant.GROUPS:
            return lower_grouped_blocks(job, block_space(job.body))
        case RowBlocksVariant.ALONG:
            return _along_rows(job, block_space(job.body))


@dataclass
class _BlockWalk(RowWalk):
    """A walk down a row that also adds its elements to the sums of a block."""

    block: Index

    def __post_init__(self) -> None:
        super().__post_init__()
        numbered = zip(self.job.body.written, self.job.outputs, strict=True)
        sums = block_sums_of(self.job.body)
        self.sums = [(node, buffer) for node, buffer in numbered if node in sums]

    @property
    def has_elements(self) -> bool:
        """Always: each is added to a sum."""
        return True

    def write_element(self, row: Row) -> None:
        """Adds what is summed, which is known before any result takes the place of what is stored
        between stages.
        """
        code, evaluator, first = self.code, row.evaluator, row.element.at_lane(0)
        terms = [
            evaluator.lanes_at(node.operands[0], row.index_of(node.operands[0]))
            for node, _ in self.sums
        ]
        super().write_element(row)
        place = code.index(self.block * self.space.length + first)
        for term, (node, buffer) in zip(terms, self.sums, strict=True):
            held = code.load(buffer, place, evaluator.lanes)
            total = combine(code, "sum", node.element, held, term)
            code.store(total, buffer, place)

    def clear(self) -> None:
        """Writes sums of nothing."""
        code, width, length = self.code, self.width, self.space.length
        start, vectors = self.block * length, length // width

        def step(first: Index, count: int) -> None:
            for node, buffer in self.sums:
                nothing = code.constant(0, memory_type(node.element), count)
                code.store(nothing, buffer, code.index(start + first))

        code.each(0, vectors, lambda number: step(number * width, width))
        code.each(vectors * width, length, lambda number: step(number, 1))


def _along_rows(job: Job, space: RowSpace) -> Launch:
    code, width = job.code, job.entry("width")
    sums = block_sums_of(job.body)[0]
    blocks, rows = sums.shape[0], sums.values["rows"]
    stages = stages_of(job.body, space)
    homes = homes_of(job.body, space, stages)
    if not job.entry("stored"):
        stages.stored = [[node for node in stored if node in homes] for stored in stages.stored]
    block = code.counter(kernel.GlobalIdOp, 0, blocks)

    def walk(row: Index) -> _BlockWalk:
        return _BlockWalk(job, space, stages, [row], width, homes, block)

    walk(block * rows).clear()
    code.each_own(block, rows, space.rows, lambda row: walk(row).walk())
    return Launch((blocks,))
