"""What the executables of one device share: a context, a queue, and tensors that are held by name.

In: a device, and the parameters and states that executables plan. Out: `Session`, in which a
parameter or a state is one buffer for all that name it, and what is made of parameters alike is one
too; and `States`, which reads and sets states.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind, BufferPlan
from mgn.diagnostics import WrongType
from mgn.dialects.block_formats import BlockFormat, join_parts, part_name
from mgn.runtime.block_parameters import format_of, parts_of_value, whole_name, whole_plan
from mgn.runtime.derived import DerivedBuffers
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.errors import DeviceError, InputError, NoParameter, RuntimeFault
from mgn.runtime.host_arrays import (
    DTYPES,
    as_bytes,
    fitting,
    nearest,
    shown,
    spelling,
)
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.runtime.memory import buffer_bytes, settle
from mgn.runtime.refusals import answers, as_faults, insisted
from mgn.runtime.safetensors_file import is_mapped

Key = tuple[BufferKind, str]

ARRIVALS_BYTES = 128
"""A cache line, of which the counter has the first four bytes."""

HELD_KINDS = {BufferKind.PARAM: "parameter", BufferKind.STATE: "state"}
"""The kinds of buffers that are held by name, and what messages call them."""


@dataclass
class Held:
    """A buffer that is held by name; `owner` keeps alive what the buffer lies in. A parameter that
    no run reads has no buffer, and its `value` lies on the host.
    """

    plan: BufferPlan
    buffer: Any
    owner: object
    value: np.ndarray | None = None


class Session:
    """One device's context and queue, whose commands run in order, and what is held there.

    `lock` is taken by whoever runs or changes something. Who looks over all that is held without it
    looks at a copy: another thread may compile what holds more. A state that a run has half written
    is in `lost` until it is set or begun again. Those in `trained` are parameters that runs write:
    they are not among `States`, and `reset` leaves them as they are. `beside` is a session whose
    context it shares: its commands run in a queue of their own.
    """

    def __init__(self, device: ComputeDevice, beside: "Session | None" = None) -> None:
        self.device = device
        self.context = _context_of(device) if beside is None else beside.context
        self.queue = opencl().CommandQueue(self.context)
        weakref.finalize(self, settle, self.queue)
        self.lock = threading.Lock()
        self.unset: set[Key] = set()
        self.lost: set[str] = set()
        self.trained: frozenset[str] = frozenset()
        self._held: dict[Key, Held] = {}
        self._arrivals: Any = None
        self._first: dict[str, Callable[[], np.ndarray]] = {}
        self.derived = DerivedBuffers()

    def begin_with(self, name: str, first: Callable[[], np.ndarray]) -> None:
        """Gives a state another first value than zeros; it is drawn when it is needed."""
        self._first[name] = first

    def check(self, plans: Iterable[BufferPlan]) -> None:
        """RuntimeFault where another graph has a parameter or a state of a planned name, and of
        another type.
        """
        for plan in plans:
            known = self._held.get((plan.kind, plan.name))
            if known is not None:
                _check_type(known.plan, plan)

    def hold(
        self, plan: BufferPlan, make: Callable[[], Any], owner: object, resident: bool = True
    ) -> Any:
        """The buffer of a planned parameter or state, made where there is none yet; None where it
        need not be `resident`, and no other plan needs it so.

        RuntimeFault where another graph has one of the name, and of another type.
        """
        with self.lock:
            return self._hold(plan, make, owner, resident)

    def _hold(
        self, plan: BufferPlan, make: Callable[[], Any], owner: object, resident: bool
    ) -> Any:
        key = (plan.kind, plan.name)
        held = self._held.get(key)
        if held is None:
            self._held[key] = held = Held(plan, make() if resident else None, owner)
            self.unset.add(key)
            value = plan.value
            if value is not None:
                self._first.setdefault(plan.name, lambda: value)
        _check_type(held.plan, plan)
        if held.buffer is None and resident:
            held.buffer, held.owner = make(), owner
            if held.value is not None:
                self._store(held, held.value)
                held.value = None
        return held.buffer

    def place(self, kind: BufferKind, name: str) -> Any:
        """The buffer of what is held of a name, which has a value then."""
        held = self._find(kind, name)
        if kind is BufferKind.STATE:
            with self._telling():
                self.begin_unset([name])
        return held.buffer

    def parameter(self, name: str) -> Held:
        """A parameter that is held."""
        return self._held[BufferKind.PARAM, name]

    def held(self, kind: BufferKind) -> dict[str, BufferPlan]:
        """What is held of a kind, by name. The parts of a parameter are one."""
        held = (item.plan for (found, _), item in self._held.copy().items() if found is kind)
        if kind is BufferKind.PARAM:
            held = map(whole_plan, held)
        return {plan.name: plan for plan in held}

    @property
    def arrivals(self) -> Any:
        """The counter at which the work-groups of a resident launch meet: 0 between launches. The
        queue runs one launch at a time, so that all have the same.
        """
        if self._arrivals is None:
            cl = opencl()
            zero = np.zeros(ARRIVALS_BYTES, np.uint8)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            self._arrivals = cl.Buffer(self.context, flags, hostbuf=zero)
        return self._arrivals

    @property
    def unset_parameters(self) -> set[str]:
        """The parameters without a value."""
        if not self.unset:
            return set()
        return {whole_name(name) for kind, name in self.unset.copy() if kind is BufferKind.PARAM}

    @property
    def held_bytes(self) -> int:
        """Bytes of all parameters and states on the device."""
        return sum(buffer_bytes(item.plan) for item in self._held.copy().values() if item.buffer)

    def set(self, kind: BufferKind, name: str, array: Any) -> None:
        """Copies a value to the device. InputError where its name, dtype or shape is wrong."""
        if not self._holds(kind, name) and (format := self._format(kind, name)) is not None:
            self._set_parts(name, format, array)
            return
        held = self._find(kind, name)
        try:
            value = self.given(array, held.plan)
        except InputError as error:
            raise InputError(f"{HELD_KINDS[kind]} {shown(name)} {error}") from None
        if held.buffer is None and isinstance(value, DeviceArray):
            value = value.numpy()
        with self._telling([name] if kind is BufferKind.STATE else ()):
            self._change(held, value)

    def _change(self, held: Held, value: np.ndarray | DeviceArray) -> None:
        """Gives what is held another value. What is made of a parameter is noted as old before: the
        copy may be interrupted when it is already there.
        """
        kind, name = held.plan.kind, held.plan.name
        if kind is BufferKind.PARAM:
            self.derived.parameter_changed(name)
        self._store(held, value)
        self._is_set(kind, name)

    def _store(self, held: Held, value: np.ndarray | DeviceArray) -> None:
        """Copies a value to where it is held; what is read from a file stays there until then."""
        if held.buffer is None:
            assert isinstance(value, np.ndarray)
            held.value = value if is_mapped(value) else np.array(value, order="C")
            return
        event = self.fill(held.buffer, value)
        self.queue.finish()
        del event

    def _holds(self, kind: BufferKind, name: object) -> bool:
        return isinstance(name, str) and (kind, name) in self._held

    def _format(self, kind: BufferKind, name: object) -> BlockFormat | None:
        """The block format of what is held by a name, if it has one."""
        if kind is not BufferKind.PARAM or not isinstance(name, str):
            return None
        return format_of(name, {key for found, key in self._held.copy() if found is kind})

    def _set_parts(self, name: str, format: BlockFormat, array: Any) -> None:
        shape = self.held(BufferKind.PARAM)[name].shape
        try:
            parts = parts_of_value(array, format.name, shape)
        except InputError as error:
            raise InputError(f"parameter {shown(name)} {error}") from None
        with self._telling():
            for part in format.parts:
                key = part_name(name, format, part)
                self._change(self._find(BufferKind.PARAM, key), parts[part.name])

    def given(self, value: Any, planned: BufferPlan) -> np.ndarray | DeviceArray:
        """What a caller gave for a buffer. InputError with what is wrong with it."""
        if not isinstance(value, DeviceArray):
            return fitting(value, planned.element, planned.shape)
        value.check(planned, self)
        return value

    def fill(self, buffer: Any, value: np.ndarray | DeviceArray) -> Any:
        """Begins to copy a value to a buffer. The event holds the value; dropping it waits for
        what comes from the host.
        """
        if isinstance(value, DeviceArray):
            size, source, options = value.nbytes, value.buffer, {"byte_count": value.nbytes}
        else:
            source = as_bytes(value)
            size, options = source.size, {"is_blocking": False}
        if not size:
            return None
        call = (self.queue, buffer, source)
        return insisted(self.queue, lambda: opencl().enqueue_copy(*call, **options))

    def get(self, kind: BufferKind, name: str) -> np.ndarray:
        """A copy of a value. InputError where there is none of that name."""
        if not self._holds(kind, name) and (format := self._format(kind, name)) is not None:
            named = {part.name: part_name(name, format, part) for part in format.parts}
            parts = {part: self.get(kind, key) for part, key in named.items()}
            return join_parts(parts, format.name)
        held = self._find(kind, name)
        value = np.empty(held.plan.shape, DTYPES[held.plan.element])
        with self._telling():
            if kind is BufferKind.STATE:
                self.begin_unset([name])
                self.refuse_lost([name])
            if held.buffer is None:
                return value if held.value is None else held.value.copy()
            if value.size:
                call = (self.queue, as_bytes(value), held.buffer)
                insisted(self.queue, lambda: opencl().enqueue_copy(*call))
        return value

    def reset(self) -> None:
        """Gives every state its first value."""
        names = [name for name in self.held(BufferKind.STATE) if name not in self.trained]
        with self._telling(names):
            for name in names:
                self._begin(name)

    def begin_unset(self, names: Iterable[str]) -> None:
        """Gives those states their first values that have none yet; the caller holds the lock."""
        if not self.unset:
            return
        for name in names:
            if (BufferKind.STATE, name) in self.unset:
                self._begin(name)

    @contextmanager
    def _telling(self, written: Iterable[str] = ()) -> Iterator[None]:
        """The session locked, its device told something. Where that fails, these states are lost,
        and OpenCL's error is a RuntimeFault.
        """
        with self.lock, as_faults(f"'{self.device.name}'"):
            try:
                yield
            except opencl().Error:
                self.failed(written)
                raise

    def failed(self, written: Iterable[str] = ()) -> None:
        """Notes that a run failed which had begun to write these states: they are lost. If the
        device does not answer, all are: nobody knows what it has done. The caller holds the lock.
        """
        self.lost.update(written if answers(self.queue) else self.held(BufferKind.STATE))

    def refuse_lost(self, names: Iterable[str]) -> None:
        """RuntimeFault where a run that failed has half written one of these states. What is
        trained goes on from no first value.
        """
        if self.lost and (lost := [name for name in names if name in self.lost]):
            listing = ", ".join(map(shown, lost[:8]))
            back = "load a checkpoint" if self.trained else "reset the states"
            raise RuntimeFault(f"a run failed while it wrote state {listing}; {back}, or set these")

    def _begin(self, name: str) -> None:
        held = self._held[BufferKind.STATE, name]
        first = self._first.get(name)
        if first is not None:
            self.fill(held.buffer, fitting(first(), held.plan.element, held.plan.shape))
            self.queue.finish()
        elif size := buffer_bytes(held.plan):
            call = (self.queue, held.buffer, np.zeros(1, np.uint8), 0, size)
            insisted(self.queue, lambda: opencl().enqueue_fill_buffer(*call))
        self._is_set(BufferKind.STATE, name)

    def _is_set(self, kind: BufferKind, name: str) -> None:
        self.unset.discard((kind, name))
        if kind is BufferKind.STATE:
            self.lost.discard(name)

    def _find(self, kind: BufferKind, name: str) -> Held:
        """What is held of a name. NoParameter where nothing is."""
        held = self._held.get((kind, name)) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if held is None:
            hint = nearest(name, list(self.held(kind)))
            raise NoParameter(f"there is no {HELD_KINDS[kind]} {shown(name)}{hint}")
        return held


def _context_of(device: ComputeDevice) -> Any:
    """A new context. DeviceError where the device gives none.

    One takes memory of the device. Where there is no more, those of executables go that nothing
    holds but a cycle.
    """
    cl = opencl()
    try:
        return cl.Context([device.handle])
    except cl.Error:
        gc.collect()
    try:
        return cl.Context([device.handle])
    except cl.Error as error:
        raise DeviceError(
            f"{device.name} gives no context ({error}): other programs may have its memory, or "
            "this one may hold too many executables"
        ) from None


def _check_type(known: BufferPlan, plan: BufferPlan) -> None:
    if (known.element, known.shape) != (plan.element, plan.shape):
        types = [spelling(item.element, item.shape) for item in (known, plan)]
        what = f"{HELD_KINDS[plan.kind]} {shown(plan.name)}"
        raise RuntimeFault(f"{what} is {types[0]} in one graph and {types[1]} in another")


class States(MutableMapping[str, np.ndarray]):
    """The states of a session by external name, on the device.

    Reading gives a copy. Setting checks name, shape and dtype. States cannot be deleted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> np.ndarray:
        return self._session.get(BufferKind.STATE, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._session.set(BufferKind.STATE, name, value)

    def __delitem__(self, name: str) -> None:
        raise WrongType("states cannot be deleted")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._own

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __repr__(self) -> str:
        held = self._own.values()
        listing = ", ".join(f"{item.name}: {spelling(item.element, item.shape)}" for item in held)
        return f"States({listing})"

    @property
    def _own(self) -> dict[str, BufferPlan]:
        held, trained = self._session.held(BufferKind.STATE), self._session.trained
        return {name: plan for name, plan in held.items() if name not in trained}
