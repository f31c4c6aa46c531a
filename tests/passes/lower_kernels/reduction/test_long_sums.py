"""Long sums: their error is that of short ones, in every form of a kernel and on every device.

Errors are relative to the sum of magnitudes, as the bound of docs/numerics.md is. Numbers of one
value make all roundings point the same way: where 1e6 of them are added up in one chain, three
digits are left.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgn
from benchmarks.contests.long_sums import Form, constant, error, forms, random
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.operations.products.contraction import MATMUL
from mgn.dialects.mgn.operations.rows.reductions import SUM
from mgn.passes.lower_kernels.core import long_totals
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
from tests.support.lower_fixture import Run, expected, forms_of, fused_kernel, run_all
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

RANDOM_BOUND, CONSTANT_BOUND = 1e-6, 1e-5
CHAIN_BOUND = 2e-5
"""Of equal numbers in a chain of up to 8192, the longest that a product adds up."""

RUNNING_SUM = OPERATIONS["running_sum"]

BOUNDARIES = (127, 128, 129, 130, 191, 192, 193, 4095, 4097, 8255, 8257, 12_289)
"""Lengths beside those at which loops are cut, where a turn takes one element."""

WIDE_BOUNDARIES = (8191, 8192, 8193, 8255, 8256, 8257, 16_385, 64 * 64 * 129 + 1, 600_011)
"""The same of turns that take 64, and some that are cut twice."""


@pytest.fixture(scope="module")
def device() -> str:
    """The device under test, if there is one."""
    name = os.environ.get("MGN_TEST_DEVICE", "cpu")
    try:
        choose(name)
    except DeviceError:
        pytest.skip("no such OpenCL device: install the extra 'cpu', or set MGN_TEST_DEVICE")
    return name


@pytest.mark.parametrize("form", forms(1_000_000), ids=lambda form: form.name)
def test_a_long_sum_is_as_exact_as_a_short_one(form: Form, device: str) -> None:
    executable = mgn.compile(mgn.parse(form.program), device=device)
    for draw, bound in ((random, RANDOM_BOUND), (constant, CONSTANT_BOUND)):
        if draw is constant and form.spreads:
            continue
        arrays = form.arrays(draw)
        (got,) = executable(**arrays).values()
        want = form.numpy(*(array.astype(np.float64) for array in arrays.values()))
        assert error(got, want) < bound, (form.program, draw.__name__)


@pytest.mark.long
def test_a_sum_of_1e8_terms_has_seven_digits(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGN_GUARD", "off")  # zones are read back with what lies between
    count = 100_000_000
    x = np.random.default_rng(0).random(count, np.float32)
    program = f"graph g(x: f32[{count}]) {{ return y = sum(x) }}"
    got = mgn.compile(mgn.parse(program), device=device)(x=x)
    assert error(got["y"], x.sum(dtype=np.float64)) < 2e-7


def test_a_variance_beside_a_far_mean_is_no_further_off_than_the_mean_allows(device: str) -> None:
    """A mean that is off by d adds d² to the variance; here d is a unit or two of 1e4 in f32."""
    x = np.float32(1e4 + 1e-2 * np.random.default_rng(0).standard_normal(4_000_000))
    program = f"graph g(x: f32[{x.size}]) {{ return y = var(x), z = var(x - 9999.0) }}"
    got = mgn.compile(mgn.parse(program), device=device)(x=x)
    want = x.astype(np.float64).var()
    assert abs(got["y"] - want) < (2 * np.spacing(np.float32(1e4))) ** 2
    assert error(got["z"], want) < 1e-5


# Kernels


Build = Callable[..., Any]


def signed(*shape: int) -> np.ndarray:
    """Numbers of both signs and of magnitudes that differ by 2^20."""
    generator = np.random.default_rng(sum(shape))
    return np.float32(generator.standard_normal(shape) * 2.0 ** generator.integers(-10, 10, shape))


def positive(*shape: int) -> np.ndarray:
    return np.full(shape, 0.1, np.float32)


def kernels_of(
    kind: str,
    build: Build,
    shapes: Sequence[Sequence[tuple[int, ...]]],
    draws: Sequence[Callable[..., np.ndarray]] = (),
) -> list[Run]:
    """Runs of a kernel in all forms, on signed and on equal numbers of each of some shapes."""
    found: list[Run] = []
    for shape in shapes:
        types = [("f32", own) for own in shape]
        for draw in draws or (signed, positive):
            arrays = [draw(*own) for own in shape]
            found += forms_of(fused_kernel(kind, types, build), arrays, f"{shape} {draw.__name__}")
    return found


def check(queue: Any, runs: Sequence[Run], bound: float = CONSTANT_BOUND) -> None:
    """Each result is right but for a few units of roundoff of the sum of magnitudes."""
    for item, got in zip(runs, run_all(queue, runs), strict=True):
        want = expected(item.kernel, item.arrays)
        magnitudes = expected(item.kernel, [np.abs(array) for array in item.arrays])
        for one, other, size in zip(got, want, magnitudes, strict=True):
            worst = float(np.max(np.abs(one.astype(np.float64) - other) / size))
            assert worst < bound, (item.what, worst)


def test_sums_of_rows_are_right_at_the_boundaries_of_blocks(cl_queue: Any) -> None:  # noqa: F811
    shapes = [[(2, n)] for n in WIDE_BOUNDARIES]
    check(cl_queue, kernels_of("reduction", lambda e, x: e.sum(x, axis=[1]), shapes))


def test_sums_of_columns_are_right_at_the_boundaries_of_blocks(cl_queue: Any) -> None:  # noqa: F811
    shapes = [[(n, 3)] for n in (*BOUNDARIES, 600_011)]
    check(cl_queue, kernels_of("reduction", lambda e, x: e.sum(x, axis=[0]), shapes))


def test_running_sums_are_right_at_the_boundaries_of_blocks(cl_queue: Any) -> None:  # noqa: F811
    along = [[(2, n)] for n in BOUNDARIES]
    down = [[(n, 3)] for n in (*BOUNDARIES, 300_007)]
    runs = kernels_of("scan", lambda e, x: e.running_sum(x, axis=1), along)
    runs += kernels_of("scan", lambda e, x: e.running_sum(x, axis=0), down)
    check(cl_queue, runs)


def test_a_maximum_beside_a_long_sum_is_one_of_the_numbers(cl_queue: Any) -> None:  # noqa: F811
    def build(e: Any, x: Any) -> list[Any]:
        return [e.sum(x, axis=[1]), e.max_reduce(x, axis=[1]), e.min_reduce(x, axis=[1])]

    runs = kernels_of("reduction", build, [[(2, n)] for n in (8257, 20_000)])
    for item, got in zip(runs, run_all(cl_queue, runs), strict=True):
        (x,) = item.arrays
        np.testing.assert_array_equal(got[1], x.max(1), item.what)
        np.testing.assert_array_equal(got[2], x.min(1), item.what)


def test_integers_are_added_up_to_the_bit(cl_queue: Any) -> None:  # noqa: F811
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (2, 9001), np.int32)
    kernel = fused_kernel("reduction", [("i32", x.shape)], lambda e, x: e.sum(x, axis=[1]))
    for got in run_all(cl_queue, forms_of(kernel, [x])):
        np.testing.assert_array_equal(got[0], x.sum(1, dtype=np.int32))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (3, 5), (9, 8), (40, 33)])
def test_products_over_a_long_axis_are_right(
    cl_queue: Any,  # noqa: F811
    sizes: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, columns = sizes
    monkeypatch.setattr(long_totals, "BLOCK", 2)
    runs: list[Run] = []
    for turned, depths in ((False, (8193, 40_009)), (True, (10_251,))):

        def build(e: Any, a: Any, b: Any, turned: bool = turned) -> Any:
            return e.matmul(a, b, transpose_b=turned)

        for depth in depths:
            right = (columns, depth) if turned else (depth, columns)
            draw = signed if turned else positive
            runs += kernels_of("contraction", build, [[(rows, depth), right]], [draw])
    check(cl_queue, runs, CHAIN_BOUND)


def test_what_follows_a_product_over_a_long_axis_is_right(
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An epilogue of many operations takes the sums from memory; chains end with the last block."""
    monkeypatch.setattr(long_totals, "BLOCK", 2)

    def build(e: Any, a: Any, b: Any) -> Any:
        y = e.matmul(a, b)
        return e.add(e.mul(e.max(e.add(y, y), y), 2.0), e.abs(y))

    shapes = [[(9, n), (n, 24)] for n in (10_240, 16_384, 40_009)]
    runs = kernels_of("contraction", build, shapes, [positive])
    check(cl_queue, [item for item in runs if item.device.is_cpu], CHAIN_BOUND)


def test_integers_are_multiplied_to_the_bit_over_a_long_axis(cl_queue: Any) -> None:  # noqa: F811
    generator = np.random.default_rng(0)
    for rows in (1, 3, 9):
        a = generator.integers(-9, 9, (rows, 10_251), np.int32)
        b = generator.integers(-9, 9, (10_251, 8), np.int32)
        types = [("i32", a.shape), ("i32", b.shape)]
        kernel = fused_kernel("contraction", types, lambda e, a, b: e.matmul(a, b))
        for got in run_all(cl_queue, forms_of(kernel, [a, b])):
            np.testing.assert_array_equal(got[0], a @ b)


def test_half_precision_is_rounded_once(cl_queue: Any) -> None:  # noqa: F811
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        x = np.full((2, 20_001), 0.1).astype(dtype)
        kernel = fused_kernel("reduction", [(name, x.shape)], lambda e, x: e.sum(x, axis=[1]))
        for got in run_all(cl_queue, forms_of(kernel, [x])):
            want = x.astype(np.float64).sum(1).astype(dtype)
            np.testing.assert_array_equal(got[0].astype(np.float64), want.astype(np.float64))


SPECIAL = (np.inf, -np.inf, np.nan)


def test_infinities_and_nan_pass_through_blocks(cl_queue: Any) -> None:  # noqa: F811
    length, places = 12_289, (0, 63, 64, 4095, 8192, 12_288)
    x = np.ones((len(places) * len(SPECIAL) + 1, length), np.float32)
    for row, (place, value) in enumerate((p, v) for p in places for v in SPECIAL):
        x[row, place] = value
    x[-1, 5], x[-1, -5] = np.inf, -np.inf
    reduced = fused_kernel("reduction", [("f32", x.shape)], lambda e, x: e.sum(x, axis=[1]))
    runs = forms_of(reduced, [x])
    runs += forms_of(
        fused_kernel("reduction", [("f32", x.T.shape)], lambda e, x: e.sum(x, axis=[0])),
        [np.ascontiguousarray(x.T)],
    )
    ones = np.ones((length, 8), np.float32)
    types = [("f32", x.shape), ("f32", ones.shape)]
    product = fused_kernel("contraction", types, lambda e, a, b: e.matmul(a, b))
    runs += forms_of(product, [x, ones])
    want = expected(reduced, [x])[0]
    for item, got in zip(runs, run_all(cl_queue, runs), strict=True):
        found = got[0] if got[0].ndim == 1 else got[0][:, 0]
        np.testing.assert_array_equal(found, want, item.what)
    scan = fused_kernel("scan", [("f32", x.shape)], lambda e, x: e.running_sum(x, axis=1))
    sums = expected(scan, [x])[0]
    for got in run_all(cl_queue, forms_of(scan, [x])):
        np.testing.assert_array_equal(got[0], sums)


# The definition


def test_the_definition_adds_up_in_f64_whatever_the_axis() -> None:
    x = np.full((1_000_000, 3), 0.1, np.float32)
    for spec, want in (
        (SUM, x.sum(0, np.float64)),
        (RUNNING_SUM, x.cumsum(0, np.float64)),
    ):
        assert spec.evaluate is not None
        axis = 0 if spec is RUNNING_SUM else (0,)
        how = {} if spec is RUNNING_SUM else {"keepdims": False}
        got = spec.evaluate(x, axis=axis, **how)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want.astype(np.float32))
    assert MATMUL.evaluate is not None
    ones = np.ones((1, x.shape[0]), np.float32)
    got = MATMUL.evaluate(ones, x, transpose_a=False, transpose_b=False)
    np.testing.assert_array_equal(got[0], x.sum(0, np.float64).astype(np.float32))
