"""Sorts by digits of rows that may be in order already: falls are counted, and what is told that a
row has none leaves it alone, in every form.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.dialects.mgn.operations.rows.digits import digits_of, shifts_of
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.schedules.order import OrderVariant
from tests.passes.lower_kernels.order.test_order import same, with_ties
from tests.passes.lower_kernels.test_differential import ELEMENTS
from tests.support.lower_fixture import FORMS, Run, check_all, forms_of, fused_kernel, run_all
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

RANKED = {"variant": OrderVariant.RANKS, "local": 64}
GARBAGE = 1_000_000_007


def sums_of(values: np.ndarray, element: str, axis: int, part: int, shift: int) -> np.ndarray:
    """Running sums, along parts, of how often each digit occurs in each row."""
    rows = np.moveaxis(digits_of(values, element, False, shift, 8), axis, -1)
    rows = rows.reshape(-1, values.shape[axis])
    cuts = [rows[:, n : n + part] for n in range(0, rows.shape[1], part)]
    counts = [[(cut == digit).sum(-1) for cut in cuts] for digit in range(256)]
    return np.cumsum(np.moveaxis(np.array(counts), 2, 0), -1).astype(np.int32)


def counting(values: np.ndarray, element: str, axis: int, **how: Any) -> list[Run]:
    """Counts of digits with falls, in every form and in groups of another size."""
    kernel = fused_kernel(
        "order",
        [(element, values.shape)],
        lambda b, x: b.digit_counts(x, axis=axis, with_falls=True, **how),
    )
    runs = forms_of(kernel, [values], f"{element} {values.shape} {how}")
    return [
        *runs,
        replace(runs[-1], schedule={"local": 48}),
        replace(runs[-1], schedule={"local": 8}),
    ]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("element", ELEMENTS)
def test_falls_of_any_element_type_are_counted(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shift, runs = shifts_of(ELEMENT_TYPES[element])[-1], list[Run]()
    for descending in (False, True):
        values = with_ties(element, (3, 301), 7)
        runs += counting(values, element, 1, shift=shift, part=100, descending=descending)
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("part", [100, 4096, 40000])
def test_a_fall_is_counted_wherever_it_is(part: int, cl_queue: Any) -> None:  # noqa: F811
    """At the first and the last element, and where a part ends and the next one begins."""
    rows = np.sort(np.random.default_rng(part).integers(-9, 1000, (7, 9000)).astype(np.int32), 1)
    for row, place in ((1, 1), (2, 8999), (3, part), (4, part - 1), (5, part + 1)):
        if place < 9000:
            rows[row, place] = rows[row, place - 1] - 1
    rows[6] = 5
    runs = counting(rows, "i32", 1, part=part)
    runs += counting(np.ascontiguousarray(rows.T), "i32", 0, part=part, shift=8)
    runs += counting(rows[1], "i32", 0, part=part)
    check_all(cl_queue, runs, same)


def told(shape: Sequence[int], axis: int, part: int, falls: Sequence[int], more: bool) -> list[Run]:
    """A kernel that puts values and positions in the order of a digit, and one that counts the
    digit. Rows without falls have sums that are none. With `more` each kernel has a result that is
    defined for these rows, too.
    """
    values = with_ties("i32", shape, len(shape) + shape[axis])
    line = [size if i == axis else 1 for i, size in enumerate(shape)]
    kept = [1 if i == axis else size for i, size in enumerate(shape)]
    number = np.array(falls, np.int32)
    sums = np.where(number[:, None, None] == 0, GARBAGE, sums_of(values, "i32", axis, part, 0))
    how = {"axis": axis, "part": part}

    def place(b: Any, x: Any, sums: Any, falls: Any) -> list[Any]:
        places = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape)
        found = [b.place_digits(x, item, sums, falls, **how) for item in (x, places)]
        if not more:
            return found
        test = b.cast(b.reshape(falls, kept), "bool")
        return [b.pick(test, found[0], x), b.pick(test, found[1], places), b.neg(x)]

    def count(b: Any, x: Any, falls: Any) -> Any:
        found = b.digit_counts(x, falls, with_falls=True, **how)
        if not more:
            return found
        test = b.cast(b.reshape(falls, [len(number), 1, 1]), "bool")
        return b.pick(test, found, b.cast(b.iota([1, 257, 1], axis=1, T="i32"), "i32"))

    types = [("i32", tuple(shape)), ("i32", sums.shape), ("i32", number.shape)]
    placing = forms_of(fused_kernel("order", types, place), [values, sums.astype(np.int32), number])
    placing += [replace(placing[-1], schedule=RANKED)]
    counts = fused_kernel("order", [types[0], types[2]], count)
    runs = [*placing, *forms_of(counts, [values, number])]
    return [replace(run, what=f"{run.kernel.name} {shape} {falls}") for run in runs]


CASES = [((9000,), 0, 4096, [3]), ((2, 2049), 1, 700, [1, 5]), ((129, 2), 0, 50, [2, 7])]


@pytest.mark.parametrize(("shape", "axis", "part", "falls"), CASES)
def test_rows_that_have_falls_are_put_in_order(
    shape: tuple[int, ...],
    axis: int,
    part: int,
    falls: list[int],
    cl_queue: Any,  # noqa: F811
) -> None:
    check_all(cl_queue, told(shape, axis, part, falls, more=False), same)


@pytest.mark.parametrize(("shape", "axis", "part", "falls"), CASES)
def test_what_else_a_kernel_writes_is_right_in_rows_without_falls(
    shape: tuple[int, ...],
    axis: int,
    part: int,
    falls: list[int],
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for row in range(len(falls)):
        fewer = [0 if n == row else number for n, number in enumerate(falls)]
        runs += told(shape, axis, part, fewer, more=True)
    runs += told(shape, axis, part, [0] * len(falls), more=True)
    check_all(cl_queue, runs, same)


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_falls_are_left_alone(form: str, cl_queue: Any) -> None:  # noqa: F811
    """What was in the memory of the results stays."""
    runs = told((2, 2049), 1, 700, [0, 4], more=False)
    for run in [run for run in runs if run.device is FORMS[form]]:
        with pytest.raises(AssertionError, match="or was never written"):
            run_all(cl_queue, [run])
