"""Rows of a matrix unit's results that are combined between the work-items of a sub-group.

Small integers make sums exact, so that results are compared bit by bit.
"""

from typing import Any

import pytest
from xdsl.utils.exceptions import VerifyException

from mgn.codegen.opencl import opencl
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.schedules.choose import schedules_of
from mgn.passes.schedules.product.product import ProductVariant
from tests.passes.lower_kernels.product.test_few_rows_in_sub_groups import AskingWriter
from tests.passes.lower_kernels.product.test_pooled_products import (
    COMBINED,
    drawn,
    pooled_convolution,
)
from tests.support.lower_fixture import Run, check_all, lowered, same_rounded, scheduled
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

H200 = DEVICES["nvidia-h200"]
TYPES = ("bf16", "f16", "tf32")
CASES = [
    ((1, 16, 12, 12), 32, 3, 1, (2, 2)),
    ((2, 16, 13, 17), 64, 3, 1, (2, 2)),
    ((1, 8, 9, 20), 30, 1, 0, (2, 1)),
    ((1, 4, 6, 7, 9), 16, 1, 0, (2, 2, 2)),
    ((2, 3, 70), 34, 3, 1, (2,)),
]
EXCHANGING = {"sub_group": 32}
TILINGS: list[dict[str, int]] = [
    {"tile_down": 4, "tile_across": 1, "item_columns": 64, "groups": 1, **EXCHANGING},
    {
        "tile_down": 2,
        "tile_across": 2,
        "item_rows": 32,
        "item_columns": 32,
        "groups": 0,
        **EXCHANGING,
    },
]


def rounded(case: Any, unit: str, combine: str = "max_reduce") -> FusedKernelOp:
    """A pooled convolution of images with channels last, rounded to what a unit multiplies."""

    def read(b: Any, x: Any) -> Any:
        return b.round_tf32(x) if unit == "tf32" else b.cast(x, ELEMENT_TYPES["f32"])

    element = "f32" if unit == "tf32" else unit
    kernel = pooled_convolution(*case, combine=combine, element=element, last=True, read=read)
    kernel.arranged = ScheduleAttr.of(matrix=unit)
    kernel.verify()
    return kernel


@pytest.mark.parametrize("tiling", TILINGS, ids=["groups", "sub-groups"])
@pytest.mark.parametrize("unit", TYPES)
def test_rows_are_combined_by_exchanges(
    unit: str,
    tiling: dict[str, int],
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opencl, "Writer", AskingWriter)
    runs = list[Run]()
    for number, case in enumerate(CASES):
        kernel = rounded(case, unit, COMBINED[number % len(COMBINED)])
        entries = scheduled(kernel, device, **tiling)
        assert entries["variant"] == ProductVariant.MATRIX, case
        assert entries["groups"] == tiling["groups"], case
        runs.append(Run(kernel, drawn(kernel), device, tiling, f"{case} {unit}"))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("unit", TYPES)
def test_schedules_have_all_sums_in_one_slice(unit: str) -> None:
    kernel = rounded(CASES[0], unit)
    assert scheduled(kernel, H200)["variant"] == ProductVariant.MATRIX
    found = schedules_of(kernel, H200)
    assert found and all(item.numbers["slices"] == 1 for item in found)


def test_other_groups_are_no_candidates_on_the_unit() -> None:
    for case in (((1, 16, 12, 12), 32, 3, 1, (3, 3)), ((1, 16, 12, 12), 31, 3, 1, (2, 2))):
        kernel = rounded(case, "bf16")
        with pytest.raises(VerifyException, match="no tile has all neighbours"):
            lowered(kernel, H200)


def test_a_schedule_whose_slices_share_groups_is_refused() -> None:
    kernel = rounded(CASES[0], "bf16")
    with pytest.raises(VerifyException, match="no sub-group has all rows of a group"):
        lower_kernel(kernel, "k", {**scheduled(kernel, H200), "slices": 2})
