"""The model of prices against kernels that were measured on a CPU, each alone on the machine.

The table has the device's own times on an Intel Xeon with AVX-512 (two cores, Intel's OpenCL), and
the figures that were measured there. The host's speed drifts, so products and attention were timed
between runs of one product, and stand in proportion to what the rate says of that. Nothing is timed
here: the prices are held against the table.
"""

from statistics import geometric_mean

import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.simplify import simplify_graph

F32 = 2.74e11
XEON = DEVICES["cpu"].with_figures(
    bandwidth=1.75e10,
    launch_cost=5.4e-6,
    rates={"f32": F32, "f64": F32 / 2, "f16": F32 / 16, "bf16": F32 / 16},
    cache=16 << 20,
    cache_gain=2.5,
)


def product(rows: int, inner: int, columns: int, text: str = "a @ w", element: str = "f32") -> str:
    """A product of an operand and weights, which lie turned where the text says so."""
    w = f"{columns}, {inner}" if "w.T" in text else f"{inner}, {columns}"
    a = f"a: {element}[{rows}, {inner}]"
    return f"graph g({a}, w: {element}[{w}]) {{ return y = {text} }}"


def attention(rows: int, heads: int, size: int, causal: str) -> str:
    operands = ", ".join(f"{name}: f32[{rows}, {heads * size}]" for name in "qkv")
    call = f"attention(q, k, v, heads = {heads}, causal = {causal})"
    return f"graph g({operands}) {{ return y = {call} }}"


def rows_of(rows: int, columns: int, text: str, element: str = "f32") -> str:
    """An expression of a matrix, and of a row and a column of factors where it has any."""
    header = f"x: {element}[{rows}, {columns}]"
    header += f", w: f32[{columns}]" if "w" in text else ""
    header += f", s: f32[{rows}, 1]" if "s +" in text else ""
    return f"graph g({header}) {{ return y = {text} }}"


APART = "transpose(reshape(x, [512, 12, 64]), [1, 0, 2]) + 1.0"
TURNED = "transpose(reshape(x, [1024, 16, 64]), [1, 2, 0]) + 1.0"

MEASURED: dict[str, float] = {
    product(64, 128, 128): 14.8,
    product(128, 384, 384): 165,
    product(128, 384, 1536): 688,
    product(128, 1536, 384): 752,
    product(128, 576, 576): 457,
    product(128, 576, 576, element="f16"): 395,
    product(128, 576, 1536, "a @ w.T"): 1470,
    product(200, 300, 400): 205,
    product(200, 300, 400, "a @ w.T"): 229,
    product(512, 512, 512): 1255,
    product(512, 512, 512, "gelu(a @ w)"): 1410,
    product(360, 128, 10, "a @ w.T"): 17.3,
    product(64, 64, 4096): 177,
    product(1024, 1024, 1024, "a @ w.T"): 9340,
    product(512, 64, 512): 166,
    product(8, 512, 512, "a @ w.T"): 63,
    product(16, 576, 576): 79,
    product(16, 576, 576, "a @ w.T"): 113,
    product(100, 100, 100): 11.4,
    product(1, 1024, 1024, "a @ w.T"): 98,
    product(4, 1024, 1024): 131,
    "graph g(a: f32[128, 576], s: f32[128, 1], w: f32[576, 1536]) { return y = (a * s) @ w }": 1330,
    "graph g(a: f32[256, 512], w: f32[256, 512]) { return y = a.T @ w }": 650,
    attention(128, 12, 32, "false"): 180,
    attention(256, 8, 64, "false"): 1010,
    attention(512, 4, 64, "true"): 955,
    attention(512, 4, 64, "false"): 1790,
    rows_of(512, 768, "x * 2.0"): 73.8,
    rows_of(4096, 1024, "x * 2.0"): 1735,
    rows_of(1024, 1024, "x * 2.0", "f16"): 132,
    rows_of(4096, 1024, "x * s + w"): 1615,
    rows_of(1024, 1024, "tanh(x)"): 461,
    rows_of(4096, 1024, "tanh(x)"): 2135,
    rows_of(512, 768, "x.T + 1.0"): 169,
    rows_of(512, 768, APART): 102,
    rows_of(1024, 1024, TURNED): 624,
    rows_of(1024, 1024, "sum(x, axis = 1)"): 102,
    rows_of(512, 768, "sum(x, axis = 0)"): 24.9,
    rows_of(512, 768, "softmax(x)"): 233,
    rows_of(4096, 1024, "softmax(x)"): 2960,
    rows_of(4096, 1024, "layer_norm(x, w, w)"): 2126,
    rows_of(1024, 1024, "rms_norm(x, w)"): 219,
    rows_of(512, 768, "cumsum(x, axis = 1)"): 280,
    rows_of(4096, 1024, "cumsum(x, axis = 1)"): 3024,
}
"""One kernel each, or one beside its operand's packing → the microseconds that they ran."""


def saturated(program: str, device: Device = XEON, fuse: bool = True) -> SaturateReport:
    graph = next(graphs_of(mgn.parse(program).lower()))
    simplify_graph(graph)
    return saturate_graph(graph, device, SaturateOptions(fuse=fuse))


@pytest.fixture(scope="module")
def ratios() -> dict[str, float]:
    """Measured to predicted time; a launch costs the same in both."""
    launch = XEON.launch_cost
    return {
        program: (micros * 1e-6 + launch) / saturated(program).cost_after
        for program, micros in MEASURED.items()
    }


def test_each_kernel_is_priced_within_half_of_what_it_took(ratios: dict[str, float]) -> None:
    wrong = {program: ratio for program, ratio in ratios.items() if not 1 / 1.5 < ratio < 1.5}
    assert not wrong


def test_prices_are_within_fifteen_percent_in_the_mean(ratios: dict[str, float]) -> None:
    assert geometric_mean(max(ratio, 1 / ratio) for ratio in ratios.values()) < 1.15


def test_what_fits_into_the_cache_moves_faster() -> None:
    small, large = (
        saturated(rows_of(rows, 1024, "x * 2.0")).cost_after - XEON.launch_cost
        for rows in (1024, 8192)
    )
    assert large / 8 == pytest.approx(XEON.cache_gain * small, rel=0.02)
    without = XEON.with_figures(cache=0)
    assert saturated(rows_of(1024, 1024, "x * 2.0"), without).cost_after > small * 2


def test_half_precision_is_added_up_at_the_rate_of_f32() -> None:
    slow = XEON.with_figures(rates={**XEON.rates, "f16": 1e9})
    program = product(128, 576, 576, element="f16")
    assert saturated(program, slow).cost_after == saturated(program).cost_after


CASES = {
    "halves whose columns lie turned are turned first": (
        "graph g(x: f16[64, 128], w: f16[128, 128], r: f16[64, 128]) { return y = x @ w.T + r }",
        2,
    ),
    "a left operand that lies turned is packed by its product, the right one before it": (
        "graph g(x: f32[1024, 1024], w: f32[1024, 1024]) { return y = x.T @ w }",
        2,
    ),
    "rows that are scaled before a product are scaled in it": (
        "graph g(x: f32[128, 576], s: f32[128, 1], w: f32[576, 1536]) { return y = (x * s) @ w }",
        1,
    ),
    "attention that sees all keys stays one kernel": (attention(512, 4, 64, "false"), 1),
    "what a scan along rows computes one by one is computed before it": (
        "graph g(x: f32[512, 512]) { return y = cumsum(exp(x), axis = 1) }",
        2,
    ),
    "what a scan across rows computes in vectors is computed in it": (
        "graph g(x: f32[512, 512]) { return y = cumsum(exp(x), axis = 0) }",
        1,
    ),
    "columns that lie far apart are brought together before each is multiplied once": (
        "graph g(q: f32[8, 1, 64], k: f32[2048, 512]) "
        "{ return y = q @ transpose(reshape(k, [2048, 8, 64]), [1, 2, 0]) }",
        2,
    ),
    "columns that are side by side are multiplied where they lie": (
        "graph g(q: f32[8, 1, 2048], v: f32[2048, 512]) "
        "{ return y = q @ transpose(reshape(v, [2048, 8, 64]), [1, 0, 2]) }",
        1,
    ),
    "a residual is added where the product is": (
        "graph g(x: f32[128, 576], w: f32[576, 576], r: f32[128, 576]) { return y = x @ w + r }",
        1,
    ),
}
"""Choices that were wrong, and slower than a kernel for each operation, or nearly so."""


@pytest.mark.parametrize("name", list(CASES))
def test_a_choice_that_was_wrong(name: str) -> None:
    program, kernels = CASES[name]
    assert saturated(program).kernel_count == kernels


GATED = {
    (64, 64, 100): 0.79,
    (32, 256, 256): 1.16,
    (64, 256, 512): 1.18,
    (128, 128, 256): 1.03,
    (8, 576, 1536): 1.08,
    (16, 576, 1536): 1.34,
    (512, 768, 2048): 1.04,
    (1024, 1024, 2048): 1.44,
}
"""Rows, shared axis and columns of a gated layer → the time of one product with both weights, whose
halves meet, in that of two products, whose weights are packed from sixteen rows on.
"""


@pytest.mark.parametrize("sizes", list(GATED))
def test_a_gated_layer_is_one_product_where_that_is_faster(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    report = saturated(
        f"""graph g(x: f32[{rows}, {inner}]) {{
          param gate: f32[{inner}, {columns}]
          param up: f32[{inner}, {columns}]
          return y = silu(x @ gate) * (x @ up)
        }}"""
    )
    products = [item.chosen.operations for item in report.choices if "matmul" in str(item.chosen)]
    assert any("slice" in operations for operations in products) == (GATED[sizes] < 1)


def test_a_narrow_product_pays_for_the_lanes_that_stay_empty() -> None:
    wide, narrow = (saturated(product(4096, 512, columns)).cost_after for columns in (32, 10))
    assert narrow > 0.5 * wide
