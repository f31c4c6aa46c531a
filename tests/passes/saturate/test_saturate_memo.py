"""A graph that was seen before is not saturated again; one that differs in anything is."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.arrangements.prepack_products import PackedOperand
from mgn.passes.saturate import Rule, RuleClass, SaturateOptions, saturate_graph
from mgn.passes.saturate.candidates import priced_bodies
from mgn.passes.saturate.memo import REMEMBERED, forget_choices
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.saturate.rules.table import RULES
from tests.passes.saturate.saturate_programs import (
    CPU,
    build_graph,
    check_same,
    f32,
    kernels_of,
    random_graph,
)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget_choices()
    yield
    forget_choices()


def norm(b: Emitter, x: SSAValue, eps: float = 1e-5) -> SSAValue:
    return b.rms_norm(b.silu(x), eps=eps)


def remembers(first: GraphOp, second: GraphOp, **options: object) -> bool:
    """Whether the choice for one graph serves the other."""
    forget_choices()
    saturate_graph(first, CPU)
    return saturate_graph(second, CPU, replace(SaturateOptions(), **options)).remembered


@pytest.mark.parametrize("seed", range(8))
def test_the_second_time_gives_the_same_kernels(seed: int) -> None:
    before = random_graph(seed, 25)
    first, second = before.clone(), before.clone()
    assert not saturate_graph(first, CPU).remembered
    report = saturate_graph(second, CPU)
    assert report.remembered
    assert "remembered" in str(report)
    assert str(first) == str(second)
    assert report.kernel_count == len(kernels_of(second))
    check_same(before, second)


def test_whatever_differs_makes_another_choice() -> None:
    def graph(*shape: int, eps: float = 1e-5) -> GraphOp:
        return build_graph(lambda b, x: norm(b, x, eps), f32(*shape))

    def both(b: Emitter, x: SSAValue) -> list[SSAValue]:
        active = b.silu(x)
        return [b.rms_norm(active), active]

    assert remembers(graph(4, 8), graph(4, 8))
    assert not remembers(graph(4, 8), graph(4, 9))
    assert not remembers(graph(4, 8), graph(4, 8, eps=1e-6))
    assert not remembers(graph(4, 8), build_graph(both, f32(4, 8)))
    assert not remembers(graph(4, 8), graph(4, 8), fuse=False)
    assert not remembers(graph(4, 8), graph(4, 8), classes=frozenset({RuleClass.EXACT}))


def test_another_rule_makes_another_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    saturate_graph(build_graph(norm, f32(4, 8)), CPU)
    row = Rule("twice", "add(x, x)", "mul(x, 2)", RuleClass.EXACT, "x + x = 2 x")
    monkeypatch.setitem(RULES, row.name, row)
    assert not saturate_graph(build_graph(norm, f32(4, 8)), CPU).remembered


def test_another_device_makes_another_choice() -> None:
    saturate_graph(build_graph(norm, f32(4, 8)), CPU)
    other = CPU.with_figures(launch_cost=1e-3)
    assert not saturate_graph(build_graph(norm, f32(4, 8)), other).remembered


def test_a_remembered_choice_has_the_locations_of_the_new_graph() -> None:
    for line in (3, 7):
        graph = build_graph(norm, f32(4, 8))
        place = FileLineColLoc(StringAttr("a.mgn"), IntAttr(line), IntAttr(1))
        for op in graph.block.ops:
            op.location = place
        saturate_graph(graph, CPU)
        assert kernels_of(graph)[0].location == place


def test_a_choice_without_locations_does_not_serve_a_graph_that_has_them() -> None:
    plain, placed = build_graph(norm, f32(4, 8)), build_graph(norm, f32(4, 8))
    place = FileLineColLoc(StringAttr("a.mgn"), IntAttr(3), IntAttr(1))
    for op in placed.block.ops:
        op.location = place
    assert not remembers(plain, placed)
    assert kernels_of(placed)[0].location == place


def test_only_the_last_graphs_are_remembered() -> None:
    for size in range(1, REMEMBERED + 2):
        saturate_graph(build_graph(norm, f32(4, size)), CPU)
    assert saturate_graph(build_graph(norm, f32(4, 2)), CPU).remembered
    assert not saturate_graph(build_graph(norm, f32(4, 1)), CPU).remembered


def test_without_memory_equal_layers_and_graphs_are_decided_each_for_itself_and_alike() -> None:
    def layers(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for weight in weights:
            x = b.add(x, b.silu(b.matmul(b.rms_norm(x), weight)))
        return x

    graphs = [build_graph(layers, f32(16, 32), *[f32(32, 32)] * 6) for _ in range(3)]
    off = replace(SaturateOptions(), memoise=False)
    known = saturate_graph(graphs[0], CPU)
    alone = saturate_graph(graphs[1], CPU, off)
    again = saturate_graph(graphs[2], CPU, off)
    assert alone.considered > 2 * known.considered
    assert not again.remembered
    assert alone.cost_after == known.cost_after
    assert str(graphs[0]) == str(graphs[1]) == str(graphs[2])


def test_equal_bodies_are_priced_once_though_each_region_is_decided_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def priced_and_considered(layers: int) -> tuple[int, int]:
        def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
            for weight in weights:
                x = b.matmul(norm(b, x), weight)
            return x

        seen: list[tuple[object, ...]] = []

        def price(
            body: object, form: object, results: object, types: object, *rest: object
        ) -> float:
            seen.append((body, results))
            return price_kernel(body, form, results, types, *rest)  # pyright: ignore

        with monkeypatch.context() as patched:
            patched.setattr(priced_bodies, "price_kernel", price)
            graph = build_graph(body, f32(8, 16), *[f32(16, 16)] * layers)
            report = saturate_graph(graph, CPU, SaturateOptions(memoise=False))
        return len(seen), report.considered

    few, many = priced_and_considered(4), priced_and_considered(6)
    assert many[0] == few[0]
    assert many[1] > few[1]


def test_equal_bodies_are_arranged_once_though_each_region_is_decided_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def written_and_taken(layers: int) -> tuple[int, int]:
        def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
            for weight in weights:
                x = b.matmul(norm(b, x), weight)
            return x

        written: list[PackedOperand] = []
        write = PackedOperand.write

        def noting(packed: PackedOperand, pieces: KernelPieces) -> None:
            written.append(packed)
            write(packed, pieces)

        with monkeypatch.context() as patched:
            patched.setattr(PackedOperand, "write", noting)
            graph = build_graph(body, f32(512, 128), *[f32(128, 128)] * layers)
            report = saturate_graph(graph, CPU, SaturateOptions(memoise=False))
        return len(written), report.arrangements.total()

    few, many = written_and_taken(4), written_and_taken(6)
    assert 0 < many[0] == few[0]
    assert (few[1], many[1]) == (4, 6)
