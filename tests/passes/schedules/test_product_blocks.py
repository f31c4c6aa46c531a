"""The blocks in which a CPU computes products: that they fit local memory, and compute the same."""

from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType

from mgn.dialects import kernel
from mgn.dialects.fusion import FusedKernelOp
from mgn.passes.schedules.choose import schedule_for, schedules_of
from mgn.passes.schedules.core.packed_blocking import block_depth, evenly, panel_steps, tile_rows
from tests.support.lower_fixture import CPU, expected, fused_kernel, lowered, run
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def product(size: int, element: str = "f32", **turned: bool) -> FusedKernelOp:
    types = [(element, (size, size)), (element, (size, size))]
    return fused_kernel("contraction", types, lambda e, x, y: e.exp(e.matmul(x, y, **turned)))


def local_elements(function: kernel.FuncOp) -> int:
    held = [op.results[0].type for op in function.walk() if isinstance(op, kernel.LocalAllocOp)]
    return sum(prod(type.get_shape()) for type in held if isinstance(type, MemRefType))


@pytest.mark.parametrize("element, bytes", [("f32", 4), ("f64", 8), ("f16", 4)])
@pytest.mark.parametrize("size", [256, 2048, 4096])
@pytest.mark.parametrize("room", [32 * 1024, 256 * 1024])
def test_blocks_of_a_product_fit_the_local_memory(
    size: int, element: str, bytes: int, room: int
) -> None:
    device = CPU.with_figures(local_memory=room)
    for turned in ({}, {"transpose_a": True}, {"transpose_b": True}):
        function = lowered(product(size, element, **turned), device)
        assert 0 < local_elements(function) * bytes <= room


def test_register_tiles_leave_registers_for_operands() -> None:
    rows = {
        bits: schedule_for(product(78), CPU.with_figures(vector_bits=bits)).values["tile_rows"]
        for bits in (256, 512)
    }
    assert rows == {256: 6, 512: 13}


def test_tiles_have_the_rows_that_waste_least() -> None:
    assert [tile_rows(rows, 13, 2) for rows in (1, 13, 14, 128, 2048)] == [1, 13, 7, 13, 13]


def test_blocks_of_the_shared_axis_are_alike_and_rather_without_a_rest() -> None:
    depths = [block_depth(depth, 256) for depth in (1, 100, 512, 768, 1024, 1200, 1001)]
    assert depths == [1, 100, 512, 256, 256, 240, 256]


def test_panels_divide_the_shared_axis() -> None:
    """As blocks do, else in whole vectors of somewhat more steps, else in fewer steps."""
    depths = {depth: panel_steps(depth, 512) for depth in (1, 477, 2304, 3920, 3159, 4001)}
    assert depths == {1: 1, 477: 477, 2304: 384, 3920: 560, 3159: 351, 4001: None}
    assert all(depth % steps == 0 for depth, steps in depths.items() if steps)


def test_windows_are_packed_only_where_finding_them_takes_less_than_copies_of_planes() -> None:
    """Both are schedules of such a product: the first one is what a price is told."""

    def convolution(b: Any, x: Any, w: Any) -> Any:
        found = b.windows(b.pad(x, [[0, 0], [0, 0], [1, 1], [1, 1]], 0.0), [3, 3], [1, 1], [1, 1])
        found = b.transpose(found, [0, 1, 4, 5, 2, 3])
        return b.matmul(w, b.reshape(found, [9 * 31, 28 * 28]))

    types = [("f32", (1, 31, 28, 28)), ("f32", (79, 9 * 31))]
    kernel = fused_kernel("contraction", types, convolution)
    assert schedule_for(kernel, CPU).values["variant"] == "windows"


@pytest.mark.parametrize(
    "image, rows",
    [((64, 128, 128), 1), ((64, 256, 256), 8), ((64, 64, 1024), 8), ((16, 4, 8000), 3)],
    ids=["one row", "many rows of places", "long rows", "rows of which few fit"],
)
def test_large_images_are_read_from_copies_of_planes_that_fit(
    image: tuple[int, int, int], rows: int
) -> None:
    channels, height, width = image

    def convolution(b: Any, x: Any, w: Any) -> Any:
        found = b.windows(b.pad(x, [[0, 0], [0, 0], [1, 1], [1, 1]], 0.0), [3, 3], [1, 1], [1, 1])
        found = b.transpose(found, [0, 1, 4, 5, 2, 3])
        return b.matmul(w, b.reshape(found, [9 * channels, height * width]))

    types = [("f32", (1, *image)), ("f32", (rows, 9 * channels))]
    fused = fused_kernel("contraction", types, convolution)
    assert schedule_for(fused, CPU).values["variant"] == "windows"
    assert 0 < 4 * local_elements(lowered(fused, CPU)) <= CPU.local_memory


def test_blocks_have_like_numbers_of_tiles() -> None:
    assert [evenly(count, 19) for count in (1, 19, 20, 77, 79, 158)] == [1, 19, 10, 16, 16, 18]


@pytest.mark.parametrize("turned", [{}, {"transpose_a": True}, {"transpose_b": True}], ids=str)
@pytest.mark.parametrize("after", [1, 5])
def test_many_blocks_compute_the_same(
    turned: dict[str, bool],
    after: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    random = np.random.default_rng(1)
    left = (300, 70) if "transpose_a" in turned else (70, 300)
    right = (531, 300) if "transpose_b" in turned else (300, 531)
    types = [("f32", left), ("f32", right)]

    def build(e: Any, x: Any, y: Any) -> Any:
        value = e.matmul(x, y, **turned)
        for _ in range(after):
            value = e.relu(e.sub(value, 1.0))
        return value

    fused = fused_kernel("contraction", types, build)
    arrays = [random.integers(-4, 5, shape).astype(np.float32) for _, shape in types]
    for schedule in ({}, {"block_depth": 64, "units": 1}, {"block_columns": 32, "units": 1}):
        (found,) = run(cl_queue, fused, arrays, CPU, **schedule)
        np.testing.assert_array_equal(found, expected(fused, arrays)[0])


@pytest.mark.parametrize("turned", [{}, {"transpose_a": True}, {"transpose_b": True}], ids=str)
@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("sizes", [(128, 576, 1536), (100, 100, 100), (1000, 500, 300)])
def test_a_schedule_goes_over_operands_as_often_as_the_kernel_does(
    sizes: tuple[int, int, int], element: str, turned: dict[str, bool]
) -> None:
    rows, depth, columns = sizes
    left = (depth, rows) if "transpose_a" in turned else (rows, depth)
    right = (columns, depth) if "transpose_b" in turned else (depth, columns)
    types = [(element, left), (element, right)]
    fused = fused_kernel("contraction", types, lambda e, x, y: e.matmul(x, y, **turned))
    items, *_ = lowered(fused, CPU).global_size.get_values()
    assert items == prod(schedules_of(fused, CPU)[0].passes)
