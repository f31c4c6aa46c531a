"""Rows that are computed once for all columns of a tile, and lie whole in local memory.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers. Sums of
small integers are exact. A norm of rows of powers of two gives integers, too: its kernels are
compared bit by bit. Of random rows a norm may round to the neighbouring number of the unit's type.
"""

from typing import Any

import numpy as np
import pytest

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import Device
from mgn.passes.lower_kernels.staging import kept_rows
from mgn.passes.schedules.product.matrix_tiles import KEPT, KEPT_SHAPES
from tests.passes.lower_kernels.product.test_normed_products import layer_before, rms_before
from tests.passes.lower_kernels.product.test_tensor_product import (
    TYPES,
    exact_run,
    product_of,
    rounding,
)
from tests.support.lower_fixture import (
    Run,
    check_all,
    fused_kernel,
    run_all,
    same_values,
)
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SIZES = [(32, 96, 64), (5, 6, 14), (66, 84, 264), (34, 132, 24), (33, 98, 130), (130, 66, 2)]
FORMS = {"rms": rms_before, "layer": layer_before}
ULP = {"bf16": 2.0**-7, "f16": 2.0**-10, "tf32": 2.0**-10}
"""The distance of neighbouring numbers of a type, relative to them, at most."""


def tiling_of(number: int, unit: Device) -> dict[str, int]:
    """A tiling of the table that the device's groups are large enough for."""
    fit = [shape.numbers for shape in KEPT_SHAPES if items_of(shape.numbers) <= unit_items(unit)]
    return {**fit[number % len(fit)], KEPT: 1}


def items_of(numbers: Any) -> int:
    return 32 * numbers["tile_down"] * numbers["tile_across"] * numbers["slices"]


def unit_items(unit: Device) -> int:
    return unit.max_work_group_size


@pytest.mark.parametrize("name", TYPES)
def test_computed_rows_are_kept(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    runs = [
        exact_run(
            product_of(name, sizes, (False, number % 2 == 0), computed=True),
            device,
            sizes,
            matrix=name,
            **tiling_of(number + list(TYPES).index(name), device),
        )
        for number, sizes in enumerate(SIZES)
    ]
    check_all(cl_queue, runs, same_values)


def test_long_rows_are_computed_in_a_loop(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_rows, "AT_ONCE", 1)
    kernel = product_of("bf16", (32, 32, 500), (False, True), computed=True)
    entries = tiling_of(0, device) | {"chunks": 8}
    check_all(cl_queue, [exact_run(kernel, device, "long", matrix="bf16", **entries)], same_values)


def normed(form: Any, name: str, sizes: tuple[int, int, int]) -> FusedKernelOp:
    """A product of rows that a norm comes before, rounded for a unit."""
    rows, columns, depth = sizes
    round_ = rounding(name)

    class Rounding:
        """Calls of the program's builder; the left operand of a product is rounded."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def matmul(self, a: Any, b: Any, **how: Any) -> Any:
            return self.inner.matmul(round_(self.inner, a), round_(self.inner, b), **how)

    shapes = [
        ("f32", shape) for shape in ((rows, depth), (depth,), (columns, depth), (rows, columns))
    ]
    return fused_kernel("contraction", shapes, lambda b, *x: form(Rounding(b), *x))


@pytest.mark.parametrize("name", TYPES)
def test_a_norm_of_powers_of_two_gives_exact_sums(
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for number, sizes in enumerate(SIZES):
        rows, columns, depth = sizes
        draw = np.random.default_rng(number)
        powers = 2.0 ** draw.integers(10, 14, (rows, 1))
        x = powers * draw.choice([-1.0, 1.0], (rows, depth))
        arrays = [
            x,
            *(draw.integers(-4, 5, s) for s in ((depth,), (columns, depth), (rows, columns))),
        ]
        arrays = [array.astype(np.float32) for array in arrays]
        tiling = {"matrix": name, **tiling_of(number, device)}
        runs.append(Run(normed(rms_before, name, sizes), arrays, device, tiling, str(sizes)))
    for item, (got,) in zip(runs, run_all(cl_queue, runs), strict=True):
        x, scale, weights, added = item.arrays
        np.testing.assert_array_equal(got, np.sign(x) * scale @ weights.T + added, item.what)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", TYPES)
def test_norms_of_random_rows_are_within_a_rounding(
    name: str,
    form: Any,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for number, sizes in enumerate(SIZES[:3]):
        rows, columns, depth = sizes
        draw = np.random.default_rng(number)
        shapes = ((rows, depth), (depth,), (columns, depth), (rows, columns))
        arrays = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
        tiling = {"matrix": name, **tiling_of(number, device)}
        runs.append(Run(normed(form, name, sizes), arrays, device, tiling, str(sizes)))

    def within_a_rounding(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        x, scale, weights, _ = item.arrays
        depth = x.shape[1]
        largest = np.sqrt(depth) * np.abs(scale)
        bound = ULP[name] * (largest @ np.abs(weights).T) / np.sqrt(depth)
        error = np.abs(got[0] - want[0])
        assert (error <= 4 * bound + 1e-5).all(), (item.what, (error / bound).max())

    check_all(cl_queue, runs, within_a_rounding)
