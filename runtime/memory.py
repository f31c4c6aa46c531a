"""The device memory of one executable: a buffer for each planned buffer.

In: a launch plan. Out: `DeviceMemory`, whose `buffers` are what kernels are bound to. All views are
slices of one arena, or, on a GPU, buffers of their own where slices would overlap; on a CPU what is
large lies in large pages. Guarded memory gives each place its own slice with a poisoned zone on
either side, so that a kernel which leaves its buffer is found out and named.
"""

import contextlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan
from mgn.runtime.derived import Derived, DerivedHolder, DerivedKey
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import DeviceError, GuardError
from mgn.runtime.host_arrays import DTYPES, as_bytes
from mgn.runtime.host_blocks import HostBlock
from mgn.runtime.large_pages import PAGE, has_large_pages
from mgn.runtime.refusals import insisted
from mgn.runtime.switches import switched_on

GUARD_VARIABLE = "MGN_GUARD"
_GUARD_BYTES = 1 << 14
_POISON = np.uint16(0xFFC5)
"""Every 16 bits of a guard zone: a NaN in each float type, and no plausible integer."""


APART_SHARE = 8
"""Of a GPU's memory, the part that places in the arena may take as buffers of their own, where they
overlap: NVIDIA's driver launches kernels on two slices that share bytes in twice the time, and has
the device wait between them.
"""

LINE = 64
"""Where kernels of vectors may begin to read, in bytes."""

SMALL_BYTES = 1 << 17
"""Up to how many bytes the host copies an array sooner than a command of the device begins to."""

Place = tuple[int, int]
"""Where a view lies in the arena: its offset and size in bytes."""


def buffer_bytes(buffer: BufferPlan) -> int:
    """The size of a buffer's content."""
    return prod(buffer.shape) * DTYPES[buffer.element].itemsize


def is_small(buffer: BufferPlan) -> bool:
    """Whether the host copies it sooner than the device."""
    return buffer_bytes(buffer) <= SMALL_BYTES


def largest_buffer(plan: LaunchPlan) -> int:
    """The most bytes that a plan wants as one buffer; the arena is one."""
    own = [item for item in plan.buffers if item.kind is not BufferKind.VIEW]
    return max(plan.arena, *(buffer_bytes(buffer) for buffer in own), 0)


class Holder(Protocol):
    """Holds buffers by name: `mgn.runtime.launching.session.Session`."""

    def hold(
        self, plan: BufferPlan, make: Callable[[], Any], owner: object, resident: bool = True
    ) -> Any:
        """The buffer of a planned parameter or state, made where there is none yet; None where it
        need not be resident, and is not.
        """
        ...

    @property
    def derived(self) -> DerivedHolder: ...


class DeviceMemory:
    """One buffer a planned buffer; constants are filled, views lie in the arena.

    What is derived has buffers of its own, as parameters have: it outlives a run. `holder` has the
    buffers of parameters and states, and of what has one of the `keys`: they may be those of other
    plans too. What preparing launches alone name has no buffer between preparations, which `lend`
    makes. `derived` are the derived buffers that are held, by their numbers. On a CPU, the arena
    lies in memory of the host, and small inputs lie together in a block of it: `arena` and `inputs`
    are None elsewhere.
    """

    arena: HostBlock | None = None
    inputs: HostBlock | None = None

    def __init__(
        self,
        plan: LaunchPlan,
        device: ComputeDevice,
        context: Any,
        queue: Any,
        holder: Holder | None = None,
        keys: Mapping[int, DerivedKey] | None = None,
    ) -> None:
        cl = opencl()
        self._plan = plan
        self._keys = keys or {}
        self.derived: dict[int, Derived] = {}
        self._passing = frozenset[int]() if holder is None else plan.passing
        self._holder = holder
        self._owner: object = None
        self._queue = queue
        weakref.finalize(self, settle, queue)
        self._context = context
        self._alignment = max(device.handle.mem_base_addr_align // 8, 1)
        self._is_gpu, self._memory = device.kind == "gpu", device.handle.global_mem_size
        self._extra = 0
        self._is_cpu = device.kind == "cpu"
        self._blocks: list[HostBlock] = []
        self.input_places: dict[int, int] = {}
        missing = f"{device.name} has no {planned_bytes(plan)} bytes for '{plan.name}'"
        if planned_bytes(plan) > self._memory:  # some drivers only say so later
            raise DeviceError(f"{missing}: {device.handle.global_mem_size} in all")
        largest, most = largest_buffer(plan), device.handle.max_mem_alloc_size
        if largest > most and device.kind == "cpu":  # GPUs give more than they say
            raise DeviceError(f"{missing}: one buffer has {largest}, and {most} is the most for it")
        try:
            self.buffers = self._allocate()
        except (cl.Error, OSError) as error:
            raise DeviceError(f"{missing}: {error}") from None
        for number, buffer in plan.of_kind(BufferKind.CONSTANT):
            assert buffer.value is not None
            self.upload(number, buffer.value)

    @property
    def allocated(self) -> int:
        """Bytes of device memory in use."""
        return self.own_bytes + sum(self.shared.values())

    @property
    def own_bytes(self) -> int:
        """Bytes of what no other plan may hold too."""
        held = sum(size for _, size in self._may_be_shared())
        return planned_bytes(self._plan) + self._extra - held

    @property
    def shared(self) -> dict[Hashable, int]:
        """Bytes of what other plans of the session may hold too, by what it is: parameters and
        states, by kind and name, and what is derived.
        """
        return dict(self._may_be_shared())

    def _may_be_shared(self) -> Iterator[tuple[Hashable, int]]:
        passing = self._plan.passing
        for number, buffer in enumerate(self._plan.buffers):
            if number in self.derived:
                yield self.derived[number].key, buffer_bytes(buffer)
            elif buffer.kind in (BufferKind.PARAM, BufferKind.STATE) and number not in passing:
                yield (buffer.kind, buffer.name), buffer_bytes(buffer)

    def upload(self, number: int, array: np.ndarray) -> Any:
        """Begin to copy an array to a buffer. The event holds the array; dropping it waits."""
        data = as_bytes(array)
        return self._copy(self.buffers[number], data) if data.size else None

    def download(self, number: int, array: np.ndarray) -> Any:
        """Begin to copy a buffer to a contiguous array. The event holds it; dropping it waits."""
        data = as_bytes(array)
        return self._copy(data, self.buffers[number]) if data.size else None

    def lend(self, number: int) -> Any:
        """A buffer for what preparing launches alone name. Dropping it frees the memory."""
        size = max(buffer_bytes(self._plan.buffers[number]), 1)
        return opencl().Buffer(self._context, opencl().mem_flags.READ_WRITE, size)

    def poison(self) -> None:
        """Fill what no value occupies between runs; plain memory leaves it as it is."""

    def check(self) -> None:
        """Look for writes outside the buffers; plain memory cannot tell."""

    def _copy(self, target: Any, source: Any) -> Any:
        call = (self._queue, target, source)
        return insisted(self._queue, lambda: opencl().enqueue_copy(*call, is_blocking=False))

    def _allocate(self) -> list[Any]:
        slices, together = self._slices(), self._small_inputs()
        return [
            slices[_place_of(buffer)]
            if buffer.kind is BufferKind.VIEW
            else together.get(number) or self._own(number)
            for number, buffer in enumerate(self._plan.buffers)
        ]

    def _small_inputs(self) -> dict[int, Any]:
        """The buffers of small inputs, which are slices of one on a CPU."""
        if not self._is_cpu:
            return {}
        step, end = max(self._alignment, LINE), 0
        sizes: dict[int, int] = {}
        for number, buffer in self._plan.of_kind(BufferKind.INPUT):
            if is_small(buffer):
                self.input_places[number] = end
                sizes[number] = max(buffer_bytes(buffer), 1)
                end += -(-sizes[number] // step) * step
        if not sizes:
            return {}
        self.inputs = HostBlock(self._context, end)
        whole = self.inputs.buffer
        return {n: whole.get_sub_region(self.input_places[n], size) for n, size in sizes.items()}

    def _own(self, number: int) -> Any:
        """The buffer of what lies outside the arena; None where it is only lent."""
        buffer, resident = self._plan.buffers[number], number not in self._passing
        if self._holder is not None and resident and number in self._keys:
            self.derived[number] = self._holder.derived.hold(
                self._keys[number], lambda: self._made(buffer), self._owner
            )
            return self.derived[number].buffer
        if self._holder is None or buffer.kind not in (BufferKind.PARAM, BufferKind.STATE):
            return self._made(buffer) if resident else None
        return self._holder.hold(buffer, lambda: self._made(buffer), self._owner, resident)

    def _made(self, buffer: BufferPlan) -> Any:
        return self._new_buffer(buffer_bytes(buffer))

    def _slices(self) -> dict[Place, Any]:
        """What stands for each place of the arena."""
        views = [buffer for _, buffer in self._plan.of_kind(BufferKind.VIEW)]
        for buffer in views:
            self._check_offset(buffer)
        places = sorted(set(map(_place_of, views)))
        apart = sum(size for _, size in places)
        most = self._plan.budget or planned_bytes(self._plan) + apart
        has_room = planned_bytes(self._plan) - self._plan.arena + apart <= most
        has_room &= apart * APART_SHARE <= self._memory
        if self._is_gpu and overlap(places) and has_room:
            self._extra = apart - self._plan.arena
            return {place: self._new_buffer(place[1]) for place in places}
        if self._is_cpu and places:
            self.arena = HostBlock(self._context, self._plan.arena)
        whole = self.arena.buffer if self.arena else self._new_buffer(self._plan.arena)
        return {place: whole.get_sub_region(*place) for place in places}

    def _check_offset(self, buffer: BufferPlan) -> None:
        if buffer.offset % self._alignment:
            raise DeviceError(
                f"'{self._plan.name}' was planned for another device: {buffer.name} lies at "
                f"{buffer.offset}, and this one needs multiples of {self._alignment}"
            )

    def _new_buffer(self, size: int) -> Any:
        if not self._is_cpu or size < PAGE or not has_large_pages():
            return opencl().Buffer(self._context, opencl().mem_flags.READ_WRITE, max(size, 1))
        self._blocks.append(HostBlock(self._context, size))
        return self._blocks[-1].buffer


def settle(queue: Any) -> None:
    """Waits for all that a queue was told: a run that has given its results may be at its last
    launches still, and the host's memory that its buffers lie in is about to go.
    """
    with contextlib.suppress(opencl().Error):
        queue.finish()


def _place_of(view: BufferPlan) -> Place:
    return view.offset, max(buffer_bytes(view), 1)


def overlap(places: Sequence[Place]) -> bool:
    """Whether some of different places, in order, share a byte."""
    return any(start + size > after for (start, size), (after, _) in pairwise(places))


class GuardedMemory(DeviceMemory):
    """Memory whose every buffer lies between guard zones; views that coincide share one place."""

    _holders: list[tuple[Any, int, str]]
    _lent: dict[int, Any]

    def _allocate(self) -> list[Any]:
        self._holders, self._owner, self._lent = [], self, {}
        places: dict[tuple[int, int], Any] = {}
        buffers: list[Any] = []
        for number, buffer in enumerate(self._plan.buffers):
            size = buffer_bytes(buffer)
            if buffer.kind is not BufferKind.VIEW:
                buffers.append(self._own(number))
                continue
            place = (buffer.offset, size)
            if place not in places:
                places[place] = self._guarded(size, f"view {buffer.name}")
            buffers.append(places[place])
        return buffers

    def lend(self, number: int) -> Any:
        """The same buffer each time, between guard zones that stay."""
        if number not in self._lent:
            self._lent[number] = self._made(self._plan.buffers[number])
        return self._lent[number]

    def _made(self, buffer: BufferPlan) -> Any:
        return self._guarded(buffer_bytes(buffer), f"{buffer.kind} '{buffer.name}'")

    def _guarded(self, size: int, label: str) -> Any:
        guard = self._guard
        holder = self._new_buffer(guard + max(size, 1) + guard)
        opencl().enqueue_copy(self._queue, holder, _pattern(holder.size), is_blocking=True)
        self._holders.append((holder, size, label))
        return holder.get_sub_region(guard, max(size, 1))

    @property
    def _guard(self) -> int:
        return -(-_GUARD_BYTES // self._alignment) * self._alignment

    def poison(self) -> None:
        """Fill every view with 0xFF bytes: a NaN in each float type."""
        views = {
            id(self.buffers[number]): (self.buffers[number], buffer_bytes(buffer))
            for number, buffer in self._plan.of_kind(BufferKind.VIEW)
        }
        for view, size in views.values():
            if size:
                opencl().enqueue_copy(self._queue, view, np.full(size, 0xFF, np.uint8))

    def check(self) -> None:
        """GuardError, naming the buffer and the distance, where a guard zone was written."""
        for holder, size, label in self._holders:
            before = self._touched(holder, 0, self._guard)
            if len(before):
                distance = self._guard - int(before[0])
                raise GuardError(f"a kernel wrote {distance} bytes before the start of {label}")
            after = self._touched(holder, self._guard + size, holder.size)
            if len(after):
                distance = int(after[-1]) - self._guard - size + 1
                raise GuardError(
                    f"a kernel wrote {distance} bytes past the end of {label}, which has {size}"
                )

    def _touched(self, holder: Any, start: int, end: int) -> np.ndarray:
        """The places in a zone of a holder that no longer have the pattern."""
        content = np.empty(end - start, np.uint8)
        opencl().enqueue_copy(self._queue, content, holder, src_offset=start)
        return start + np.flatnonzero(content != _pattern(end)[start:])


def _pattern(size: int) -> np.ndarray:
    """What a guard zone holds, as bytes from the start of its holder."""
    return np.full(-(-size // 2), _POISON).view(np.uint8)[:size]


def guard_is_wanted() -> bool:
    """Whether MGN_GUARD asks for guard zones."""
    return switched_on(GUARD_VARIABLE, False)


def bytes_together(memories: Iterable[DeviceMemory]) -> int:
    """Bytes in use by plans of one session; what they share counts once."""
    shared: dict[Hashable, int] = {}
    own = 0
    for memory in memories:
        own += memory.own_bytes
        shared |= memory.shared
    return own + sum(shared.values())


def planned_bytes(plan: LaunchPlan) -> int:
    """The device memory that the runs of a plan need: the arena, and what is not in it."""
    passing = plan.passing
    held: Sequence[BufferPlan] = [
        buffer
        for number, buffer in enumerate(plan.buffers)
        if buffer.kind is not BufferKind.VIEW and number not in passing
    ]
    return plan.arena + sum(map(buffer_bytes, held))
