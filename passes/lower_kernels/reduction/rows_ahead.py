"""Hints that fetch the row after this one on a CPU, while this one is computed.

In: a reduction along rows. Its schedule's `ahead` is the longest row, in bytes, for which this is
done. Out: prefetches in its loops. A processor fetches ahead by itself only up to the end of a
page, and rows often begin at a page. Without hints the first walk of each row waits for memory,
which was idle during the last walk of the row before.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index, linear
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.lower_kernels.core.template import Job

LINE = 64
"""Bytes of a cache line."""

SHORTEST = 1 << 10
"""Bytes of rows from which they are fetched ahead: shorter ones share a page."""

NEAREST = 1


class RowsAhead:
    """The hints of one row's walk.

    The next row is fetched in two halves: one during the last stage of reductions, and one while
    the results are written. The first stage waits for memory itself, so that no hint is given
    beside it. The lines of this row's results are fetched during the last stage.
    """

    def __init__(self, job: Job, space: RowSpace, row: Index, stages: int) -> None:
        self._code, self._space, self._row = job.code, space, row
        results = list(zip(job.body.written, job.outputs, strict=True))
        inputs = [(node, job.inputs[node.number]) for node in job.body.inputs]
        self._longest = job.number("ahead", 0)
        self._writes = [place for place in results if self._is_taken(place[0])]
        self._reads = [place for place in inputs if self._is_taken(place[0])]
        self._halves = (int(stages > 1), int(bool(self._writes)))

    def beside_last_stage(self, number: Index, count: int) -> None:
        """The hints beside a walk of a row's elements, the `number`-th `count` of them."""
        self._fetch(self._writes, self._row, number * count, count, write=True)
        early, late = self._halves
        if early:
            share = count // (early + late)
            self._fetch(self._reads, self._row + 1, number * share, share)

    def beside_results(self, number: Index, count: int) -> None:
        """The same beside the results."""
        early, late = self._halves
        if late:
            share = count // (early + late)
            first = number * share + early * self._space.length // 2
            self._fetch(self._reads, self._row + 1, first, share)

    def _is_taken(self, node: Node) -> bool:
        size = self._space.length * node.element.bytes
        return self._space.is_full(node) and SHORTEST <= size <= self._longest

    def _fetch(
        self,
        places: Sequence[tuple[Node, SSAValue]],
        row: Index,
        first: Index,
        count: int,
        write: bool = False,
    ) -> None:
        for node, buffer in places:
            for part in range(0, count, LINE // node.element.bytes):
                index = self._space.index_in(node, row, first + part)
                place = self._code.index(linear(index, node.shape))
                self._code.prefetch(buffer, place, NEAREST, write)
