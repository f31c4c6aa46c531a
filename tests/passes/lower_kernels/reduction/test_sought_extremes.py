"""Reductions that seek where a row's extreme is, against the interpreter."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.types import ELEMENT_TYPES
from tests.passes.lower_kernels.test_differential import draw
from tests.support.lower_fixture import (
    GPU_ON_CPU,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    lowered,
    same_values,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SHAPES = ((3, 1), (5, 37), (2, 9000), (3, 9001))


def seeking(b: Any, x: Any, extreme: str = "max_reduce", tells_nan: bool = True) -> Any:
    """The first index of the row's extreme, or of NaN."""
    found = b.call(extreme, x, axis=[1], keepdims=True)
    test = b.eq(x, found)
    if tells_nan:
        test = b.logical_or(test, b.isnan(x))
    order = b.iota([1, x.type.get_shape()[1]], axis=1, T="i32")
    return b.min_reduce(b.where(test, order, b.full([], 2**31 - 1, T="i32")), axis=[1])


def kernel_of(element: str, shape: tuple[int, ...], build: Callable[..., Any]) -> FusedKernelOp:
    return fused_kernel("reduction", [(element, shape)], build)


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
def test_the_place_of_an_extreme_is_found_among_ties_and_special_values(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for extreme in ("max_reduce", "min_reduce"):
        for shape in SHAPES:
            x = np.array(draw(element, shape, shape[1]))
            if ELEMENT_TYPES[element].is_float:
                x[0, shape[1] // 2 :: 7] = np.nan
                x[-1] = np.where(np.arange(shape[1]) % 3, x[-1].max(), -np.inf)
                x[1 % shape[0], ::2] = -0.0 if extreme == "max_reduce" else 0.0
            floats = ELEMENT_TYPES[element].is_float

            def build(b: Any, x: Any, extreme: str = extreme, floats: bool = floats) -> Any:
                return seeking(b, x, extreme, floats)

            runs += forms_of(kernel_of(element, shape, build), [x], f"{extreme} {shape}")
    check_all(cl_queue, runs, same_values)


def from_the_first(b: Any, x: Any, tells_nan: bool, beside: bool = False) -> list[Any]:
    """The first index of the row's largest element, and how far behind it others are: another
    reduction, alone or not, that seeks an extreme whose first place is noted.
    """
    first = seeking(b, x, "max_reduce", tells_nan)
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    test = b.eq(x, largest)
    if tells_nan:
        test = b.logical_or(test, b.isnan(x))
    behind = b.sub(b.iota([1, x.type.get_shape()[1]], axis=1), b.reshape(first, [-1, 1]))
    far = b.where(test, behind, b.full([], -(2**31), T="i32"))
    return [first, b.max_reduce(far, axis=[1]), *([b.sum(behind, axis=[1])] if beside else [])]


def not_told(b: Any, x: Any) -> Any:
    """The first index of the row's largest element, and none where that is NaN."""
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    test = b.logical_or(b.eq(x, largest), b.eq(largest, x))
    order = b.iota([1, x.type.get_shape()[1]], axis=1)
    return b.min_reduce(b.where(test, order, b.full([], 2**31 - 1, T="i32")), axis=[1])


def last(b: Any, x: Any) -> Any:
    """The last index of the row's largest element."""
    test = b.logical_or(b.eq(x, b.max_reduce(x, axis=[1], keepdims=True)), b.isnan(x))
    order = b.iota([1, x.type.get_shape()[1]], axis=1)
    return b.max_reduce(b.where(test, order, b.full([], -(2**31), T="i32")), axis=[1])


def one_for_all(b: Any, x: Any) -> Any:
    """The least of what is 0 for each element."""
    rows, _ = x.type.get_shape()
    test = b.logical_or(b.eq(x, b.max_reduce(x, axis=[1], keepdims=True)), b.isnan(x))
    order = b.iota([rows, 1], axis=1)
    return b.min_reduce(b.where(test, order, b.full([], 2**31 - 1, T="i32")), axis=[1])


def beside_a_sum(b: Any, x: Any) -> list[Any]:
    """The first index of the largest element, which one walk finds with a sum."""
    number = b.iota([1, x.type.get_shape()[1]], axis=1)
    known = b.cast(b.logical_not(b.isnan(x)), T="i32")
    return [b.sum(b.mul(known, number), axis=[1]), seeking(b, x)]


def before_a_sum(b: Any, x: Any) -> list[Any]:
    """The first index of the largest element, and a sum that may be found with it."""
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    equal = b.cast(b.logical_or(b.eq(x, largest), b.isnan(x)), T="i32")
    return [seeking(b, x), b.sum(equal, axis=[1])]


def counted_in(element: str, other: float, shape: Callable[[int, int], list[int]]) -> Any:
    """Seeks the first place of the largest element in an element type."""

    def build(b: Any, x: Any) -> Any:
        test = b.logical_or(b.eq(x, b.max_reduce(x, axis=[1], keepdims=True)), b.isnan(x))
        order = b.iota(shape(*x.type.get_shape()), axis=-1, T=element)
        return b.min_reduce(b.where(test, order, b.full([], other, T=element)), axis=[1])

    return build


def test_what_else_an_extreme_is_sought_for_is_no_first_place(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape in ((4, 7), (3, 300), (2, 9001)):
        x = np.array(draw("f32", shape, 1)).round()
        x[0, shape[1] // 2 :: 3] = np.nan
        for name, build in {
            "behind it": lambda b, x: from_the_first(b, x, True),
            "behind it, and a sum": lambda b, x: from_the_first(b, x, True, True),
            "not of NaN": not_told,
            "the last": last,
            "beside a sum": beside_a_sum,
            "before a sum": before_a_sum,
            "one for all": one_for_all,
        }.items():
            runs += forms_of(kernel_of("f32", shape, build), [x], f"{name} {shape}")
        numbers = (x.shape[1] - np.arange(x.size).reshape(shape) % 5).astype(np.int32)
        kernel = kernel_of("i32", shape, lambda b, x: from_the_first(b, x, False))
        runs += forms_of(kernel, [numbers], f"behind it, of i32 {shape}")
    check_all(cl_queue, runs, same_values)


def test_places_are_found_along_columns_and_in_rows_of_many_trips(
    cl_queue: Any,  # noqa: F811
) -> None:
    def of_columns(b: Any, x: Any) -> Any:
        rows, _ = x.type.get_shape()
        test = b.eq(x, b.max_reduce(x, axis=[0], keepdims=True))
        test = b.logical_or(test, b.isnan(x))
        order = b.iota([rows, 1], axis=0)
        return b.min_reduce(b.where(test, order, b.full([], 2**31 - 1, T="i32")), axis=[0])

    runs: list[Run] = []
    for shape, build in (((700, 40), of_columns), ((33, 7), of_columns), ((1, 140_001), seeking)):
        x = np.array(draw("f32", shape, 3)).round()
        x[shape[0] // 2, shape[1] // 2] = np.nan
        runs += forms_of(kernel_of("f32", shape, build), [x], f"{shape}")
    check_all(cl_queue, runs, same_values)


def without_the_largest(b: Any, x: Any) -> list[Any]:
    """A row without its largest element, whose place is given besides."""
    place = b.reshape(seeking(b, x), [-1, 1])
    there = b.eq(b.iota([1, x.type.get_shape()[1]], axis=1), place)
    return [b.where(there, 0.0, x), place]


def test_places_are_found_in_rows_of_which_local_memory_keeps_a_part(
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for number, place in enumerate((0, 5000, 9500, 19_998)):
        x = np.array(draw("f32", (1, 20_000), number)).clip(-3, 3)
        x[0, place:] = np.nan if number % 2 else 4.0
        kernel = kernel_of("f32", x.shape, without_the_largest)
        kept = {"stash_memory": 32 * 1024}
        runs.append(Run(kernel, [x], GPU_ON_CPU, kept, f"from {place} on"))
        values = scheduled(kernel, GPU_ON_CPU, **kept)
        assert 0 < values["stashed"] < 20_000 // (values["shares"] * values["width"])
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize(
    ("element", "other", "columns"),
    [("i32", 2**31 - 1, 301), ("i64", 2**63 - 1, 301), ("u32", 2**32 - 1, 301), ("u8", 255, 200),
     ("i8", 127, 99), ("i16", 2**15 - 1, 301), ("f32", np.inf, 301), ("f64", np.inf, 301),
     ("f16", np.inf, 301)],
)  # fmt: skip
def test_places_are_counted_in_any_element_type(
    element: str,
    other: float,
    columns: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    x = np.array(draw("f32", (5, columns), 2)).round()
    x[2, columns // 2 :] = np.nan
    runs: list[Run] = []
    for shape in (lambda _, n: [1, n], lambda m, n: [m, n], lambda _, n: [n]):
        kernel = kernel_of("f32", x.shape, counted_in(element, other, shape))
        runs += forms_of(kernel, [x], element)
    check_all(cl_queue, runs, same_values)


def turned(b: Any, x: Any) -> Any:
    """The largest of the negatives of the elements that are the row's largest one."""
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    return b.max_reduce(b.where(b.eq(x, largest), b.neg(x), b.full([], -np.inf)), axis=[1])


def below(b: Any, x: Any) -> Any:
    """The least element of those below the largest."""
    largest = b.max_reduce(x, axis=[1], keepdims=True)
    return b.min_reduce(b.where(b.lt(x, largest), x, b.full([], np.inf)), axis=[1])


def test_only_who_has_met_the_extreme_looks_again_and_nobody_for_its_first_place() -> None:
    looks_again, walks = {}, {}
    for name, build in (
        ("place", seeking),
        ("place in a line", counted_in("i32", 2**31 - 1, lambda _, columns: [columns])),
        (
            "place of another",
            lambda b, x: seeking(b, b.add(x, b.max_reduce(x, axis=[1], keepdims=True))),
        ),
        ("value", turned),
        ("below", below),
    ):
        function = lowered(kernel_of("f32", (700, 9001), build), GPU_ON_CPU)
        loops = [op for op in function.walk() if op.name == "scf.for"]
        looks_again[name] = any(isinstance(op.parent_op(), scf.IfOp) for op in loops)
        walks[name] = len(loops)
    assert [name for name, again in looks_again.items() if again] == ["value"]
    kept = [
        scheduled(kernel_of("f32", (700, 40_001), build), GPU_ON_CPU)["kept"]
        for build in (seeking, turned)
    ]
    assert kept[0] == 0 < kept[1]
    once = {"place": 1, "place in a line": 1}
    assert walks == {**once, "place of another": 2, "value": 2, "below": 2}
