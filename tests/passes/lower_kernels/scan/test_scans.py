"""Scans: every variant in both forms, against running sums and products in f64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mgn.dialects.fusion import ScheduleAttr
from mgn.dialects.kernel import DEVICES
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.schedules.choose import schedules_of
from tests.passes.lower_kernels.test_differential import EPSILON, assert_near, draw
from tests.support.lower_fixture import (
    GPU_ON_CPU,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    pieces,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

SHAPES = [
    ((1,), 0), ((5,), 0), ((37,), 0), ((1000,), 0), ((5000,), 0), ((3, 64), 1), ((7, 129), 1),
    ((2, 5, 260), 2), ((300, 4), 1), ((9, 1), 1), ((0, 5), 1), ((4, 0), 1), ((70, 3), 0),
    ((5, 6, 7), 1), ((33, 1, 8), 0), ((2, 4100), 1), ((4, 16, 1), 1), ((1, 511), 1), ((64, 32), 1),
    ((6, 1024), 1),
]  # fmt: skip


def values_of(name: str, element: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """Random terms; factors near 1."""
    if name.startswith("running_sum") or not ELEMENT_TYPES[element].is_float:
        return draw(element, tuple(shape), seed)
    random = np.random.default_rng(seed)
    return np.exp2(random.uniform(-0.05, 0.05, shape)).astype(ELEMENT_TYPES[element].dtype)


def runs_of(name: str, element: str, shape: Sequence[int], axis: int) -> list[Run]:
    def build(b: Any, x: Any) -> Any:
        total = b.call(name, x, axis=axis)
        return b.add(total, x), total

    kernel = fused_kernel("scan", [(element, tuple(shape))], build)
    what = f"{element} {axis} {name} {shape}"
    return forms_of(kernel, [values_of(name, element, shape, len(shape))], what)


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    element, axis, name = run.what.split()[:3]
    wide = np.abs(run.arrays[0].astype(np.float64))
    terms, unit = wide.shape[int(axis)], EPSILON.get("f64" if element == "f64" else "f32", 0)
    for one, other in zip(got, want, strict=True):
        size = np.cumsum(wide, int(axis)) if name.startswith("running_sum") else np.abs(other)
        bound = (terms + 1) * unit * (size + 4) + 2 * EPSILON.get(element, 0) * (1 + np.abs(other))
        assert_near(one, other, bound, run.what)


@pytest.mark.parametrize("name", ["running_sum", "running_product"])
def test_scans_of_any_shape_are_right(name: str, cl_queue: Any) -> None:  # noqa: F811
    runs = [run for shape, axis in SHAPES for run in runs_of(name, "f32", shape, axis)]
    check_all(cl_queue, runs, check)


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "u32"])
def test_scans_of_any_element_type_are_right(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shape, axis in (((3, 300), 1), ((1030,), 0), ((40, 5), 0)):
        for name in ("running_sum", "running_product"):
            runs += runs_of(name, element, shape, axis)
    check_all(cl_queue, runs, check)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("element", ["f32", "f16", "i32"])
@pytest.mark.parametrize("name", ["running_sum_in_parts", "running_product_in_parts"])
def test_parts_begin_with_what_is_given_for_them(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shape, axis, part in (
        ((100,), 0, 16), ((3, 70), 1, 32), ((2, 1000), 1, 999), ((64, 3), 0, 10),
        ((5, 512), 1, 256), ((2, 9000), 1, 4096), ((3, 6), 1, 2),
    ):  # fmt: skip
        given = [-(-size // part) if i == axis else size for i, size in enumerate(shape)]
        for totals in (False, True):
            kernel = fused_kernel(
                "scan",
                [(element, shape), (element, tuple(given))],
                lambda b, x, y, a=axis, p=part, t=totals: b.call(
                    name, x, y, axis=a, part=p, totals=t
                ),
            )
            arrays = [values_of(name, element, size, 3) for size in (shape, given)]
            runs += forms_of(kernel, arrays, f"{element} {axis} {name} {shape} {part}")
    check_all(cl_queue, runs, check)


def test_a_group_adds_up_the_totals_of_many_parts(cl_queue: Any) -> None:  # noqa: F811
    shape, part = (2, 1500 * 4 + 3), 4
    kernel = fused_kernel(
        "scan",
        [("f32", shape), ("f32", (2, 1501))],
        lambda b, x, y: b.running_sum_in_parts(x, y, axis=1, part=part, totals=True),
    )
    arrays = [values_of("running_sum", "f32", size, 4) for size in (shape, (2, 1501))]
    runs = forms_of(kernel, arrays, f"f32 1 running_sum_in_parts {shape}")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("length", [2048, 8192, 8196, 65536])
def test_pieces_of_a_trip_follow_one_another(length: int, cl_queue: Any) -> None:  # noqa: F811
    kernel = fused_kernel("scan", [("f32", (2, length))], lambda b, x: b.running_sum(x, axis=1))
    (chosen, *_) = schedules_of(kernel, GPU_ON_CPU)
    assert (chosen.variant, chosen.numbers["pieces"] > 1) == ("groups", True)
    arrays = [values_of("running_sum", "f32", (2, length), 5)]
    what = f"f32 1 running_sum {length}"
    check_all(cl_queue, [Run(kernel, arrays, GPU_ON_CPU, what=what)], check)


def test_a_group_scans_special_values_as_one_work_item_does(cl_queue: Any) -> None:  # noqa: F811
    x = np.ones((4, 600), np.float32)
    x[0, 300], x[1, 17], x[2, 500] = np.inf, np.nan, -np.inf
    x[2, 550] = np.inf
    kernel = fused_kernel("scan", [("f32", x.shape)], lambda b, x: b.running_sum(x, axis=1))
    assert schedules_of(kernel, GPU_ON_CPU)[0].variant == "groups"
    check_all(cl_queue, [Run(kernel, [x], GPU_ON_CPU)], lambda run, got, want: same(got, want))


def same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(got[0], want[0].astype(np.float32))


def test_a_long_row_is_scanned_in_parts_on_a_gpu() -> None:
    kernel = fused_kernel(
        "scan", [("f32", (1 << 22,))], lambda b, x: b.exp(b.running_sum(b.abs(x), axis=0))
    )
    kinds = [item.kind.data for item in pieces(kernel)]
    assert kinds == ["reduction", "scan"]


def test_along_columns_what_was_before_each_part_has_a_kernel() -> None:
    kernel = fused_kernel("scan", [("f32", (4096, 3))], lambda b, x: b.running_sum(x, axis=0))
    assert [item.kind.data for item in pieces(kernel)] == ["reduction", "scan", "scan"]


def test_where_there_are_no_rows_none_is_cut() -> None:
    for device in (DEVICES["cpu"], DEVICES["nvidia-h200"]):
        kernel = fused_kernel("scan", [("f32", (0, 70_000))], lambda b, x: b.running_sum(x, axis=1))
        assert len(pieces(kernel, device)) == 1


def test_many_rows_are_scanned_by_one_kernel() -> None:
    kernel = fused_kernel("scan", [("f32", (4096, 1024))], lambda b, x: b.running_sum(x, axis=1))
    chosen: ScheduleAttr = schedules_of(kernel, DEVICES["nvidia-h200"])[0].attribute
    assert chosen.values["variant"] == "groups"
    assert len(pieces(kernel)) == 1
