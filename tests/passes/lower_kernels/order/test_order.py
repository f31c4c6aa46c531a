"""Values put in the order of keys: every template in both forms, against stable sorts by NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import ELEMENT_TYPES
from tests.passes.lower_kernels.test_differential import ELEMENTS, draw
from tests.support.lower_fixture import FORMS, Run, check_all, forms_of, fused_kernel, scheduled
from tests.support.opencl_fixture import build_unoptimised, cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, -np.nan, 0.0, -0.0, 2.0]


def with_ties(element: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """Random numbers of which many are equal, and special ones of floats."""
    values = draw(element, tuple(shape), seed)
    if ELEMENT_TYPES[element].is_float and values.size:
        values = np.round(values * 4).astype(values.dtype)
        places = np.random.default_rng(seed).integers(0, values.size, len(SPECIAL))
        values.reshape(-1)[places] = np.array(SPECIAL).astype(values.dtype)
    return values


def same(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """A check: the same numbers, of which a zero has its sign."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64), run.what)
        if one.dtype.kind == "f":
            known = ~np.isnan(one)
            assert np.array_equal(np.signbit(one)[known], np.signbit(other)[known]), run.what


def both(b: Any, x: Any, shape: Sequence[int], **how: Any) -> tuple[Any, Any]:
    """The values and their positions, by one kernel."""
    axis = how["axis"]
    line = [size if i == axis else 1 for i, size in enumerate(shape)]
    places = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape)
    return b.sort_runs(x, x, **how), b.sort_runs(x, places, **how)


def runs_with(element: str, shape: Sequence[int], **how: Any) -> list[Run]:
    kernel = fused_kernel("order", [(element, tuple(shape))], lambda b, x: both(b, x, shape, **how))
    values = with_ties(element, shape, len(shape) + shape[how["axis"]])
    return forms_of(kernel, [values], f"{element} {shape} {how}")


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("element", ELEMENTS)
def test_values_of_any_element_type_are_sorted_stably(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shape, axis in (((37,), 0), ((3, 20), 1), ((70, 2), 0), ((2, 5, 3), 1)):
        for descending in (False, True):
            runs += runs_with(element, shape, axis=axis, descending=descending)
    check_all(cl_queue, runs, same)


SHAPES = [
    ((1,), 0), ((2,), 0), ((7, 1), 1), ((1, 513), 1), ((4, 128), 1), ((100, 3), 1), ((0, 3), 1),
    ((3, 0), 1), ((2, 2, 2, 9), 3), ((9, 2, 2), 0), ((2049,), 0), ((5, 700), 1), ((33, 31), 0),
]  # fmt: skip


@pytest.mark.usefixtures("also_as_spirv")
def test_rows_of_any_shape_are_sorted(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, axis in SHAPES:
        runs += runs_with("f32", shape, axis=axis)
        if shape[axis]:
            first = max(1, shape[axis] // 3)
            runs += runs_with("f32", shape, axis=axis, descending=True, first=first)
    check_all(cl_queue, runs, same)


def test_a_cpu_sorts_as_many_rows_as_a_vector_has_lanes(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for element, shape, axis, how in (
        ("f32", (11, 20), 1, {}),
        ("bf16", (18, 9), 0, {"descending": True}),
        ("u32", (8, 16), 1, {"first": 5}),
        ("i32", (3, 3, 2), 1, {}),
    ):
        kernel = fused_kernel(
            "order",
            [(element, shape)],
            lambda b, x, shape=shape, axis=axis, how=how: both(b, x, shape, axis=axis, **how),
        )
        assert scheduled(kernel, FORMS["cpu"])["variant"] == "lanes"
        runs += forms_of(kernel, [with_ties(element, shape, axis)], f"{element} {shape}")
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("element", ["f32", "f64", "u8"])
def test_each_run_of_a_row_is_sorted_by_itself(element: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, axis, run in (((100,), 0, 16), ((3, 70), 1, 64), ((65, 2), 0, 32), ((5, 8), 1, 8)):
        runs += runs_with(element, shape, axis=axis, run=run)
    check_all(cl_queue, runs, same)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("element", ["f32", "i64", "bf16", "bool"])
def test_runs_in_order_are_merged_stably(element: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, ordered, run, descending in (
        ((100,), 64, 0, False), ((3, 129), 32, 64, True), ((2, 31), 16, 0, True),
        ((1000,), 8, 16, False), ((4, 40), 32, 64, False), ((33,), 32, 0, False),
    ):  # fmt: skip
        axis = len(shape) - 1
        values = with_ties(element, shape, ordered)
        how = {"axis": axis, "descending": descending}
        spec = OPERATIONS["sort_runs"]
        assert spec.evaluate is not None
        parts = {**how, "run": ordered, "ordered": 0, "first": 0}
        places = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape)
        arrays = [np.asarray(spec.evaluate(values, item, **parts)) for item in (values, places)]
        merged = fused_kernel(
            "order",
            [(element, shape), ("i32", shape)],
            lambda b, x, p, n=run, m=ordered, how=how: [
                b.sort_runs(x, y, run=n, ordered=m, **how) for y in (x, p)
            ],
        )
        runs += forms_of(merged, arrays, f"{element} {shape} {ordered}")
    check_all(cl_queue, runs, same)


def arrangements(values: np.ndarray, axis: int) -> dict[str, np.ndarray]:
    """The same values in rows of any order, and in rows that rise and fall."""
    rising = np.sort(values, axis)
    falling = np.ascontiguousarray(np.flip(rising, axis))
    return {"random": values, "rising": rising, "falling": falling}


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("element", ["f32", "i64", "u8"])
def test_the_first_few_of_long_rows_are_found_whatever_their_order(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shape, first in (((1, 5000), 3), ((2, 9000), 700), ((1, 16384), 64)):
        order = {"axis": 1, "descending": True, "first": first}
        kernel = fused_kernel(
            "order", [(element, shape)], lambda b, x, s=shape, o=order: both(b, x, s, **o)
        )
        for how, values in arrangements(with_ties(element, shape, first), 1).items():
            runs += forms_of(kernel, [values], f"{element} {shape} {how}")
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_cpu_passes_by_vectors_that_are_behind_the_first_few(
    element: str,
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if element != "f32":
        build_unoptimised(monkeypatch)
    runs: list[Run] = []
    for shape, axis, first in (
        ((2, 2500), 1, 1), ((3, 701), 1, 7), ((1, 16), 1, 15), ((2, 3000), 1, 17), ((900, 2), 0, 2),
    ):  # fmt: skip
        values = with_ties(element, shape, first)
        equal = np.where(np.arange(shape[axis]) < 3, values[:1, :1], values[-1:, -1:])
        equal = np.broadcast_to(np.moveaxis(equal, -1, axis), shape)
        arrays = {**arrangements(values, axis), "equal": np.ascontiguousarray(equal)}
        for descending in (False, True):
            order = {"axis": axis, "descending": descending, "first": first}
            kernel = fused_kernel(
                "order", [(element, shape)], lambda b, x, s=shape, o=order: both(b, x, s, **o)
            )
            for how, array in arrays.items():
                what = f"{element} {shape} {order} {how}"
                runs.append(Run(kernel, [array], FORMS["cpu"], {"variant": "selections"}, what))
    check_all(cl_queue, runs, same)
