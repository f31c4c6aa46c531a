"""One fused kernel, built from calls, lowered, run on the CPU device and compared with NumPy.

In: input types, a function that emits the body, and arrays. Out: what the device computed, beside
the wide interpreter's values (all floats in f64).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Region, SSAValue

from mgn.codegen.signature import KernelSignature
from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device, FuncOp
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import element_of, tensor
from mgn.modules.verification import verify_whole
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.saturate.arrange_kernels import arrange_kernel, template_of
from mgn.passes.schedules.choose import schedule_for
from tests.support.joint_programs import opencl_signatures
from tests.support.opencl_fixture import build_unoptimised, compiled_there, run_kernel

Build = Callable[..., SSAValue | Sequence[SSAValue]]

CPU = DEVICES["cpu"]
GPU_ON_CPU = CPU.with_figures(
    name="test-gpu", kind="gpu", vector_bits=128, sub_group_size=32, max_work_group_size=256,
    local_memory=48 * 1024, compute_units=4,
)  # fmt: skip
"""A device that takes the GPU forms of the templates, and runs on the CPU."""

FORMS = {"cpu": CPU, "gpu": GPU_ON_CPU}
if os.environ.get("MGN_TEST_DEVICE") == "gpu":
    FORMS["cpu"] = CPU.with_figures(local_memory=GPU_ON_CPU.local_memory)
    FORMS["nvidia"] = DEVICES["nvidia-h200"]


def fused_kernel(
    kind: str, types: Sequence[tuple[str, tuple[int, ...]]], build: Build
) -> FusedKernelOp:
    """A fusion.kernel with inputs of the given element types and shapes."""
    tensors = [tensor(name, list(shape)) for name, shape in types]
    outside = TestOp(result_types=tensors)
    block = Block(arg_types=tensors)
    emitter = Emitter(block.add_op)
    built = build(emitter, *block.args)
    results = [built] if isinstance(built, SSAValue) else list(built)
    block.add_op(FusionReturnOp(results))
    kernel = FusedKernelOp(
        kind, list(outside.results), [value.type for value in results], Region(block)
    )
    kernel.verify()
    ModuleOp([outside, kernel])
    return kernel


def scheduled(kernel: FusedKernelOp, device: Device, **fixed: Any) -> Mapping[str, Any]:
    """The schedule of a kernel that, if it says nothing, says of the device's matrix unit what the
    e-graph would have it say where the unit is worth it.
    """
    if kernel.arranged is None:
        rates = {name: rate / 1e3 for name, rate in device.rates.items()}
        slow = device.with_figures(rates=rates) if device.matrix_rates else device
        template, _ = template_of(kernel, slow, [])
        facts = template.facts if template is not None else ()
        kernel.arranged = ScheduleAttr.of(**dict(facts)) if facts else None
        kernel.verify()
    return schedule_for(kernel, device, **fixed).values


def lowered(
    kernel: FusedKernelOp, device: Device, name: str = "kernel_under_test", **schedule: Any
) -> FuncOp:
    """The kernel's function on a device, with entries of the schedule changed."""
    entries = scheduled(kernel, device, **schedule)
    function = lower_kernel(kernel, name, entries)
    verify_whole(function)
    return function


@dataclass(frozen=True)
class Run:
    """A kernel, what it reads, and the device and entries of the schedule to lower it for.

    `what` says which case of a test it is.
    """

    kernel: FusedKernelOp
    arrays: Sequence[np.ndarray]
    device: Device
    schedule: Mapping[str, Any] = field(default_factory=lambda: {})
    what: str = ""

    def outputs(self) -> list[np.ndarray]:
        """Room for the results."""
        return [
            np.empty(value.type.get_shape(), element_of(value.type).dtype)  # type: ignore
            for value in self.kernel.outputs
        ]


@dataclass(frozen=True)
class Way:
    """What of kernels a driver is given, which builds it without its optimiser where others are
    built with it.
    """

    signatures: Callable[[Sequence[FuncOp], Sequence[Device]], list[KernelSignature]]
    what: str = ""
    unoptimised: bool = False


WAYS = [Way(opencl_signatures)]
"""How the kernels of a test are run."""


Check = Callable[[Run, list[np.ndarray], list[np.ndarray]], None]


def run(
    queue: Any, kernel: FusedKernelOp, arrays: Sequence[np.ndarray], device: Device, **schedule: Any
) -> list[np.ndarray]:
    """What the device computes, into poisoned outputs."""
    return run_all(queue, [Run(kernel, arrays, device, schedule)])[0]


def run_all(queue: Any, runs: Sequence[Run]) -> list[list[np.ndarray]]:
    """The same of many kernels, built as one program. Equal ones are lowered once."""
    return next(run_each_way(queue, runs))


def run_each_way(queue: Any, runs: Sequence[Run]) -> Iterator[list[list[np.ndarray]]]:
    """The same for each of `WAYS`, for which kernels are lowered once."""
    launched = [n for n, item in enumerate(runs) if any(array.size for array in item.outputs())]
    firsts = {n: next(m for m in launched if _one_kernel(runs[m], runs[n])) for n in launched}
    lowered_ones = list(dict.fromkeys(firsts.values()))
    functions = [
        lowered(runs[n].kernel, runs[n].device, f"kernel_{n}", **runs[n].schedule)
        for n in lowered_ones
    ]
    devices = [compiled_there(queue, runs[n].device) for n in lowered_ones]
    for way in WAYS:
        results = [item.outputs() for item in runs]
        found = way.signatures(functions, devices) if functions else []
        made = dict(zip(lowered_ones, found, strict=True))
        with pytest.MonkeyPatch.context() as patch:
            if way.unoptimised:
                build_unoptimised(patch)
            for n in launched:
                launch(queue, made[firsts[n]], runs[n].arrays, results[n])
        yield results


def _one_kernel(one: Run, other: Run) -> bool:
    """Whether two runs have one kernel, or kernels of which nothing tells one from the other."""
    same_place = one.device is other.device and one.schedule == other.schedule
    return same_place and (one.kernel is other.kernel or _are_equal(one.kernel, other.kernel))


def _are_equal(one: FusedKernelOp, other: FusedKernelOp) -> bool:
    """Whether what types follow from, which are inputs, operations and attributes, is the same."""
    assert one.parent is not None and other.parent is not None
    known: dict[Any, Any] = dict(zip(one.operands, other.operands, strict=False))
    return one.is_structurally_equivalent(other, {**known, one.parent: other.parent})


def forms_of(kernel: FusedKernelOp, arrays: Sequence[np.ndarray], what: str = "") -> list[Run]:
    """A run of the kernel in every form."""
    return [Run(kernel, arrays, device, what=f"{what} {form}") for form, device in FORMS.items()]


def check_all(queue: Any, runs: Sequence[Run], check: Check) -> None:
    """Calls `check` with each run, what came of it each way, and what the interpreter says."""
    wanted: list[list[np.ndarray]] = []
    for way, results in zip(WAYS, run_each_way(queue, runs), strict=True):
        wanted = wanted or [expected(item.kernel, item.arrays) for item in runs]
        for item, got, want in zip(runs, results, wanted, strict=True):
            check(replace(item, what=f"{item.what}{way.what}"), got, want)


def same_values(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """A check: what came is what the interpreter says, to the bit."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.astype(other.dtype), other, item.what)


def same_rounded(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """A check: what came is what the interpreter says, rounded to the element type."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other.astype(one.dtype), item.what)


def launch(
    queue: Any,
    kernel_signature: KernelSignature,
    arrays: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
) -> None:
    """Runs a kernel that writes the outputs."""
    flat = [_in_memory(np.array(array, order="C")) for array in (*arrays, *outputs)]
    arguments = tuple(
        replace(argument, count=max(argument.count, 1)) for argument in kernel_signature.arguments
    )
    run_kernel(queue, replace(kernel_signature, arguments=arguments), flat)
    for output, raw in zip(outputs, flat[len(arrays) :], strict=True):
        if output.size:
            output[...] = raw.reshape(output.shape)


def _in_memory(array: np.ndarray) -> np.ndarray:
    """Flat, and not empty: no device has a buffer without bytes."""
    return array.reshape(-1) if array.size else np.zeros(1, array.dtype)


def expected(kernel: FusedKernelOp, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the body means, in f64."""
    interpreter = Interpreter(wide=True)
    wide = [
        np.asarray(array, np.float64 if element_of(value.type).is_float else None)
        for array, value in zip(arrays, kernel.inputs, strict=True)
    ]
    return interpreter.run_op(kernel, wide)


def pieces(kernel: FusedKernelOp, device: Device = DEVICES["nvidia-h200"]) -> list[FusedKernelOp]:
    """The kernels that take a kernel's place in its module, verified."""
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
    made = arrange_kernel(kernel, device)
    module.verify()
    return made
