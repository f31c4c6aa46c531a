"""Products on matrix units with more stages than blocks, and with fewer; in tiles of 48 and 96
columns; copies of windows, of images that were rounded before and of others.
"""

from typing import Any

import pytest
from xdsl.dialects.arith import MaxSIOp

from mgn.dialects.kernel import DEVICES, CopyChunkOp, Device, RoundTf32Op
from mgn.passes.schedules.choose import schedules_of
from tests.passes.lower_kernels.product.test_tensor_product import (
    GROUPS,
    exact_run,
    filtered,
    product_of,
)
from tests.support.lower_fixture import check_all, lowered, same_values, scheduled
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


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_tiles_of_48_and_96_columns_are_right_in_either_layout(
    name: str,
    turned: bool,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    """Of untransposed weights, lines of the tile are its columns: 6 or 12 chunks in bf16."""
    device = device.with_figures(max_work_group_size=512)
    runs = [
        exact_run(
            product_of(name, (40, 96, 264), (False, turned), False),
            device,
            tiling,
            matrix=name,
            **dict(zip(("tile_down", "tile_across"), tiling, strict=True)),
            **{"item_rows": 32, "item_columns": 48, "slices": 1, "stages": 3, "groups": 0},
        )
        for tiling in ((2, 1), (1, 2))
    ]
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize("name", ["bf16", "f16"])
@pytest.mark.parametrize("sizes", [(96, 1536, 1536), (256, 576, 1536), (256, 768, 4096)])
def test_lines_across_the_shared_axis_are_whole_parts(
    name: str, sizes: tuple[int, int, int]
) -> None:
    kernel = product_of(name, sizes, (False, False), False)
    chosen = scheduled(kernel, DEVICES["nvidia-h200"])
    assert chosen["tile_across"] * chosen["item_columns"] % 64 in (0, 8, 16, 32)


WIDE = 48
"""Columns of a sub-group's tile that only deep products of two-byte elements have."""


@pytest.mark.parametrize(("name", "wide"), [("bf16", True), ("f16", True), ("tf32", False)])
def test_wide_deep_tiles_are_for_two_bytes(name: str, wide: bool) -> None:
    kernel = product_of(name, (128, 576, 2304), (False, True), False)
    assert scheduled(kernel, DEVICES["nvidia-h200"])["matrix"] == name
    found = schedules_of(kernel, DEVICES["nvidia-h200"])
    assert any(item.numbers["item_columns"] == WIDE for item in found) == wide


def test_deep_tiles_are_not_for_windows() -> None:
    h200 = DEVICES["nvidia-h200"]
    kernel = filtered("bf16", 512, 1, 1)
    assert scheduled(kernel, h200)["matrix"] == "bf16"
    whole = product_of("bf16", (98, 36, 3072), (False, True), False)
    assert scheduled(whole, h200)["matrix"] == "bf16"
    deep, plain = (
        {(item.numbers["groups"], item.numbers["stages"]) for item in schedules_of(each, h200)}
        for each in (whole, kernel)
    )
    assert (0, 8) in deep and (0, 8) not in plain


@pytest.mark.parametrize("tiling", DEEP[::2], ids=lambda t: "x".join(map(str, t.values())))
def test_guarded_copies_clamp_no_place(tiling: dict[str, int]) -> None:
    """What lies outside of the image is not read. Tiles divide the rows, whose places are clamped
    otherwise.
    """
    entries = GROUPS | tiling if tiling.get("groups") else {"groups": 0} | tiling
    kernel = filtered("bf16", 16, 1, 1)
    operations = list(lowered(kernel, DEVICES["nvidia-h200"], matrix="bf16", **entries).walk())
    copies = [op for op in operations if isinstance(op, CopyChunkOp)]
    assert any(op.valid is not None for op in copies)
    assert not any(isinstance(op, MaxSIOp) for op in operations)


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
