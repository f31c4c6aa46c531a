"""Rows of a CPU's reductions: which walk in pairs, where their values wait from stage to stage, and
what may replace the exact largest element.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, memref, vector
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import ScheduleAttr
from mgn.dialects.kernel import GatherOp
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.schedules.choose import schedule_for
from tests.support.lower_fixture import (
    CPU,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    lowered,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Build = Callable[..., Any]


def exponentials(b: Any, x: Any) -> tuple[Any, Any]:
    """The shifted exponentials of rows, and their sums."""
    shifted = b.exp(b.sub(x, b.max_reduce(x, axis=[1], keepdims=True)))
    return shifted, b.sum(shifted, axis=[1], keepdims=True)


def softmax(b: Any, x: Any) -> Any:
    shifted, total = exponentials(b, x)
    return b.mul(shifted, b.recip(total))


def moments(b: Any, x: Any) -> tuple[Any, ...]:
    mean = b.sum(x, axis=[1])
    return mean, b.min_reduce(x, axis=[1]), b.max_reduce(x, axis=[1])


def check(item: Run, found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(found, wanted, strict=True):
        wide = other.astype(one.dtype)
        np.testing.assert_allclose(one, wide, rtol=2e-5, atol=1e-6, err_msg=item.what)


def rows_of(shape: tuple[int, int]) -> np.ndarray:
    """Random rows; one has a NaN, one infinities of each sign, one only zeros of both signs."""
    x = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32) * 9
    for row, numbers in enumerate(([np.nan], [-np.inf], [np.inf], [0.0, -0.0])):
        if row < shape[0] - 1:
            x[row, : len(numbers)] = numbers[: shape[1]]
    x[-1, :] = -0.0
    return x


@pytest.mark.parametrize("build", [softmax, moments], ids=["softmax", "moments"])
def test_pairs_of_rows_compute_what_single_rows_do(build: Build, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for rows in (1, 2, 7):
        for length in (1, 5, 17, 64, 255, 256):
            fused = fused_kernel("reduction", [("f32", (rows, length))], build)
            schedule = {"chunk": 8 * length}
            runs.append(Run(fused, [rows_of((rows, length))], CPU, schedule, f"{rows} {length}"))
    check_all(cl_queue, runs, check)


def arrays_of(length: int, build: Build = softmax, **schedule: int) -> int:
    """How many arrays of its own a work-item has."""
    fused = fused_kernel("reduction", [("f32", (8, length))], build)
    function = lowered(fused, CPU, **schedule)
    return sum(isinstance(op, memref.AllocaOp) for op in function.walk())


def test_rows_are_walked_in_pairs_where_they_are_short() -> None:
    assert [arrays_of(length) for length in (64, 255)] == [2, 2]


def deviations(b: Any, x: Any) -> tuple[Any, Any]:
    """Two stages of values to be stored, of which only one has a result's place."""
    shifted, total = exponentials(b, x)
    again = b.tanh(b.div(shifted, total))
    return b.mul(again, b.sum(again, axis=[1], keepdims=True)), b.cast(x, "f16")


def test_longer_rows_wait_in_their_results() -> None:
    assert [arrays_of(length) for length in (256, 9000)] == [0, 0]
    assert [arrays_of(length, deviations) for length in (256, 9000)] == [1, 0]


def test_values_that_wait_in_results_are_those_of_their_rows(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for build, lengths in ((softmax, (256, 1037, 9001)), (deviations, (256, 9001))):
        for length in lengths:
            x = np.random.default_rng(length).standard_normal((5, length), np.float32)
            fused = fused_kernel("reduction", [("f32", x.shape)], build)
            runs.append(Run(fused, [x], CPU, {"ahead": 1 << 20}, f"{build.__name__} {length}"))
    check_all(cl_queue, runs, check)


def also_written(b: Any, x: Any) -> tuple[Any, ...]:
    shifted, total = exponentials(b, x)
    return shifted, b.mul(shifted, b.recip(total))


def log_of_sum(b: Any, x: Any) -> Any:
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    return b.add(b.log(b.sum(b.exp(b.sub(x, largest)), axis=[1], keepdims=True)), largest)


def of_another(b: Any, x: Any) -> Any:
    shifted = b.exp(b.sub(b.mul(x, 2.0), b.max_reduce(x, axis=[1], keepdims=True)))
    return b.div(shifted, b.sum(shifted, axis=[1], keepdims=True))


def used_alone(b: Any, x: Any) -> Any:
    shifted, total = exponentials(b, x)
    return b.add(shifted, b.mul(shifted, b.recip(total)))


def halved(b: Any, x: Any) -> Any:
    shifted, total = exponentials(b, x)
    return b.div(shifted, total)


@pytest.mark.parametrize(
    "build, found",
    [
        (softmax, True),
        (halved, True),
        (lambda b, x: b.add(softmax(b, x), 1.0), True),
        (also_written, False),
        (log_of_sum, False),
        (of_another, False),
        (used_alone, False),
        (moments, False),
    ],
    ids=["product", "quotient", "after", "written", "added", "another", "alone", "itself"],
)
def test_only_what_a_sum_divides_may_be_shifted_by_less_than_the_largest(
    build: Build, found: bool
) -> None:
    fused = fused_kernel("reduction", [("f32", (8, 64))], build)
    assert (scheduled(fused, CPU).get("maximum") == "stabilises") is found
    exact = [op for op in lowered(fused, CPU).walk() if isinstance(op, arith.MaximumfOp)]
    assert bool(exact) is not found


@pytest.mark.parametrize("build", [also_written, log_of_sum, of_another, used_alone, moments])
def test_a_kernel_that_says_so_falsely_is_refused(build: Build) -> None:
    fused = fused_kernel("reduction", [("f32", (8, 64))], build)
    fused.arranged = ScheduleAttr.of(maximum="stabilises")
    with pytest.raises(VerifyException, match="maxima of rows do more than stabilise"):
        fused.verify()


def test_a_kernel_that_says_nothing_takes_the_exact_largest() -> None:
    fused = fused_kernel("reduction", [("f32", (8, 64))], softmax)
    assert "maximum" not in schedule_for(fused, CPU).values
    function = lower_kernel(fused, "exact", schedule_for(fused, CPU).values)
    assert any(isinstance(op, arith.MaximumfOp) for op in function.walk())


def test_a_row_of_several_axes_around_a_kept_one_is_stored_in_vectors(
    cl_queue: Any,  # noqa: F811
) -> None:
    """Sums for each channel of an image beside the image: lines of 36 in vectors of 4, which the
    axes of 6 do not hold.
    """

    def channels(b: Any, x: Any) -> tuple[Any, Any]:
        doubled = b.mul(x, 2.0)
        return b.sum(doubled, axis=[0, 2, 3]), doubled

    runs: list[Run] = []
    for shape in ((4, 8, 6, 6), (3, 5, 2, 6), (2, 3, 7, 5)):
        fused = fused_kernel("reduction", [("f32", shape)], channels)
        x = np.random.default_rng(3).standard_normal(shape, np.float32)
        runs += forms_of(fused, [x], str(shape))
    check_all(cl_queue, runs, check)


def of_groups(b: Any, x: Any, scale: Any) -> Any:
    """Channels less the mean of their group, times a number each."""
    groups = b.reshape(x, [2, 3, 4 * 35])
    apart = b.sub(groups, b.mul(b.sum(groups, axis=[2], keepdims=True), 1 / 140))
    return b.mul(b.reshape(apart, [2, 12, 35]), b.reshape(scale, [1, 12, 1]))


def test_a_row_is_cut_into_the_lines_to_which_numbers_belong(cl_queue: Any) -> None:  # noqa: F811
    types = [("f32", (2, 12, 35)), ("f32", (12,))]
    kernel = fused_kernel("reduction", types, of_groups)
    assert scheduled(kernel, CPU)["line"] == 35
    assert not [op for op in lowered(kernel, CPU).walk() if isinstance(op, GatherOp)]
    random = np.random.default_rng(8)
    arrays = [random.standard_normal(shape).astype(np.float32) for _, shape in types]
    check_all(cl_queue, forms_of(kernel, arrays, "groups"), check)


def test_what_is_left_of_a_row_is_read_by_shorter_vectors(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for length in (16, 17, 31, 47, 133, 270):
        kernel = fused_kernel("reduction", [("f32", (5, length))], softmax)
        runs += forms_of(kernel, [rows_of((5, length))], str(length))
    check_all(cl_queue, runs, check)
    function = lowered(fused_kernel("reduction", [("f32", (5, 31))], softmax), CPU)
    reads = [op for op in function.walk() if isinstance(op, vector.LoadOp)]
    assert {8, 4, 2} <= {op.result.type.get_shape()[0] for op in reads}
