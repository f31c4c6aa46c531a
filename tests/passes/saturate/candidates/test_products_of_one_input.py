"""Several products of one input: what is chosen costs no more than the ways to spell it."""

import random

import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import SaturateReport, saturate_graph

BOTH = pytest.mark.parametrize("device", [DEVICES["cpu"], DEVICES["nvidia-h200"]], ids=str)
ACTIVATIONS = ("tanh", "sigmoid", "relu", "exp", "silu", "gelu", "abs", "sin")


def chosen(program: str, device: Device) -> SaturateReport:
    graph = next(graphs_of(mgn.parse(f"graph g{program}").lower()))
    return saturate_graph(graph, device)


def gated(rows: int, inner: int, columns: int, turned: bool) -> str:
    sizes = f"{columns}, {inner}" if turned else f"{inner}, {columns}"
    gate, up = ("x @ g.T", "x @ u.T") if turned else ("x @ g", "x @ u")
    return (
        f"(x: f32[{rows}, {inner}]) {{ param g: f32[{sizes}]; param u: f32[{sizes}]; "
        f"return y = silu({gate}) * ({up}) }}"
    )


@BOTH
@pytest.mark.parametrize("sizes", [(512, 512, 1024), (128, 960, 2560), (1, 576, 1536)])
def test_gates_cost_the_same_however_their_weights_lie(
    sizes: tuple[int, int, int], device: Device
) -> None:
    one, other = (chosen(gated(*sizes, turned), device) for turned in (False, True))
    assert one.cost_after <= other.cost_after * 1.01


@pytest.mark.parametrize("turned", [False, True])
def test_halves_of_one_product_meet_in_it_on_a_gpu(turned: bool) -> None:
    report = chosen(gated(512, 512, 1024, turned), DEVICES["nvidia-h200"])
    assert report.kernels == {"contraction": 1, "pointwise": 1}
    assert report.prepared == {"pointwise": 1}


@BOTH
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("rows", "size"), [(1, 256), (64, 256), (512, 512)])
def test_eight_products_cost_no_more_than_apart_or_as_one(
    rows: int, size: int, mixed: bool, device: Device
) -> None:
    names = ACTIVATIONS if mixed else ("tanh",) * 8
    given = f"(x: f32[{rows}, {size}]) {{ "
    params = " ".join(f"param w{k}: f32[{size}, {size}];" for k in range(8))
    values = ", ".join(f"y{k} = {name}(x @ w{k})" for k, name in enumerate(names))
    found = chosen(f"{given}{params} return {values} }}", device).cost_after
    apart = [
        chosen(f"{given}param w: f32[{size}, {size}]; return y = {name}(x @ w) }}", device)
        for name in names
    ]
    wide = chosen(f"{given}param w: f32[{size}, {8 * size}]; return y = x @ w }}", device)
    slices = ", ".join(
        f"y{k} = {name}(p[:, {k * size}:{(k + 1) * size}])" for k, name in enumerate(names)
    )
    parts = chosen(f"(p: f32[{rows}, {8 * size}]) {{ return {slices} }}", device)
    assert found <= sum(report.cost_after for report in apart) * 1.001
    assert found <= (wide.cost_after + parts.cost_after) * 1.02


@BOTH
@pytest.mark.parametrize("seed", range(8))
def test_rows_of_one_product_cost_the_same_however_they_lie(seed: int, device: Device) -> None:
    rng = random.Random(seed)
    rows, inner, columns = rng.randint(40, 260), 64 * rng.randint(2, 16), 64 * rng.randint(2, 40)
    weights = f"param w: f32[{columns}, {inner}] = normal(); param b: f32[{columns}] = normal()"
    flat, batch, apart = [
        chosen(f"(x: f32[{shape}, {inner}]) {{ {weights}; return y = linear(x, w, b) }}", device)
        for shape in (f"{rows}", f"1, {rows}", f"{rows}, 1")
    ]
    assert batch.cost_after == pytest.approx(flat.cost_after, rel=1e-3)
    assert apart.cost_after == pytest.approx(flat.cost_after, rel=1e-3)
