"""Operands that products of one value give: read from one wide product, or each by itself.

Sizes are drawn at random. A whole costs no more than two halves, each of which is chosen alone: a
choice for both halves is one for the whole.
"""

import random

import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph

BOTH = pytest.mark.parametrize("device", [DEVICES["cpu"], DEVICES["nvidia-h200"]], ids=str)
MASKS = {"no mask": "", "a mask": ", mask", "a mask of lengths": ", where(mask > 0.0, 0.0, -inf)"}


def cost(program: str, device: Device) -> float:
    """The modelled seconds of what is chosen for a graph."""
    graph = next(graphs_of(mgn.parse(f"graph g{program}").lower()))
    return saturate_graph(graph, device).cost_after


@BOTH
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("seed", range(4))
def test_attention_and_its_products_cost_no_more_than_in_two_graphs(
    seed: int, mask: str, device: Device
) -> None:
    rng = random.Random(seed)
    rows, heads = rng.choice([96, 128, 160]), rng.choice([8, 12, 16])
    width = heads * 64
    names = ("q", "k", "v")
    weights = " ".join(
        f"param {name}w: f32[{width}, {width}] = normal(); param {name}b: f32[{width}] = normal();"
        for name in names
    )
    given, of_three = f"x: f32[1, {rows}, {width}]", f"f32[1, {rows}, {width}]"
    masked = f", mask: f32[1, 1, 1, {rows}]" if mask != "no mask" else ""
    products = [f"{name} = linear(x, {name}w, {name}b)" for name in names]
    attends = f"attention(q, k, v{MASKS[mask]}, heads = {heads})"
    whole = f"({given}{masked}) {{ {weights} {'; '.join(products)}; return y = {attends} }}"
    first = f"({given}) {{ {weights} return {', '.join(products)} }}"
    inputs = ", ".join(f"{name}: {of_three}" for name in names)
    second = f"({inputs}{masked}) {{ return y = {attends} }}"
    assert cost(whole, device) <= (cost(first, device) + cost(second, device)) * (1.0 + 1e-6)
