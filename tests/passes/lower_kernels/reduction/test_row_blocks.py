"""Kernels of rows in blocks beside the interpreter: what is done with each row, and sums of
blocks of rows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.schedules.choose import schedule_for
from tests.support.lower_fixture import (
    FORMS,
    GPU_ON_CPU,
    Run,
    check_all,
    expected,
    forms_of,
    fused_kernel,
    launch,
    lowered,
    run,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import need_spirv, spirv_signature

Build = Callable[..., Sequence[SSAValue]]
Shape = tuple[int, ...]

TOLERANCES = {"f64": 1e-13, "f32": 3e-6, "bf16": 1e-2, "f16": 2e-3}
"""The largest error of a result, relative to its largest magnitude."""

SHAPES = [
    ((37, 64), 1, 8),
    ((37, 33), 1, 5),
    ((1, 128), 1, 4),
    ((130, 1), 1, 16),
    ((300, 5), 1, 200),
    ((6, 7, 40), 2, 4),
    ((64, 300), 1, 64),
    ((16, 1030), 1, 16),
    ((5, 24), 1, 1),
]
"""Shapes, how many of their axes are rows, and rows of a block."""


def norm_gradient(rows: int, leading: int, wide: str, element: str) -> Build:
    """The gradient of a norm in all of its operands, the sums by blocks, and a row's statistic."""

    def build(b: Any, x: SSAValue, g: SSAValue, w: SSAValue) -> list[SSAValue]:
        x, g, w = (b.cast(value, wide) if wide != element else value for value in (x, g, w))

        def mean_of(value: SSAValue) -> SSAValue:
            length = float(x.type.get_shape()[-1])  # type: ignore
            return b.div(b.sum(value, axis=[-1], keepdims=True), length)

        centred = b.sub(x, mean_of(x))
        scale = b.rsqrt(b.add(mean_of(b.mul(centred, centred)), 1e-5))
        normed, scaled = b.mul(centred, scale), b.mul(g, w)
        share = b.mul(normed, mean_of(b.mul(scaled, normed)))
        dx = b.mul(scale, b.sub(b.sub(scaled, mean_of(scaled)), share))
        sums = [b.block_sums(item, rows=rows, leading=leading) for item in (b.mul(g, normed), g)]
        return [b.cast(dx, element) if wide != element else dx, *sums, scale]

    return build


def activation_gradient(rows: int, leading: int, wide: str, element: str) -> Build:
    """What is computed of each element, beside the sums of it by blocks."""

    def build(b: Any, x: SSAValue, g: SSAValue, w: SSAValue) -> list[SSAValue]:
        x, g, w = (b.cast(value, wide) if wide != element else value for value in (x, g, w))
        dx = b.mul(b.tanh(x), b.add(g, w))
        sums = b.block_sums(dx, rows=rows, leading=leading)
        return [b.cast(dx, element) if wide != element else dx, sums]

    return build


MADE = {"norm": norm_gradient, "activation": activation_gradient}


def drawn(shape: Shape, leading: int, element: str, seed: int = 0) -> list[np.ndarray]:
    random, dtype = np.random.default_rng(seed), ELEMENT_TYPES[element].dtype
    shapes = (shape, shape, shape[leading:])
    return [np.asarray(random.standard_normal(one)).astype(dtype) for one in shapes]


def kernel(name: str, shape: Shape, leading: int, rows: int, element: str) -> FusedKernelOp:
    wide = element if element in ("f32", "f64") else "f32"
    types = [(element, shape), (element, shape), (element, shape[leading:])]
    return fused_kernel("row_blocks", types, MADE[name](rows, leading, wide, element))


def near(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """A check: each result is as near as its element type is exact, and finite."""
    for one, other in zip(got, want, strict=True):
        name = next(key for key in TOLERANCES if ELEMENT_TYPES[key].dtype == one.dtype)
        error = np.max(np.abs(one.astype(np.float64) - other), initial=0.0)
        assert error <= TOLERANCES[name] * max(np.max(np.abs(other), initial=0.0), 1.0), item.what


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("name", MADE)
def test_rows_and_sums_of_their_blocks_agree_with_the_interpreter(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shape, leading, rows in SHAPES:
        made = kernel(name, shape, leading, rows, element)
        what = f"{name} {shape} by {rows}"
        runs += forms_of(made, drawn(shape, leading, element), what)
        if name == "norm":
            entries = {"read_ahead": 0}
            made = kernel(name, shape, leading, rows, element)
            runs.append(Run(made, drawn(shape, leading, element), GPU_ON_CPU, entries, what))
    check_all(cl_queue, runs, near)


@pytest.mark.parametrize("form", ["cpu", "gpu"])
@pytest.mark.parametrize("name", MADE)
def test_kernels_of_rows_in_blocks_are_right_as_spirv(
    name: str,
    form: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    need_spirv(cl_queue)
    shape, leading, rows = (37, 65), 1, 8
    made, arrays = kernel(name, shape, leading, rows, "f32"), drawn(shape, leading, "f32")
    item = Run(made, arrays, FORMS[form], what=f"{name} {form}")
    outputs = item.outputs()
    signature = spirv_signature(lowered(made, item.device), item.device)
    launch(cl_queue, signature, arrays, outputs)
    near(item, outputs, expected(made, arrays))


def test_sums_of_integers_are_exact(cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: SSAValue) -> list[SSAValue]:
        return [b.mul(x, x), b.block_sums(x, rows=7), b.block_sums(b.mul(x, x), rows=7)]

    array = np.random.default_rng(1).integers(-90, 90, (50, 19), np.int32)
    runs = forms_of(fused_kernel("row_blocks", [("i32", array.shape)], build), [array])

    def same(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other, item.what)

    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_blocks_of_nothing_are_sums_of_nothing(shape: Shape, cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: SSAValue) -> list[SSAValue]:
        return [b.neg(x), b.block_sums(x, rows=3)]

    made = fused_kernel("row_blocks", [("f32", shape)], build)
    for device in FORMS.values():
        got = run(cl_queue, made, [np.zeros(shape, np.float32)], device)
        assert [one.shape for one in got] == [shape, (-(-shape[0] // 3), shape[1])]


@pytest.mark.parametrize("form", ["cpu", "gpu"])
def test_what_is_not_finite_stays_in_its_row_and_its_columns(form: str, cl_queue: Any) -> None:  # noqa: F811
    made = kernel("activation", (9, 12), 1, 4, "f32")
    x, g, w = drawn((9, 12), 1, "f32")
    g[8, 3] = np.nan
    dx, sums = run(cl_queue, made, [x, g, w], FORMS[form])
    assert np.argwhere(np.isnan(dx)).tolist() == [[8, 3]]
    assert np.argwhere(np.isnan(sums)).tolist() == [[2, 3]]


def test_long_columns_lose_no_more_than_short_chains_do(cl_queue: Any) -> None:  # noqa: F811
    """One chain of f32 over so many rows of about one would be off by hundreds of units."""
    rows = 20_000
    array = (1.0 + np.random.default_rng(2).random((rows, 8))).astype(np.float32)

    def build(b: Any, x: SSAValue) -> list[SSAValue]:
        return [b.neg(x), b.block_sums(x, rows=rows)]

    made = fused_kernel("row_blocks", [("f32", array.shape)], build)
    (_, total) = run(cl_queue, made, [array], GPU_ON_CPU)
    wanted = array.astype(np.float64).sum(0)
    assert np.max(np.abs(total[0] - wanted) / wanted) < 128 * 2.0**-24


def test_a_cpu_adds_up_no_more_rows_one_after_another_than_are_a_short_chain() -> None:
    made = fused_kernel("row_blocks", [("f32", (9000, 8))], lambda b, x: b.block_sums(x, rows=4096))
    with pytest.raises(VerifyException, match="blocks of 4096 rows"):
        schedule_for(made, DEVICES["cpu"])


def test_rows_that_do_not_fit_in_registers_have_no_schedule_on_a_gpu() -> None:
    made = kernel("norm", (64, 1 << 15), 1, 8, "f32")
    with pytest.raises(VerifyException, match="rows of 32768 elements are too long"):
        schedule_for(made, DEVICES["nvidia-h200"])
    assert schedule_for(kernel("activation", (64, 1 << 15), 1, 8, "f32"), DEVICES["nvidia-h200"])
