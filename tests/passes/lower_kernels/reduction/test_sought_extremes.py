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
    assert looks_again == {"place": False, "place of another": False, "value": True, "below": False}
    assert walks == {"place": 1, "place of another": 2, "value": 2, "below": 2}
