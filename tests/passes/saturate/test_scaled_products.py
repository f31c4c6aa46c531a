"""Products of many floats are infinite, zero or nan only where the whole product must be."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import Run, forms_of, fused_kernel, run_all
from tests.support.opencl_fixture import cl_queue  # noqa: F401

UNIT = 2.0**-24
TOLERANCE = {"f64": 2e-4, "f32": 1e-4, "f16": 1e-2, "bf16": 1e-2}
"""Of 1,000 factors: in f64, what f32 has where parts of the product leave the range of f64."""

LENGTHS = (1, 2, 3, 7, 17, 100, 1000, 4097)


def hard_rows(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """What parts of a product overflow, vanish or are special for, with what it is."""
    usual = np.random.default_rng(count).standard_normal(count)
    middle, odd = count // 2, np.arange(count) % 2 == 1

    def changed(**places: float) -> np.ndarray:
        row = usual.copy()
        for place, value in places.items():
            row[{"first": 0, "middle": middle, "last": -1}[place]] = value
        return row

    yield "usual", usual
    yield "an infinity", changed(middle=-np.inf)
    yield "a zero", changed(middle=0.0)
    yield "a zero below 0", changed(middle=-0.0)
    yield "a zero and an infinity", changed(first=0.0, last=np.inf)
    yield "nan", changed(last=np.nan)
    yield "large, then small", np.where(np.arange(count) < middle, 1e30, 1e-30)
    yield "large and small in turn", np.where(odd, -1e30, 1e-30)
    yield "large and subnormal in turn", np.where(odd, 1e38, 1e-40)
    yield "the largest", np.full(count, 3.4e38)
    yield "near one", np.full(count, 1.0001)


def table(count: int) -> tuple[list[str], np.ndarray]:
    names, rows = zip(*hard_rows(count), strict=True)
    return list(names), np.array(rows, np.float32)


def exact_product(row: np.ndarray) -> float:
    """The product in Python's numbers, a factor at a time, with an exponent that has no end."""
    number, exponent = 1.0, 0
    for value in map(float, row):
        number, carried = np.frexp(number * value)
        exponent += int(carried)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(number, max(min(exponent, 4000), -4000)))


def is_near(got: Any, wanted: Any, count: int) -> bool:
    wanted = np.asarray(wanted, np.float64)
    return bool(
        np.isclose(got, wanted, rtol=(count + 4) * UNIT, atol=2.0**-126, equal_nan=True)
        and (np.isnan(wanted) or np.signbit(got) == np.signbit(wanted))
    )


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("count", LENGTHS)
def test_the_definition_is_the_exact_product_rounded(count: int) -> None:
    names, rows = table(count)
    text = f"graph g(x: f32[{len(rows)}, {count}]) {{ return y = prod(x, axis = 1) }}"
    (graph,) = graphs_of(mgn.parse(text).lower())
    found = Interpreter().run(graph, {"x": rows})["y"]
    for name, row, got in zip(names, rows, found, strict=True):
        wanted = np.float64(np.float32(exact_product(row)))
        assert is_near(np.float64(got), wanted, 1), f"{name}: {got}, not {wanted}"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_all_forms_of_a_kernel_multiply_so(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    wanted: list[tuple[list[str], np.ndarray, int]] = []
    for count in (1, 3, 17, 1000, 4097):
        names, rows = table(count)
        products = np.float32([exact_product(row) for row in rows])
        doubles = rows.astype(np.float64)
        for axis, array in ((1, rows), (0, rows.T), (1, doubles), (0, doubles.T)):
            element = "f32" if array.dtype == np.float32 else "f64"
            kernel = fused_kernel(
                "reduction", [(element, array.shape)], lambda b, x, axis=axis: b.prod(x, axis=axis)
            )
            made = forms_of(kernel, [array], f"{element} {count} axis {axis}")
            runs += made
            wanted += [(names, products, count)] * len(made)
    for run, (got,), (names, products, count) in zip(
        runs, run_all(cl_queue, runs), wanted, strict=True
    ):
        for name, one, other in zip(names, got, products, strict=True):
            with np.errstate(over="ignore"):
                one = np.float64(np.float32(one))
            assert is_near(one, other, 2 * count), f"{run.what} {name}: {one}, not {other}"


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16"])
def test_a_device_gives_what_the_definition_does(element: str, device_target: str) -> None:
    _, rows = table(1000)
    text = (
        f"graph g(x: {element}[{len(rows)}, 1000]) {{ return a = prod(x, axis = 1), b = prod(x[1]),"
        " c = prod(x[6]), d = prod(x.T, axis = 0), e = x * prod(x, axis = 1, keepdims = true) }"
    )
    module = mgn.parse(text)
    (graph,) = graphs_of(module.lower())
    device = os.environ.get("MGN_TEST_DEVICE", "cpu")
    executable = mgn.compile(module, device=device, target=device_target)
    rows = rows.astype(ELEMENT_TYPES[element].dtype)
    wanted = Interpreter().run(graph, {"x": rows})
    for name, got in executable(x=rows).items():
        np.testing.assert_allclose(
            np.float64(got), np.float64(wanted[name]), TOLERANCE[element], 1e-37
        )


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_a_product_longer_than_a_split_keeps_its_infinity() -> None:
    row = np.random.default_rng(0).standard_normal(2**20).astype(np.float32)
    row[12345] = np.inf
    executable = mgn.compile(
        mgn.parse(f"graph g(x: f32[{row.size}]) {{ return y = prod(x) }}"),
        device=os.environ.get("MGN_TEST_DEVICE", "cpu"),
    )
    sign = -1 if np.count_nonzero(row < 0) % 2 else 1
    assert executable(x=row)["y"] == sign * np.inf


def test_a_product_in_f64_has_all_its_digits_where_its_parts_stay_in_range() -> None:
    row = np.random.default_rng(0).uniform(0.9, 1.1, 3000)
    device = os.environ.get("MGN_TEST_DEVICE", "cpu")
    program = mgn.parse("graph g(x: f64[3000]) { return y = prod(x) }")
    found = mgn.compile(program, device=device)(x=row)["y"]
    assert abs(float(found) / float(np.prod(row)) - 1) < 3000 * 2.0**-53
