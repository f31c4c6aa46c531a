"""Hand-written kernels and launch plans for the tests of the runtime."""

import numpy as np

from mgn.codegen.launch_plan import (
    BufferKind,
    BufferPlan,
    LaunchPlan,
    LaunchStep,
    OutputPlan,
)
from mgn.codegen.signature import KernelArgument, KernelSignature

SIZE = 96


def signature(name: str, source: str, *accesses: str, items: int = SIZE) -> KernelSignature:
    """A kernel of f32 buffers of `SIZE` elements, one work-item each."""
    arguments = tuple(KernelArgument(access, "f32", SIZE) for access in accesses)
    return KernelSignature(name, source, (items, 1, 1), (1, 1, 1), arguments)


def pointwise(name: str, expression: str) -> KernelSignature:
    """`y = expression of a, b`."""
    source = (
        f"__kernel void {name}(__global const float *x, __global const float *w, "
        "__global float *y) {\n  size_t i = get_global_id(0);\n"
        f"  float a = x[i], b = w[i];\n  y[i] = {expression};\n}}\n"
    )
    return signature(name, source, "read", "read", "write")


ADD = pointwise("add", "a + b")
MULTIPLY = pointwise("multiply", "a * b")
KERNELS = {"add": ADD, "multiply": MULTIPLY}

PLAN = LaunchPlan(
    name="affine",
    arena=1024,
    buffers=(
        BufferPlan(BufferKind.INPUT, "x", "f32", (8, 12)),
        BufferPlan(BufferKind.PARAM, "scale", "f32", (SIZE,)),
        BufferPlan(
            BufferKind.CONSTANT,
            "%c",
            "f32",
            (SIZE,),
            value=np.arange(SIZE, dtype=np.float32),
        ),
        BufferPlan(BufferKind.VIEW, "%t", "f32", (SIZE,), 0),
        BufferPlan(BufferKind.VIEW, "%y", "f32", (SIZE,), 512),
    ),
    steps=(LaunchStep("multiply", (0, 1, 3)), LaunchStep("add", (3, 2, 4))),
    outputs=(OutputPlan("y", 4, "f32", (8, 12)),),
)
"""y = x * scale + [0, 1, 2, …]"""
