"""Memory that the ranks of a host share, and how they take turns in it.

In: the ranks of a host. Out: arrays that all of them see, and `Turns`: a rank goes on once all have
come to the same point.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mgn.diagnostics import MgnError, argument_name
from mgn.distributed.ranks import Ranks

LINE = 64
"""Bytes that processors write as one."""


class SharedMemory:
    """Bytes that the ranks of a host share: `array` gives them as numbers."""

    def __init__(self, ranks: Ranks, size: int) -> None:
        from mpi4py import MPI

        own = size + LINE if ranks.node_rank == 0 else 0
        try:
            self._window: Any = MPI.Win.Allocate_shared(own, 1, comm=ranks.node)
        except MPI.Exception as error:
            raise MgnError(
                f"this machine has no {size} bytes for what its {ranks.node_size} ranks share: "
                f"{error}; a smaller {argument_name('bucket')} needs less"
            ) from None
        buffer, _ = self._window.Shared_query(0)
        whole = np.frombuffer(buffer, np.uint8)
        start = -whole.ctypes.data % LINE
        self.bytes = whole[start : start + size]
        self._window.Lock_all()

    def settle(self) -> None:
        """Has others see what was written here, and this rank what others wrote."""
        self._window.Sync()


class Turns:
    """A point that the ranks of a host pass together, again and again."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._memory = SharedMemory(ranks, ranks.node_size * LINE)
        self._counts = self._memory.bytes.view(np.int64)[:: LINE // 8]
        self._done = 0
        self._counts[ranks.node_rank] = 0
        self._memory.settle()
        ranks.wait(ranks.node.Ibarrier())

    def meet(self) -> None:
        """Waits until all ranks of the host are here. What they wrote before is seen behind it."""
        self._ranks.wait_until(self.arrived())

    def arrived(self) -> Callable[[], bool]:
        """Tells that this rank is here, and asks whether all are: what they wrote is seen then."""
        self._done += 1
        self._memory.settle()
        self._counts[self._ranks.node_rank] = self._done
        return self._all_here

    def _all_here(self) -> bool:
        self._memory.settle()
        are_here = bool((self._counts >= self._done).all())
        self._memory.settle()
        return are_here
