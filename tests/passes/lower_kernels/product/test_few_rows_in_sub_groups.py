"""Products of a few rows whose sums are added up by shuffles, where there are sub-groups.

The reference is the interpreter, and integers are exact. On a CPU these tests run in a process
whose driver makes sub-groups.
"""

from typing import Any

import pytest

from mgn.codegen.opencl import opencl
from mgn.codegen.opencl.matrix import need_sub_groups
from mgn.codegen.opencl.writer import Writer
from mgn.dialects.kernel import DEVICES, BarrierOp, Device
from mgn.dialects.kernel.sub_groups import SubGroupShuffleOp
from tests.passes.lower_kernels.product.test_few_rows import runs_of
from tests.support.lower_fixture import check_all, fused_kernel, lowered, same_values
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401


class AskingWriter(Writer):
    """A writer of kernels that all ask for sub-groups of 32, as NVIDIA's devices have them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.vendor != "nvidia":
            need_sub_groups(self)


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_shuffled_sums_are_those_of_the_interpreter(
    rows: int,
    element: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opencl, "Writer", AskingWriter)
    check_all(cl_queue, runs_of(rows, element, [device], sub_group=32), same_values)


def test_shares_of_a_sub_group_need_no_local_memory() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (1, 576)), ("f32", (960, 576))],
        lambda b, x, y: b.matmul(x, y, transpose_b=True),
    )
    function = lowered(kernel, DEVICES["nvidia-h200"])
    assert any(isinstance(op, SubGroupShuffleOp) for op in function.walk())
    assert not any(isinstance(op, BarrierOp) for op in function.walk())


def test_groups_that_reduce_rows_first_are_few() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (1, 576)), ("bf16", (3072, 576))],
        lambda b, x, y: b.matmul(
            b.mul(x, b.sum(x, axis=[1], keepdims=True)), b.cast(y, T="f32"), transpose_b=True
        ),
    )
    function = lowered(kernel, DEVICES["nvidia-h200"])
    groups = function.global_sizes[0] // function.local_sizes[0]
    assert groups <= DEVICES["nvidia-h200"].compute_units
