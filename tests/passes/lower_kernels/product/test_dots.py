"""Thin products on a CPU: left operands computed on the way, and rows that are short."""

from functools import partial
from typing import Any

import numpy as np

from mgn.dialects.types import ELEMENT_TYPES
from tests.passes.lower_kernels.test_differential import assert_near, draw
from tests.support.lower_fixture import CPU, Run, check_all, forms_of, fused_kernel, scheduled
from tests.support.opencl_fixture import cl_queue  # noqa: F401

EPSILON = 2.0**-23

SHAPES = ((1, 64, 48), (1, 37, 32), (1, 2, 16), (3, 40, 96), (2, 9, 64), (1, 24, 70))
"""Rows, columns and steps."""


def _gated(rows: int, columns: int, depth: int, element: str, turned: bool = False) -> Any:
    """A product whose left operand and whose results are computed on the way."""

    def build(e: Any, x: Any, gate: Any, w: Any, bias: Any) -> Any:
        left = e.mul(e.silu(x), gate)
        right = e.cast(w, ELEMENT_TYPES["f32"]) if element != "f32" else w
        return e.silu(e.add(e.matmul(left, right, transpose_a=turned, transpose_b=True), bias))

    own = (depth, rows) if turned else (rows, depth)
    types = [("f32", own), ("f32", own), (element, (columns, depth)), ("f32", (rows, columns))]
    return fused_kernel("contraction", types, build), types


def test_a_left_operand_that_is_computed_is_kept_in_local_memory() -> None:
    for rows, columns, depth in SHAPES:
        kernel, _ = _gated(rows, columns, depth, "f32")
        assert (scheduled(kernel, CPU).get("staged") == 1) == (depth % 16 == 0), (rows, depth)


def test_short_rows_of_half_precision_are_walked_one_by_one() -> None:
    for element, wanted in (("f16", 1), ("f32", None)):
        types = [("f32", (1, 64)), (element, (40, 64)), ("f32", (1, 40))]
        kernel = fused_kernel(
            "contraction",
            types,
            lambda e, x, w, b: e.add(
                e.matmul(x, e.cast(w, ELEMENT_TYPES["f32"]), transpose_b=True), b
            ),
        )
        assert scheduled(kernel, CPU).get("one_by_one") == wanted


def test_thin_products_with_computed_operands_are_right(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for element in ("f32", "f16"):
        for shape in SHAPES:
            kernel, types = _gated(*shape, element)
            arrays = [draw(*type, number) for number, type in enumerate(types)]
            runs += forms_of(kernel, arrays, f"{element} {shape}")
    kernel, types = _gated(1, 24, 64, "f32", turned=True)
    runs += forms_of(kernel, [draw(*type, n) for n, type in enumerate(types)], "turned")

    def near(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        x, gate, w, _ = (np.abs(array.astype(np.float64)) for array in run.arrays)
        terms = (x * gate).max() * w.max() * w.shape[-1]
        np.testing.assert_allclose(got[0], want[0], 0, 16 * EPSILON * terms, err_msg=run.what)

    check_all(cl_queue, runs, near)


RESHAPED = (
    # rows, columns, steps, whether either operand is turned, shapes in which they lie
    (3, 40, 96, False, True, (3, 2, 48), (40, 96, 1)),
    (2, 37, 64, True, True, (8, 8, 2), (37, 4, 16)),
    (150, 1, 48, False, True, (10, 15, 48), (6, 8)),
    (130, 70, 300, False, True, (130, 300, 1, 1), (7, 10, 300)),
    (130, 70, 300, False, False, (13, 10, 300), (300, 7, 10)),
)


def test_operands_that_lie_in_another_shape_are_read_as_they_lie(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for number, (rows, columns, steps, left, right, *shapes) in enumerate(RESHAPED):
        whole = [(steps, rows) if left else (rows, steps)]
        whole.append((columns, steps) if right else (steps, columns))

        def build(e: Any, x: Any, w: Any, bias: Any, whole: Any = whole, turned: Any = None) -> Any:
            x, w = e.reshape(x, whole[0]), e.reshape(w, whole[1])
            return e.add(e.matmul(x, w, transpose_a=turned[0], transpose_b=turned[1]), bias)

        types = [*(("f32", shape) for shape in shapes), ("f32", (columns,))]
        kernel = fused_kernel("contraction", types, partial(build, turned=(left, right)))
        arrays = [draw(*type, n) for n, type in enumerate(types)]
        runs += forms_of(kernel, arrays, str(number))

    def near(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        rows, columns, steps, left, right, *_ = RESHAPED[int(run.what.split()[0])]
        a = np.abs(run.arrays[0]).reshape((steps, rows) if left else (rows, steps))
        b = np.abs(run.arrays[1]).reshape((columns, steps) if right else (steps, columns))
        bound = steps * EPSILON * ((a.T if left else a) @ (b.T if right else b)) + EPSILON
        assert_near(got[0], want[0], bound, run.what)

    check_all(cl_queue, runs, near)
