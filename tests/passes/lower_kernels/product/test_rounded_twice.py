"""Products in tf32 of operands that were of half precision in between: they are rounded twice."""

from typing import Any

import numpy as np
import pytest

from mgn.dialects.kernel import Device
from mgn.dialects.types import ELEMENT_TYPES
from tests.passes.lower_kernels.product.test_tensor_product import GROUPS
from tests.support.lower_fixture import fused_kernel, run
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

ROWS, COLUMNS, DEPTH = 64, 64, 64


@pytest.mark.parametrize("half", ["bf16", "f16"])
@pytest.mark.parametrize("groups", [0, 1])
def test_operands_are_rounded_to_the_type_that_they_had_in_between(
    half: str,
    groups: int,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """Integers that tf32 holds and bf16 does not; sums of their products are exact."""

    def build(e: Any, x: Any, y: Any) -> Any:
        x = e.cast(e.cast(x, ELEMENT_TYPES[half]), ELEMENT_TYPES["f32"])
        return e.matmul(e.round_tf32(x), e.round_tf32(y), transpose_b=True)

    kernel = fused_kernel("contraction", [("f32", (ROWS, DEPTH)), ("f32", (COLUMNS, DEPTH))], build)
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-1023, 1024, (ROWS, DEPTH)).astype(np.float32),
        random.integers(-4, 5, (COLUMNS, DEPTH)).astype(np.float32),
    ]
    tiling = {"tile_down": 2, "tile_across": 2, "item_rows": 32, "item_columns": 32, "groups": 0}
    if groups:
        tiling = GROUPS | {"tile_down": 4, "tile_across": 1, "item_columns": 64, "groups": 1}
    (got,) = run(cl_queue, kernel, arrays, device, **tiling)
    rounded = arrays[0].astype(ELEMENT_TYPES[half].dtype).astype(np.float64)
    np.testing.assert_array_equal(got, rounded @ arrays[1].T)
    assert half == "f16" or np.any(got != arrays[0] @ arrays[1].T)
