"""Several kernels in the place of one: when the e-graph takes them, and that each is a launch."""

import os

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import mgn
from mgn.codegen.launch_plan import BufferKind
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.compilation import compile_graph
from mgn.explain import explain_graph, page_of
from mgn.modules.mlir_text import parse_mlir
from mgn.passes.saturate import RuleClass, SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.candidates.candidates import ALONE
from tests.support.lower_fixture import CPU
from tests.support.programs import context

H200 = DEVICES["nvidia-h200"]
EXACT = frozenset({RuleClass.EXACT})


def product(rows: int, inner: int, columns: int, precision: str = "f32", held: bool = False) -> str:
    """A product of two inputs, or with a parameter on the right; rounded as asked for."""
    x, w = f"x: f32[{rows}, {inner}]", f"w: f32[{inner}, {columns}]"
    rounded = "round_tf32(x) @ round_tf32(w)" if precision == "tf32" else "x @ w"
    inputs, held_text = (x, f"param {w}\n") if held else (f"{x}, {w}", "")
    return f"graph g({inputs}) {{ {held_text} return y = {rounded} }}"


def chosen(text: str, device: Device, **options: bool) -> tuple[SaturateReport, list[str]]:
    """The report of a graph, and the operations of each kernel."""
    (graph,) = graphs_of(mgn.parse(text).lower())
    settings = SaturateOptions(**options) if options else None  # type: ignore
    report = saturate_graph(graph, device, settings)
    return report, [names(op) for op in graph.block.ops if isinstance(op, FusedKernelOp)]


def names(kernel: FusedKernelOp) -> str:
    return " ".join(op.name.removeprefix("mgn.") for op in kernel.block.ops if op.results)


PANELS = "right operand in panels of 1024 × 32"
SMALL_PANELS = "right operand in panels of 64 × 32"
LARGE, MIDDLE, SMALL = (product(size, size, size, "tf32") for size in (4096, 3072, 512))
FEW_TILES = "graph g(x: bf16[333, 9973], w: bf16[9973, 777]) { return y = x @ w }"
FORTY_PARTS, TWO_PARTS = "the shared axis in 40 parts", "the shared axis in 2 parts"
COPIES = "right operand copied, left operand rounded before"
BOTH_COPIED = "left and right operand copied"
SUM = "graph g(x: f32[67108864]) { return y = sum(x) }"
SOFTMAX = "graph g(x: f32[3, 300000]) { return y = softmax(x) }"

TABLE: list[tuple[str, Device, dict[str, object], str, dict[str, object], str]] = [
    (SUM, H200, {}, "rows in 512 parts", {"launch_cost": 1.0}, ALONE),
    (SUM, H200, {}, "rows in 512 parts", {"compute_units": 1}, ""),
    (SUM, CPU, {}, "rows in 8 parts", {"launch_cost": 1.0}, ALONE),
    (SOFTMAX, CPU, {}, "rows in 2 parts", {"launch_cost": 1.0}, ALONE),
    (SOFTMAX, CPU, {}, "rows in 2 parts", {"compute_units": 1}, ""),
    (
        product(64, 20000, 1000),
        H200,
        {},
        FORTY_PARTS,
        {"launch_cost": 1e-3},
        "",
    ),
    (product(64, 20000, 1000), H200, {}, FORTY_PARTS, {"compute_units": 8}, TWO_PARTS),
    (
        product(64, 4096, 64),
        H200,
        {},
        "the shared axis in 32 parts",
        {"rates": {"f32": 1e16}},
        "",
    ),
    (LARGE, H200, {}, COPIES, {"launch_cost": 1e-3}, ALONE),
    (LARGE, H200, {}, COPIES, {"bandwidth": 1e11}, ALONE),
    (MIDDLE, H200, {}, COPIES, {"matrix_rates": {"tf32": 3e16}}, ALONE),
    (LARGE, H200, {}, COPIES, {"matrix_unit": "mma"}, ""),
    (FEW_TILES, H200, {}, BOTH_COPIED, {"launch_cost": 1e-3}, ALONE),
    (
        product(512, 512, 512, "tf32"),
        H200,
        {},
        ALONE,
        {"launch_cost": 0.0, "bandwidth": 1e14},
        COPIES,
    ),
    (product(1024, 1024, 1024), CPU, {}, PANELS, {"launch_cost": 1e-2}, ALONE),
    (product(1024, 1024, 1024), CPU, {}, PANELS, {"bandwidth": 1e9, "cache": 0}, ALONE),
    (product(1024, 1024, 1024), CPU, {}, PANELS, {"rates": {"f32": 1e14}}, ALONE),
    (product(3072, 64, 64), CPU, {}, ALONE, {"launch_cost": 0.0}, SMALL_PANELS),
    (product(3072, 64, 64, held=True), CPU, {}, SMALL_PANELS, {"launch_cost": 1.0}, ALONE),
]


@pytest.mark.parametrize(("text", "device", "one", "first", "other", "second"), TABLE)
def test_a_figure_of_the_device_decides_on_the_arrangement(
    text: str,
    device: Device,
    one: dict[str, object],
    first: str,
    other: dict[str, object],
    second: str,
) -> None:
    for figures, wanted in ((one, first), (other, second)):
        report, _ = chosen(text, device.with_figures(**figures))
        assert set(report.arrangements) == ({wanted} if wanted else set())
        assert report.gap <= 0.05


def test_the_table_of_figures_has_each_arrangement_and_its_opposite() -> None:
    words = ("rows", "shared axis", "copied", "rounded", "panels")
    for word in words:
        firsts = [word in first for *_, first, _, _ in TABLE]
        assert any(word in row[3] and row[5] != row[3] for row in TABLE), word
        assert sum(firsts) < len(TABLE)


PROGRAMS = {
    "packed": product(3072, 64, 64),
    "packed, in a run": product(2048, 2048, 64),
    "sum": "graph g(x: f32[600000]) { return y = sum(x) }",
    "softmax": SOFTMAX,
    "layer norm": "graph g(x: f32[1, 400000]) { return y = layer_norm(x), m = mean(x, axis = 1) }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kernel_extracted_is_a_launch(name: str) -> None:
    device = os.environ.get("MGN_TEST_DEVICE", "cpu")
    executable = mgn.compile(mgn.parse(PROGRAMS[name]), device=device, resident="off")
    inputs = [buffer for _, buffer in executable.plan.of_kind(BufferKind.INPUT)]
    executable(**{item.name: np.ones(item.shape, np.float32) for item in inputs})
    report = executable.report
    launches = len(executable.replay(profile=True))
    assert launches == len(report.kernels)
    assert report.saturation.kernel_count == launches + len(report.prepared)  # type: ignore


@pytest.mark.parametrize(
    ("text", "device", "kernels", "prepared"),
    [
        (product(64, 20000, 1000), H200, 2, 0),
        (product(4096, 4096, 4096, "tf32"), H200, 3, 0),
        (product(4096, 4096, 4096, "tf32", held=True), H200, 2, 1),
        (product(1024, 1024, 1024), CPU, 2, 0),
        (product(1024, 1024, 1024, held=True), CPU, 1, 1),
        (SUM, H200, 2, 0),
    ],
)
def test_the_plan_launches_what_was_extracted(
    text: str, device: Device, kernels: int, prepared: int
) -> None:
    compiled = compile_graph(mgn.parse(text).lower(), device)
    assert (len(compiled.plan.launches), len(compiled.plan.prepare)) == (kernels, prepared)
    assert compiled.report.saturation.kernel_count == kernels + prepared  # type: ignore


def test_two_products_share_a_copy() -> None:
    text = """graph g(x: f32[4096, 4096], v: f32[4096, 4096], w: f32[4096, 4096]) {
      r = round_tf32(x)
      return a = r @ round_tf32(v), b = r @ round_tf32(w)
    }"""
    report, kernels = chosen(text, H200)
    assert report.arrangements == {COPIES: 2}
    assert sorted(kernels) == sorted(
        ["round_tf32", *["round_tf32 transpose"] * 2, *["round_tf32 round_tf32 matmul"] * 2]
    )
    panels = """graph g(a: f32[1024, 512], b: f32[1024, 512], w: f32[512, 1024]) {
      return y = a @ w, z = b @ w
    }"""
    report, kernels = chosen(panels, CPU)
    assert sorted(kernels) == ["reshape transpose", *["transpose reshape matmul"] * 2]


def test_two_sums_of_one_array_are_finished_by_one_kernel() -> None:
    text = "graph g(x: f32[67108864]) { return a = sum(x), b = sum(x * x) }"
    _, kernels = chosen(text, H200)
    assert kernels == ["mul reshape sum reshape sum", "sum sum"]


def test_what_is_shared_may_pay_where_one_alone_does_not() -> None:
    """With exact rules it may not: there each kernel decides for itself, whatever else there is."""
    figures = CPU.with_figures(launch_cost=3e-4)
    alone = product(1024, 512, 1024)
    both = """graph g(a: f32[1024, 512], b: f32[1024, 512], w: f32[512, 1024]) {
      return y = a @ w, z = b @ w
    }"""
    assert chosen(alone, figures)[0].arrangements == {ALONE: 1}
    assert chosen(both, figures)[0].arrangements == {"right operand in panels of 512 × 32": 2}
    for fuse in (True, False):
        report, _ = chosen(both, figures, classes=EXACT, fuse=fuse)  # type: ignore
        assert report.arrangements == {ALONE: 2}


def test_a_kernel_that_rounds_what_it_writes_spares_the_copy() -> None:
    text = """graph g(x: f32[4096, 4096], w: f32[4096, 4096]) {
      return y = round_tf32(rms_norm(x)) @ round_tf32(w)
    }"""
    _, kernels = chosen(text, H200)
    (norm,) = [kernel for kernel in kernels if "rsqrt" in kernel]
    assert norm.endswith("round_tf32") and len(kernels) == 3


def test_the_report_and_the_page_name_the_arrangement_and_what_it_was_preferred_to() -> None:
    module = mgn.parse(product(64, 20000, 1000))
    explanation = explain_graph(module.lower(), H200)
    assert f"1 × {FORTY_PARTS}" in str(explanation.saturation)
    page = page_of(explanation)
    assert f"<b>chosen</b>: {FORTY_PARTS}" in page and f"<td>{ALONE}</td>" in page
    last = explanation.kernels[-1].arranged
    assert last is not None
    assert all(price > last.price for _, price in last.dearer)
    assert abs(last.price - explanation.saturation.cost_after) < 1e-12
    assert all(kernel.sources for kernel in explanation.kernels)


def test_a_kernel_says_what_its_right_operand_must_look_like() -> None:
    module = """mgn.graph @g("a" = %a : tensor<8x4xf32>, "b" = %b : tensor<4x8xf32>)
        -> ("y" : tensor<8x8xf32>) {
      %0 = fusion.kernel contraction (%p = %a : tensor<8x4xf32>, %q = %b : tensor<4x8xf32>)
          -> (tensor<8x8xf32>) arranged {right = "panels"} {
        %m = mgn.matmul(%p, %q) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
        fusion.return %m : tensor<8x8xf32>
      }
      mgn.return %0 : tensor<8x8xf32>
    }"""
    with pytest.raises(VerifyException, match="panels"):
        parse_mlir(module, context()).verify()
