"""Packages made by hand for the tests: both forms of kernels, every kind of buffer and of step."""

import struct
from dataclasses import replace

import ml_dtypes
import numpy as np

from mgn.codegen.launch_plan import (
    BufferKind,
    BufferPlan,
    CopyStep,
    LaunchPlan,
    LaunchStep,
    OutputPlan,
)
from mgn.runtime.packages.format import Package, PackagedKernel
from tests.runtime.device_kernels import KERNELS, PLAN, SIZE

NO_SPIRV = struct.pack("<5I", 0x07230203, 0x10000, 0, 1, 0)
"""A SPIR-V module with nothing in it."""


def affine(embedded: bool = True, device: str = "any device") -> Package:
    """y = x * scale + [0, 1, 2, …], as OpenCL C."""
    kernels = {name: PackagedKernel(kernel, None) for name, kernel in KERNELS.items()}
    scale = np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)
    return Package(PLAN, kernels, {"scale": scale} if embedded else {}, device)


def everything(device: str = "any device") -> Package:
    """A package that no device runs: one kernel in both forms, one as SPIR-V, many types."""
    both = {
        name: PackagedKernel(kernel, replace(kernel, name=f"{name}_", source="", il=NO_SPIRV))
        for name, kernel in KERNELS.items()
    }
    both["multiply"] = PackagedKernel(None, both["multiply"].spirv)
    values = {
        "f64": np.array([[0.1, np.nan]]),
        "bf16": np.array([1.5, -2.0], ml_dtypes.bfloat16),
        "bool": np.array([True, False, True]),
        "u8": np.array(255, np.uint8),
        "i64": np.zeros((0, 7), np.int64),
    }
    constants = tuple(
        BufferPlan(BufferKind.CONSTANT, f"%{element}", element, value.shape, value=value)
        for element, value in values.items()
    )
    empty = BufferPlan(BufferKind.PARAM, "leer", "f16", (3, 0))
    copied = BufferPlan(BufferKind.VIEW, "%k", "f32", (8, 12), 1024)
    derived = BufferPlan(BufferKind.DERIVED, "%d", "f32", (SIZE,))
    buffers = (*PLAN.buffers, *constants, empty, copied, derived)
    last = len(buffers) - 2
    made = last + 1
    plan = LaunchPlan(
        name="größe",
        arena=2048,
        buffers=buffers,
        steps=(*PLAN.steps, CopyStep(4, last), LaunchStep("multiply", (0, made, 3))),
        outputs=(*PLAN.outputs, OutputPlan("z", last, "i32", (96,))),
        tensor_bytes=4000,
        lower_bound=700,
        prepare=(LaunchStep("add", (1, 2, made)),),
    )
    scale = np.full(SIZE, 2.0, np.float32)
    held = {"scale": scale, "leer": np.zeros((3, 0), np.float16)}
    return Package(plan, both, held, device)
