"""Rows put in the order of a digit: every template in both forms, against stable sorts by NumPy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.operations.rows.digits import digits_of, shifts_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.arrangements.split_digits import choose_digit_part
from mgn.passes.lower_kernels.order import digit_tiles
from mgn.passes.schedules import order
from mgn.passes.schedules.order import OrderVariant
from tests.passes.lower_kernels.order.test_order import same, with_ties
from tests.passes.lower_kernels.test_differential import ELEMENTS
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel, scheduled
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

SHAPES = [
    ((1,), 0), ((37,), 0), ((3, 64), 1), ((129, 2), 0), ((0, 3), 1), ((3, 0), 1), ((2, 5, 3), 1),
    ((5000,), 0), ((2, 2049), 1), ((4096,), 0),
]  # fmt: skip


def placed(element: str, shape: Sequence[int], axis: int, part: int = 0, **how: Any) -> list[Run]:
    """The values and their positions in the order of a digit, in parts that were counted or not."""
    values = with_ties(element, shape, len(shape) + shape[axis])
    line = [size if i == axis else 1 for i, size in enumerate(shape)]
    how, bits = {"bits": 8, **how, "axis": axis}, how.get("bits", 8)
    arrays, types = [values], [(element, tuple(shape))]
    if part:
        rows = np.moveaxis(
            digits_of(values, element, how["descending"], how["shift"], bits), axis, -1
        )
        rows = rows.reshape(-1, shape[axis])
        cuts = [rows[:, n : n + part] for n in range(0, shape[axis], part)]
        counts = [[(cut == digit).sum(-1) for cut in cuts] for digit in range(1 << bits)]
        sums = np.cumsum(np.moveaxis(np.array(counts), 2, 0), -1).astype(np.int32)
        arrays, types = [values, sums], [*types, ("i32", sums.shape)]

    def body(b: Any, x: Any, *sums: Any) -> list[Any]:
        places = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape)
        if part:
            return [b.place_digits(x, item, *sums, part=part, **how) for item in (x, places)]
        return [b.sort_digits(x, item, **how) for item in (x, places)]

    return forms_of(fused_kernel("order", types, body), arrays, f"{element} {shape} {part} {how}")


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("element", ELEMENTS)
def test_values_of_any_element_type_are_put_in_the_order_of_each_digit(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for shift in shifts_of(ELEMENT_TYPES[element]):
        runs += placed(element, (3, 100), 1, shift=shift, descending=shift % 16 == 0)
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_rows_of_any_shape_are_put_in_the_order_of_a_digit(
    shape: tuple[int, ...],
    axis: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = placed("f32", shape, axis, shift=24, descending=False)
    if shape[axis] > 1 and 0 not in shape:
        for part in (1 + shape[axis] // 3, shape[axis]):
            runs += placed("i32", shape, axis, part, shift=0, descending=True)
    check_all(cl_queue, runs, same)


RANKED = {"variant": OrderVariant.RANKS, "local": 64}


def test_sub_groups_that_count_in_order_put_rows_in_the_order_of_a_digit(
    monkeypatch: pytest.MonkeyPatch,
    cl_queue: Any,  # noqa: F811
) -> None:
    monkeypatch.setattr(order, "HELD_ELEMENTS", (8,))
    runs: list[Run] = []
    for element, shape, axis, part, bits in (
        ("f32", (9000,), 0, 4096, 8),
        ("i32", (2, 2049), 1, 700, 5),
        ("f64", (129, 2), 0, 50, 1),
    ):
        shift = shifts_of(ELEMENT_TYPES[element])[-1]
        how = {"shift": shift, "bits": bits, "descending": bits == 5}
        runs += [
            replace(item, schedule=RANKED)
            for item in placed(element, shape, axis, part, **how)
            if item.device.kind == "gpu"
        ]
    check_all(cl_queue, runs, same)


LARGE_GPU = DEVICES["nvidia-h200"]


def test_large_groups_put_rows_in_the_order_of_a_digit(
    monkeypatch: pytest.MonkeyPatch,
    cl_queue: Any,  # noqa: F811
) -> None:
    """Parts that are a tile, shorter than one, and longer. Where local memory is small, few digits
    leave room for a tile.
    """
    monkeypatch.setattr(order, "LARGER_GROUPS", (4,))
    schedule = {"variant": OrderVariant.RANKS, "largest_group": 1024}
    runs: list[Run] = []
    for shape, axis, part in (((40_000,), 0, 16_384), ((2, 9000), 1, 4096), ((4000, 2), 0, 4000)):
        for bits in (5, 8):
            items = placed("f32", shape, axis, part, shift=16, bits=bits, descending=False)
            for item in items:
                if item.device is LARGE_GPU or (item.device.kind == "gpu" and bits == 5):
                    runs.append(replace(item, schedule=schedule))
                    assert scheduled(item.kernel, item.device, **schedule)["items"] == 1024
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize(
    ("length", "items", "tile"),
    [(1 << 20, 256, 2048), (1 << 22, 256, 4096), (1 << 24, 1024, 16_384), (1 << 26, 1024, 16_384)],
)
def test_longer_rows_are_put_in_order_in_longer_tiles(length: int, items: int, tile: int) -> None:
    """A part of a row is a tile on a large GPU, as far as local memory goes."""
    part = choose_digit_part((length,), 0, LARGE_GPU)
    assert part == tile
    kernel = fused_kernel(
        "order",
        [("i32", (length,)), ("f32", (length,)), ("i32", (1, 256, -(-length // tile)))],
        lambda b, x, y, sums: [
            b.place_digits(x, item, sums, axis=0, part=tile, shift=8) for item in (x, y)
        ],
    )
    found = scheduled(kernel, LARGE_GPU)
    assert found["variant"] == OrderVariant.RANKS
    assert (found["items"], found["items"] * found["each"]) == (items, tile)


def test_what_is_too_large_for_local_memory_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
    cl_queue: Any,  # noqa: F811
) -> None:
    monkeypatch.setattr(digit_tiles, "STAGED_BYTES", 0)
    check_all(cl_queue, placed("f32", (2, 3000), 1, 2048, shift=16, descending=False), same)


@pytest.mark.parametrize("part", [100, 1000, 40000])
def test_digits_are_counted_in_each_part_of_a_row(part: int, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, axis in (((70000,), 0), ((2, 700), 1), ((300, 3), 0)):
        values = with_ties("f32", shape, part)
        how = {"axis": axis, "descending": False, "shift": 24, "part": part}
        kernel = fused_kernel(
            "order", [("f32", shape)], lambda b, x, how=how: b.digit_counts(x, **how)
        )
        runs += forms_of(kernel, [values], f"{shape} {part}")
        runs += [replace(runs[-1], schedule={"local": 48})]
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("element", ELEMENTS)
def test_all_digits_one_after_the_other_sort(element: str) -> None:
    """The operations' own meaning: what NumPy computes of them is a stable sort."""
    for descending in (False, True):
        values = with_ties(element, (500,), 3)
        order = np.arange(500)
        for shift in shifts_of(ELEMENT_TYPES[element]):
            digits = digits_of(values[order], element, descending, shift, 8)
            order = order[np.argsort(digits, kind="stable")]
        wide = values.astype(np.float64)
        wide = np.where(np.isnan(wide), np.inf, -wide if descending else wide)
        nan_last = np.isnan(values.astype(np.float64))
        if ELEMENT_TYPES[element].bits == 64 and not ELEMENT_TYPES[element].is_float:
            wide = ~values if descending else values
        np.testing.assert_array_equal(order, np.lexsort((wide, nan_last)))
