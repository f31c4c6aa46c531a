"""Whether a device has a matrix unit that inline PTX reaches, and the kernels that measure it.

In: an OpenCL device. Out: a program of independent chains of matrix instructions, or None.
"""

from typing import Any

CHAINS = 8
MATRIX_STEPS = 2048
SUB_GROUPS = 16
"""Sub-groups of 32 on each compute unit."""

REACHED = 0.65
"""The share of the instructions' own rate that a product with its copies reaches."""

BY_GROUPS, GROUP_GAIN = ("bf16", "f16", "tf32"), 1.4
"""What `wgmma` multiplies, and how much faster it is than the instructions measured."""

_SHAPES = {"bf16": "m16n8k16", "f16": "m16n8k16", "tf32": "m16n8k8"}

OPERATIONS = {
    name: 2.0 * 16 * 8 * int(shape.rpartition("k")[2]) * CHAINS for name, shape in _SHAPES.items()
}
"""Operations of one step of a sub-group."""

_UNITS = {8: "mma", 9: "wgmma", 10: "mma", 12: "mma"}
"""Compute capability → the instructions that reach the unit; below 8 there are no bf16 and tf32."""

_SOURCE = """
__kernel void rate_TYPE(__global float *y, int steps) {
  float4 s[CHAINS];
  uint a = 0x3c003c00u + get_local_id(0) % 7, b = 0x3c003c00u + get_local_id(0) % 5;
  for (int j = 0; j < CHAINS; j++) s[j] = (float4)((float)j);
  for (int i = 0; i < steps; i++) {
STEP
  }
  float4 total = s[0];
  for (int j = 1; j < CHAINS; j++) total += s[j];
  y[get_global_id(0)] = total.s0 + total.s1 + total.s2 + total.s3;
}
"""


_STEP = """
    asm("mma.sync.aligned.SHAPE.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, "
        "{%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
        : "+f"(s[NUMBER].s0), "+f"(s[NUMBER].s1), "+f"(s[NUMBER].s2), "+f"(s[NUMBER].s3)
        : "r"(a), "r"(b));
"""


def matrix_unit(handle: Any) -> str:
    """By which instructions a device's matrix unit is reached: none, mma, or wgmma besides."""
    if "cl_nv_device_attribute_query" not in handle.extensions.split():
        return "none"
    return _UNITS.get(handle.compute_capability_major_nv, "none")


def matrix_source(handle: Any) -> str | None:
    """A kernel `rate_TYPE` for each type that the unit multiplies; None without a unit."""
    if matrix_unit(handle) == "none":
        return None
    step = "".join(_STEP.replace("NUMBER", str(number)) for number in range(CHAINS))
    source = _SOURCE.replace("STEP", step).replace("CHAINS", str(CHAINS))
    return "".join(
        source.replace("TYPE", name).replace("SHAPE", shape) for name, shape in _SHAPES.items()
    )
