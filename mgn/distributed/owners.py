"""Parameters that ranks share out among them: each updates some, and has their new values to all.

In: the rank that owns each parameter, and the buffers that hold parameters. Out: `Owners`, whose
`publish` has every rank hold what each owner has made.

Values pass through memory that the ranks of a host share; between hosts MPI passes them on. All
owners' next pieces pass at once, of as many bytes each.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mgn.distributed.ranks import Ranks
from mgn.distributed.windows import SharedMemory, Turns
from mgn.runtime.devices import opencl
from mgn.runtime.launching.host_places import buffer_over
from mgn.runtime.launching.session import Session

_LINE = 64


class Owners:
    """The owner of each parameter by name; `sizes` are their bytes."""

    def __init__(
        self,
        ranks: Ranks,
        owner: Mapping[str, int],
        sizes: Mapping[str, int],
        session: Session,
        most: int,
    ) -> None:
        self.owner, self._ranks, self._session = dict(owner), ranks, session
        self._owned: list[list[tuple[str, int, int]]] = [[] for _ in range(ranks.size)]
        """For each rank, what it owns: a name, its bytes, and where they begin among all."""
        ends = [0] * ranks.size
        for name, rank in owner.items():
            self._owned[rank].append((name, sizes[name], ends[rank]))
            ends[rank] += sizes[name]
        longest = max(max(ends), 1)
        self._length = -(-min(most, longest) // _LINE) * _LINE
        self._rounds = -(-longest // self._length)
        count = ranks.node_size if ranks.is_one_host else ranks.size
        if ranks.is_one_host:
            memory = SharedMemory(ranks, count * self._length)
            self._slots = memory.bytes.reshape(count, self._length)
            self._known = buffer_over(session.context, memory.bytes)
        else:
            self._slots = np.zeros((count, self._length), np.uint8)
        self._turns = Turns(ranks)
        place = ranks.node_rank if ranks.is_one_host else ranks.rank
        self._own = self._slots[place]
        self._places = ranks.exchange("places of ranks", place)

    def mine(self) -> list[str]:
        """What this rank owns."""
        return [name for name, rank in self.owner.items() if rank == self._ranks.rank]

    def publish(self, buffers: Mapping[str, Any]) -> None:
        """Has each rank hold what the owners hold."""
        for number in range(self._rounds):
            first = number * self._length
            self._copy(self._own, self._ranks.rank, first, buffers, leaves=True)
            if self._ranks.is_one_host:
                self._turns.meet()
            else:
                self._pass_on()
            for rank in range(self._ranks.size):
                if rank != self._ranks.rank:
                    slot = self._slots[self._places[rank]]
                    self._copy(slot, rank, first, buffers, leaves=False)
            self._session.queue.finish()
            self._turns.meet()

    def _pass_on(self) -> None:
        """The slots of all ranks, between hosts."""
        own = self._own.copy()
        self._ranks.wait(self._ranks.comm.Iallgather(own, self._slots))

    def _copy(
        self, slot: np.ndarray, rank: int, first: int, buffers: Mapping[str, Any], leaves: bool
    ) -> None:
        """Copies the part of what a rank owns that a slot is for, from the device or to it."""
        cl, queue = opencl(), self._session.queue
        for name, size, place in self._owned[rank]:
            start, stop = max(place, first), min(place + size, first + self._length)
            if start >= stop:
                continue
            held, buffer = slot[start - first : stop - first], buffers[name]
            if leaves:
                cl.enqueue_copy(queue, held, buffer, src_offset=start - place)
            else:
                cl.enqueue_copy(queue, buffer, held, dst_offset=start - place, is_blocking=False)
