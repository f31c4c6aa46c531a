"""Reductions of few long rows as several kernels: the same values, and work for all of the device.

The reference is the wide interpreter on the kernel before it was cut.
"""

import os
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.passes.arrangements.split_reductions import Cut, choose_cut
from mgn.passes.kernels.rows import RowSpace
from tests.passes.lower_kernels.reduction.test_group_norms import group_norm
from tests.passes.lower_kernels.test_differential import (
    EPSILON,
    add_and_norm,
    draw,
    layer_norm,
    softmax,
)
from tests.support.lower_fixture import CPU, GPU_ON_CPU, expected, fused_kernel, pieces

H200 = DEVICES["nvidia-h200"]


def test_enough_rows_are_not_cut() -> None:
    for shape, axes in (((16384, 4096), (1,)), ((1000,), (0,)), ((1 << 20, 64), (1,))):
        for device in (CPU, H200):
            assert choose_cut(RowSpace(shape, axes), device, 1) is None


def test_no_group_or_work_item_walks_a_million_elements_alone() -> None:
    for shape, axes in (
        ((1 << 26,), (0,)),
        ((16384, 4096), (0,)),
        ((1 << 20, 64), (0,)),
        ((3, 10_000_019), (1,)),
        ((8192, 8192), (0, 1)),
    ):
        for device in (CPU, H200):
            space = RowSpace(shape, axes)
            cut = choose_cut(space, device, 1)
            walked = space.length // (cut.parts if cut else 1)
            assert device is CPU or walked <= 1 << 18
            assert cut is None or cut.parts * cut.length >= shape[cut.axis]
            assert cut is None or (cut.parts - 1) * cut.length < shape[cut.axis]


def test_parts_divide_an_axis_where_a_divisor_is_near() -> None:
    assert choose_cut(RowSpace((16384, 2048), (0,)), H200, 1) == Cut(0, 64, 256)


def test_columns_are_cut_only_where_narrow_groups_are_too_few() -> None:
    assert choose_cut(RowSpace((16384, 4096), (0,)), H200, 1) is None
    assert choose_cut(RowSpace((16384, 3600), (0,)), H200, 1) is not None
    assert choose_cut(RowSpace((16384, 4096), (0,)), H200, 1, columns=64) is not None


def values_of(kernels: Sequence[FusedKernelOp], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the kernels compute one after the other; the results of the last."""
    first = kernels[0].parent_op()
    assert isinstance(first, ModuleOp)
    source = first.body.block.first_op
    assert source is not None
    known = dict(zip(source.results, [a.astype(np.float64) for a in arrays], strict=True))
    interpreter = Interpreter(wide=True)
    for kernel in kernels:
        results = interpreter.run_op(kernel, [known[value] for value in kernel.inputs])
        known.update(zip(kernel.outputs, results, strict=True))
    return [known[value] for value in kernels[-1].outputs]


BODIES: dict[str, tuple[list[tuple[int, ...]], Any, int]] = {
    "softmax": ([(2, 300_000)], softmax, 5),
    "layer_norm": ([(1, 262_147), (262_147,), (262_147,)], layer_norm, 5),
    "group_norm": (
        [(1, 4, 512, 160), (4,), (4,)],
        lambda b, x, w, c: group_norm(b, x, w, c)[1],
        5,
    ),
    "sum": ([(300_000,)], lambda b, x: b.sum(x, axis=[0]), 2),
    "mean of both axes": (
        [(500, 700)],
        lambda b, x: b.mul(b.sum(x, axis=[0, 1], keepdims=True), 1 / 350_000),
        2,
    ),
    "columns": ([(40_000, 8)], lambda b, x: b.max_reduce(b.exp(x), axis=[0]), 2),
}


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU, H200], ids=lambda device: device.name)
@pytest.mark.parametrize("name", BODIES)
def test_the_pieces_compute_what_the_kernel_did(name: str, device: Any) -> None:
    shapes, build, count = BODIES[name]
    arrays = [draw("f32", shape, number) for number, shape in enumerate(shapes)]
    kernel = fused_kernel("reduction", [("f32", shape) for shape in shapes], build)
    (want,) = expected(kernel, arrays)
    made = pieces(kernel, device)
    assert len(made) in (1, count)
    (got,) = values_of(made, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_what_is_computed_once_a_row_comes_from_the_kernel_that_has_the_row() -> None:
    kernel = fused_kernel("reduction", [("f32", (2, 300_000))] * 2, add_and_norm)
    made = pieces(kernel, CPU)
    kinds = [piece.kernel_kind for piece in made]
    reduction, pointwise = KernelKind.REDUCTION, KernelKind.POINTWISE
    assert kinds == [reduction, reduction, pointwise]
    names = [[op.name for op in piece.block.ops] for piece in made]
    assert names[1][:3] == ["mgn.sum", "mgn.constant", "mgn.mul"]
    assert names[2] == ["mgn.add", "fusion.return"]


def test_elements_in_two_shapes_come_from_kernels_of_their_own() -> None:
    def build(b: Any, x: Any) -> Any:
        centred = b.sub(x, b.sum(x, axis=1, keepdims=True))
        return [centred, b.relu(b.reshape(centred, [3, 1000, 300]))]

    made = pieces(fused_kernel("reduction", [("f32", (3, 300_000))], build), CPU)
    shapes = [value.type.get_shape() for kernel in made[2:] for value in kernel.outputs]  # type: ignore
    assert shapes == [(3, 300_000), (3, 1000, 300)]


def test_what_an_earlier_stage_gives_is_not_written_again() -> None:
    def moments(b: Any, x: Any) -> Any:
        mean = b.mul(b.sum(x, axis=1, keepdims=True), 1 / 300_000)
        centred = b.sub(x, mean)
        return [mean, b.sum(b.mul(centred, centred), axis=1)]

    kernel = fused_kernel("reduction", [("f32", (3, 300_000))], moments)
    made = pieces(kernel, CPU)
    assert [len(piece.outputs) for piece in made] == [1, 1, 1, 1]
    arrays = [draw("f32", (3, 300_000), 0)]
    (got,) = values_of(made, arrays)
    want = Interpreter(wide=True).run_op(kernel, [arrays[0].astype(np.float64)])
    np.testing.assert_allclose(got, want[1], rtol=1e-12)


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
def test_a_long_sum_runs_on_the_device(element: str) -> None:
    count = 1_500_007
    array = draw(element, (count,), 3)
    executable = mgn.compile(
        mgn.parse(f"graph g(x: {element}[{count}]) {{ return y = sum(x, axis = [0]) }}"),
        device=os.environ.get("MGN_TEST_DEVICE", "cpu"),
    )
    (got,) = executable(x=array).values()
    if element == "i32":
        assert got == array.sum(dtype=np.int32)
        return
    wide = array.astype(np.float64)
    unit = EPSILON["f32"] * count**0.5 + float(ml_dtypes.finfo(array.dtype).eps)
    assert abs(float(got) - wide.sum()) <= unit * np.abs(wide).sum()
    assert prod(got.shape) == 1
