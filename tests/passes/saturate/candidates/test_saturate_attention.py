"""Attention as the e-graph sees it: one kernel beside its decomposition, chosen by price."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import mgn
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.plan import ProgramOp
from mgn.passes.lower_kernels import LowerKernels
from mgn.passes.plan_memory import PlanMemory
from mgn.passes.saturate import Rule, RuleClass, Saturate
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.prices.scheduled import schedule_of
from mgn.passes.saturate.rules.table import RULES
from mgn.passes.schedules.attention.seconds import visited_keys
from mgn.passes.schedules.choose_schedules import ChooseSchedules
from tests.passes.saturate.saturate_programs import (
    CPU,
    body_names,
    build_graph,
    f32,
    kernels_of,
    saturated,
)

EXACT = frozenset({RuleClass.EXACT})
GPU = DEVICES["nvidia-h200"]


def priced(seconds: float) -> Callable[..., object]:
    """Schedules as they are, but for attention, which takes so long."""

    def schedule(body: Any, form: Any, *rest: Any) -> object:
        found = schedule_of(body, form, *rest)
        if found is None or form.kind is not KernelKind.ATTENTION:
            return found
        return replace(found, seconds=seconds)

    return schedule


PRICE = "mgn.passes.saturate.prices.prices.schedule_of"


def causal(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    return b.attention(q, k, v, heads=4, kv_heads=2, causal=True)


def operands(queries: int, keys: int) -> tuple[object, ...]:
    return f32(queries, 32), f32(keys, 16), f32(keys, 16)


def kinds(graph: GraphOp) -> list[KernelKind]:
    return [kernel.kernel_kind for kernel in kernels_of(graph)]


@pytest.mark.parametrize("device", [CPU, GPU], ids=lambda device: device.name)
def test_attention_with_what_surrounds_it_is_one_kernel(device: Device) -> None:
    graph, _ = saturated(
        lambda b, q, k, v, x: b.add(b.relu(causal(b, b.abs(q), k, b.neg(v))), x),
        *operands(96, 96),
        f32(96, 32),
        device=device,
    )
    (kernel,) = kernels_of(graph)
    assert kernel.kernel_kind is KernelKind.ATTENTION
    assert body_names(kernel) == ["abs", "neg", "attention", "relu", "add"]


def test_rope_is_evaluated_inside_the_kernel_or_stored_before_it() -> None:
    graph, _ = saturated(
        lambda b, q, k, v: causal(
            b, b.rope(q, head_dim=8, theta=100.0), b.rope(k, head_dim=8, theta=100.0), v
        ),
        *operands(64, 64),
    )
    assert kinds(graph)[-1] is KernelKind.ATTENTION
    assert set(kinds(graph)[:-1]) <= {KernelKind.POINTWISE}


def test_a_matmul_before_attention_is_a_kernel_of_its_own() -> None:
    graph, _ = saturated(
        lambda b, x, w, k, v: causal(b, b.matmul(x, w), k, v),
        f32(64, 24),
        f32(24, 32),
        f32(64, 16),
        f32(64, 16),
    )
    assert kinds(graph) == [KernelKind.CONTRACTION, KernelKind.ATTENTION]


@pytest.mark.parametrize("options", [{"classes": EXACT}, {"fuse": False}], ids=str)
def test_where_sums_keep_their_order_attention_is_decomposed(options: dict[str, object]) -> None:
    graph, _ = saturated(causal, *operands(96, 96), **options)
    assert KernelKind.ATTENTION not in kinds(graph)
    assert all("attention" not in body_names(kernel) for kernel in kernels_of(graph))


def test_heads_too_large_for_local_memory_are_decomposed() -> None:
    whole, _ = saturated(causal, *operands(96, 96))
    cramped, _ = saturated(causal, *operands(96, 96), device=CPU.with_figures(local_memory=1024))
    assert kinds(whole) == [KernelKind.ATTENTION]
    assert KernelKind.ATTENTION not in kinds(cramped)


@pytest.fixture
def dear_attention(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Attention in one kernel that takes a second."""
    forget_choices()
    monkeypatch.setattr(PRICE, priced(1.0))
    yield
    forget_choices()


@pytest.mark.parametrize("given", [{}, {"causal": True}, {"causal": True, "window": 5}], ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (2,)], ids=str)
@pytest.mark.parametrize(("heads", "shared"), [(1, 1), (4, 4), (4, 2), (4, 1)])
def test_the_parts_of_attention_are_a_choice_in_any_layout(
    heads: int, shared: int, batch: tuple[int, ...], given: dict[str, Any], dear_attention: None
) -> None:
    shapes = [(*batch, 96, heads * 8), (*batch, 96, shared * 8), (*batch, 96, shared * 8)]

    def body(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, *bias: SSAValue) -> SSAValue:
        return b.attention(q, k, v, *bias, heads=heads, kv_heads=shared, **given)

    for masks in ([], [(96, 96)], [(heads, 96, 96)]):
        graph, _ = saturated(body, *(f32(*shape) for shape in [*shapes, *masks]))
        assert KernelKind.ATTENTION not in kinds(graph)


def test_an_attention_that_a_rule_writes_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is no identity, so the graph is not compared with itself before."""
    row = Rule(
        "the-attention-of-a-test",
        "erf(matmul(q, k))",
        "attention(q, k, k, heads=2)",
        RuleClass.REASSOCIATES,
        "none: any row may name attention",
    )
    row.check()
    monkeypatch.setitem(RULES, row.name, row)
    monkeypatch.setattr(
        "tests.passes.saturate.saturate_programs.check_same", lambda before, after: None
    )
    monkeypatch.setattr(PRICE, priced(0.0))
    graph, _ = saturated(lambda b, q, k: b.erf(b.matmul(q, k)), f32(64, 64), f32(64, 64))
    assert kinds(graph) == [KernelKind.ATTENTION]


def test_values_that_are_only_each_others_movement_are_no_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attention that only a rule wrote has no parts, and here it fits no device: its class and
    that of its negative are then computed from nothing.
    """
    written = "attention(x, x, x, heads=2)"
    rows = (
        Rule("to-attention", "erf(x)", f"abs({written})", RuleClass.REASSOCIATES, "none: a test's"),
        Rule("there-and-back", written, f"neg(neg({written}))", RuleClass.EXACT, "a number"),
    )
    for row in rows:
        monkeypatch.setitem(RULES, row.name, row)
    monkeypatch.setattr(
        "tests.passes.saturate.saturate_programs.check_same", lambda before, after: None
    )
    cramped = CPU.with_figures(local_memory=1024)
    graph, report = saturated(lambda b, x: b.erf(x), f32(64, 64), device=cramped)
    assert report.fired["there-and-back"]
    assert [body_names(kernel) for kernel in kernels_of(graph)] == [["erf"]]


def turned(b: Emitter, q: SSAValue, k: SSAValue, v: SSAValue, w: SSAValue) -> SSAValue:
    q, k = (b.rope(x, head_dim=64, theta=1e4) for x in (q, k))
    return b.matmul(b.attention(q, k, v, heads=9, kv_heads=3, causal=True), w)


def test_heads_that_share_keys_may_be_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 64 rows hold 21 positions of three heads: seven tiles of a group turn the keys of
    128 positions, and two of each head.
    """
    types = f32(128, 576), f32(128, 192), f32(128, 192), f32(576, 576)
    graph, report = saturated(turned, *types, device=GPU)
    (attention,) = (op for op in graph.walk() if op.name == "mgn.attention")
    assert attention.properties["heads"] == attention.properties["kv_heads"]
    monkeypatch.delitem(RULES, "heads-as-batches")
    forget_choices()
    _, merged = saturated(turned, *types, device=GPU)
    assert report.cost_after < merged.cost_after


def test_memory_grows_with_the_queries_and_not_with_the_scores() -> None:
    sizes: list[int] = []
    for length in (512, 1024):
        graph = build_graph(causal, *operands(length, length))
        module = ModuleOp([graph])
        for each in (Saturate(), ChooseSchedules(), LowerKernels(), PlanMemory()):
            each.apply(Context(), module)
        (program,) = (op for op in module.body.block.ops if isinstance(op, ProgramOp))
        sizes.append(program.arena.value.data)
    assert sizes[0] == 512 * 32 * 4 and sizes[1] == 2 * sizes[0]


def test_a_tile_that_sees_few_keys_costs_less() -> None:
    assert visited_keys(128, 128, False, 0, 32, 32) == (128,) * 4
    assert visited_keys(128, 128, True, 0, 32, 32) == (32, 64, 96, 128)
    assert visited_keys(128, 128, True, 16, 32, 32) == (32, 64, 64, 64)
    assert visited_keys(64, 128, True, 0, 32, 32) == (96, 128)


@pytest.mark.parametrize(("batch", "keys"), [(1, 2048), (1, 8192), (4, 2048), (8, 2048)])
def test_few_queries_round_keys_and_values_on_their_way(batch: int, keys: int) -> None:
    """Whole, such an attention has few work-groups, so that a copy of the values looks cheaper."""
    text = f"""graph g(
      q: f32[{batch}, 1, 4096], k: f32[{batch}, {keys}, 1024], v: f32[{batch}, {keys}, 1024]
    ) {{ return y = attention(q, k, v, heads = 32, kv_heads = 8) }}"""
    found = mgn.optimize(mgn.parse(text), device="nvidia-h200", precision="bf16")
    assert [kernel.kind for kernel in found.report.kernels] == ["attention", "reduction"]
