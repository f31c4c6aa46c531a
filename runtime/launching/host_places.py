"""Inputs and results that the kernels of a CPU read and write where the host has them.

In: a plan, its launches, and the arrays of a call. Out: the arrays that need no copy, bound in the
place of the buffers of their plan for as long as a run takes.

A kernel of a CPU takes memory that begins anywhere; what begins at a multiple of 16 bytes is taken,
as arrays of NumPy, of PyTorch and the results of a run do.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind, CopyStep, LaunchPlan, LaunchStep
from mgn.dialects.checks import is_check
from mgn.runtime.devices import opencl
from mgn.runtime.host_arrays import as_bytes
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.memory import buffer_bytes

STEP = 16
"""Of what an array begins at a multiple, in bytes: NumPy's own large ones begin so far behind a
page. A vector that crosses a cache line takes no longer than a copy.
"""

READ_ONLY_STEP = 128
"""The same of an array that may only be read: Intel's driver copies one that begins elsewhere."""

LEAST_BYTES = 1 << 20
"""What a buffer has at least that is not copied: to make one takes as long as to copy so many."""

BYTES_PER_LAUNCH = 1 << 15
"""What is not copied has to have so many bytes for each launch of a run, since a run of other
buffers is not among those that were recorded.
"""

Argument = tuple[Launch, int]
"""A launch and the position of one of its arguments."""


class HostPlaces:
    """The inputs and results of a plan that launches alone read or write, and where they do."""

    def __init__(
        self,
        plan: LaunchPlan,
        accesses: Mapping[str, Sequence[str]],
        steps: Sequence[Launch | Copy],
    ) -> None:
        last = plan.commits(accesses)
        self._launches = last
        named = _named(plan, range(last), steps)
        elsewhere = {
            number
            for place, step in enumerate(plan.steps)
            for number in _buffers(step)
            if place >= last or isinstance(step, CopyStep)
        }
        elsewhere |= {output.buffer for output in plan.outputs if is_check(output.name)}
        results = [output.buffer for output in plan.outputs]
        kept = elsewhere | {number for number in results if results.count(number) > 1}
        inputs = {number for number, _ in plan.of_kind(BufferKind.INPUT)} - set(results)
        whole = {n for n in named if n in results and _is_written_whole(plan, n, accesses)}
        self.inputs, self.outputs = (inputs & set(named)) - kept, whole - kept
        self._named = named

    @property
    def are_there(self) -> bool:
        """Whether there is an input or a result that may need no copy."""
        return bool(self.inputs or self.outputs)

    def without_copy(
        self, arrays: Mapping[int, Any], outputs: Mapping[int, np.ndarray]
    ) -> dict[int, np.ndarray]:
        """Those of the inputs and results of a run that kernels may take as they lie, each with
        memory of its own; none where copies take less time than launches that were not recorded.
        """
        given = [(number, arrays[number]) for number in self.inputs]
        given += [(number, outputs[number]) for number in self.outputs]
        found: dict[int, np.ndarray] = {}
        for number, array in given:
            if fits(array) and not any(np.may_share_memory(array, item) for item in found.values()):
                found[number] = array
        enough = sum(array.nbytes for array in found.values()) >= BYTES_PER_LAUNCH * self._launches
        return found if enough else {}

    @contextmanager
    def bound(
        self, queue: Any, arrays: Mapping[int, np.ndarray], buffers: Sequence[Any]
    ) -> Iterator[None]:
        """Has launches take arrays in the place of buffers, until all that was begun is done."""
        made: list[Any] = []
        try:
            for number, array in arrays.items():
                made.append(buffer_over(queue.context, array))
                self._bind(number, made[-1])
            yield
        finally:
            queue.finish()
            for number in arrays:
                self._bind(number, buffers[number])

    def _bind(self, number: int, buffer: Any) -> None:
        for launch, position in self._named[number]:
            launch.kernel.set_arg(position, buffer)


def fits(array: Any) -> bool:
    """Whether kernels may take an array as it lies, and gain by it."""
    if not isinstance(array, np.ndarray) or array.nbytes < LEAST_BYTES:
        return False
    step = STEP if array.flags.writeable else READ_ONLY_STEP
    return array.flags.c_contiguous and array.ctypes.data % step == 0


def buffer_over(context: Any, array: np.ndarray) -> Any:
    """A buffer in an array's memory, which has to last as long.

    Intel's driver copies memory that may only be read and does not begin at a multiple of 128
    bytes, as few arrays do. It takes memory that may be written as it lies. So it is told that the
    memory may be written where the array allows that.
    """
    flags = opencl().mem_flags
    access = flags.READ_WRITE if array.flags.writeable else flags.READ_ONLY
    return opencl().Buffer(context, access | flags.USE_HOST_PTR, hostbuf=as_bytes(array))


def _buffers(step: LaunchStep | CopyStep) -> tuple[int, ...]:
    return (step.source, step.target) if isinstance(step, CopyStep) else step.arguments


def _named(
    plan: LaunchPlan, places: range, steps: Sequence[Launch | Copy]
) -> dict[int, list[Argument]]:
    """Where launches name each buffer that has enough bytes."""
    found: dict[int, list[Argument]] = {}
    for place in places:
        launch = steps[place]
        if isinstance(launch, Launch):
            for position, number in enumerate(_buffers(plan.steps[place])):
                if buffer_bytes(plan.buffers[number]) >= LEAST_BYTES:
                    found.setdefault(number, []).append((launch, position))
    return found


def _is_written_whole(plan: LaunchPlan, number: int, accesses: Mapping[str, Sequence[str]]) -> bool:
    """Whether what a buffer holds before a run does not matter: it is a view, the first launch that
    names it writes it, and nothing that this launch reads lies in the same place.
    """
    buffer = plan.buffers[number]
    first = next(step for step in plan.launches if number in step.arguments)
    kinds = {a for n, a in zip(first.arguments, accesses[first.kernel], strict=True) if n == number}
    beside = [plan.buffers[item] for item in first.arguments if item != number]
    shares = any(
        item.kind is BufferKind.VIEW
        and item.offset < buffer.offset + buffer_bytes(buffer)
        and buffer.offset < item.offset + buffer_bytes(item)
        for item in beside
    )
    return buffer.kind is BufferKind.VIEW and kinds == {"write"} and not shares
