"""Reductions of windows on a GPU: depthwise convolutions and pooling, in tiles of places.

The GPU form runs on the CPU's device; the reference is the interpreter.
"""

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.dialects.types import element_of
from tests.support.lower_fixture import (
    FORMS,
    Run,
    check_all,
    fused_kernel,
    lowered,
    same_rounded,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def elements_first(b: Any, found: Any, axes: int) -> Any:
    """Windows with their elements before their places."""
    elements = range(2 + axes, 2 + 2 * axes)
    return b.transpose(found, perm=[0, 1, *elements, *range(2, 2 + axes)])


def depthwise(
    element: str,
    x: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: list[tuple[int, int]],
    each: int = 1,
) -> FusedKernelOp:
    """A depthwise convolution with a bias and a relu, of so many channels for each."""
    axes, channels = len(sizes), x[1]
    several = (each,) if each > 1 else ()

    def build(b: Any, x: Any, w: Any, bias: Any) -> Any:
        if any(side for pair in padding for side in pair):
            x = b.pad(x, [(0, 0), (0, 0), *padding], 0.0)
        found = b.cast(b.windows(x, sizes, strides, dilation), "f32")
        found = elements_first(b, found, axes)
        if several:
            shape = found.type.get_shape()
            found = b.reshape(found, [*shape[:2], 1, *shape[2:]])
        w = b.reshape(w, [channels, *several, *sizes, *(1,) * axes])
        first = 2 + len(several)
        total = b.sum(b.mul(found, w), axis=list(range(first, first + axes)))
        total = b.add(total, b.reshape(bias, [channels, *several, *(1,) * axes]))
        return b.cast(b.relu(total), element)

    types = [(element, x), ("f32", (channels * each, *sizes)), ("f32", (channels * each,))]
    return fused_kernel("reduction", types, build)


def drawn(kernel: FusedKernelOp, seed: int) -> list[np.ndarray]:
    """Small whole numbers: sums are exact."""
    rng = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for value in kernel.block.args:
        assert isinstance(value.type, TensorType)
        dtype = element_of(value.type).dtype
        arrays.append(rng.integers(-4, 5, value.type.get_shape()).astype(dtype))
    return arrays


def some_case(rng: random.Random, number: int) -> tuple[str, FusedKernelOp]:
    """A convolution with sizes of any kind."""
    axes = (1, 2, 2, 3)[number % 4]
    sizes = tuple(rng.choice((1, 2, 3, 3, 5) if axes < 3 else (1, 2, 3)) for _ in range(axes))
    sizes = sizes if prod(sizes) > 1 else (*sizes[:-1], 3)
    strides = tuple(rng.randint(1, 3) for _ in range(axes))
    dilation = tuple(rng.randint(1, 2) for _ in range(axes))
    padding = [(rng.randint(0, 2), rng.randint(0, 2)) for _ in range(axes)]
    if number % 3 == 0:
        padding = [(0, 0)] * axes
    least = [d * (size - 1) + 1 for size, d in zip(sizes, dilation, strict=True)]
    x = [size + rng.choice((0, 1, 3, 8, 12)) for size in least]
    x[-1] += -x[-1] % rng.choice((1, 2, 4))
    outer = (rng.randint(1, 2), rng.choice((1, 3, 5)))
    element = ("f32", "bf16", "f16")[number % 5 % 3]
    how = (sizes, strides, dilation, padding, rng.choice((1, 1, 2)))
    return f"{element} {outer} {x} {how}", depthwise(element, (*outer, *x), *how)


def gpu_runs(kernel: FusedKernelOp, what: str, seed: int, **fixed: int) -> list[Run]:
    forms = FORMS.keys() - {"cpu"}
    arrays = drawn(kernel, seed)
    return [Run(kernel, arrays, FORMS[form], fixed, f"{what} {form}") for form in forms]


def test_convolutions_of_any_sizes_are_those_of_the_interpreter(
    cl_queue: Any,  # noqa: F811
) -> None:
    rng, runs = random.Random(3), list[Run]()
    for number in range(20):
        what, kernel = some_case(rng, number)
        assert scheduled(kernel, FORMS["gpu"])["variant"] == "sliding tiles", what
        runs += gpu_runs(kernel, what, number)
    check_all(cl_queue, runs, same_rounded)


POOLS = {
    "largest": lambda b, x: b.max_reduce(x, axis=[2, 3]),
    "least": lambda b, x: b.min_reduce(b.neg(x), axis=[2, 3]),
    "mean": lambda b, x: b.mul(b.sum(x, axis=[2, 3]), 1 / 9),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_are_those_of_the_interpreter(name: str, cl_queue: Any) -> None:  # noqa: F811
    runs = list[Run]()
    for element in ("f32", "i32"):
        if element == "i32" and name == "mean":
            continue
        low = -np.inf if element == "f32" else -(1 << 31)

        def build(b: Any, x: Any, low: float = low) -> Any:
            x = b.pad(x, [(0, 0), (0, 0), (1, 0), (1, 1)], low if name == "largest" else 0.0)
            return POOLS[name](b, elements_first(b, b.windows(x, (3, 3), (2, 1), (1, 1)), 2))

        kernel = fused_kernel("reduction", [(element, (2, 3, 14, 16))], build)
        variant = "sliding tiles" if element == "f32" else "groups"
        assert scheduled(kernel, FORMS["gpu"])["variant"] == variant
        runs += gpu_runs(kernel, f"{name} {element}", 1)
    check_all(cl_queue, runs, same_rounded)


def test_tiles_of_many_places_compute_the_same(
    cl_queue: Any,  # noqa: F811
) -> None:
    """A device with many compute units has tiles of one place for such sizes."""
    runs = list[Run]()
    for element, strides, rows, columns in (
        ("f32", (1, 1), 4, 4),
        ("f32", (2, 2), 5, 2),
        ("bf16", (1, 1), 8, 1),
        ("bf16", (2, 2), 1, 4),
    ):
        kernel = depthwise(element, (2, 3, 24, 24), (3, 3), strides, (1, 1), [(1, 1), (1, 1)])
        fixed = {"window_rows": rows, "window_columns": columns}
        assert fixed.items() <= scheduled(kernel, FORMS["gpu"], **fixed).items()
        runs += gpu_runs(kernel, f"{element} {fixed}", 2, **fixed)
    check_all(cl_queue, runs, same_rounded)


def test_a_work_item_of_a_large_device_reads_vectors_for_a_tile_of_places() -> None:
    kernel = depthwise("f32", (32, 96, 112, 112), (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)])
    schedule = scheduled(kernel, DEVICES["nvidia-h200"])
    assert (schedule["window_rows"], schedule["window_columns"]) == (4, 4)
    function = lowered(kernel, DEVICES["nvidia-h200"])
    loads = [op for op in function.walk() if isinstance(op, memref.LoadOp | vector.LoadOp)]
    assert 0 < len(loads) <= 6 * 3 + 9 + 1
