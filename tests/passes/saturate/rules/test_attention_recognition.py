"""Attention written out, as exporters do, is recognised as the composite that it is."""

from typing import Any

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import tensor
from mgn.passes.saturate import SaturateOptions, saturate_graph
from mgn.passes.saturate.egraph.engine import SaturatedGraph, saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.table import rules_of
from mgn.passes.saturate.saturate import literals_of
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.rules.examples.attention_spellings import (
    SPELLINGS,
    B,
    D,
    H,
    S,
    merge,
    split,
)
from tests.passes.saturate.saturate_programs import CPU, build_graph, check_same, f32, kernels_of


def _recognised(body: Any, *types: Any) -> list[dict[str, Any]]:
    """The attributes of every attention on the graph's own inputs that is the graph's result."""
    graph = build_graph(body, *types)
    simplify_graph(graph)
    rules = rules_of()
    encoded = encode_graph(graph, literals_of(rules))
    result = saturate_facts(encoded.facts, rules, 60.0)
    assert result.saturated
    root = result.class_of[encoded.outputs[0]]
    nodes = [node for node in result.nodes[root] if node.name == "attention"]
    merged = [node for node in nodes if all(item in result.leaves for item in node.operands[1:3])]
    return [_values(result, node.attributes) for node in merged]


def _values(result: SaturatedGraph, number: int) -> dict[str, Any]:
    stored = dict(result.facts.properties.things[number])
    attributes = OPERATIONS["attention"].attributes
    return {item.name: item.kind.decode(stored[item.name]) for item in attributes}


@pytest.mark.parametrize("name", SPELLINGS)
def test_attention_as_exporters_write_it_is_recognised(name: str) -> None:
    spelling = SPELLINGS[name]
    found = _recognised(spelling.body, *spelling.types)
    assert any(spelling.attributes.items() <= values.items() for values in found)


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=lambda item: item.name)
@pytest.mark.parametrize("name", SPELLINGS)
def test_attention_as_exporters_write_it_is_one_kernel_at_the_price_of_the_composite(
    name: str, device: Device
) -> None:
    spelling = SPELLINGS[name]

    def composite(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, *mask: SSAValue) -> SSAValue:
        bias = [b.where(m, 0.0, float("-inf")) if "seen" in name else m for m in mask]
        return b.attention(q, k, v, *bias, **spelling.attributes)

    graph = build_graph(spelling.body, *spelling.types)
    before = graph.clone()
    simplify_graph(graph)
    report = saturate_graph(graph, device, SaturateOptions(time_budget=60.0))
    graph.verify()
    check_same(before, graph)
    (kernel,) = kernels_of(graph)
    assert kernel.kind.data == "attention"
    wanted = saturate_graph(build_graph(composite, *spelling.types), device)
    assert report.cost_after == pytest.approx(wanted.cost_after, rel=0.01)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_the_parts_of_the_composite_are_the_composite_again(kv_heads: int, causal: bool) -> None:
    """The recognised composite is the very e-node of the program: no other one appears."""

    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        return b.attention(q, k, v, heads=H, kv_heads=kv_heads, causal=causal)

    keys = f32(B, S, kv_heads * D)
    found = _recognised(body, f32(B, S, H * D), keys, keys)
    unmasked = [values for values in found if values["causal"] == causal]
    assert len(unmasked) == 1
    assert unmasked[0]["kv_heads"] == kv_heads


def _attend(b: Emitter, scores: SSAValue, v: SSAValue, axis: int = -1) -> SSAValue:
    return merge(b, b.matmul(b.softmax(scores, axis=axis), v))


def test_a_softmax_along_the_queries_is_no_attention() -> None:
    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        scores = b.matmul(split(b, q), split(b, k), transpose_b=True)
        return _attend(b, scores, split(b, v), axis=-2)

    assert not _recognised(body, *[f32(B, S, H * D)] * 3)


def test_a_triangle_one_off_the_diagonal_is_not_causal() -> None:
    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        scores = b.matmul(split(b, q), split(b, k), transpose_b=True)
        ones = b.broadcast_to(b.constant(True, "bool"), [S, S])
        return _attend(b, b.where(b.tril(ones, k=1), scores, float("-inf")), split(b, v))

    found = _recognised(body, *[f32(B, S, H * D)] * 3)
    assert found
    assert not any(values["causal"] for values in found)


def test_a_fill_that_is_not_far_below_is_no_mask() -> None:
    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        scores = b.matmul(split(b, q), split(b, k), transpose_b=True)
        ones = b.broadcast_to(b.constant(True, "bool"), [S, S])
        return _attend(b, b.where(b.tril(ones), scores, -100.0), split(b, v))

    assert not _recognised(body, *[f32(B, S, H * D)] * 3)


def test_a_finite_fill_by_an_unknown_mask_is_kept_unless_approximations_may_act() -> None:
    """A row that sees no key is the mean of the values there, and 0 as attention."""

    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, seen: SSAValue) -> SSAValue:
        scores = b.matmul(split(b, q), split(b, k), transpose_b=True)
        return _attend(b, b.where(seen, scores, -1e9), split(b, v))

    assert not _recognised(body, *[f32(B, S, H * D)] * 3, tensor("bool", (S, S)))


def test_keys_that_are_tiled_and_not_repeated_are_not_shared_by_groups() -> None:
    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        keys, values = (b.concat([split(b, x, 2)] * 2, axis=1) for x in (k, v))
        wide = b.reshape(split(b, k, 2), [B, 1, 2, S, D])
        keys = b.reshape(b.broadcast_to(wide, [B, 2, 2, S, D]), [B, H, S, D])
        return _attend(b, b.matmul(split(b, q), keys, transpose_b=True), values)

    found = _recognised(body, f32(B, S, H * D), *[f32(B, S, H * D // 2)] * 2)
    assert not any(values["kv_heads"] == 2 for values in found)


def test_half_precision_scores_that_the_program_rounds_are_no_attention() -> None:
    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        scores = b.matmul(split(b, q), split(b, k), transpose_b=True)
        return _attend(b, scores, split(b, v))

    assert not _recognised(body, *[tensor("f16", (B, S, H * D))] * 3)
