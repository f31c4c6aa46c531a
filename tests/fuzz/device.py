"""Runs many compiled programs on one device, whose kernels are built together.

In: plans with their kernels. Out: the results of each by name, or the error of its own. A driver's
compiler takes as long to start as for ten kernels, so those of a batch are one program for each
target and set of options. Buffers lie between guard zones, and what is to be written is filled with
NaN before. Nothing is kept on disk.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from mgn.codegen.launch_plan import BufferKind, LaunchPlan, LaunchStep
from mgn.codegen.opencl.opencl import BUILD_OPTIONS
from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import DEVICES, Device, FuncOp
from mgn.driver.compilation import Compiled
from mgn.runtime.devices import ComputeDevice, choose, opencl
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.launching.joint_programs import joined
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.launching.programs import build_source
from mgn.runtime.launching.ptx import needs_completion
from mgn.runtime.measurement.figures import describe
from mgn.runtime.memory import GuardedMemory, buffer_bytes
from tests.support.joint_programs import spirv_signatures

Array = np.ndarray


@dataclass
class Job:
    """A compiled program. `kernels` are those that the driver builds, under names of their own."""

    compiled: Compiled
    functions: list[FuncOp]
    description: Device
    target: str
    options: tuple[str, ...]
    kernels: dict[str, KernelSignature] = field(default_factory=dict[str, KernelSignature])
    programs: dict[str, Any] = field(default_factory=dict[str, Any])
    error: Exception | None = None

    def name_kernels(self, number: int) -> None:
        """Gives the kernels names of their own: in OpenCL C by their texts, so that equal ones of
        several jobs are one; in SPIR-V by the number of the job.
        """
        for name, signature in self.compiled.kernels.items():
            head = f"void {signature.name}("
            parts = signature.source.partition(head)
            assert parts[1], f"no definition of {signature.name}"
            digest = hashlib.sha256("".join(parts).replace(head, "").encode()).hexdigest()[:20]
            source = f"{parts[0]}void k{digest}({parts[2]}"
            self.kernels[name] = replace(signature, name=f"k{digest}", source=source)
        for function in self.functions:
            function.sym_name = StringAttr(f"j{number}_{function.sym_name.data}")


def described(device: ComputeDevice) -> Device:
    """A device's description, with given speeds for measured ones: what is chosen is repeatable.
    Each kernel is a launch of its own, since those of many programs are built together.
    """
    alike = DEVICES["nvidia-h200" if "nvidia" in device.handle.vendor.lower() else "cpu"]
    figures = describe(device, measure=False)
    if figures["matrix_unit"] == "none":
        figures["matrix_rates"] = {}
    return alike.with_figures(**figures, barrier_cost=0.0)


class Runner:
    """A device with one context, in which batches are built and run."""

    def __init__(self, selector: str) -> None:
        self.device: ComputeDevice = choose(selector)
        self.description: Device = described(self.device)
        cl = opencl()
        self._context = cl.Context([self.device.handle])
        self._queue = cl.CommandQueue(self._context)
        self.spirv_options: list[str] = []
        """What the driver is told of all that it builds from SPIR-V."""
        self.opencl_options: list[str] = []
        """What it is told besides of all that it builds from OpenCL C."""

    @property
    def takes_spirv(self) -> bool:
        """Whether it builds SPIR-V."""
        return self.device.accepts_spirv

    def job(
        self, compiled: Compiled, module: ModuleOp, description: Device, target: str, exact: bool
    ) -> Job:
        """What a variant's compilation gave, ready for `build`."""
        functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        asked = exact and target == "opencl" and self.device.rounds_divisions
        options = (BUILD_OPTIONS,) if asked else ()
        return Job(compiled, functions, description, target, options)

    def build(self, jobs: Sequence[Job]) -> None:
        """Builds the kernels of all jobs; those that a driver refuses get the error."""
        groups: dict[tuple[str, tuple[str, ...]], list[Job]] = {}
        for number, job in enumerate(jobs):
            job.name_kernels(number)
            groups.setdefault((job.target, job.options), []).append(job)
        for (target, options), members in groups.items():
            try:
                self._build_together(target, options, members)
            except Exception:
                self._build_apart(target, options, members)

    def _build_apart(self, target: str, options: tuple[str, ...], jobs: Sequence[Job]) -> None:
        for job in jobs:
            try:
                self._build_together(target, options, [job])
            except Exception as error:
                job.error = error

    def _build_together(self, target: str, options: tuple[str, ...], jobs: Sequence[Job]) -> None:
        if target == "spirv":
            self._build_spirv(jobs)
            return
        kernels = [(job, name, item) for job in jobs for name, item in job.kernels.items()]
        sources = dict.fromkeys(item.source for _, _, item in kernels)
        together = [source for source in sources if not needs_completion(source)]
        program = self._source(joined(together), options) if together else None
        built = {
            source: self._source(source, options) for source in sources if needs_completion(source)
        }
        for job, name, item in kernels:
            job.programs[name] = built.get(item.source, program)

    def _build_spirv(self, jobs: Sequence[Job]) -> None:
        functions = [function for job in jobs for function in job.functions]
        if not functions:
            return
        devices = [job.description for job in jobs for _ in job.functions]
        signatures = iter(spirv_signatures(functions, devices))
        words: bytes | None = None
        for job in jobs:
            for name in job.kernels:
                job.kernels[name] = next(signatures)
                words = job.kernels[name].il
        program = opencl().Program(self._context, words).build(self.spirv_options)
        for job in jobs:
            job.programs = dict.fromkeys(job.kernels, program)

    def _source(self, source: str, options: tuple[str, ...]) -> Any:
        told = [*options, *self.opencl_options]
        return build_source(self._context, self.device.handle, source, told)[0]

    def run(
        self, job: Job, inputs: Mapping[str, Array], parameters: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The results of a job whose kernels are built. GuardError where one left its buffers."""
        plan = job.compiled.plan
        memory = GuardedMemory(plan, self.device, self._context, self._queue)
        held = [
            memory.upload(number, given[buffer.name])
            for kind, given in ((BufferKind.INPUT, inputs), (BufferKind.PARAM, parameters))
            for number, buffer in plan.of_kind(kind)
        ]
        memory.poison()
        for step in self._bound(job, plan, memory, (*plan.prepare, *plan.steps)):
            step.enqueue()
        self._queue.finish()
        del held
        outputs = {item.name: np.empty(item.shape, DTYPES[item.element]) for item in plan.outputs}
        reads = [memory.download(item.buffer, outputs[item.name]) for item in plan.outputs]
        self._queue.finish()
        del reads
        memory.check()
        return outputs

    def _bound(
        self, job: Job, plan: LaunchPlan, memory: GuardedMemory, steps: Iterable[Any]
    ) -> Iterable[Launch | Copy]:
        for step in steps:
            if isinstance(step, LaunchStep):
                signature = job.kernels[step.kernel]
                kernel = opencl().Kernel(job.programs[step.kernel], signature.name)
                kernel.set_args(*(memory.buffers[number] for number in step.arguments))
                yield Launch(self._queue, kernel, signature.global_size, signature.local_size)
            else:
                size = buffer_bytes(plan.buffers[step.source])
                source, target = memory.buffers[step.source], memory.buffers[step.target]
                yield Copy(self._queue, source, target, size)
