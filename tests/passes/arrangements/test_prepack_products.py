"""Large products on a CPU, whose right operand a kernel of its own lays out in panels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.arrangements.prepack_products import LEAST_ROWS, PackedOperand
from mgn.passes.kernels.body import read_body
from mgn.passes.saturate.arrange_kernels import ArrangeKernels, arrange_kernel
from mgn.passes.saturate.extraction.report import ExtractionReport
from mgn.passes.schedules.choose_schedules import ChooseSchedules
from mgn.passes.schedules.core.packed_blocking import panel_steps
from mgn.passes.schedules.transposes import interleaved_axis
from tests.support.lower_fixture import CPU, GPU_ON_CPU, expected, fused_kernel, run
from tests.support.opencl_fixture import cl_queue  # noqa: F401

DEPTH, COLUMNS = 64, 32

EAGER = CPU.with_figures(bandwidth=1e30, launch_cost=0.0)
"""A device on which packing always pays."""


def product(left: tuple[int, ...], right: tuple[int, ...], element: str = "f32", **turned: bool):
    types = [(element, left), (element, right)]
    return fused_kernel(
        "contraction", types, lambda e, x, y: e.relu(e.sub(e.matmul(x, y, **turned), 2.0))
    )


def packed(fused: FusedKernelOp) -> list[FusedKernelOp]:
    """The kernels that pack and multiply."""
    pieces = KernelPieces(fused)
    turned = pieces.product.values["transpose_b"]
    depth = pieces.product.operands[1].type.get_shape()[1 if turned else 0]  # type: ignore
    steps = panel_steps(depth, DEPTH)
    assert steps is not None
    PackedOperand(steps, COLUMNS).write(pieces)
    return pieces.replace()


def module_of(fused: FusedKernelOp) -> ModuleOp:
    module = fused.parent_op()
    assert isinstance(module, ModuleOp)
    return module


@given(data=st.data())
@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
def test_packed_products_compute_the_same(data: Any, cl_queue: Any) -> None:  # noqa: F811
    rows = data.draw(st.integers(LEAST_ROWS, LEAST_ROWS + 30))
    depth = data.draw(st.sampled_from([64, 80, 150, 160, 192, 231]))
    columns = COLUMNS * data.draw(st.integers(2, 5)) + data.draw(st.sampled_from([0, 0, 1, 8, 31]))
    element, dtype = data.draw(st.sampled_from([("f32", np.float32), ("f64", np.float64)]))
    turned = {name: data.draw(st.booleans()) for name in ("transpose_a", "transpose_b")}
    batch = data.draw(st.sampled_from([(), (1,), (2,)]))
    left = (*batch, depth, rows) if turned["transpose_a"] else (*batch, rows, depth)
    right = (columns, depth) if turned["transpose_b"] else (depth, columns)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = [random.integers(-4, 5, shape).astype(dtype) for shape in (left, right)]
    fused = product(left, right, element, **turned)
    wanted = expected(fused, arrays)[0]
    packing, multiplying = packed(fused)
    (panels,) = run(cl_queue, packing, arrays[1:], CPU)
    tiles = data.draw(st.sampled_from([{}, {"tile_rows": 5, "tile_vectors": 3, "units": 1}]))
    steps = data.draw(st.sampled_from([DEPTH, 128]))
    (found,) = run(
        cl_queue,
        multiplying,
        [arrays[0], panels],
        CPU,
        **{"right": "panels", "block_depth": steps, **tiles},
    )
    np.testing.assert_array_equal(found, wanted)


def test_panels_hold_the_columns_of_a_tile_step_by_step(cl_queue: Any) -> None:  # noqa: F811
    right = np.arange(192 * 64, dtype=np.float32).reshape(192, 64)
    packing, _ = packed(product((LEAST_ROWS, 192), (192, 64)))
    (panels,) = run(cl_queue, packing, [right], CPU)
    np.testing.assert_array_equal(panels[1, 1], right[64:128, 32:])


def test_the_last_panel_ends_with_the_columns(cl_queue: Any) -> None:  # noqa: F811
    right = np.arange(64 * 75, dtype=np.float32).reshape(64, 75)
    packing, _ = packed(product((LEAST_ROWS, 64), (64, 75)))
    (panels,) = run(cl_queue, packing, [right], CPU)
    assert panels.shape == (1, 3, 64, 32)
    np.testing.assert_array_equal(panels[0, 2], right[:, 43:])
    body = read_body(packing)
    assert interleaved_axis(body, body.written[0].shape) == 1


def test_an_operand_that_is_read_elsewhere_too_stays_an_input() -> None:
    square = fused_kernel("contraction", [("f32", (768, 768))], lambda e, x: e.matmul(x, x))
    _, multiplying = packed(square)
    shapes = [value.type.get_shape() for value in multiplying.block.args]  # type: ignore
    assert shapes == [(768, 768), (12, 24, 64, 32)]


@pytest.mark.parametrize(
    "left, right, element",
    [
        ((LEAST_ROWS - 1, 64), (64, 64), "f32"),
        ((LEAST_ROWS, 64), (64, 64), "f16"),
        ((LEAST_ROWS, 1201), (1201, 64), "f32"),
        ((2, LEAST_ROWS, 64), (2, 64, 64), "f32"),
        ((LEAST_ROWS, 32), (32, 64), "f32"),
    ],
    ids=["few rows", "half precision", "steps", "batch", "small"],
)
def test_other_products_stay_one_kernel(
    left: tuple[int, ...], right: tuple[int, ...], element: str
) -> None:
    fused = product(left, right, element)
    assert arrange_kernel(fused, EAGER) == [fused]


@pytest.mark.parametrize(
    "rows, declared, packed",
    [
        (32, "param w: f32[256, 256]", True),
        (12, "param w: f32[256, 256]", True),
        (4, "param w: f32[256, 256]", True),
        (1, "param w: f32[256, 256]", True),
        (1, "param w: bf16[256, 256]", False),
        (32, "", False),
        (1, "", False),
    ],
)
def test_parameters_are_packed_for_any_number_of_rows(
    rows: int, declared: str, packed: bool
) -> None:
    given = "" if declared else ", w: f32[256, 256]"
    product = "x @ cast(w, f32)" if "bf16" in declared else "x @ w"
    text = f"graph g(x: f32[{rows}, 256]{given}) {{ {declared}\n return y = {product} }}"
    report = mgn.optimize(mgn.parse(text), device="cpu").report
    assert ("in panels" in str(report)) is packed


@pytest.mark.parametrize(("rows", "packed"), [(1, False), (2, True), (16, True)])
@pytest.mark.parametrize("scale", ["", " * scale"])
def test_a_table_that_runs_gather_from_is_not_there_twice_for_one_row(
    rows: int, packed: bool, scale: str
) -> None:
    text = f"""graph g(ids: i32[{rows}]) {{
      param table: f32[512, 256]
      param scale: f32[256]
      return y = tanh(embedding(ids, table)) @ (table{scale}).T
    }}"""
    report = mgn.optimize(mgn.parse(text), device="cpu").report
    assert isinstance(report.extraction, ExtractionReport)
    chosen = [str(item.chosen) for item in report.extraction.choices]
    assert any("in panels" in item for item in chosen) is packed, chosen


def test_only_cpus_pack_products_beforehand() -> None:
    for device, kinds in (
        (CPU, [KernelKind.POINTWISE, KernelKind.CONTRACTION]),
        (GPU_ON_CPU, [KernelKind.CONTRACTION]),
    ):
        module = module_of(product((4 * LEAST_ROWS, 512), (512, 512)))
        module.attributes["mgn.device"] = device.to_attribute()
        for each in (ArrangeKernels(), ChooseSchedules()):
            each.apply(Context(), module)
        module.verify()
        made = [op for op in module.walk() if isinstance(op, FusedKernelOp)]
        assert [op.kernel_kind for op in made] == kinds
        assert all(op.schedule is not None for op in made)
        assert device is not CPU or made[1].schedule.values["right"] == "panels"  # type: ignore
