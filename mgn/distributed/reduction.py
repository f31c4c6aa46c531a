"""Sums gradients over all ranks, bucket by bucket, while the backward pass still runs.

In: gradients on each rank's device. Out: their sums on each.

A rank copies its gradients of a bucket to memory that the ranks of its host share. Once all have,
each sums a share of the bucket, and its result goes back to shared memory, from where all take it.
Between hosts, shares are summed by MPI, each by the ranks that have the same one. The memory holds
three buckets: while one is summed, the next arrives, and the one before leaves.
"""

from collections.abc import Collection, Mapping

import numpy as np

from mgn.distributed.carriers import Carrier, Check
from mgn.distributed.layout import Layout
from mgn.distributed.ranks import Ranks
from mgn.distributed.windows import SharedMemory, Turns
from mgn.runtime.host_arrays import DTYPES

DEPTH = 3
"""Buckets that shared memory holds."""


class Reduction:
    """The sums of one element type's gradients. `squares` is the sum of the squares of what this
    rank has summed, where that is wanted. `early` is how many buckets were summed in the last step
    before all gradients were there.
    """

    def __init__(
        self, ranks: Ranks, layout: Layout, element: str, carrier: Carrier, wants_squares: bool
    ) -> None:
        self.layout, self.carrier, self._ranks = layout, carrier, ranks
        self._wants_squares = wants_squares
        self.squares = 0.0
        self.early = 0
        dtype = DTYPES[element]
        shape = (DEPTH, layout.shares, ranks.node_size, layout.length)
        sums = (DEPTH, layout.size)
        self._memory = SharedMemory(ranks, int(np.prod(shape)) * dtype.itemsize)
        self._sums_memory = SharedMemory(ranks, int(np.prod(sums)) * dtype.itemsize)
        self._parts = self._memory.bytes.view(dtype).reshape(shape)
        self._sums = self._sums_memory.bytes.view(dtype).reshape(sums)
        self._turns = Turns(ranks)

    def ends(self, ready: Mapping[str, int]) -> dict[int, list[str]]:
        """The steps behind which buckets leave, and the gradients that are there then and were not
        before. `ready` is the number of steps behind which each gradient is there.
        """
        found: dict[int, list[str]] = {}
        seen: set[str] = set()
        for bucket in range(len(self.layout.buckets)):
            names = self.layout.names(bucket)
            end = max((ready[name] for name in names), default=0)
            found.setdefault(end, []).extend(name for name in names if name not in seen)
            seen.update(names)
        return found

    def run(self, targets: Collection[str]) -> None:
        """Sums all buckets, of a backward pass that was begun. Behind it, the sums of `targets`
        are where an update takes them.
        """
        count, carrier = len(self.layout.buckets), self.carrier
        self.squares, self.early = 0.0, 0
        arriving = [self._leave(number) for number in range(min(count, DEPTH))]
        coming: list[list[Check]] = []
        for bucket in range(count):
            self._wait(arriving[bucket])
            if bucket >= DEPTH:
                self._wait(coming[bucket - DEPTH])
            self._turns.meet()
            if bucket:
                coming.append(self._fetch(bucket - 1, targets))
            following = bucket - 1 + DEPTH
            if bucket and following < count:
                arriving.append(self._leave(following))
            self._add(bucket)
            self.early += not carrier.is_over()
        self._turns.meet()
        coming.append(self._fetch(count - 1, targets))
        for checks in coming[-DEPTH:]:
            self._wait(checks)

    def _leave(self, bucket: int) -> list[Check]:
        """Begins to copy a bucket's gradients to shared memory."""
        rows = self._parts[bucket % DEPTH, :, self._ranks.node_rank]
        parts = self.layout.buckets[bucket]
        used = max((part.place + part.count for part in parts), default=0)
        for share in range(used // self.layout.length, self.layout.shares):
            rows[share, max(used - share * self.layout.length, 0) :] = 0
        return [
            self.carrier.leave(rows[share], piece)
            for part in parts
            for share, piece in self.layout.cut(part)
        ]

    def _add(self, bucket: int) -> None:
        """Sums this rank's share of a bucket, and between hosts."""
        share, slot = self._ranks.node_rank, bucket % DEPTH
        if share >= self.layout.shares:
            return
        first = share * self.layout.length
        total = self._sums[slot, first : first + self.layout.length]
        self.carrier.add(self._parts[slot, share], total)
        if not self._ranks.is_one_host:
            whole = np.empty_like(total)
            self._ranks.wait(self._ranks.across.Iallreduce(total, whole))
            total[:] = whole
        if self._wants_squares and (self._ranks.is_one_host or self._ranks.across.rank == 0):
            self.squares += self.carrier.squares(total)

    def _fetch(self, bucket: int, targets: Collection[str]) -> list[Check]:
        """Begins to copy sums from shared memory to where an update takes them."""
        sums = self._sums[bucket % DEPTH]
        return [
            self.carrier.fetch(sums[part.place : part.place + part.count], part)
            for part in self.layout.buckets[bucket]
            if part.name in targets
        ]

    def _wait(self, checks: Collection[Check]) -> None:
        for check in checks:
            self._ranks.wait_until(check)
