"""What attention's gradient is made of as kernels, in both forms, against the interpreter; where
they are chosen, and that no scores are in memory then.
"""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.fusion.forms import ATTENTION_GRADIENT
from tests.support.lower_fixture import GPU_ON_CPU, Run, check_all, forms_of, fused_kernel
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-44, "f16": 2.0**-11}
"""Of f64, what a power of two is computed to."""

SHAPES: list[tuple[tuple[int, ...], dict[str, Any], str]] = [
    ((1, 1, 1, 1, 1, 1), {}, "f32"),
    ((7, 9, 2, 1, 4, 3), {"causal": True, "scale": 0.3}, "f32"),
    ((70, 50, 2, 2, 20, 12), {"causal": True}, "f32"),
    ((40, 133, 3, 3, 33, 64), {"window": 17, "softcap": 2.0}, "f32"),
    ((130, 200, 4, 2, 16, 16), {"causal": True, "window": 20}, "f32"),
    ((19, 34, 4, 2, 8, 5), {"causal": True}, "f64"),
    ((9, 12, 2, 1, 8, 8), {"causal": True}, "f16"),
]
"""Queries, keys, heads, heads of keys, sizes of heads; how they are scored; the element type."""

TILES = ({"tile_down": 16, "item_keys": 8}, {"tile_down": 8, "tile_across": 16, "item_rows": 8})
"""Tiles of devices with more local memory."""


def kernel_of(
    name: str, shape: tuple[int, ...], how: dict[str, Any], element: str, biased: bool = False
) -> tuple[Any, list[np.ndarray]]:
    """A kernel of an operation and arrays for it; with a bias, some of it hides keys."""
    rows, keys, heads, kv_heads, depth, width = shape
    shapes = [(2, rows, heads * depth), (1, keys, kv_heads * depth)]
    if name != ATTENTION_GRADIENT[0]:
        shapes += [(1, keys, kv_heads * width), (2, rows, heads * width)]
        shapes += [(2, rows, heads)] * 2
    count = len(shapes)
    shapes += [(heads, 1, keys)] if biased else []
    random = np.random.default_rng(rows)
    arrays = [random.uniform(-1, 1, item).astype(element.replace("f", "float")) for item in shapes]
    if count > 2:
        arrays[4] += np.asarray(np.log(keys), arrays[4].dtype)
        arrays[4][..., -1] = np.inf if biased else arrays[4][..., -1]
    if biased:
        arrays[-1][..., ::3], arrays[-1][..., ::4] = -np.inf, -3.4e38

    def build(b: Any, *operands: Any) -> Any:
        bias = operands[count] if biased else None
        given = [b.neg(operands[0]), *operands[1:count]]
        return b.call(name, *given, bias, heads=heads, kv_heads=kv_heads, **how)

    kernel = fused_kernel("attention_gradient", [(element, item) for item in shapes], build)
    return kernel, arrays


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    terms = sum(array.shape[-2] for array in run.arrays[:2])
    most = np.abs(want[0][np.isfinite(want[0])]).max(initial=1.0)
    bound = 4 * terms**0.5 * EPSILON[run.what.split()[0]] * most
    np.testing.assert_allclose(got[0], want[0], rtol=0, atol=bound, err_msg=run.what)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", ATTENTION_GRADIENT)
def test_a_kernel_walks_what_its_rows_see(name: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, how, element in SHAPES:
        kernel, arrays = kernel_of(name, shape, how, element)
        runs += forms_of(kernel, arrays, f"{element} {name} {shape} {how}")
    kernel, arrays = kernel_of(name, (21, 30, 4, 2, 8, 8), {}, "f32", biased=True)
    runs += forms_of(kernel, arrays, f"f32 {name} with a bias")
    large = GPU_ON_CPU.with_figures(local_memory=128 * 1024)
    kernel, arrays = kernel_of(name, (150, 190, 2, 1, 64, 64), {"causal": True}, "f32")
    runs += [Run(kernel, arrays, large, tile, f"f32 {name} {tile}") for tile in TILES]
    check_all(cl_queue, runs, check)


def test_sums_of_very_many_lines_restart(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for name, shape in zip(
        ATTENTION_GRADIENT, [(2, 9000, 1, 1, 4, 4)] * 2 + [(9000, 2, 1, 1, 4, 4)], strict=True
    ):
        kernel, arrays = kernel_of(name, shape, {}, "f32")
        runs += forms_of(kernel, arrays, f"f32 {name} {shape}")
    check_all(cl_queue, runs, check)


PROGRAM = """const S = 0, Q = 512
graph step(q: f32[2, S, Q], k: f32[2, S, 256], v: f32[2, S, 256], g: f32[2, S, Q]) {
  y = attention(q, k, v, heads = 8, kv_heads = 4, causal = true)
  dq, dk, dv = grad(sum(y * g), [q, k, v])
  return y, dq, dk, dv
}"""


@pytest.mark.parametrize(
    ("device", "rows", "precision"),
    [
        ("cpu", 768, "f32"),
        ("nvidia-h200", 4096, "f32"),
        ("nvidia-h200", 4096, "tf32"),
        ("nvidia-h200", 4096, "bf16"),
    ],
)
def test_no_scores_are_in_memory_where_there_are_many(
    device: str, rows: int, precision: str
) -> None:
    module = mgn.parse(PROGRAM.replace("S = 0", f"S = {rows}"))
    report = mgn.optimize(module, device=device, precision=precision).report
    kinds = [kernel.kind for kernel in report.kernels]
    assert kinds.count("attention_gradient") == 2
    assert kinds.count("attention") == 1
    assert "contraction" not in kinds
