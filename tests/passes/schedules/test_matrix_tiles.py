"""Tiles on matrix units where a compute unit waits for what it multiplies."""

from typing import Any

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.schedule import Request
from mgn.passes.schedules.product.matrix_tiles import (
    TABLES,
    TensorTiling,
    copying_seconds,
)
from tests.support.lower_fixture import fused_kernel, scheduled

H200 = DEVICES["nvidia-h200"]


def product(rows: int, columns: int, depth: int, computed: bool = False) -> FusedKernelOp:
    """A product in bf16 whose left operand lies in memory, or is computed on the way."""

    def build(e: Any, x: SSAValue, y: SSAValue) -> SSAValue:
        if computed:
            x = e.cast(e.relu(x), "bf16")
        return e.matmul(e.cast(x, "f32"), e.cast(y, "f32"), transpose_b=True)

    types = [("f32" if computed else "bf16", (rows, depth)), ("bf16", (columns, depth))]
    return fused_kernel("contraction", types, build)


def stages(kernel: FusedKernelOp) -> int:
    return int(scheduled(kernel, H200)["stages"])


def test_few_tiles_of_a_long_shared_axis_have_many_blocks_on_their_way() -> None:
    assert stages(product(16, 1280, 11520)) == 8
    assert stages(product(64, 1280, 5120)) == 8


def test_a_short_shared_axis_does_not_fill_many_stages() -> None:
    assert stages(product(16, 1280, 256)) < 8


def test_blocks_that_are_computed_are_not_many_at_once() -> None:
    assert stages(product(16, 1280, 11520, computed=True)) < 8


@pytest.mark.parametrize("name", TABLES)
def test_more_blocks_on_their_way_are_never_waited_for_longer(name: str) -> None:
    request = Request(read_body(product(64, 1280, 5120)), {"units": 132}, H200)
    sizes = Product.of_body(request.body)
    for shape in TABLES[name]:
        fewer, more = (TensorTiling.of({**shape.numbers, "stages": count}, 2) for count in (4, 8))
        found = [copying_seconds(request, sizes, item, 1, False) for item in (fewer, more)]
        assert found[0] >= found[1] > 0
        staged = copying_seconds(request, sizes, more, 1, True)
        assert staged >= found[1]
