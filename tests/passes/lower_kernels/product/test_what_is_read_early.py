"""What products read before their group waits for others, and before the loop over the shared axis.

A stage of a resident launch waits where its kernel says: before it stand reads of the right operand
alone, which may be weights. What follows the sums, such as a residual, is read before them.
"""

import itertools
import random
from typing import Any

import pytest
from xdsl.dialects import memref, vector
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES, AwaitStagesOp, FuncOp
from mgn.dialects.kernel.residency import read_early
from tests.passes.lower_kernels.product.test_halved_products import gated
from tests.passes.lower_kernels.product.test_normed_products import root_mean_square
from tests.support.lower_fixture import fused_kernel, lowered

H200 = DEVICES["nvidia-h200"]
LEFT, RIGHT, RESIDUAL = range(3)
BIAS, GATED_RESIDUAL = 2, 3


def layer(rows: int, depth: int, columns: int, element: str, normed: bool) -> FusedKernelOp:
    """A product with a residual behind it, and perhaps a norm of its rows before."""

    def body(b: Any, x: Any, w: Any, r: Any) -> Any:
        left = b.mul(x, root_mean_square(b, x)) if normed else x
        if element == "f32":
            return b.add(r, b.matmul(left, w, transpose_b=True))
        rounded = b.cast(b.cast(left, T=element), T="f32")
        return b.add(r, b.matmul(rounded, b.cast(w, T="f32"), transpose_b=True))

    shapes = [("f32", (rows, depth)), (element, (columns, depth)), ("f32", (rows, columns))]
    return fused_kernel("contraction", shapes, body)


def read_by(func: FuncOp, argument: SSAValue) -> list[Operation]:
    """The operations that load from an argument, in any block."""
    loads = memref.LoadOp | vector.LoadOp
    return [op for op in func.walk() if isinstance(op, loads) and argument in op.operands]


CASES = list(itertools.product([1, 2, 3, 48, 128], ["f32", "bf16"], [False, True]))


@pytest.mark.parametrize(("rows", "element", "normed"), CASES)
def test_weights_alone_are_read_before_a_stage_waits(rows: int, element: str, normed: bool) -> None:
    draw = random.Random(rows + 7 * normed)
    depth, columns = 64 * draw.randint(2, 12), 32 * draw.randint(2, 20)
    func = lowered(layer(rows, depth, columns, element, normed), H200)
    early = read_early(func)
    assert early is not None and set(early) <= {RIGHT}
    if rows < 4:
        assert early == [RIGHT]
    outermost = [op for op in func.body.block.ops if isinstance(op, AwaitStagesOp)]
    assert len(outermost) == 1


@pytest.mark.parametrize("rows", [1, 128])
def test_a_residual_is_read_before_the_sums_are_known(rows: int) -> None:
    func = lowered(layer(rows, 576, 576, "f32", normed=False), H200)
    reads = read_by(func, func.body.block.args[RESIDUAL])
    assert reads and all(op.parent_block() is func.body.block for op in reads)
    sums = [op for op in func.body.block.ops if isinstance(op, ForOp)]
    operations = list(func.body.block.ops)
    if sums:
        assert max(map(operations.index, reads)) < operations.index(sums[0])


@pytest.mark.parametrize("operand", [BIAS, GATED_RESIDUAL])
def test_what_follows_halves_of_columns_is_read_before_the_sums_are_known(operand: int) -> None:
    func = lowered(gated((1,), 1024, 576), H200)
    reads = read_by(func, func.body.block.args[operand])
    assert reads and all(op.parent_block() is func.body.block for op in reads)


def test_a_kernel_that_does_not_say_where_it_waits_reads_nothing_early() -> None:
    kernel = fused_kernel("pointwise", [("f32", (64,))], lambda b, x: b.neg(x))
    assert read_early(lowered(kernel, H200)) is None
