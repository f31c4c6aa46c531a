"""A graph ready to run: memory allocated, kernels built, every launch bound to its arguments.

In: a `LaunchPlan`, the signatures of its kernels and a device. Out: `run`, which takes host arrays
and gives new ones.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind, CopyStep, LaunchPlan, LaunchStep, OutputPlan
from mgn.codegen.signature import KernelSignature
from mgn.dialects.checks import check_message, is_check
from mgn.runtime.block_parameters import whole_name, whole_types
from mgn.runtime.cache import KernelCache
from mgn.runtime.derived import DerivedKey, derived_keys
from mgn.runtime.devices import ComputeDevice, choose, opencl
from mgn.runtime.errors import InputError, RuntimeFault
from mgn.runtime.host_arrays import check_inputs
from mgn.runtime.launching.command_buffers import CommandBuffer, record
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.runtime.launching.host_places import HostPlaces
from mgn.runtime.launching.interrupts import uninterrupted
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.launching.phases import check_launches, phases
from mgn.runtime.launching.preparation import Preparation
from mgn.runtime.launching.profile import LaunchTime, launch_times, write_trace
from mgn.runtime.launching.programs import build_kernels
from mgn.runtime.launching.residency import resident_size
from mgn.runtime.launching.results import NewResults
from mgn.runtime.launching.session import Session
from mgn.runtime.launching.small_arrays import SmallArrays
from mgn.runtime.memory import DeviceMemory, GuardedMemory, buffer_bytes, guard_is_wanted
from mgn.runtime.refusals import insisted

LENT_BYTES = 1 << 22
"""How much is lent at once while parameters are prepared, where no single launch wants more."""


class Executable:
    """Runs one planned graph on one device, any number of times, from any thread.

    Executables of one `session` share parameters and states of one name. What a run leaves in
    states is written there last, once all else has succeeded. Where a launch writes a part of a
    state that others read in the same run, a run that fails after it has lost the state: it has to
    be set or reset. So has one that is written already when a later write fails.

    `guard` surrounds every buffer with poisoned zones that are checked after each run, and fills
    the views with NaN before it. It is slow. It notices every kernel that writes too far, or whose
    results depend on what it reads there. By default `MGN_GUARD=on` asks for it.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        kernels: Mapping[str, KernelSignature],
        device: ComputeDevice | str = "auto",
        *,
        cache: KernelCache | None = None,
        options: Sequence[str] = (),
        guard: bool | None = None,
        session: Session | None = None,
    ) -> None:
        self.plan = plan
        chosen = choose(device) if isinstance(device, str) else device
        self.session = Session(chosen) if session is None else session
        self.device = self.session.device
        self.profile: list[LaunchTime] = []
        check_launches(plan, kernels)
        self.session.check(plan.buffers)
        self._lock = self.session.lock
        self._context, self._queue = self.session.context, self.session.queue
        used = dict.fromkeys(step.kernel for step in (*plan.prepare, *plan.launches))
        cache = KernelCache.default() if cache is None else cache
        signatures = [kernels[name] for name in used]
        self.build = build_kernels(signatures, self.device, self._context, cache, options)
        guarded = guard_is_wanted() if guard is None else guard
        memory_class = GuardedMemory if guarded else DeviceMemory
        keys = derived_keys(plan, kernels, options)
        self._memory = memory_class(
            plan, self.device, self._context, self._queue, self.session, keys
        )
        self._queue.finish()
        self._inputs = list(plan.of_kind(BufferKind.INPUT))
        self._params = [buffer.name for _, buffer in plan.of_kind(BufferKind.PARAM)]
        self._states = {buffer.name: number for number, buffer in plan.of_kind(BufferKind.STATE)}
        steps = [self._bind(step, kernels) for step in plan.steps]
        accesses = {name: kernels[name].accesses for name in used}
        written = plan.written_states(accesses)
        self._written = {plan.buffers[number].name: step for number, step in written.items()}
        self._checks = [item for item in plan.outputs if is_check(item.name)]
        self._outputs = [item for item in plan.outputs if not is_check(item.name)]
        self._phases = phases(plan, accesses, steps, [item.buffer for item in self._checks])
        direct = self.device.kind == "cpu" and not guarded
        places = HostPlaces(plan, accesses, steps) if direct else None
        self._places = places if places is not None and places.are_there else None
        self._small = SmallArrays(plan, self._memory, self._queue)
        self._new_results = NewResults(self._outputs, self.device.kind)
        self._recorded: list[CommandBuffer | None] = [None] * len(self._phases)
        self._reached = 0
        self._runs = 0
        self._kernels = kernels
        self._is_resident = any(signature.is_resident for signature in signatures)
        self.preparation = Preparation(plan, self._memory.derived, self.session.derived)

    @property
    def parameters(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every parameter that the graph reads."""
        return whole_types(self._types(BufferKind.PARAM))

    @property
    def memory(self) -> DeviceMemory:
        """The buffers of the plan."""
        return self._memory

    @property
    def allocated(self) -> int:
        """Bytes of device memory in use."""
        return self._memory.allocated

    @property
    def held_bytes(self) -> int:
        """Bytes of the parameters and states that runs need, which executables of one session
        share.
        """
        shared = self._memory.shared.items()
        return sum(size for item, size in shared if not isinstance(item, DerivedKey))

    @property
    def states(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name to element and shape of every state that the graph reads or writes."""
        return self._types(BufferKind.STATE)

    def _types(self, kind: BufferKind) -> dict[str, tuple[str, tuple[int, ...]]]:
        planned = self.plan.of_kind(kind)
        return {buffer.name: (buffer.element, buffer.shape) for _, buffer in planned}

    def set_param(self, name: str, array: Any) -> None:
        """Copy a parameter to the device. InputError where its name, dtype or shape is wrong.

        What derives from it is made again before the next run.
        """
        self.session.set(BufferKind.PARAM, name, array)

    def get_param(self, name: str) -> np.ndarray:
        """A copy of a parameter's value. InputError where there is none of that name."""
        return self.session.get(BufferKind.PARAM, name)

    def run(self, inputs: Mapping[str, Any], *, profile: bool = False) -> dict[str, np.ndarray]:
        """Run the graph. With `profile`, the time of each launch is in `self.profile` afterwards.

        InputError where an input is missing, unexpected or of another type, or a parameter unset.
        """
        arrays = self._checked(inputs)
        with self._running():
            return self._run(arrays, profile)

    def run_on_device(self, inputs: Mapping[str, Any]) -> dict[str, DeviceArray]:
        """Run the graph, and leave its results on the device. It waits for nothing but inputs that
        come from the host.

        Inputs may be such arrays too: then nothing crosses to the host. InputError as for `run`,
        and where an array lies in another session's memory.
        """
        arrays = self._checked(inputs)
        with self._running():
            results = {output.name: self._place_for(output) for output in self._outputs}
            uploads = self._begin(arrays)
            with self._writing_states():
                self._enqueue_all()
                for output in self._outputs:
                    self._keep(output, results[output.name])
                self._memory.check()
                self._look_at_checks()
                self._commit()
            del uploads
            return results

    def _checked(self, inputs: Mapping[str, Any]) -> list[np.ndarray | DeviceArray]:
        planned = [buffer for _, buffer in self._inputs]
        arrays = check_inputs(planned, inputs, self.session.given)
        self._check_parameters()
        return arrays

    @contextmanager
    def _running(self) -> Iterator[None]:
        """The session locked, its states begun; OpenCL's errors as RuntimeFaults."""
        with self._lock:
            try:
                self._check_states()
                yield
            except opencl().Error as error:
                self.session.failed()
                fault = f"'{self.plan.name}' failed on {self.device.name}: {error}"
                apart = "; with MGN_RESIDENT=off each kernel is a launch of its own"
                raise RuntimeFault(fault + apart * self._is_resident) from None

    def _place_for(self, output: OutputPlan) -> DeviceArray:
        """A buffer of its own for a result, which later runs do not write. A run has it before its
        first launch: what finds no memory has written no state.
        """
        cl = opencl()
        size = buffer_bytes(self.plan.buffers[output.buffer])
        buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(size, 1))
        return DeviceArray(self.session, buffer, output.element, output.shape)

    def _keep(self, output: OutputPlan, result: DeviceArray) -> None:
        """Begins to copy a result to its place."""
        if size := buffer_bytes(self.plan.buffers[output.buffer]):
            source = self._memory.buffers[output.buffer]
            call = (self._queue, result.buffer, source)
            insisted(self._queue, lambda: opencl().enqueue_copy(*call, byte_count=size))

    def replay(self, *, profile: bool = False, times: int = 1) -> None:
        """Run the launches once more on what the buffers hold, or so many times one after another,
        and wait at the end: for timing.

        With `profile`, the time of each launch of the last run is in `self.profile` afterwards.
        """
        with self._lock:
            self._check_states()
            self._prepare()
            with self._writing_states():
                for _ in range(times):
                    if profile:
                        queue = self._timing_queue()
                        events = [
                            event for phase in self._phases for event in self._timed(phase, queue)
                        ]
                        queue.finish()
                        self.profile = self._times_of(events)
                    else:
                        self._enqueue_all()
                        self._commit()
                self._queue.finish()

    def _check_parameters(self) -> None:
        unset = self.session.unset_parameters
        if unset and (unset := unset & {*map(whole_name, self._params)}):
            names = ", ".join(f"'{name}'" for name in sorted(unset)[:8])
            have = "parameter has" if len(unset) == 1 else "parameters have"
            raise InputError(f"{len(unset)} {have} no value: {names}; load or set them first")

    def _check_states(self) -> None:
        """Every state has a value now: its first one where nothing else was set or left there."""
        self.session.begin_unset(self._states)
        self.session.refuse_lost(self._states)

    @contextmanager
    def _writing_states(self) -> Iterator[None]:
        """Around the steps of a run: if it fails, the states are lost that it has begun to write;
        all others are as they were. An interrupt waits for the end of a run that writes states.
        """
        self._reached = 0
        with uninterrupted() if self._written else nullcontext():
            try:
                yield
            except BaseException:
                written = (name for name, step in self._written.items() if step < self._reached)
                self.session.failed(written)
                raise

    def trace(self, path: str | Path) -> None:
        """Write the last profiled run for Perfetto or chrome://tracing."""
        if not self.profile:
            raise RuntimeFault("there is nothing to trace: run with profile=True first")
        write_trace(path, self.plan.name, self.device.name, self.profile)

    def _prepare(self) -> None:
        """Make what derives from changed parameters, and wait: `seconds` is then the device's.

        What only these launches name has a buffer from the first that names it to the last.
        """
        steps = self.preparation.stale
        if not steps:
            return
        start = time.perf_counter()
        self.preparation.begin(steps)
        last = {item: n for n, step in enumerate(steps) for item in self._passing(step)}
        lent: dict[int, Any] = {}
        begun: list[Any] = []
        done: list[int] = []
        for number, step in enumerate(steps):
            wanted = [item for item in self._passing(step) if item not in lent]
            size = sum(buffer_bytes(self.plan.buffers[item]) for item in (*done, *wanted))
            if done and size >= LENT_BYTES:
                self._queue.finish()
                begun.clear()
                while done:
                    del lent[done.pop()]
            lent.update((item, self._lent(item, begun)) for item in wanted)
            launch = self._bind(self.plan.prepare[step], self._kernels, lent)
            launch.enqueue()
            begun.append(launch)
            done += [item for item in self._passing(step) if last[item] == number]
        self._queue.finish()
        self.preparation.done(steps, time.perf_counter() - start)

    def _passing(self, step: int) -> list[int]:
        """What a preparing launch names that has no buffer of its own."""
        named = dict.fromkeys(self.plan.prepare[step].arguments)
        return [item for item in named if self._memory.buffers[item] is None]

    def _lent(self, number: int, begun: list[Any]) -> Any:
        """A buffer for what has none; of a parameter, with its value, whose copy is begun."""
        buffer = self.plan.buffers[number]
        if buffer.kind is not BufferKind.PARAM:
            return self._memory.lend(number)
        held = self.session.parameter(buffer.name)
        if held.buffer is not None:
            return held.buffer
        lent = self._memory.lend(number)
        if held.value is not None:
            begun.append(self.session.fill(lent, held.value))
        return lent

    def _bind(
        self,
        step: LaunchStep | CopyStep,
        kernels: Mapping[str, KernelSignature],
        lent: Mapping[int, Any] | None = None,
    ) -> Launch | Copy:
        buffers = {**dict(enumerate(self._memory.buffers)), **(lent or {})}
        if isinstance(step, CopyStep):
            size = buffer_bytes(self.plan.buffers[step.source])
            return Copy(self._queue, buffers[step.source], buffers[step.target], size)
        signature = kernels[step.kernel]
        kernel = opencl().Kernel(self.build.programs[step.kernel], signature.entry)
        arguments = [buffers[number] for number in step.arguments]
        size = signature.global_size
        if signature.is_resident:
            arguments.append(self.session.arrivals)
            size = resident_size(signature, self.device)
        kernel.set_args(*arguments)
        return Launch(self._queue, kernel, size, signature.local_size)

    def _begin(
        self, arrays: Sequence[np.ndarray | DeviceArray], direct: Collection[int] = ()
    ) -> list[Any]:
        """Begins to copy the inputs but those that are `direct`, and makes what derives from
        parameters. The events.
        """
        numbers = (number for number, _ in self._inputs)
        given = zip(numbers, arrays, strict=True)
        rest = self._small.fill([item for item in given if item[0] not in direct])
        uploads = [self.session.fill(self._memory.buffers[number], array) for number, array in rest]
        self._memory.poison()
        self._prepare()
        return uploads

    def _run(
        self, arrays: Sequence[np.ndarray | DeviceArray], profile: bool
    ) -> dict[str, np.ndarray]:
        outputs = self._new_results()
        if self._places is not None and not profile:
            given = {number: array for (number, _), array in zip(self._inputs, arrays, strict=True)}
            results = {item.buffer: outputs[item.name] for item in self._outputs}
            direct = self._places.without_copy(given, results)
            if direct:
                return self._run_in_place(arrays, outputs, direct)
        uploads = self._begin(arrays)
        events: list[Any] = []
        queue: Any = None
        with self._writing_states():
            if profile:
                self._queue.finish()
                queue = self._timing_queue()
                events += self._timed(self._phases[0], queue)
                queue.finish()
                if self._phases[1]:
                    self._look_at_checks()
                    events += self._timed(self._phases[1], queue)
                    queue.finish()
            else:
                self._enqueue_all()
            self._collect(outputs)
            del uploads
            self._memory.check()
            self._look_at_checks()
            if profile:
                events += self._timed(self._phases[2], queue)
                queue.finish()
                self.profile = self._times_of(events)
            elif self._phases[2]:
                self._commit()
        return outputs

    def _run_in_place(
        self,
        arrays: Sequence[np.ndarray | DeviceArray],
        outputs: dict[str, np.ndarray],
        direct: Mapping[int, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """A run that does not copy the arrays of some buffers."""
        assert self._places is not None
        uploads = self._begin(arrays, direct)
        with self._writing_states():
            with self._places.bound(self._queue, direct, self._memory.buffers):
                self._enqueue(self._phases[0])
                if self._phases[1]:
                    self._look_at_checks()
                    self._enqueue(self._phases[1])
                self._collect(outputs, direct)
            del uploads
            self._look_at_checks()
            self._commit()
        return outputs

    def _enqueue_all(self) -> None:
        """All steps but the commits, which the second run records for those after it: Intel's
        driver keeps what was recorded of a kernel for ever, and most programs of a process that
        compiles many run once.
        """
        self._runs += 1
        if self._runs == 2:
            self._recorded = [
                record(self.device.handle, self._queue, phase) for phase in self._phases
            ]
        self._enqueue(self._phases[0], self._recorded[0])
        if self._phases[1]:
            self._look_at_checks()
            self._enqueue(self._phases[1], self._recorded[1])

    def _commit(self) -> None:
        """The steps that write states once all else has succeeded."""
        self._enqueue(self._phases[2], self._recorded[2])

    def _look_at_checks(self) -> None:
        """RuntimeFault where a check of the run has found something; waits where there are any."""
        if not self._checks:
            return
        counts = [np.zeros((), np.int32) for _ in self._checks]
        events = [
            self._memory.download(output.buffer, count)
            for output, count in zip(self._checks, counts, strict=True)
        ]
        self._queue.finish()
        del events
        found = zip(self._checks, map(int, counts), strict=True)
        faults = [check_message(output.name, count) for output, count in found if count]
        if faults:
            raise RuntimeFault("\n".join(faults))

    def _enqueue(
        self, steps: Sequence[Launch | Copy], recorded: CommandBuffer | None = None
    ) -> None:
        """Hands steps to the device, as they were recorded if they were."""
        if recorded is not None:
            recorded.enqueue()
            self._reached += len(steps)
        else:
            for step in steps:
                step.enqueue()
                self._reached += 1
        self._queue.flush()

    def _timing_queue(self) -> Any:
        """A queue whose commands are timed, after all that was begun before."""
        cl = opencl()
        self._queue.finish()
        flags = cl.command_queue_properties.PROFILING_ENABLE
        return cl.CommandQueue(self._context, properties=flags)

    def _timed(self, steps: Sequence[Launch | Copy], queue: Any) -> list[Any]:
        """The events of steps, None for one that does nothing."""
        events: list[Any] = []
        for step in steps:
            nothing = isinstance(step, Copy) and not step.size
            events.append(None if nothing else step.timed(queue))
            self._reached += 1
        return events

    def _times_of(self, events: Sequence[Any]) -> list[LaunchTime]:
        """What all steps of a run took, by their events."""
        named = [
            (planned.kernel if isinstance(planned, LaunchStep) else "copy", event)
            for planned, event in zip(self.plan.steps, events, strict=True)
            if event is not None
        ]
        return launch_times([name for name, _ in named], [event for _, event in named])

    def _collect(self, outputs: Mapping[str, np.ndarray], direct: Collection[int] = ()) -> None:
        """Copies results to the host, but those that are written there, and waits."""
        small: dict[str, np.ndarray] = {}
        downloads: list[Any] = []
        for output in self._outputs:
            if output.name not in outputs or output.buffer in direct:
                continue
            array = outputs[output.name]
            if self._small.has(output.name):
                small[output.name] = array
            else:
                downloads.append(self._memory.download(output.buffer, array))
        self._queue.finish()
        del downloads
        self._small.read(small)
