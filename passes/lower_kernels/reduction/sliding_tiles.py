"""Reductions of windows on a GPU: depthwise convolutions and pooling.

A work-item has a tile of places. It goes over the lines of the source that their windows have,
reads each element once, and combines it with all windows that have it. Padding is chosen, not
branched to: what is outside is read at the nearest element inside, so that all reads are begun
before the first one is needed.
"""

from math import prod

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, constant, delinearised, lanes
from mgn.passes.kernels.index_maps import reshaped_index
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.kernels.sliding_windows import SlidingWindows, sliding_windows
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.movement import chosen_padding
from mgn.passes.lower_kernels.core.product import tile_start
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.core.scalar import total_of
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.reduction.stage import Stage
from mgn.passes.lower_kernels.reduction.weighted_sums import with_element


def lower_sliding_tiles(job: Job, space: RowSpace) -> Launch:
    """Writes a reduction of windows. VerifyException where it is none."""
    windows = sliding_windows(job.body, space)
    if windows is None:
        raise VerifyException("fusion.kernel: no windows are reduced, as the schedule says")
    return _Tiles(job, space, windows).write()


class _Tiles:
    def __init__(self, job: Job, space: RowSpace, windows: SlidingWindows) -> None:
        self.job, self.space, self.windows, self.code = job, space, windows, job.code
        (self.node,) = job.body.of_kind(Kind.REDUCTION)
        self.rows, self.columns = job.entry("window_rows"), job.entry("window_columns")
        kept = space.kept_shape
        self.down, self.across = kept[-2] if windows.axes > 1 else 1, kept[-1]
        self.outer = kept[:-2] if windows.axes > 1 else kept[:-1]

    def write(self) -> Launch:
        code, items = self.code, self.job.entry("items")
        down, across = ceil_div(self.down, self.rows), ceil_div(self.across, self.columns)
        count = prod(self.outer) * down * across
        groups = ceil_div(count, items)
        item = code.counter(kernel.GlobalIdOp, 0, groups * items)

        def tile() -> None:
            place = code.known(item, count)
            line = place // across
            outer = delinearised(line // down, self.outer)
            first = tile_start(code, line % down, self.rows, self.down)
            self._tile(outer, first, tile_start(code, place % across, self.columns, self.across))

        code.when(code.is_below(item, count, 1), tile)
        return Launch((groups * items,), (items,))

    def _tile(self, outer: Indices, first: Index, column: Index) -> None:
        code = self.code
        stage, evaluator = Stage(code, [self.node]), self.job.evaluator()
        self._give_source(evaluator)
        held = [[stage.start(1) for _ in range(self.columns)] for _ in range(self.rows)]
        for element, row, own in self.windows.steps(self.rows, self.columns):
            place = self._place(outer, first + row, column + own)
            index = self._index(place, tuple(map(constant, element)))
            held[row][own] = with_element(stage, held[row][own], evaluator, index)
        for row, line in enumerate(held):
            totals = [total_of(code, self.node, values[0]) for values in line]
            place = self._place(outer, first + row, column + lanes(self.columns))
            self._write(place, code.joined(totals))

    def _place(self, outer: Indices, row: Index, column: Index) -> Indices:
        """The index of a place among the axes that are kept."""
        return (*outer, row, column) if self.windows.axes > 1 else (*outer, column)

    def _index(self, place: Indices, element: Indices) -> Indices:
        """The index of an element of a window."""
        kept, reduced = iter(place), iter(element)
        axes = range(len(self.space.shape))
        return tuple([next(reduced if axis in self.space.reduced else kept) for axis in axes])

    def _give_source(self, evaluator: Evaluator) -> None:
        """From here on the evaluator knows what windows slide over: in padding, an element that was
        asked for before is known.
        """
        code, source = self.code, self.windows.node.operands[0]
        if source.name != "pad":
            evaluator.given[source] = lambda index: self._element(source, index)
            return

        def padded(index: Indices) -> SSAValue:
            key = ("chosen", source, index)
            value = code.recall(key)
            if value is None:
                value = chosen_padding(evaluator, source, index)
                code.remember(key, value)
            return value

        inner = source.operands[0]
        evaluator.given[inner] = lambda index: self._element(inner, index)
        evaluator.given[source] = padded

    def _element(self, source: Node, index: Indices) -> SSAValue:
        """An element of what windows slide over, one of a whole vector where that is inside."""
        code, width, column = self.code, self.columns, index[-1]
        first = column - column.constant % width
        whole = first.multiple % width == 0 and source.shape[-1] % width == 0
        if width == 1 or not whole or first.low < 0 or first.high + width > source.shape[-1]:
            return self.job.evaluator().at(source, index)
        vector = self.job.evaluator(width).at(source, (*index[:-1], first + lanes(width)))
        return lane_of(code, vector, column.constant % width)

    def _write(self, place: Indices, total: SSAValue) -> None:
        """What follows, at a vector of places."""
        evaluator, kept = self.job.evaluator(self.columns), self.space.kept_shape
        evaluator.given[self.node] = lambda _: total
        self.job.write_at(evaluator, lambda node: reshaped_index(place, kept, node.shape))
