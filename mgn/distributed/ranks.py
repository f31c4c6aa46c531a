"""The crew of several processes: what they tell one another, and how they wait.

In: a communicator of mpi4py. Out: `Ranks`. No call waits in MPI itself: each asks again and again
whether it is done, and looks at the watch between, so that no rank waits for one that is gone.
"""

import atexit
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from mgn.diagnostics import MgnError
from mgn.distributed.watch import Watch

Item = TypeVar("Item")

PER_HOST_VARIABLE = "MGN_RANKS_PER_HOST"
"""How many ranks count as one host: for machines of several parts, and for tests."""

_SLOT = 1024
"""Bytes that ranks exchange at once; what is longer follows."""

_HEAD = 8
_QUICK = 200
"""Times that are asked without a rest."""

_RESTS = (2e-5, 1e-3)
"""The shortest and the longest rest between two questions, in seconds."""

_GRACE = 2.0
"""Seconds after a rank's clean end in which what it has sent may still come."""


class RankError(MgnError):
    """Another rank has failed, or has ended before this one."""


class Ranks:
    """Processes that do a run together. `node_rank` counts those of one host."""

    def __init__(self, comm: Any) -> None:
        mpi = _mpi()
        self._forms = mpi.pickle
        """How mpi4py writes an object down for another rank of the run."""
        self.comm = comm.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.node = self.comm.Split_type(mpi.COMM_TYPE_SHARED)
        per_host = os.environ.get(PER_HOST_VARIABLE, "")
        if per_host.isdigit() and int(per_host):
            self.node = self.node.Split(self.node.rank // int(per_host))
        self.node_rank, self.node_size = self.node.rank, self.node.size
        self.summing = int(self.comm.allreduce(self.node_size, mpi.MIN))
        """So many ranks of each host sum a share of the gradients each."""
        own = self.node_rank if self.node_rank < self.summing else mpi.UNDEFINED
        self.across = self.comm.Split(own, self.rank)
        """The ranks that sum the same share, one of each host; nothing for one that sums none."""
        self.is_one_host = self.node_size == self.size
        place = f"{socket.gethostname()}, process {os.getpid()}"
        names = self.comm.allgather(place)
        self.watch = Watch(self.rank, names, self.is_one_host, lambda it: self.comm.bcast(it, 0))
        atexit.register(self._end)
        self._hook, sys.excepthook = sys.excepthook, self._uncaught

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes files and talks to the reader."""
        return self.rank == 0

    def exchange(self, label: str, value: Item) -> list[Item]:
        """What each rank gives, in their order. MgnError where ranks are at different labels."""
        data = np.frombuffer(self._forms.dumps((label, value)), np.uint8)
        found = self._gathered(data)
        labels = [item[0] for item in found]
        if len(set(labels)) > 1:
            listing = "; ".join(f"rank {rank}: {item}" for rank, item in enumerate(labels))
            raise MgnError(f"the ranks do different things: {listing}")
        return [item[1] for item in found]

    def _gathered(self, data: np.ndarray) -> list[Any]:
        """What each rank has written down."""
        slot, slots = np.zeros(_SLOT, np.uint8), np.empty((self.size, _SLOT), np.uint8)
        slot[:_HEAD] = np.frombuffer(len(data).to_bytes(_HEAD, "little"), np.uint8)
        held = data[: _SLOT - _HEAD]
        slot[_HEAD : _HEAD + len(held)] = held
        self.wait(self.comm.Iallgather(slot, slots))
        lengths = [int.from_bytes(item[:_HEAD].tobytes(), "little") for item in slots]
        if max(lengths) <= _SLOT - _HEAD:
            rows = zip(slots, lengths, strict=True)
            return [
                self._forms.loads(row[_HEAD : _HEAD + length].tobytes()) for row, length in rows
            ]
        longest = max(lengths)
        whole, wholes = np.zeros(longest, np.uint8), np.empty((self.size, longest), np.uint8)
        whole[: len(data)] = data
        self.wait(self.comm.Iallgather(whole, wholes))
        rows = zip(wholes, lengths, strict=True)
        return [self._forms.loads(row[:length].tobytes()) for row, length in rows]

    def from_first(self, make: Callable[[], Item]) -> Item:
        """What the first rank makes, and it alone."""
        data = b""
        made: Any = None
        if self.is_first:
            with self.guard():
                made = make()
                data = self._forms.dumps(made)
        length = self.exchange("what the first rank makes", len(data))[0]
        buffer = np.frombuffer(bytearray(data or length), np.uint8)
        self.broadcast(buffer, 0)
        return made if self.is_first else self._forms.loads(buffer.tobytes())

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Gives an array, which is contiguous, the content of a rank's."""
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, 1 << 30):
            self.wait(self.comm.Ibcast(flat[first : first + (1 << 30)], root))

    def wait(self, request: Any) -> None:
        """Waits for a request of MPI. RankError where it never comes."""
        self.wait_until(request.Test)

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Asks until something is so. RankError where a rank has failed, or has ended and left it
        undone.
        """
        for _ in range(_QUICK):
            if is_done():
                return
        rest, longest = _RESTS
        while not is_done():
            self.check()
            ended = [rank for rank, at in self.watch.gone.items() if time.monotonic() > at + _GRACE]
            if ended and not is_done():
                raise RankError(f"rank {ended[0]} has ended, and rank {self.rank} waits for it")
            time.sleep(rest)
            rest = min(rest * 1.25, longest)

    def check(self) -> None:
        """RankError where another rank has failed."""
        if self.watch.failure is not None:
            self.watch.is_noticed = True
            raise RankError(self.watch.message)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Tells the others of an error that leaves the `with`."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Tells the others of an error."""
        if not isinstance(error, RankError):
            text = str(error) or type(error).__name__
            self.watch.fail(text if isinstance(error, MgnError) else _said(error))

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first rank of each host does something before the others: what it leaves in caches is
        there for them.
        """
        if self.node_rank:
            self.wait(self.node.Ibarrier())
        with self.guard():
            yield
        if not self.node_rank:
            self.wait(self.node.Ibarrier())

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Tells the others of an error that ends this process."""
        self.fail(error)
        self._hook(kind, error, trace)

    def _end(self) -> None:
        """Ends the process: after a failure at once, since MPI would wait for the others."""
        if self.watch.failure is None:
            self.watch.leave()
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self.watch.settle()
        os._exit(1)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _mpi() -> Any:
    """The module of MPI, which is there since there is a communicator."""
    from mpi4py import MPI

    return MPI
