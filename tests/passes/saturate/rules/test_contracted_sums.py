"""Sums of products of broadcast values are matrix products, wherever the axes are."""

import random

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph

CPU = DEVICES["cpu"]


def spelled(seed: int, most: int = 5, scale: int = 1) -> tuple[str, list[tuple[int, ...]]]:
    """A program with the sum, its factors broadcast by the program or as they are multiplied, and
    their shapes.
    """
    rng = random.Random(seed)
    kinds = ["rows", "columns", "shared", *rng.choices(["rows", "columns", "both"], k=most - 3)]
    rng.shuffle(kinds)
    sizes = [scale * rng.choice([2, 3, 5]) for _ in kinds]
    left = [1 if kind == "columns" else size for kind, size in zip(kinds, sizes, strict=True)]
    right = [1 if kind == "rows" else size for kind, size in zip(kinds, sizes, strict=True)]
    axes = [axis for axis, kind in enumerate(kinds) if kind == "shared"]
    factors: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for name, shape in (("a", left), ("b", right)):
        if rng.random() < 0.5:
            factors.append(name)
            shapes.append(tuple(shape))
            continue
        shapes.append(tuple(size for size in shape if size != 1))
        factors.append(f"broadcast_to(reshape({name}, shape = {shape}), shape = {sizes})")
    kept = "true" if rng.random() < 0.5 else "false"
    inputs = ", ".join(f"{n}: f32{list(s)}" for n, s in zip("ab", shapes, strict=True))
    value = f"sum({factors[0]} * {factors[1]}, axis = {axes}, keepdims = {kept})"
    return f"graph g({inputs}) {{ return y = {value} }}", shapes


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_axes_is_found_and_keeps_its_value(seed: int) -> None:
    text, shapes = spelled(seed)
    before = next(graphs_of(mgn.parse(text).lower()))
    after = before.clone()
    report = saturate_graph(after, CPU)
    assert report.fired["sum-of-broadcast-factors"]
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    inputs = dict(zip("ab", arrays, strict=True))
    wanted = Interpreter({}, wide=True).run(before, inputs)["y"]
    found = Interpreter({}, wide=True).run(after, inputs)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "factors",
    [
        ("512, 1, 512", "1, 512, 512", 2),
        ("512, 512, 1", "512, 1, 512", 0),
        ("512, 512, 1", "512, 512", 1),
    ],
)
@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=["cpu", "gpu"])
def test_a_large_one_costs_what_the_product_does(
    factors: tuple[str, str, int], device: Device
) -> None:
    left, right, axis = factors
    text = f"(a: f32[{left}], b: f32[{right}]) {{ return y = sum(a * b, axis = {axis}) }}"
    product = "(a: f32[512, 512], b: f32[512, 512]) { return y = a @ b.T }"
    costs: list[float] = []
    for program in (text, product):
        graph = next(graphs_of(mgn.parse(f"graph g{program}").lower()))
        report = saturate_graph(graph, device)
        assert report.kernels["contraction"] == 1
        costs.append(report.cost_after)
    assert costs[0] <= costs[1] * 1.05


@pytest.mark.parametrize(
    "program",
    [
        "(a: f32[512, 512], b: f32[512]) { return y = sum(a * b, axis = -1) }",
        "(a: f32[512, 1], b: f32[1, 512]) { return y = sum(a * b, axis = -1) }",
        "(a: f32[64, 1, 64], b: f32[1, 64, 64]) { return y = sum(a * b, axis = [1, 2]) }",
        "(a: i32[64, 1, 64], b: i32[1, 64, 64]) { return y = sum(a * b, axis = 2) }",
    ],
)
def test_what_is_no_product_of_matrices_stays_a_sum(program: str) -> None:
    graph = next(graphs_of(mgn.parse(f"graph g{program}").lower()))
    report = saturate_graph(graph, CPU)
    assert not report.fired["sum-of-broadcast-factors"]
    assert report.kernels == {"reduction": 1}
