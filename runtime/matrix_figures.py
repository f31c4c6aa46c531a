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

_SHAPES = {"bf16": "m16n8k16", "f16": "m16n8k16", "tf32": "m16n8k8"}

OPERATIONS = {
    name: 2.0 * 16 * 8 * int(shape.rpartition("k")[2]) * CHAINS for name, shape in _SHAPES.items()
}
"""Operations of one step of a sub-group."""

_LEAST_CAPABILITY = 8
"""From this compute capability on there are bf16, tf32 and asynchronous copies."""

_SOURCE = """
__kernel void rate_TYPE(__global float *y, int steps) {
  float4 s[CHAINS];
  uint a = 0x3c003c00u + get_local_id(0) % 7, b = 0x3c003c00u + get_local_id(0) % 5;
  for (int j = 0; j < CHAINS; j++) s[j] = (float4)((float)j);
  for (int i = 0; i < steps; i++) {
    #pragma unroll
    for (int j = 0; j < CHAINS; j++)
      asm volatile("mma.sync.aligned.SHAPE.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, "
                   "{%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
                   : "+f"(s[j].s0), "+f"(s[j].s1), "+f"(s[j].s2), "+f"(s[j].s3)
                   : "r"(a), "r"(b));
  }
  float4 total = s[0];
  for (int j = 1; j < CHAINS; j++) total += s[j];
  y[get_global_id(0)] = total.s0 + total.s1 + total.s2 + total.s3;
}
"""


def matrix_source(handle: Any) -> str | None:
    """A kernel `rate_TYPE` for each type that the unit multiplies; None without a unit."""
    if "cl_nv_device_attribute_query" not in handle.extensions.split():
        return None
    if handle.compute_capability_major_nv < _LEAST_CAPABILITY:
        return None
    return "".join(
        _SOURCE.replace("TYPE", name).replace("SHAPE", shape).replace("CHAINS", str(CHAINS))
        for name, shape in _SHAPES.items()
    )
