"""Sums gradients over all ranks, bucket by bucket, while the backward pass still runs.

In: gradients on each rank's device. Out: their sums on each.

A rank copies its gradients of a bucket to memory that the ranks of its host share. Once all have,
each sums a share of the bucket, and its result goes back to shared memory, from where all take it.
What a rank sums itself need not leave its device.
Between hosts, shares are summed by MPI, each by the ranks that have the same one. The memory holds
four buckets: while two are summed, the next arrives, and the one before leaves.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from mgn.distributed.carriers import TURNS, Carrier, Check, Rows
from mgn.distributed.layout import Layout
from mgn.distributed.ranks import Ranks
from mgn.distributed.windows import SharedMemory, Turns
from mgn.runtime.host_arrays import DTYPES

DEPTH = TURNS + 2
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
        self._pieces = [
            [piece for part in parts for piece in layout.cut(part)] for parts in layout.buckets
        ]
        self._turns = Turns(ranks)
        self._passed_on = 0
        self._keeps_sums = carrier.keeps_own and ranks.is_one_host
        for memory in (self._memory, self._sums_memory):
            carrier.share(memory.bytes)

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

    def begun(self, targets: Collection[str]) -> "Progress":
        """The sums of all buckets of a backward pass that is about to begin. Once they are done,
        the sums of `targets` are where an update takes them.
        """
        self.carrier.forget()
        return Progress(self._ranks, self._steps(targets))

    def _steps(self, targets: Collection[str]) -> Iterator[Check]:
        """Sums all buckets, and gives what to wait for before it goes on."""
        count = len(self.layout.buckets)
        last = next((part.name for part in self.layout.buckets[-1][-1:]), None)
        squares: dict[int, float] = {}
        self.early = self._passed_on = 0
        arriving = [self._leave(number) for number in range(min(count, DEPTH))]
        adding: list[Progress] = []
        coming: list[Check] = []

        def beside(check: Check) -> Check:
            def done() -> bool:
                for item in adding[-TURNS:]:
                    item.advance()
                return check()

            return done

        for bucket in range(count + TURNS):
            done = bucket - TURNS
            if bucket < count:
                yield beside(arriving[bucket])
            if DEPTH <= bucket < count:
                yield coming[bucket - DEPTH]
            if done >= 0:
                yield adding[done].is_done
            yield beside(self._turns.arrived())
            if done >= 0:
                self.early += last is not None and not self.carrier.is_there(last)
                coming.append(self._fetch(done, targets))
                if done + DEPTH < count:
                    arriving.append(self._leave(done + DEPTH))
            if bucket < count:
                adding.append(Progress(self._ranks, self._add(bucket, squares)))
        yield from coming[-DEPTH:]
        self.squares = sum(squares[bucket] for bucket in sorted(squares))

    def _leave(self, bucket: int) -> Check:
        """Copies a bucket's gradients to shared memory, those that do not stay."""
        rows = self._parts[bucket % DEPTH, :, self._ranks.node_rank]
        parts = self.layout.buckets[bucket]
        used = max((part.place + part.count for part in parts), default=0)
        for share in range(used // self.layout.length, self.layout.shares):
            rows[share, max(used - share * self.layout.length, 0) :] = 0
        stays = self._ranks.node_rank if self.carrier.keeps_own else None
        return _all_of(
            partial(self.carrier.is_there, piece.name)
            if share == stays
            else self.carrier.leave(rows[share], piece)
            for share, piece in self._pieces[bucket]
        )

    def _add(self, bucket: int, squares: dict[int, float]) -> Iterator[Check]:
        """Sums this rank's share of a bucket, and between hosts."""
        share, slot, turn = self._ranks.node_rank, bucket % DEPTH, bucket % TURNS
        if share >= self.layout.shares:
            return
        first = share * self.layout.length
        total = self._sums[slot, first : first + self.layout.length]
        kept = [piece for number, piece in self._pieces[bucket] if number == share]
        yield from self.carrier.add(turn, Rows(self._parts[slot, share], share, kept), total)
        if not self._ranks.is_one_host:
            whole = np.empty_like(total)
            yield lambda: self._passed_on == bucket  # all hosts call MPI for buckets in one order
            self._passed_on += 1
            yield self._ranks.across.Iallreduce(total, whole).Test
            total[:] = whole
        if self._wants_squares and (self._ranks.is_one_host or self._ranks.across.rank == 0):
            squares[bucket] = self.carrier.squares(turn, total)

    def _fetch(self, bucket: int, targets: Collection[str]) -> Check:
        """Begins to copy sums to where an update takes them: from shared memory, but for what this
        rank has summed where that has not left.
        """
        sums = self._sums[bucket % DEPTH].reshape(self.layout.shares, -1)
        own = self._ranks.node_rank if self._keeps_sums else None
        return _all_of(
            self.carrier.pass_on(bucket % TURNS, piece)
            if share == own
            else self.carrier.fetch(sums[share, piece.place : piece.place + piece.count], piece)
            for share, piece in self._pieces[bucket]
            if piece.name in targets
        )


class Progress:
    """Work that has to wait again and again, and is gone on with in between. `steps` gives what to
    wait for each time.
    """

    def __init__(self, ranks: Ranks, steps: Iterator[Check]) -> None:
        self._ranks, self._steps = ranks, steps
        self._awaited = next(steps, None)

    def advance(self) -> None:
        """Goes on as far as it need not wait."""
        while self._awaited is not None and self._awaited():
            self._awaited = next(self._steps, None)

    def is_done(self) -> bool:
        """Goes on as far as it need not wait; whether that is to the end."""
        self.advance()
        return self._awaited is None

    def finish(self) -> None:
        """Waits until all is done. RankError where another rank has failed."""
        while self._awaited is not None:
            self._ranks.wait_until(self._awaited)
            self._awaited = next(self._steps, None)


def _all_of(checks: Iterable[Check]) -> Check:
    """Asks all those that were not done yet."""
    left = list(checks)

    def done() -> bool:
        left[:] = [check for check in left if not check()]
        return not left

    return done
