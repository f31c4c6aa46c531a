"""Operands that are copied before a product: when, as what, and that the values are the same."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.commands.run import main
from mgn.dialects.fusion import FusedKernelOp, KernelKind, ScheduleAttr
from mgn.dialects.kernel import DEVICES, CopyChunkOp, GroupMmaOp, RoundTf32Op
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import element_of
from mgn.passes.arrangements.copied_operands import CopiedOperands
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.product import Product
from mgn.passes.saturate.arrange_kernels import arrange_kernel
from mgn.passes.schedules.choose import schedule_for
from mgn.passes.schedules.product.operand_copies import ready_once_rounded
from tests.conftest import run_in_process
from tests.passes.lower_kernels.product.test_tensor_product import filtered
from tests.support.lower_fixture import Build, expected, fused_kernel, lowered

H200 = DEVICES["nvidia-h200"]
SLOW = H200.with_figures(rates={"f32": 1e11})
"""A device that is slow but for its matrix unit."""
EAGER = H200.with_figures(bandwidth=1e30, launch_cost=0.0, rates={"f32": 1e12})
"""A device on which every copy pays."""

Types = list[tuple[str, tuple[int, ...]]]


def product(name: str, turned: tuple[bool, bool]) -> Build:
    """A product with what comes before it and after."""

    def build(e: Any, x: SSAValue, y: SSAValue, bias: SSAValue) -> SSAValue:
        if name == "tf32":
            x, y = e.round_tf32(x), e.round_tf32(e.neg(y))
        result = e.matmul(x, y, transpose_a=turned[0], transpose_b=turned[1])
        return e.relu(e.add(result, bias))

    return build


def arrays_of(kernel: FusedKernelOp) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [
        random.standard_normal(value.type.get_shape()).astype(element_of(value.type).dtype)  # type: ignore
        for value in kernel.inputs
    ]


def after_copies(kernel: FusedKernelOp, arrays: list[np.ndarray]) -> Any:
    """The kernels in the place of one, and the last one's result."""
    known = dict(zip(kernel.inputs, (np.asarray(x, np.float64) for x in arrays), strict=True))
    pieces = arrange_kernel(kernel, EAGER)
    return pieces, after(pieces, known)


def after(pieces: list[FusedKernelOp], known: dict[SSAValue, np.ndarray]) -> np.ndarray:
    """The result of the last of several kernels, which may read what is known."""
    for piece in pieces:
        piece.verify()
        results = Interpreter(wide=True).run_op(piece, [known[value] for value in piece.inputs])
        known.update(zip(piece.outputs, results, strict=True))
    return known[pieces[-1].outputs[0]]


@pytest.mark.parametrize("name", ["tf32", "bf16"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_a_product_of_copies_is_the_same(name: str, turned: tuple[bool, bool]) -> None:
    for rows, columns, depth in ((16, 24, 8), (13, 9, 11), (8, 9, 16)):
        element = "f32" if name == "tf32" else name
        types: Types = [
            (element, (3, depth, rows) if turned[0] else (3, rows, depth)),
            (element, (columns, depth) if turned[1] else (depth, columns)),
            (element, (columns,)),
        ]
        kernel = fused_kernel("contraction", types, product(name, turned))
        arrays = arrays_of(kernel)
        (wanted,) = expected(kernel, arrays)
        _, found = after_copies(kernel, arrays)
        np.testing.assert_array_equal(found, wanted)


def test_only_operands_that_cannot_be_copied_in_whole_chunks_are_copied_first() -> None:
    def kinds(name: str, left: tuple[int, int], right: tuple[int, int]) -> list[KernelKind]:
        element = "f32" if name == "tf32" else name
        types: Types = [(element, left), (element, right), (element, right[1:])]
        kernel = fused_kernel("contraction", types, product(name, (False, False)))
        return [piece.kernel_kind for piece in arrange_kernel(kernel, EAGER)]

    copy, product_ = KernelKind.POINTWISE, KernelKind.CONTRACTION
    assert kinds("bf16", (64, 64), (64, 64)) == [product_]
    assert kinds("bf16", (64, 64), (64, 63)) == [copy, product_]
    assert kinds("bf16", (64, 63), (63, 64)) == [copy, copy, product_]
    assert kinds("tf32", (64, 64), (64, 64)) == [copy, copy, product_]


def rounded_product(size: int, negated: bool = False) -> FusedKernelOp:
    def build(e: Any, x: SSAValue, y: SSAValue) -> SSAValue:
        return e.matmul(e.round_tf32(x), e.round_tf32(e.neg(y) if negated else y))

    return fused_kernel("contraction", [("f32", (size, size))] * 2, build)


def test_small_products_and_other_units_are_left_alone() -> None:
    for size, device, count in (
        (4096, H200, 2),
        (512, H200, 0),
        (4096, H200.with_figures(matrix_unit="mma"), 0),
        (4096, H200.with_figures(matrix_rates={}), 0),
    ):
        made = arrange_kernel(rounded_product(size), device)
        copies = [part for part in made if part.kernel_kind is KernelKind.POINTWISE]
        assert len(copies) == count


def test_what_comes_before_a_product_is_computed_by_the_copy() -> None:
    left, right, last = arrange_kernel(rounded_product(512, negated=True), SLOW)
    names = [[op.name for op in kernel.block.ops][:-1] for kernel in (left, right, last)]
    assert names[1] == ["mgn.neg", "mgn.round_tf32", "mgn.transpose"]
    assert names[2] == ["mgn.round_tf32", "mgn.round_tf32", "mgn.matmul"]


def test_rounded_copies_pass_by_the_registers() -> None:
    types: Types = [("f32", (4096, 4096)), ("f32", (4096, 4096)), ("f32", (4096,))]
    kernel = fused_kernel("contraction", types, product("tf32", (False, False)))
    assert "rounded" not in schedule_for(kernel, H200).values
    last = arrange_kernel(kernel, H200)[-1]
    assert schedule_for(last, H200).values["rounded"] == 1
    operations = {type(op) for op in lowered(last, H200).walk()}
    assert {CopyChunkOp, GroupMmaOp} <= operations and RoundTf32Op not in operations


def rounded_before(kernel: FusedKernelOp) -> list[FusedKernelOp]:
    """The kernels of a product in tf32 whose operands are rounded or copied before."""
    product = Product.of_body(read_body(kernel))
    pieces = KernelPieces(kernel)
    CopiedOperands((0, 1), "tf32", ready_once_rounded(product, "tf32")).write(pieces)
    return pieces.replace()


@pytest.mark.parametrize("channels", [16, 20])
def test_an_image_is_rounded_and_not_its_windows(channels: int) -> None:
    kernel = filtered("tf32", channels, 1, 1)
    image, weights = (value.type for value in kernel.inputs)
    arrays = arrays_of(kernel)
    known = dict(zip(kernel.inputs, (np.asarray(x, np.float64) for x in arrays), strict=True))
    (wanted,) = expected(kernel, arrays)
    left, right, last = rounded_before(kernel)
    assert [copy.outputs[0].type for copy in (left, right)] == [image, weights]
    for copy in (left, right):
        assert [op.name for op in copy.block.ops][:-1] == ["mgn.round_tf32"]
    assert [op.name for op in last.block.ops].count("mgn.windows") == 1
    np.testing.assert_array_equal(after([left, right, last], known), wanted)
    last.arranged = ScheduleAttr.of(rounded=1, matrix="tf32")
    entries = {"tile_down": 4, "tile_across": 1, "item_rows": 16, "item_columns": 64, "groups": 1}
    function = lowered(last, H200, **entries, slices=1, chunks=8, stages=8)
    operations = {type(op) for op in function.walk()}
    assert CopyChunkOp in operations and RoundTf32Op not in operations


def test_windows_that_cannot_be_copied_whole_are_written() -> None:
    """Chunks of eighteen channels cross from one element of a window to the next."""
    left, _, last = rounded_before(filtered("tf32", 18, 1, 1))
    assert "mgn.windows" in [op.name for op in left.block.ops]
    assert "mgn.windows" not in [op.name for op in last.block.ops]


def test_copies_of_bf16_hold_bf16() -> None:
    types: Types = [("bf16", (65, 63)), ("bf16", (63, 65))]
    kernel = fused_kernel(
        "contraction", types, lambda e, x, y: e.matmul(e.cast(x, "f32"), e.cast(y, "f32"))
    )
    left, right, last = arrange_kernel(kernel, EAGER)
    for copy in (left, right):
        assert element_of(copy.outputs[0].type).dtype == ml_dtypes.bfloat16
        assert copy.outputs[0].type.get_shape() == (65, 64)  # type: ignore
    assert element_of(last.outputs[0].type).name == "f32"


def test_copies_of_parameters_are_made_once(tmp_path: Path) -> None:
    path = tmp_path / "layer.mgn"
    path.write_text("graph g(x: f32[4096, 4096]) { param w: f32[4096, 4096]\nreturn y = x @ w }\n")
    options = [str(path), "--precision", "tf32", "--device", "nvidia-h200", "--emit=plan"]
    done = run_in_process(main, options)
    assert done.status == 0, done.stderr
    assert done.stdout.count("plan.prepare") == 1 and done.stdout.count("plan.launch") == 2


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
def test_kernels_of_other_kinds_are_left_alone(tmp_path: Path, precision: str) -> None:
    path = tmp_path / "others.mgn"
    path.write_text(
        "graph g(x: f32[64, 64], q: f32[16, 128, 64]) "
        "{ return y = softmax(x), z = attention(q, q, q, heads = 1), c = cumsum(x) }\n"
    )
    options = [str(path), "--device", "nvidia-h200", "--precision", precision, "--emit=plan"]
    done = run_in_process(main, options)
    assert done.status == 0, done.stderr
    assert done.stdout.count("plan.launch") == 3
