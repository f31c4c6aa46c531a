"""Graphs that differ in sizes alone share what the search found: correct, near the best, and said
in the report.
"""

import random
from collections.abc import Iterator

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.sharing.known_sizes import forget_sizes
from mgn.passes.saturate.sharing.structure import sizes_of, structure_key
from tests.passes.saturate.saturate_programs import CPU, build_graph, check_same, f32

BLOCKS = 3
"""Enough that not every kernel of the graph is looked at."""


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("mgn.passes.saturate.saturate.WORTHWHILE", 0)
    forget_choices()
    forget_sizes()
    yield
    forget_choices()
    forget_sizes()


def mixers(rows: int, width: int = 32) -> GraphOp:
    """Blocks of a norm, two products and a softmax, at a number of rows."""

    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for w in weights:
            h = b.rms_norm(x)
            scores = b.softmax(b.matmul(h, h, transpose_b=True))
            x = b.add(x, b.silu(b.matmul(b.matmul(scores, h), w)))
        return x

    return build_graph(body, f32(rows, width), *[f32(width, width)] * BLOCKS)


def saturated(graph: GraphOp, memoise: bool = True) -> tuple[GraphOp, SaturateReport]:
    after = graph.clone()
    return after, saturate_graph(after, CPU, SaturateOptions(memoise=memoise))


def test_a_second_size_is_said_to_be_shared_and_from_which() -> None:
    first = saturated(mixers(48))[1]
    after, second = saturated(mixers(80))
    assert not first.shared
    assert second.shared == sizes_of(mixers(48))
    assert "x0 of 48×32" in second.shared
    assert f"shared with the graph for {second.shared}" in str(second)
    check_same(mixers(80), after)


@pytest.mark.parametrize("seed", range(3))
def test_a_shared_choice_is_correct_and_within_a_hundredth_of_the_full_search(seed: int) -> None:
    draw = random.Random(seed)
    shared = 0
    for rows in (64, *[draw.choice([3, 17, 33, 96, 129, 250, 511]) for _ in range(3)]):
        forget_choices()
        after, report = saturated(mixers(rows))
        full = saturated(mixers(rows), memoise=False)[1]
        shared += bool(report.shared)
        assert report.cost_after <= 1.01 * full.cost_after
        assert report.bound <= full.cost_after * (1.0 + 1e-9)
        check_same(mixers(rows), after)
    assert shared


def test_another_structure_shares_nothing() -> None:
    saturated(mixers(48))

    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for w in weights:
            h = b.rms_norm(x)
            x = b.add(x, b.gelu(b.matmul(b.matmul(b.matmul(h, h, transpose_b=True), h), w)))
        return x

    other = build_graph(body, f32(80, 32), *[f32(32, 32)] * BLOCKS)
    assert not saturated(other)[1].shared


def test_what_was_shared_is_not_shared_on() -> None:
    saturated(mixers(48))
    assert saturated(mixers(52))[1].shared
    assert saturated(mixers(56))[1].shared == sizes_of(mixers(48))


def test_sizes_do_not_tell_structures_apart_and_operands_do() -> None:
    def key(graph: GraphOp) -> object:
        return structure_key(graph, CPU, SaturateOptions(), ())

    def turned(b: Emitter, x: SSAValue, y: SSAValue, perm: tuple[int, ...]) -> SSAValue:
        return b.add(b.transpose(x, perm=perm), y)

    def graph(size: int, perm: tuple[int, ...]) -> GraphOp:
        types = f32(size, size, size), f32(size, size, size)
        return build_graph(lambda b, x, y: turned(b, x, y, perm), *types)

    assert key(mixers(48)) == key(mixers(80, width=16))
    assert key(graph(4, (0, 2, 1))) == key(graph(5, (0, 2, 1)))
    assert key(graph(4, (0, 2, 1))) != key(graph(4, (2, 1, 0)))


def test_without_a_memory_nothing_is_shared() -> None:
    saturated(mixers(48), memoise=False)
    assert not saturated(mixers(80))[1].shared
    assert not saturated(mixers(96), memoise=False)[1].shared
