"""Gradients of attention on a matrix unit against the interpreter.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.fusion.forms import ATTENTION_GRADIENT
from mgn.dialects.kernel import Device
from mgn.passes.schedules.attention.gradient_matrix import SHAPES as TILES
from mgn.passes.schedules.attention.gradient_matrix import UNITS
from tests.support.lower_fixture import Run, check_all, fused_kernel, scheduled
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((70, 90, 2, 1, 64, 64), {"causal": True}),
    ((40, 50, 2, 2, 24, 40), {"window": 17, "softcap": 2.0}),
    ((33, 17, 1, 1, 16, 72), {"causal": True, "window": 20}),
]
"""Queries, keys, heads, heads of keys, sizes of heads; how they are scored."""

ROUNDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "bf16": lambda b, value: b.cast(value, "f32"),
    "tf32": lambda b, value: b.round_tf32(value),
}
"""What a unit multiplies → how an operand comes to be rounded to that."""


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    terms = sum(array.shape[-2] for array in run.arrays[:2])
    bound = 4 * terms**0.5 * 2.0**-16 * np.abs(want[0][np.isfinite(want[0])]).max()
    np.testing.assert_allclose(got[0], want[0], rtol=0, atol=bound, err_msg=run.what)


@pytest.mark.parametrize("name", ATTENTION_GRADIENT)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_computes_what_the_interpreter_does(
    unit: str,
    name: str,
    shape: int,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    (rows, keys, heads, kv_heads, depth, width), how = SHAPES[shape]
    shapes = [(2, rows, heads * depth), (1, keys, kv_heads * depth), (1, keys, kv_heads * width)]
    shapes += [(2, rows, heads * width), (2, rows, heads), (2, rows, heads)]
    types = ["bf16" if unit == "bf16" else "f32"] * 4 + ["f32"] * 2
    if name == ATTENTION_GRADIENT[0]:
        shapes, types = shapes[:2], types[:2]
    random = np.random.default_rng(rows)
    arrays = [
        random.uniform(-1, 1, item).astype(ml_dtypes.bfloat16 if kind == "bf16" else np.float32)
        for kind, item in zip(types, shapes, strict=True)
    ]
    if len(arrays) > 4:
        arrays[4] += np.float32(np.log(keys))

    def build(b: Any, *operands: Any) -> Any:
        given = [ROUNDINGS[unit](b, x) for x in operands[:4]]
        return b.call(name, *given, *operands[4:], heads=heads, kv_heads=kv_heads, **how)

    kernel = fused_kernel("attention_gradient", list(zip(types, shapes, strict=True)), build)
    assert scheduled(kernel, device)["variant"] == "matrix walk"
    warps, keys, *_ = TILES[(shape + 1) % len(TILES)]
    tiling = {"tile_down": warps, "tile_keys": keys, "local_memory": 1 << 18}
    fixed = {"matrix": unit, "matrix_unit": device.matrix_unit, **tiling}
    check_all(cl_queue, [Run(kernel, arrays, device, fixed, f"{name} {SHAPES[shape]}")], check)
