"""The blocks in which a CPU computes products: their width, and that they fit local memory."""

from math import prod

import numpy as np
import pytest
from lower_fixture import CPU, expected, fused_kernel, lowered, run
from opencl_fixture import cl_queue  # noqa: F401
from xdsl.dialects.builtin import MemRefType

from mgn.dialects import kernel
from mgn.dialects.fusion import FusedKernelOp
from mgn.passes.choose_schedules import schedule_for


def product(size: int, element: str = "f32") -> FusedKernelOp:
    types = [(element, (size, size)), (element, (size, size))]
    return fused_kernel("contraction", types, lambda e, x, y: e.matmul(x, y))


@pytest.mark.parametrize("element, bytes", [("f32", 4), ("f64", 8), ("f16", 4), ("i64", 8)])
@pytest.mark.parametrize("size", [256, 2048, 4096])
def test_blocks_of_a_product_fit_the_local_memory(size: int, element: str, bytes: int) -> None:
    function = lowered(product(size, element), CPU)
    held = [op.results[0].type for op in function.walk() if isinstance(op, kernel.LocalAllocOp)]
    elements = sum(prod(type.get_shape()) for type in held if isinstance(type, MemRefType))
    assert 0 < elements * bytes <= CPU.local_memory


def test_large_products_have_wider_blocks() -> None:
    widths = [schedule_for(product(size), CPU).values["block_columns"] for size in (512, 2048)]
    assert widths == [64, 256]
    small = CPU.with_figures(local_memory=64 * 1024)
    assert schedule_for(product(2048), small).values["block_columns"] == 64


def test_wide_blocks_compute_the_same(cl_queue: object) -> None:  # noqa: F811
    types = [("f32", (70, 300)), ("f32", (300, 531))]
    fused = fused_kernel("contraction", types, lambda e, x, y: e.relu(e.matmul(x, y)))
    random = np.random.default_rng(1)
    arrays = [random.integers(-4, 5, shape).astype(np.float32) for _, shape in types]
    wide = {"block_columns": 256, "block_depth": 128, "units": 1}
    (found,) = run(cl_queue, fused, arrays, CPU, **wide)
    np.testing.assert_array_equal(found, expected(fused, arrays)[0])
