"""The log-sum-exp of its scores beside an attention in one kernel, against the interpreter, in all
variants of the template.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.kernel import Device
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel, scheduled
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 1, 1, 1, 1), {}),
    ((70, 90, 4, 2, 16, 16), {"causal": True}),
    ((90, 70, 2, 2, 12, 20), {"causal": True, "scale": -0.4}),
    ((40, 133, 2, 1, 24, 8), {"window": 17, "softcap": 2.0}),
    ((6, 0, 2, 1, 8, 8), {}),
]
"""Queries, keys, heads, heads of keys, sizes of heads; how they are scored. In the third one the
first queries see no key, and in the last one all.
"""


def kernel_of(
    shape: tuple[int, ...], how: dict[str, Any], element: str, biased: bool = False
) -> tuple[Any, list[np.ndarray]]:
    """A kernel and arrays for it; in half precision the totals are of the widened operands."""
    rows, keys, heads, kv_heads, depth, width = shape
    shapes = [(2, rows, heads * depth), (1, keys, kv_heads * depth), (1, keys, kv_heads * width)]
    shapes += [(heads, 1, keys)] if biased else []
    random = np.random.default_rng(rows)
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.float32
    arrays = [random.uniform(-2, 2, item).astype(dtype) for item in shapes]
    if biased:
        arrays[3][..., ::3] = -np.inf

    def build(b: Any, q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        values = {"heads": heads, "kv_heads": kv_heads, **how}
        if element == "tf32":
            q, k, v = (b.round_tf32(x) for x in (q, k, v))
        scored = [b.cast(x, "f32") for x in (q, k)] if element == "bf16" else [q, k]
        attended = b.attention(q, k, v, bias, **values)
        return b.neg(attended), b.attention_lse(*scored, bias=bias, **values)

    held = "f32" if element == "tf32" else element
    return fused_kernel("attention", [(held, item) for item in shapes], build), arrays


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    wide = "bf16" not in run.what and "tf32" not in run.what
    for one, other, bound in zip(got, want, (1e-5 if wide else 2e-2, 1e-5), strict=True):
        np.testing.assert_allclose(
            one.astype(np.float64), other, rtol=bound, atol=bound, err_msg=run.what
        )


def test_a_kernel_writes_both(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, how in SHAPES:
        kernel, arrays = kernel_of(shape, how, "f32")
        runs += forms_of(kernel, arrays, f"f32 {shape} {how}")
    kernel, arrays = kernel_of((21, 30, 4, 2, 8, 8), {}, "f32", biased=True)
    runs += forms_of(kernel, arrays, "f32 with a bias")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("unit", ["bf16", "tf32"])
@pytest.mark.parametrize("shape", range(1, len(SHAPES) - 1))
def test_so_does_one_on_a_unit(
    shape: int,
    unit: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    sizes, how = SHAPES[shape]
    kernel, arrays = kernel_of(sizes, how, unit)
    fixed = {"matrix": unit, "matrix_unit": device.matrix_unit}
    assert scheduled(kernel, device)["variant"] == "matrix tiles"
    check_all(cl_queue, [Run(kernel, arrays, device, fixed, f"{unit} {sizes} {how}")], check)


def test_so_does_one_where_four_sub_groups_multiply_together(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    kernel, arrays = kernel_of((70, 150, 2, 1, 64, 64), {"causal": True}, "bf16")
    fixed = {"matrix": "bf16", "matrix_unit": device.matrix_unit, "tile_down": 4, "groups": 1}
    scheduled(kernel, device)
    check_all(cl_queue, [Run(kernel, arrays, device, fixed, "bf16 groups")], check)
