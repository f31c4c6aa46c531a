"""Rows that are fetched ahead on a CPU: hints for all lines of the next row and of the results, and
results with the bits of the kernel without them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.dialects.kernel import PrefetchOp
from mgn.passes.schedules.choose import schedule_for
from tests.passes.lower_kernels.test_differential import draw, layer_norm, softmax
from tests.support.lower_fixture import CPU, Run, fused_kernel, lowered, run_all
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def root_mean_square(b: Any, x: Any, w: Any) -> Any:
    mean = b.mul(b.sum(b.mul(x, x), axis=-1, keepdims=True), 1.0 / x.type.get_shape()[-1])
    return b.mul(b.mul(x, b.rsqrt(b.add(mean, 1e-5))), w)


def logarithm_of_sum(b: Any, x: Any) -> Any:
    largest = b.max_reduce(x, axis=-1, keepdims=True)
    return b.add(b.log(b.sum(b.exp(b.sub(x, largest)), axis=-1, keepdims=True)), largest)


def total(b: Any, x: Any) -> Any:
    return b.sum(x, axis=-1)


LONGEST = 1 << 17

BODIES: dict[str, tuple[Callable[..., Any], int, tuple[int, int]]] = {
    "softmax": (softmax, 0, (2 + 1, 4)),
    "layer norm": (layer_norm, 2, (2 + 1, 4)),
    "rms norm": (root_mean_square, 1, (1, 4)),
    "logarithm of a sum": (logarithm_of_sum, 0, (4, 0)),
    "sum": (total, 0, (0, 0)),
}
"""What is computed of rows, its vectors of a row's length, and how many hints to read and to write
stand in its loops: a walk of reductions takes four lines at a time, that of results one.
"""


def fused(name: str, element: str, rows: tuple[int, ...], length: int) -> Any:
    build, vectors, _ = BODIES[name]
    types = [(element, (*rows, length)), *[(element, (length,))] * vectors]
    return fused_kernel("reduction", types, build)


@pytest.mark.parametrize("length", [1024, 300, 263])
def test_rows_fetched_ahead_have_the_same_bits(length: int, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for name in BODIES:
        for element, rows in (("f32", (2, 5)), ("f16", (9,)), ("f64", (3,))):
            kernel = fused(name, element, rows, length)
            shapes = [value.type.get_shape() for value in kernel.operands]
            arrays = [draw(element, shape, number) for number, shape in enumerate(shapes)]
            for ahead in (0, LONGEST):
                how = {"ahead": ahead, "chunk": 2 * length}
                runs.append(Run(kernel, arrays, CPU, how, f"{name} {element} {rows}"))
    results = run_all(cl_queue, runs)
    for plain, hinted, item in zip(results[::2], results[1::2], runs[::2], strict=True):
        assert np.isfinite(plain[0].astype(np.float64)).all(), item.what
        np.testing.assert_array_equal(plain[0], hinted[0], item.what)


@pytest.mark.parametrize("name", list(BODIES))
def test_the_next_row_is_fetched_once_and_the_results_are_made_ready(name: str) -> None:
    function = lowered(fused(name, "f32", (4,), 4096), CPU, ahead=LONGEST)
    hints = [op for op in function.walk() if isinstance(op, PrefetchOp)]
    writes = [op for op in hints if op.write is not None]
    assert (len(hints) - len(writes), len(writes)) == BODIES[name][2]


def test_only_rows_that_the_cache_does_not_keep_are_fetched_ahead() -> None:
    assert "ahead" not in schedule_for(fused("softmax", "f32", (64,), 1024), CPU).values
    kernel = fused("softmax", "f32", (1 << 14,), 1024)
    for cache, longest in ((1 << 19, 1 << 17), (1 << 21, 1 << 19), (0, 1 << 18)):
        schedule = schedule_for(kernel, CPU.with_figures(l2_cache=cache))
        assert schedule.values["ahead"] == longest


@pytest.mark.parametrize("length", [128, 1 << 16])
def test_neither_rows_of_few_lines_nor_very_long_ones_are_fetched_ahead(length: int) -> None:
    function = lowered(fused("softmax", "f32", (4,), length), CPU, ahead=LONGEST)
    assert not [op for op in function.walk() if isinstance(op, PrefetchOp)]
