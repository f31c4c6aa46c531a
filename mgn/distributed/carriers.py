"""What carries gradients from a device to memory that ranks share, sums a share, and carries sums
back.

In: the buffers of gradients and of their sums on a device. Out: `Carrier`s, of which a `Reduction`
takes what suits the device.

A GPU copies in queues of its own, beside the backward pass, and sums there too; a rank's own share
never leaves it. On a CPU, copies among the launches are what the driver does in time, in any other
queue it waits until all launches are done; what is left is for the process itself, since the host's
memory is the device's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from mgn import ops
from mgn.builder import graph
from mgn.diagnostics import MgnError
from mgn.distributed.layout import Part
from mgn.executable import Executable
from mgn.runtime.devices import opencl
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages
from mgn.runtime.launching.host_places import buffer_over
from mgn.runtime.launching.session import Session

Check = Callable[[], bool]
"""Asks whether something is done, and does what is left of it."""


TURNS = 2
"""Sums that may be under way at once."""


class Rows(NamedTuple):
    """What ranks have of a share. The number of this rank's row is `own`; `kept` are its parts that
    have stayed on the device, in their order.
    """

    of_ranks: np.ndarray
    own: int
    kept: Sequence[Part]


class Carrier(Protocol):
    """Carries the gradients of one element type. `keeps_own` is whether what this rank sums itself
    stays on the device.
    """

    keeps_own: bool

    def share(self, memory: np.ndarray) -> None:
        """Told of memory, by its bytes, that rows and sums lie in."""
        ...

    def forget(self) -> None:
        """Told before a run that no gradient is there yet."""
        ...

    def behind(self, end: int, names: Iterable[str]) -> None:
        """Told, while a run is begun, that so many of its steps are; which gradients are new."""
        ...

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Begins to copy a part of a gradient to its place in a row."""
        ...

    def is_there(self, name: str) -> bool:
        """Whether a gradient is there."""
        ...

    def add(self, turn: int, rows: Rows, total: np.ndarray) -> Iterable[Check]:
        """Sums rows, and gives what to wait for before it goes on. Sums of other turns may be under
        way.
        """
        ...

    def squares(self, turn: int, total: np.ndarray) -> float:
        """The sum of the squares of what was summed last in a turn."""
        ...

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Begins to copy a part of a sum to where an update takes it."""
        ...

    def pass_on(self, turn: int, part: Part) -> Check:
        """Begins to copy a part of what this rank has summed last in a turn."""
        ...

    def given(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The sums that an update takes from the host; the others lie in their places."""
        ...


class HostCarrier:
    """Carries what a CPU computes. `place` gives a gradient's buffer, `shapes` its shape."""

    keeps_own = False

    def __init__(
        self,
        session: Session,
        element: str,
        shapes: Mapping[str, tuple[int, ...]],
        place: Callable[[str], Any],
    ) -> None:
        self._session, self._shapes, self._place = session, shapes, place
        dtype = DTYPES[element]
        self._kept = {name: _lines(prod(shape), dtype) for name, shape in shapes.items()}
        self._events: dict[str, Any] = {}

    def share(self, memory: np.ndarray) -> None:
        """Nothing is to be done: it is the device's memory, too."""

    def forget(self) -> None:
        """The copies of the last run."""
        self._events.clear()

    def behind(self, end: int, names: Iterable[str]) -> None:
        """Copies among the launches."""
        for name in names:
            kept, queue = self._kept[name].view(np.uint8), self._session.queue
            if kept.size:
                self._events[name] = opencl().enqueue_copy(
                    queue, kept, self._place(name), is_blocking=False
                )

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Copies once the gradient is there."""
        source = self._kept[part.name][part.start : part.start + part.count]

        def done() -> bool:
            if not self.is_there(part.name):
                return False
            row[part.place : part.place + part.count] = source
            return True

        return done

    def is_there(self, name: str) -> bool:
        """Whether its copy is done."""
        return _is_marked(self._events, name)

    def add(self, turn: int, rows: Rows, total: np.ndarray) -> Iterable[Check]:
        """Row after row."""
        np.copyto(total, rows.of_ranks[0])
        for row in rows.of_ranks[1:]:
            total += row
        return ()

    def squares(self, turn: int, total: np.ndarray) -> float:
        """In f64."""
        return float(np.square(total, dtype=np.float64).sum())

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Copies at once."""
        self._kept[part.name][part.start : part.start + part.count] = source
        return _at_once

    def pass_on(self, turn: int, part: Part) -> Check:
        """Nothing stays."""
        return _at_once

    def given(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """All of them."""
        return {
            name: self._kept[name].reshape(self._shapes[name])
            for name in names
            if name in self._kept
        }


class DeviceCarrier:
    """Carries what a GPU computes. `place` gives a gradient's buffer, `target` that of its sum.
    `compiled` compiles a module for a session.

    A copy between a GPU and the host's memory is begun once what it needs is there: a copy that is
    to wait for an event has NVIDIA's driver wait.
    """

    keeps_own = True

    def __init__(
        self,
        session: Session,
        element: str,
        place: Callable[[str], Any],
        target: Callable[[str], Any],
    ) -> None:
        self._session, self._place, self._target = session, place, target
        self._size = DTYPES[element].itemsize
        self._down, self._up = (opencl().CommandQueue(session.context) for _ in range(2))
        self._ready: dict[str, Any] = {}
        self._beside = [Session(session.device, session) for _ in range(TURNS)]
        self._memory: list[Any] = []
        self._sums: list[Executable] = []
        self._takes_squares = False

    def share(self, memory: np.ndarray) -> None:
        """Has the driver know it, by a buffer over it that nothing else is done with.

        NVIDIA's driver keeps such memory where the device reaches it: an H200 then copies 50 GB/s
        in each direction, and 6 to 12 without.
        """
        self._memory.append(buffer_over(self._session.context, memory))

    def compile(
        self, element: str, shape: tuple[int, int], compiled: "Compiler", squares: bool
    ) -> None:
        """Compiles the graph that sums rows, for each turn."""
        self._takes_squares = squares
        for session in self._beside:
            with graph("sum_of_ranks") as g:
                total = ops.sum(g.input("x", f"{element}[{shape[0]}, {shape[1]}]"), axis=0)
                g.output(total=total)
                if squares:
                    g.output(squares=ops.sum(ops.cast(total, "f32") * ops.cast(total, "f32")))
            self._sums.append(compiled(g.module, session))

    def forget(self) -> None:
        """The marks of the last run."""
        self._ready.clear()

    def behind(self, end: int, names: Iterable[str]) -> None:
        """Marks the place among the launches."""
        event = opencl().enqueue_marker(self._session.queue)
        self._ready.update(dict.fromkeys(names, event))

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Copies once the mark was passed, in another queue."""
        to, source = (
            row[part.place : part.place + part.count].view(np.uint8),
            self._place(part.name),
        )
        copy: Any = None

        def done() -> bool:
            nonlocal copy
            if copy is None:
                if not self.is_there(part.name):
                    return False
                start = part.start * self._size
                copy = _begun(self._down, to, source, src_offset=start, is_blocking=False)
            return is_done(copy)

        return done

    def is_there(self, name: str) -> bool:
        """Whether the mark was passed."""
        return _is_marked(self._ready, name)

    def add(self, turn: int, rows: Rows, total: np.ndarray) -> Iterator[Check]:
        """On the device, in the turn's queue. Whoever drops the event of a copy from the host waits
        for it, so all are kept until the sum has left.
        """
        cl, queue, size = opencl(), self._beside[turn].queue, self._size
        launched = self._sums[turn].launched
        to = launched.place("x", is_input=True)
        begun: list[Any] = []
        for number, row in enumerate(rows.of_ranks):
            if number != rows.own:
                start = number * row.nbytes
                begun.append(
                    _begun(queue, to, row.view(np.uint8), dst_offset=start, is_blocking=False)
                )
        begin, used = rows.own * total.nbytes, 0
        for part in rows.kept:
            used = part.place + part.count
            cl.enqueue_copy(
                queue,
                to,
                self._place(part.name),
                byte_count=part.count * size,
                src_offset=part.start * size,
                dst_offset=begin + part.place * size,
            )
        if used < total.size:
            rest = (total.size - used) * size
            cl.enqueue_fill_buffer(queue, to, np.uint8(0), begin + used * size, rest)
        with launched.in_pieces({}, placed={"x"}, left={"total", "squares"}):
            left = _begun(queue, total.view(np.uint8), launched.place("total"), is_blocking=False)
            yield lambda: is_done(left)

    def squares(self, turn: int, total: np.ndarray) -> float:
        """On the device, where it has all of the sum."""
        if not self._takes_squares:
            return float(np.square(total, dtype=np.float64).sum())
        found, place = np.empty(1, np.float32), self._sums[turn].launched.place("squares")
        opencl().enqueue_copy(self._beside[turn].queue, found, place)
        return float(found[0])

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Copies to where the update reads, in another queue."""
        to, start = self._target(part.name), part.start * self._size
        copy = _begun(self._up, to, source.view(np.uint8), dst_offset=start, is_blocking=False)
        return lambda: is_done(copy)

    def pass_on(self, turn: int, part: Part) -> Check:
        """Copies on the device, in the turn's queue: before the next sum of the turn."""
        copy = _begun(
            self._beside[turn].queue,
            self._target(part.name),
            self._sums[turn].launched.place("total"),
            byte_count=part.count * self._size,
            src_offset=part.place * self._size,
            dst_offset=part.start * self._size,
        )
        return lambda: is_done(copy)

    def given(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """None: all lie in their places."""
        return {}


class Compiler(Protocol):
    """Compiles a module for a session's device."""

    def __call__(self, module: Any, session: Session) -> Executable:
        """The executable."""
        ...


def is_done(event: Any) -> bool:
    """Whether a command has ended. MgnError where it has failed.

    To wait for an event is no way to learn of it on a CPU: Intel's driver has the thread that waits
    take part in all other work first.
    """
    status = event.command_execution_status
    if status < 0:
        raise MgnError(f"the device failed with status {status} while gradients left it")
    return status == opencl().command_execution_status.COMPLETE


def _begun(queue: Any, *sides: Any, **options: Any) -> Any:
    """The event of a copy that a device begins now."""
    event = opencl().enqueue_copy(queue, *sides, **options)
    queue.flush()
    return event


def _is_marked(events: Mapping[str, Any], name: str) -> bool:
    """Whether there is an event of a name, and it has ended."""
    event = events.get(name)
    return event is not None and is_done(event)


def _at_once() -> bool:
    return True


def _lines(count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers that begin with a cache line, so that kernels read them where they are."""
    size = count * dtype.itemsize
    if size >= PAGE and has_large_pages():
        return large_pages(size).view(dtype)
    whole = np.empty(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size].view(dtype)
