"""What carries gradients from a device to memory that ranks share, sums a share, and carries sums
back.

In: the buffers of gradients and of their sums on a device. Out: `Carrier`s, of which a `Reduction`
takes what suits the device.

A GPU copies in queues of its own, beside the backward pass, and sums there too. On a CPU, copies
among the launches are what the driver does in time, in any other queue it waits until all launches
are done; what is left is for the process itself, since the host's memory is the device's.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Protocol

import numpy as np

from mgn import ops
from mgn.builder import graph
from mgn.diagnostics import MgnError
from mgn.distributed.layout import Part
from mgn.executable import Executable
from mgn.runtime.devices import opencl
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages
from mgn.runtime.launching.session import Session

Check = Callable[[], bool]
"""Asks whether something is done, and does what is left of it."""


class Carrier(Protocol):
    """Carries the gradients of one element type."""

    def behind(self, end: int, names: Iterable[str]) -> None:
        """Told, while a run is begun, that so many of its steps are; which gradients are new."""
        ...

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Begins to copy a part of a gradient to its place in a row."""
        ...

    def add(self, parts: np.ndarray, total: np.ndarray) -> None:
        """Sums rows."""
        ...

    def squares(self, total: np.ndarray) -> float:
        """The sum of the squares of what was summed last."""
        ...

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Begins to copy a part of a sum to where an update takes it."""
        ...

    def is_over(self) -> bool:
        """Whether all gradients are there."""
        ...

    def given(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The sums that an update takes from the host; the others lie in their places."""
        ...


class HostCarrier:
    """Carries what a CPU computes. `place` gives a gradient's buffer, `shapes` its shape."""

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
            if not is_done(self._events[part.name]):
                return False
            row[part.place : part.place + part.count] = source
            return True

        return done

    def add(self, parts: np.ndarray, total: np.ndarray) -> None:
        """Row after row."""
        np.copyto(total, parts[0])
        for row in parts[1:]:
            total += row

    def squares(self, total: np.ndarray) -> float:
        """In f64."""
        return float(np.square(total, dtype=np.float64).sum())

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Copies at once."""
        self._kept[part.name][part.start : part.start + part.count] = source
        return _at_once

    def is_over(self) -> bool:
        """Whether all copies are done."""
        return all(map(is_done, self._events.values()))

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
    """

    def __init__(
        self,
        session: Session,
        element: str,
        place: Callable[[str], Any],
        target: Callable[[str], Any],
    ) -> None:
        cl = opencl()
        self._session, self._place, self._target = session, place, target
        self._size = DTYPES[element].itemsize
        self._down, self._up = (cl.CommandQueue(session.context) for _ in range(2))
        self._ready: dict[str, Any] = {}
        self._beside = Session(session.device, session)
        self._sum: Executable | None = None
        self._squares: Any = None

    def compile(
        self, element: str, shape: tuple[int, int], compiled: "Compiler", squares: bool
    ) -> None:
        """Compiles the graph that sums rows."""
        with graph("sum_of_ranks") as g:
            total = ops.sum(g.input("x", f"{element}[{shape[0]}, {shape[1]}]"), axis=0)
            g.output(total=total)
            if squares:
                g.output(squares=ops.sum(ops.cast(total, "f32") * ops.cast(total, "f32")))
        self._sum = compiled(g.module, self._beside)

    def behind(self, end: int, names: Iterable[str]) -> None:
        """Marks the place among the launches."""
        event = opencl().enqueue_marker(self._session.queue)
        self._ready.update(dict.fromkeys(names, event))

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Copies behind the mark, in another queue."""
        event = opencl().enqueue_copy(
            self._down,
            row[part.place : part.place + part.count].view(np.uint8),
            self._place(part.name),
            src_offset=part.start * self._size,
            is_blocking=False,
            wait_for=[self._ready[part.name]],
        )
        self._down.flush()
        return lambda: is_done(event)

    def add(self, parts: np.ndarray, total: np.ndarray) -> None:
        """On the device, in another queue."""
        assert self._sum is not None
        results = self._sum.run_on_device(x=parts)
        opencl().enqueue_copy(self._beside.queue, total.view(np.uint8), results["total"].buffer)
        self._squares = results.get("squares")

    def squares(self, total: np.ndarray) -> float:
        """On the device, where it has all of the sum."""
        if self._squares is None:
            return float(np.square(total, dtype=np.float64).sum())
        return float(self._squares.numpy())

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Copies to where the update reads, in another queue."""
        event = opencl().enqueue_copy(
            self._up,
            self._target(part.name),
            source.view(np.uint8),
            dst_offset=part.start * self._size,
            is_blocking=False,
        )
        self._up.flush()
        return lambda: is_done(event)

    def is_over(self) -> bool:
        """Whether all marks were passed."""
        return all(map(is_done, self._ready.values()))

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
