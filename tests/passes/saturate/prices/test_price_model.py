"""The model of prices against what was measured on an NVIDIA H200: which regions gain much and
which little, and how long single kernels take.

The figures of regions are ratios of times, the kernels that the e-graph chose to a kernel for each
operation, as `python -m benchmarks.fusion --device gpu` measured them.
"""

from itertools import combinations

import pytest

import mgn
from benchmarks.graphs.fusion_regions import CELLS
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.report import OptimizeReport
from mgn.passes.saturate import SaturateOptions, saturate_graph
from mgn.passes.saturate.prices import arrangements
from mgn.passes.simplify import simplify_graph

MEASURED = {
    ("chain", "4096 × 1024", "f32"): 0.22,
    ("diamond", "512 × 768", "f32"): 0.16,
    ("long chain", "512 × 768", "f32"): 0.08,
    ("row and column factors", "4096 × 1024", "f32"): 0.48,
    ("swiglu", "4096 × 1024", "f32"): 0.62,
    ("swiglu", "512 × 768", "f16"): 0.50,
    ("casts", "4096 × 1024", "f32"): 0.25,
    ("transpose and add", "4096 × 1024", "f32"): 0.44,
    ("rope", "512 × 768", "f32"): 0.11,
    ("gather, scale, add", "512 × 768", "f32"): 0.34,
    ("sum of squares of rows", "4096 × 1024", "f32"): 0.46,
    ("variance", "512 × 768", "f32"): 0.18,
    ("softmax", "512 × 768", "f32"): 0.21,
    ("softmax", "16384 × 64", "f16"): 0.17,
    ("masked softmax", "4096 × 1024", "f32"): 0.24,
    ("logsumexp", "2048 × 256", "f32"): 0.11,
    ("residual and layer norm", "4096 × 1024", "f32"): 0.16,
    ("residual kept, rms norm", "4096 × 1024", "f32"): 0.32,
    ("cross entropy", "512 × 768", "f32"): 0.11,
    ("matmul, bias, gelu", "512 × 512 × 512", "f32"): 0.66,
    ("A Bᵀ, residual", "64 × 128 × 128", "f32"): 0.37,
    ("scaled rows, matmul", "512 × 512 × 512", "f32"): 0.75,
    ("gated products", "512 × 512 × 512", "f32"): 0.67,
    ("sum of two products", "128 × 576 × 576", "f32"): 0.84,
    ("batched scores, softmax", "4 × 512 × 64", "f32"): 0.32,
    ("heads apart, product", "4 × 512 × 64", "f32"): 0.49,
}
NORM_AND_SILU = {
    "1 × 320 × 64 × 64 × 32": 0.82,
    "2 × 64 × 32 × 32 × 32": 0.54,
    "4 × 512 × 14 × 14 × 32": 0.59,
    "2 × 128 × 7 × 7 × 8": 0.55,
}
"""GroupNorm with SiLU in f16 as one kernel, to a kernel of the norm and one of SiLU."""

ATTENTION_TIMES = {
    ("f32", 16, 2048, 32): 281, ("f32", 16, 2048, 64): 503, ("f32", 16, 2048, 128): 907,
    ("f32", 4, 4096, 64): 497, ("f32", 128, 512, 96): 374, ("f32", 66, 1024, 128): 923,
    ("tf32", 16, 2048, 32): 124, ("tf32", 16, 2048, 64): 214, ("tf32", 4, 4096, 128): 362,
    ("tf32", 128, 512, 64): 112, ("tf32", 8, 1024, 64): 43, ("tf32", 16, 256, 128): 21,
}  # fmt: skip
"""Heads, queries and keys, the size of a head → microseconds of attention as one kernel."""

PRODUCT_TIMES = {
    ("f32", 16, 2048, 2048, 64): 206, ("f32", 16, 2048, 64, 2048): 279,
    ("f32", 128, 512, 64, 512): 127, ("f32", 4, 4096, 64, 4096): 254,
    ("f32", 8, 1024, 128, 1024): 69, ("f32", 1, 4096, 4096, 4096): 2831,
    ("tf32", 16, 2048, 2048, 64): 112, ("tf32", 16, 2048, 2048, 128): 148,
    ("tf32", 4, 4096, 64, 4096): 93, ("tf32", 32, 256, 256, 256): 15,
    ("tf32", 1, 2048, 2048, 128): 16, ("tf32", 1, 2048, 2048, 512): 26,
}  # fmt: skip
"""Batches, rows, columns, the shared axis → microseconds of a product as one kernel."""

SPELLED_ATTENTION = {
    # batches, heads, queries and keys, the size of a head: as one kernel, and as several
    ("f32", 1, 16, 2048, 64): (502, 659),
    ("f32", 1, 4, 4096, 64): (501, 613),
    ("f32", 8, 16, 512, 64): (251, 274),
    ("f32", 2, 8, 2048, 128): (910, 983),
    ("f32", 1, 8, 1024, 128): (167, 149),
    ("f32", 1, 1, 2048, 128): (158, 83),
    ("tf32", 1, 1, 2048, 128): (100, 48),
    ("tf32", 1, 8, 128, 64): (10, 25),
}
"""Microseconds of softmax(q kᵀ) v."""

NEAR = 1.3
"""How far, as a factor, the model may be from the times of single kernels, with their launch."""

CLEAR = 1.5
"""Measured ratios that differ by less are not compared: the order of such regions is not clear."""


def cost(program: str, fuse: bool) -> float:
    graph = next(graphs_of(mgn.parse(program).lower()))
    simplify_graph(graph)
    return saturate_graph(graph, DEVICES["nvidia-h200"], SaturateOptions(fuse=fuse)).cost_after


@pytest.fixture(scope="module")
def predicted() -> dict[tuple[str, str, str], float]:
    """The ratios that the model says."""
    programs = {(c.region, c.shape, c.element): c.program for c in CELLS}
    return {key: cost(programs[key], True) / cost(programs[key], False) for key in MEASURED}


def test_the_model_expects_fusion_to_pay_where_it_was_measured_to(
    predicted: dict[tuple[str, str, str], float],
) -> None:
    assert max(MEASURED.values()) < 1.0
    assert max(predicted.values()) < 1.0


def test_the_model_orders_regions_as_they_were_measured(
    predicted: dict[tuple[str, str, str], float],
) -> None:
    clear = [
        (first, second) if MEASURED[first] < MEASURED[second] else (second, first)
        for first, second in combinations(MEASURED, 2)
        if not 1 / CLEAR < MEASURED[first] / MEASURED[second] < CLEAR
    ]
    wrong = [pair for pair in clear if predicted[pair[0]] >= predicted[pair[1]]]
    assert len(clear) > 150
    assert len(wrong) <= 0.02 * len(clear), wrong


def test_a_norm_and_what_follows_it_are_one_kernel_where_that_was_measured_to_pay() -> None:
    whole = {
        cell.shape: cell.program
        for cell in CELLS
        if cell.region == "group norm, silu" and cell.element == "f16"
    }
    assert max(NORM_AND_SILU.values()) < 1.0
    assert whole.keys() == NORM_AND_SILU.keys()
    for shape, program in whole.items():
        norm = program.replace("silu(group_norm(x, w, b, ", "(group_norm(x, w, b, ")
        silu = program.split(", w:")[0] + ") { return y = silu(x) }"
        apart = cost(norm, True) + cost(silu, True)
        assert cost(program, True) < apart, shape


def report_of(program: str, precision: str, **figures: float) -> OptimizeReport:
    device = DEVICES["nvidia-h200"].with_figures(**figures)
    return mgn.optimize(mgn.parse(program), device=device, precision=precision).report


@pytest.mark.parametrize("case", ATTENTION_TIMES, ids=str)
def test_the_model_knows_how_long_attention_takes_as_one_kernel(
    case: tuple[str, int, int, int],
) -> None:
    precision, heads, rows, size = case
    shape = f"f32[{heads}, {rows}, {size}]"
    program = f"q: {shape}, k: {shape}, v: {shape}) {{ return y = attention(q, k, v, heads = 1) }}"
    dear = report_of(f"graph g({program}", precision, launch_cost=1.0)
    assert len(dear.kernels) == 1
    seconds = dear.saturation.cost_after - 1.0 + DEVICES["nvidia-h200"].launch_cost
    assert 1 / NEAR < seconds * 1e6 / ATTENTION_TIMES[case] < NEAR


@pytest.mark.parametrize("case", PRODUCT_TIMES, ids=str)
def test_the_model_knows_how_long_a_product_takes(case: tuple[str, int, int, int, int]) -> None:
    precision, batches, rows, columns, inner = case
    operands = f"x: f32[{batches}, {rows}, {inner}], w: f32[{batches}, {inner}, {columns}]"
    report = report_of(f"graph g({operands}) {{ return y = x @ w }}", precision)
    assert 1 / NEAR < report.saturation.cost_after * 1e6 / PRODUCT_TIMES[case] < NEAR


@pytest.mark.parametrize("case", SPELLED_ATTENTION, ids=str)
def test_spelled_attention_is_one_kernel_where_that_was_measured_to_pay(
    case: tuple[str, int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside products that are not cut, as those were that were measured."""
    monkeypatch.setattr(arrangements, "choose_parts", lambda _: 1)
    precision, *shape = case
    operands = ", ".join(f"{name}: f32{shape}" for name in "qkv")
    program = f"graph g({operands}) {{ return y = softmax(q @ k.T * 0.125) @ v }}"
    one, several = SPELLED_ATTENTION[case]
    assert (len(report_of(program, precision).kernels) == 1) is (one < several)


def test_there_are_over_a_hundred_cells_to_measure() -> None:
    cells = {(c.region, c.shape, c.element) for c in CELLS}
    assert len(cells) == len(CELLS) >= 100
