"""One kernel under one schedule, built, checked and timed by itself on the device.

In: a scheduled kernel and another schedule. Out: the median seconds of a launch on random inputs;
None where the schedule cannot be built, where the kernel writes outside of its buffers or leaves
something unwritten, or where its results are not those of the schedule it came with.
"""

import time
from dataclasses import dataclass
from math import prod, sqrt
from statistics import median

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, LaunchStep, OutputPlan
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel.device import Device
from mgn.dialects.types import element_of
from mgn.driver.kernel_targets import kernel_signature
from mgn.modules.sampling import sample
from mgn.passes.lower_kernels import lower_kernel
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.errors import BuildError, GuardError, RuntimeFault
from mgn.runtime.launching.executable import Executable

NAME = "trial"
ALIGNMENT = 4096
MOST_LAUNCHES, MOST_SECONDS = 25, 0.03
"""How often a kernel is timed: until one of the two is reached."""

ROUNDINGS = 16.0
"""Accepted error of a result of one term, in roundings of its element type."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class _Reference:
    inputs: Arrays
    outputs: Arrays


class DeviceTrials:
    """Trials on one device. A kernel's inputs and its first results are kept for its later ones."""

    def __init__(self, device: ComputeDevice, description: Device, target: str) -> None:
        self._device, self._description, self._target = device, description, target
        self._references: dict[int, _Reference] = {}

    def __call__(self, fused: FusedKernelOp, schedule: ScheduleAttr) -> float | None:
        """The time of a launch. The first call for a kernel must bring the schedule it has."""
        try:
            return self._time(fused, schedule)
        except (AssertionError, BuildError, GuardError, RuntimeFault, ValueError):
            return None

    def _time(self, fused: FusedKernelOp, schedule: ScheduleAttr) -> float | None:
        reference = self._references.get(id(fused))
        inputs = _inputs(fused) if reference is None else reference.inputs
        function = lower_kernel(fused, NAME, schedule.values)
        signature = kernel_signature(function, self._description, self._target)
        executable = Executable(
            _plan(fused), {NAME: signature}, self._device, cache=KernelCache.disabled(), guard=True
        )
        outputs = executable.run(inputs)
        if reference is None:
            self._references[id(fused)] = _Reference(inputs, outputs)
        elif not _agree(reference, outputs):
            return None
        return _median_launch(executable)


def _inputs(fused: FusedKernelOp) -> Arrays:
    return {
        f"in{number}": sample(f"in{number}", argument, 0).array
        for number, argument in enumerate(fused.block.args)
    }


def _tensor(value: SSAValue) -> tuple[str, tuple[int, ...], int]:
    assert isinstance(value.type, TensorType)
    element, shape = element_of(value.type), value.type.get_shape()
    return element.name, shape, element.bytes * prod(shape)


def _plan(fused: FusedKernelOp) -> LaunchPlan:
    """One launch: inputs in, results in an arena."""
    buffers: list[BufferPlan] = []
    outputs: list[OutputPlan] = []
    for number, argument in enumerate(fused.block.args):
        element, shape, _ = _tensor(argument)
        buffers.append(BufferPlan(BufferKind.INPUT, f"in{number}", element, shape))
    arena = 0
    for number, result in enumerate(fused.outputs):
        element, shape, size = _tensor(result)
        outputs.append(OutputPlan(f"out{number}", len(buffers), element, shape))
        buffers.append(BufferPlan(BufferKind.VIEW, f"out{number}", element, shape, arena))
        arena += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
    step = LaunchStep(NAME, tuple(range(len(buffers))))
    return LaunchPlan(NAME, arena, tuple(buffers), (step,), tuple(outputs))


def _agree(reference: _Reference, outputs: Arrays) -> bool:
    """Equal but for the order of sums: errors grow with the root of the number of terms."""
    terms = max((array.size for array in reference.inputs.values()), default=1)
    for name, wanted in reference.outputs.items():
        found = outputs[name]
        if wanted.dtype.kind in "iub":
            if not np.array_equal(found, wanted):
                return False
            continue
        rounding = float(ml_dtypes.finfo(wanted.dtype).eps)
        terms_each = max(terms / max(wanted.size, 1), 1.0)
        wide, expected = found.astype(np.float64), wanted.astype(np.float64)
        finite = np.abs(expected[np.isfinite(expected)])
        allowed = ROUNDINGS * rounding * sqrt(terms_each) * float(finite.max(initial=0.0))
        if not np.allclose(wide, expected, rtol=0.0, atol=allowed, equal_nan=True):
            return False
    return True


def _median_launch(executable: Executable) -> float:
    executable.replay(profile=True)
    times: list[float] = []
    end = time.perf_counter() + MOST_SECONDS
    while len(times) < 3 or (len(times) < MOST_LAUNCHES and time.perf_counter() < end):
        executable.replay(profile=True)
        times.append(sum(launch.seconds for launch in executable.profile))
    return median(times)
