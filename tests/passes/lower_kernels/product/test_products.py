"""Products of any shape, layout and element type on the device, against the interpreter.

A sum of n terms may err by n units of the accumulator's precision times the sum of magnitudes.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.compilation import compile_graph
from tests.passes.lower_kernels.test_differential import EPSILON, assert_near, draw, ulps
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...], bool, bool]] = [
    ((64, 57), (57, 70), False, False),
    ((64, 57), (70, 57), False, True),
    ((57, 64), (57, 70), True, False),
    ((57, 64), (70, 57), True, True),
    ((1, 1), (1, 1), False, False),
    ((1, 100), (100, 300), False, False),
    ((1, 100), (300, 100), False, True),
    ((300, 100), (100, 1), False, False),
    ((7, 3), (3, 5), False, False),
    ((40, 0), (0, 20), False, False),
    ((2, 3, 33, 20), (3, 20, 17), False, False),
    ((3, 17, 40), (2, 1, 50, 40), False, True),
    ((100,), (100, 30), False, False),
    ((30, 100), (100,), False, False),
    ((100,), (100,), False, False),
    ((129, 600), (600, 257), False, False),
    ((260, 530), (131, 530), False, True),
    ((530, 140), (530, 131), True, False),
]


def check_products(
    queue: Any,
    element: str,
    cases: list[tuple[tuple[int, ...], tuple[int, ...], bool, bool]],
    **schedule: int,
) -> None:
    runs: list[Run] = []
    for number, (left, right, transpose_a, transpose_b) in enumerate(cases):
        turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        kernel = fused_kernel(
            "contraction",
            [(element, left), (element, right)],
            lambda b, x, y, turned=turned: b.matmul(x, y, **turned),
        )
        arrays = [draw(element, left, 1), draw(element, right, 2)]
        forms = forms_of(kernel, arrays, str(number))
        runs += [replace(form, schedule=schedule) for form in forms]

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        case = cases[int(run.what.split()[0])]
        a, c = (np.abs(array.astype(np.float64)) for array in run.arrays)
        a = np.swapaxes(a, -1, -2) if case[2] else a
        c = np.swapaxes(c, -1, -2) if case[3] else c
        unit = EPSILON["f64" if element == "f64" else "f32"]
        bound = a.shape[-1] * unit * (a @ c) + EPSILON.get(element, 0) * np.abs(want[0])
        assert_near(got[0], want[0], bound, f"matmul {element} {case} {run.what}")

    check_all(queue, runs, check)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("part", range(3))
def test_a_matmul_of_any_shape_is_right(part: int, cl_queue: Any) -> None:  # noqa: F811
    check_products(cl_queue, "f32", PRODUCTS[part::3])


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i64", "i32", "i8", "u8"])
def test_a_matmul_of_any_element_type_is_right(element: str, cl_queue: Any) -> None:  # noqa: F811
    """In small register tiles, which a driver compiles in half the time."""
    check_products(cl_queue, element, [PRODUCTS[n] for n in (0, 1, 2, 8)], tile_rows=4)


@pytest.mark.usefixtures("also_as_spirv")
def test_a_matmul_takes_prologues_and_epilogues(cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: Any, y: Any, bias: Any, residual: Any) -> Any:
        product = b.matmul(b.relu(x), b.reshape(y, [48, 70]))
        activated = b.gelu(b.add(product, bias))
        return [b.add(activated, residual), b.reshape(b.mul(product, 2.0), [10, 70, 5])]

    types = [("f32", (50, 48)), ("f32", (48, 7, 10)), ("f32", (70,)), ("f32", (50, 70))]
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("contraction", types, build)

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        for one, other in zip(got, want, strict=True):
            bound = 48 * EPSILON["f32"] * 4 * 48 + ulps("f32", other, 8)
            assert_near(one, other, bound, run.what)

    check_all(cl_queue, forms_of(kernel, arrays), check)


@pytest.mark.usefixtures("also_as_spirv")
def test_a_convolution_is_a_matmul_read_through_an_index_map(cl_queue: Any) -> None:  # noqa: F811
    """Three taps along rows: shifted slices of a padded image, side by side, times a matrix."""

    def build(b: Any, x: Any, w: Any) -> Any:
        padded = b.pad(x, [[1, 1], [0, 0]], 0.0)
        taps = [b.slice(padded, [k, 0], [k + 30, 16]) for k in range(3)]
        return b.matmul(b.concat(taps, axis=1), w)

    types = [("f32", (30, 16)), ("f32", (48, 20))]
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("contraction", types, build)
    bound = 48 * EPSILON["f32"] * 4 * 48
    runs = forms_of(kernel, arrays)
    check_all(cl_queue, runs, lambda run, got, want: assert_near(got[0], want[0], bound, run.what))


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16", "f16"])
@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_a_product_of_constants_is_a_kernel_without_inputs(device: str, precision: str) -> None:
    products = ("v @ v", "matmul(v, v, transpose_b = true)", "attention(v, v, v, heads = 1)")
    for kind in ("f32", "f16", "bf16"):
        constant = f"v = constant(0.5, shape = [3, 3], T = {kind})"
        for product in products:
            graph = mgn.parse(f"graph g() {{ {constant}\nreturn y = {product} }}").lower()
            compiled = compile_graph(graph, DEVICES[device], precision=precision)
            assert compiled.kernels
