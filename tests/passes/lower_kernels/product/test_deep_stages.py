"""Products on matrix units with more stages than blocks, and with fewer; images that were rounded
before their windows are taken.
"""

from typing import Any

import pytest

from mgn.dialects.kernel import CopyChunkOp, Device, RoundTf32Op
from tests.passes.lower_kernels.product.test_tensor_product import (
    GROUPS,
    exact_run,
    filtered,
    product_of,
)
from tests.support.lower_fixture import check_all, lowered, same_values
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

DEEP: list[dict[str, int]] = [
    {"tile_down": 4, "tile_across": 1, "item_columns": 64, "groups": 1, "stages": 8},
    {"tile_down": 8, "tile_across": 1, "item_columns": 64, "groups": 1, "stages": 8},
    {"tile_across": 1, "item_rows": 16, "item_columns": 32, "slices": 4, "chunks": 16, "stages": 8},
]
SIZES = ((66, 84, 64), (34, 132, 1544))
"""One or two blocks of the shared axis, and two or three times as many as there are stages."""


@pytest.mark.parametrize("tiling", DEEP, ids=lambda t: "x".join(map(str, t.values())))
@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_many_stages_hold_few_blocks_and_many(
    name: str,
    tiling: dict[str, int],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    entries = GROUPS | tiling if tiling.get("groups") else {"groups": 0} | tiling
    if name == "tf32":
        entries |= {"rounded": 1}
    runs = [
        exact_run(
            product_of(name, sizes, (False, True), False), device, sizes, matrix=name, **entries
        )
        for sizes in SIZES
    ]
    check_all(cl_queue, runs, same_values)


def test_windows_of_a_rounded_image_are_copied_past_the_registers(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """In padding, and at strides."""
    runs = [
        exact_run(
            filtered("tf32", channels, step, step),
            device,
            (channels, step),
            matrix="tf32",
            rounded=1,
            **GROUPS | DEEP[0],
        )
        for channels, step in ((16, 1), (20, 2))
    ]
    for item in runs:
        kernel = lowered(item.kernel, device, **item.schedule)
        operations = [type(op) for op in kernel.walk()]
        assert operations.count(CopyChunkOp) > 0 and RoundTf32Op not in operations
    check_all(cl_queue, runs, same_values)
