"""Transposes whose lines begin anywhere in a segment of memory, and columns of narrow groups.

The GPU form runs on the CPU's device; the reference is the interpreter. Integers are exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import FORMS, GPU_ON_CPU, expected, fused_kernel, run
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

GPU_FORMS = [form for form in FORMS if form != "cpu"]
SIZES = [(191, 223), (65, 33), (129, 17), (63, 64), (64, 63), (31, 301), (130, 131), (66, 134)]


def same(
    queue: Any, kind: str, types: list[tuple[str, tuple[int, ...]]], build: Callable[..., Any]
) -> None:
    kernel = fused_kernel(kind, types, build)
    random = np.random.default_rng(0)
    arrays = [random.integers(-9, 10, shape).astype(ELEMENT_TYPES[n].dtype) for n, shape in types]
    for form in GPU_FORMS:
        found = run(queue, kernel, arrays, FORMS[form])
        for got, want in zip(found, expected(kernel, arrays), strict=True):
            np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize(
    ("size", "element"),
    [*((size, "f32") for size in SIZES), (SIZES[0], "bf16"), (SIZES[2], "i32")],
    ids=str,
)
def test_a_transpose_moves_every_element(
    size: tuple[int, int],
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    same(cl_queue, "pointwise", [(element, size)], lambda b, x: b.transpose(x, [1, 0]))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("operands", [1, 2])
@pytest.mark.parametrize(
    "figures",
    [
        {"vector_bits": 512},
        {"vector_bits": 4096, "max_work_group_size": 512},
        {"vector_bits": 32, "max_work_group_size": 32},
        {"vector_bits": 32, "max_work_group_size": 48, "local_memory": 4096},
    ],
    ids=str,
)
def test_a_group_moves_its_whole_tile_whatever_the_vectors_and_its_items(
    figures: dict[str, int],
    operands: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    def build(b: Any, *operands: Any) -> Any:
        first, *others = (b.transpose(x, [1, 0]) for x in operands)
        return b.sub(first, *others) if others else first

    device = GPU_ON_CPU.with_figures(**figures)
    for size in ((45, 86), (95, 97)):
        kernel = fused_kernel("pointwise", [("f32", size)] * operands, build)
        random = np.random.default_rng(0)
        arrays = [random.integers(-9, 10, size).astype(np.float32) for _ in range(operands)]
        (found,) = run(cl_queue, kernel, arrays, device)
        np.testing.assert_array_equal(found, expected(kernel, arrays)[0])


@pytest.mark.parametrize(
    ("size", "second"), [(SIZES[1], "bf16"), (SIZES[5], "bf16"), (SIZES[0], "i32")], ids=str
)
def test_two_turned_operands_and_two_results_share_a_tile(
    size: tuple[int, int],
    second: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    def build(b: Any, x: Any, y: Any, z: Any) -> Any:
        first = b.transpose(x, [1, 0])
        second = b.cast(b.transpose(y, [1, 0]), "f32")
        return b.add(b.sub(first, second), z), b.neg(first)

    types = [("f32", size), (second, size), ("f32", size[::-1])]
    same(cl_queue, "pointwise", types, build)


@pytest.mark.parametrize("order", [[0, 2, 1], [2, 1, 0], [2, 0, 1]], ids=str)
def test_tiles_lie_anywhere_in_a_tensor(order: list[int], cl_queue: Any) -> None:  # noqa: F811
    for shape in ((3, 37, 65), (2, 129, 33)):
        same(cl_queue, "pointwise", [("f32", shape)], lambda b, x: b.transpose(x, order))


@pytest.mark.parametrize(
    ("shape", "element"),
    [((300, 40), "f32"), ((700, 129), "bf16"), ((5, 4096), "i32"), ((4, 100, 64), "bf16")],
    ids=str,
)
def test_few_columns_are_added_up_by_narrow_groups(
    shape: tuple[int, ...],
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    axis = len(shape) - 2
    narrow = "f32" if element == "bf16" else element
    same(
        cl_queue,
        "reduction",
        [(element, shape)],
        lambda b, x: (
            b.sum(b.cast(x, narrow) if narrow != element else x, axis=[axis]),
            b.max_reduce(x, axis=[axis]),
        ),
    )
