"""Products of which halves of the columns meet: gated layers as one kernel."""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import mgn
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph
from mgn.passes.schedules.choose import schedules_of
from mgn.passes.schedules.product.product import ProductVariant
from tests.passes.lower_kernels.test_differential import draw
from tests.passes.saturate.saturate_programs import body_names, kernels_of
from tests.support.lower_fixture import CPU, GPU_ON_CPU, expected, fused_kernel, lowered, run
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

H200 = DEVICES["nvidia-h200"]


def halves(b: Any, x: Any) -> tuple[Any, Any]:
    *outer, columns = x.type.get_shape()
    zeros, ones = [0] * len(outer), [1] * (len(outer) + 1)
    return (
        b.slice(x, [*zeros, 0], [*outer, columns // 2], ones),
        b.slice(x, [*zeros, columns // 2], [*outer, columns], ones),
    )


def gated(
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    rounding: Any = lambda b, x: x,
    turned: bool = True,
) -> FusedKernelOp:
    """`silu(gate) * up + z`, after a bias, of one product with both weights."""
    weights = (columns, depth) if turned else (depth, columns)
    types = [
        ("f32", shape) for shape in ((*rows, depth), weights, (columns,), (*rows, columns // 2))
    ]

    def build(b: Any, x: Any, w: Any, bias: Any, z: Any) -> Any:
        product = b.matmul(rounding(b, x), rounding(b, w), transpose_b=turned)
        gate, up = halves(b, b.add(product, bias))
        return b.add(b.mul(b.silu(gate), up), z)

    return fused_kernel("contraction", types, build)


def check_gated(queue: Any, kernel: FusedKernelOp, device: Any, **schedule: Any) -> None:
    shapes = [argument.type.get_shape() for argument in kernel.block.args]  # type: ignore
    arrays = [draw("bf16", shape, n).astype(np.float32) for n, shape in enumerate(shapes)]
    (want,) = expected(kernel, arrays)
    (got,) = run(queue, kernel, arrays, device, **schedule)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [((64,), 128, 64), ((2, 7), 10, 33), ((5,), 2, 40), ((70,), 202, 24)],
)
def test_halves_meet_in_tiles(
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    kernel = gated(rows, columns, depth)
    check_gated(cl_queue, kernel, GPU_ON_CPU)
    check_gated(cl_queue, kernel, CPU)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("leading", [(), (3,)], ids=["one product", "three products"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("columns", "depth"), [(2, 3), (10, 33), (202, 24), (128, 576), (1000, 96)]
)
def test_halves_of_few_rows_meet(
    leading: tuple[int, ...],
    rows: int,
    columns: int,
    depth: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    kernel = gated((*leading, rows), columns, depth)
    (schedule, *others) = schedules_of(kernel, GPU_ON_CPU)
    assert schedule.variant == ProductVariant.FEW_ROWS and not others
    check_gated(cl_queue, kernel, GPU_ON_CPU)


def test_halves_of_few_rows_meet_with_norms_before_them(cl_queue: Any) -> None:  # noqa: F811
    types = [("f32", (2, 48)), ("f32", (48,)), ("f32", (60, 48))]

    def build(b: Any, x: Any, scale: Any, w: Any) -> Any:
        total = b.sum(b.mul(x, x), axis=[1], keepdims=True)
        normed = b.mul(b.mul(x, b.rsqrt(total)), scale)
        gate, up = halves(b, b.matmul(normed, w, transpose_b=True))
        return b.mul(b.silu(gate), up)

    check_gated(cl_queue, fused_kernel("contraction", types, build), GPU_ON_CPU)


def test_only_a_gpu_has_a_template_for_halves_of_few_rows_that_lie_in_memory() -> None:
    with pytest.raises(VerifyException, match="halves of so few rows"):
        lowered(gated((4,), 128, 64), CPU)
    with pytest.raises(VerifyException, match="apart in memory, or computed"):
        lowered(gated((4,), 128, 64, rounding=lambda b, x: b.tanh(x)), GPU_ON_CPU)


@pytest.mark.parametrize("schedule", [{}, {"tile_vectors": 4, "lanes": 8, "local_memory": 40000}])
def test_halves_meet_in_panels_packed_from_rows(
    schedule: dict[str, int],
    cl_queue: Any,  # noqa: F811
) -> None:
    for rows, columns, depth in ((33, 202, 24), (20, 128, 1500)):
        check_gated(cl_queue, gated((rows,), columns, depth, turned=False), CPU, **schedule)


@pytest.mark.parametrize("rows", [128, 1])
def test_a_gated_layer_is_a_product_with_both_weights_and_one_with_what_they_give(
    rows: int,
) -> None:
    text = f"""graph g(x: f32[{rows}, 256]) {{
      param gate: f32[512, 256]
      param up: f32[512, 256]
      param down: f32[256, 512]
      return y = (silu(x @ gate.T) * (x @ up.T)) @ down.T
    }}"""
    graph = next(graphs_of(mgn.parse(text).lower()))
    saturate_graph(graph, H200)
    spellings = {"swiglu", "silu", "mul"}
    kernels = [set(body_names(kernel)) for kernel in kernels_of(graph)]
    assert [item - spellings for item in kernels] == [{"concat"}, {"matmul", "slice"}, {"matmul"}]
    assert not kernels[2] & spellings


def test_a_gpu_turns_columns_that_are_apart_in_memory() -> None:
    with pytest.raises(VerifyException, match="apart in memory"):
        lowered(gated((64,), 128, 64, turned=False), GPU_ON_CPU)
    text = """graph g(x: f32[128, 64]) {
      param w: f32[64, 192]
      p = x @ w
      return y = silu(p[:, 0:96]) * p[:, 96:192]
    }"""
    graph = next(graphs_of(mgn.parse(text).lower()))
    saturate_graph(graph, H200)
    copy, product = kernels_of(graph)
    assert body_names(copy) == ["transpose"]
    assert {"matmul", "slice"} < set(body_names(product))


@pytest.mark.parametrize(
    ("why", "build"),
    [
        (
            "of halves of the matmul",
            lambda b, x, y: [
                product := b.matmul(x, y, transpose_b=True),
                b.mul(*halves(b, product)),
            ],
        ),
        (
            "cannot follow a matmul",
            lambda b, x, y: b.exp(
                b.slice(b.matmul(x, y, transpose_b=True), [0, 1], [16, 7], [1, 1])
            ),
        ),
        (
            "cannot follow a matmul",
            lambda b, x, y: b.mul(
                *halves(
                    b,
                    b.matmul(
                        b.reshape(b.slice(y, [0, 0], [1, 8], [1, 1]), [8]), x, transpose_b=True
                    ),
                )
            ),
        ),
    ],
    ids=["the product itself", "another part", "a vector's product"],
)
def test_other_parts_of_products_are_refused(why: str, build: Any) -> None:
    with pytest.raises(VerifyException, match=why):
        fused_kernel("contraction", [("f32", (16, 8)), ("f32", (12, 8))], build)
