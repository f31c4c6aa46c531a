"""One fused kernel, built from calls, lowered, run on the CPU device and compared with NumPy.

In: input types, a function that emits the body, and arrays. Out: what the device computed, beside
the wide interpreter's values (all floats in f64).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from opencl_fixture import run_kernel
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Region, SSAValue

from mgn.codegen.opencl import signature
from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.kernel import DEVICES, Device, FuncOp
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import element_of, tensor
from mgn.passes.choose_schedules import schedule_for
from mgn.passes.lower_kernels import lower_kernel

Build = Callable[..., SSAValue | Sequence[SSAValue]]

CPU = DEVICES["cpu"]
GPU_ON_CPU = CPU.with_figures(
    name="test-gpu", kind="gpu", vector_bits=128, sub_group_size=32, max_work_group_size=256,
    local_memory=48 * 1024, compute_units=4,
)  # fmt: skip
"""A device that takes the GPU forms of the templates, and runs on the CPU."""

FORMS = {"cpu": CPU, "gpu": GPU_ON_CPU}
if os.environ.get("MGN_TEST_DEVICE") == "gpu":
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


def lowered(kernel: FusedKernelOp, device: Device, **schedule: Any) -> FuncOp:
    """The kernel's function on a device, with entries of the schedule changed."""
    entries = {**schedule_for(kernel, device).values, **schedule}
    function = lower_kernel(kernel, "kernel_under_test", entries)
    function.verify()
    return function


def run(
    queue: Any, kernel: FusedKernelOp, arrays: Sequence[np.ndarray], device: Device, **schedule: Any
) -> list[np.ndarray]:
    """What the device computes, into poisoned outputs."""
    function = lowered(kernel, device, **schedule)
    outputs = [
        np.empty(value.type.get_shape(), element_of(value.type).dtype)  # type: ignore
        for value in kernel.outputs
    ]
    if all(array.size == 0 for array in outputs):
        return outputs
    flat = [_in_memory(np.array(array, order="C")) for array in (*arrays, *outputs)]
    kernel_signature = signature(function, device)
    arguments = tuple(
        replace(argument, count=max(argument.count, 1)) for argument in kernel_signature.arguments
    )
    run_kernel(queue, replace(kernel_signature, arguments=arguments), flat)
    for output, raw in zip(outputs, flat[len(arrays) :], strict=True):
        if output.size:
            output[...] = raw.reshape(output.shape)
    return outputs


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
