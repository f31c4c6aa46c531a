"""Chosen kernels are joined where they cost less as one, whatever the search left out."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest

import mgn
from benchmarks.graphs.irregular_graphs import irregular_graph
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate import SaturateOptions, saturate_graph
from mgn.passes.saturate.candidates.candidates import Candidate, CandidateSet
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.check import check_selection
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction import chosen_joins
from mgn.passes.saturate.extraction import extract as extract_module
from mgn.passes.saturate.extraction.chosen_joins import (
    Joins,
    extract_joined,
    join_chosen,
    offer_joins,
)
from mgn.passes.saturate.extraction.extract import Extraction, Extractor, extract, work_for
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.extraction.selection import Selection, select
from mgn.passes.saturate.extraction.work import Work
from mgn.passes.saturate.saturate import saturated_view
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.exported_blocks import BLOCKS
from tests.passes.saturate.saturate_programs import CPU, check_same, random_graph

GPU = DEVICES["nvidia-h200"]
BOTH = pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
NARROW = CutLimits(cuts=1, besides=1, merges=2, attention=2, attending=1, ways=1, pointwise=1)
"""Limits that leave out much of what is worth having."""


def graphs() -> Iterator[tuple[str, GraphOp]]:
    """Exported blocks, and random graphs."""
    for name, texts in BLOCKS.items():
        for text in texts:
            graph = next(graphs_of(mgn.parse(text).lower()))
            simplify_graph(graph)
            yield name, graph
    for seed in range(20):
        yield f"random {seed}", random_graph(seed, 30)


@cache
def choices(name: str) -> list[tuple[str, View, CandidateSet, Extraction, Extraction]]:
    """Each graph's choice within narrow limits, before kernels are joined and after."""
    device = DEVICES[name]
    made: list[tuple[str, View, CandidateSet, Extraction, Extraction]] = []
    for title, graph in graphs():
        view = saturated_view(graph)
        found = find_candidates(view, device, Reach(view), NARROW)
        before = extract(found)
        after = join_chosen(view, found, before, device, NARROW)
        made.append((title, view, found, before, after))
    return made


@BOTH
def test_a_choice_with_joined_kernels_can_be_run_and_costs_less(device: Device) -> None:
    joined = 0
    for name, view, found, before, after in choices(device.name):
        check_selection(view, found, after.selection, device)
        assert after is before or after.selection.cost < before.selection.cost, name
        joined += len(before.selection.kernels) - len(after.selection.kernels)
    assert joined >= 10


@BOTH
def test_the_bound_holds_for_choices_with_joined_kernels(device: Device) -> None:
    """Extraction among all candidates, the joined ones too, finds none below it."""
    for name, _, found, before, after in choices(device.name):
        again = extract(found)
        assert again.selection.cost >= after.bound * (1 - 1e-9), name
        assert after.selection.cost - after.bound >= -1e-9 * before.bound, name


@BOTH
def test_joined_kernels_are_not_joined_once_more(device: Device) -> None:
    for name, view, found, _, after in choices(device.name):
        assert join_chosen(view, found, after, device, NARROW) is after, name


@BOTH
def test_kernels_joined_before_the_first_proof_make_choices_cheaper(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choices among these kernels too cost no more than those among the search's own candidates."""
    monkeypatch.setattr(chosen_joins, "WIDE", -1)
    cheaper = 0
    fresh = [saturated_view(graph) for _, graph in graphs()]
    for (name, _, _, before, _), view in zip(choices(device.name), fresh, strict=True):
        offered = find_candidates(view, device, Reach(view), NARROW)
        again = offered.only(offered.candidates)
        offer_joins(view, offered, Extractor(offered, Work(2.0)).soon(8), device, NARROW)
        first = extract(offered).selection.cost
        assert first <= before.selection.cost * (1 + 1e-9), name
        cheaper += first < before.selection.cost * (1 - PROVED)
        joined = extract_joined(view, again, device, NARROW)
        check_selection(view, again, joined.selection, device)
        assert joined.bound <= joined.selection.cost <= first * (1 + 1e-9), name
    assert cheaper >= 5


@BOTH
def test_what_is_tried_and_left_out_again_writes_nothing(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_joins, "WIDE", -1)
    for name, graph in graphs():
        view = saturated_view(graph)
        found = find_candidates(view, device, Reach(view), NARROW)
        extract_joined(view, found, device, NARROW)
        writers: dict[int, list[int]] = {}
        for number, candidate in enumerate(found.candidates):
            assert candidate.number == number, name
            for key in candidate.results:
                writers.setdefault(key, []).append(number)
        assert found.writers == writers, name


@pytest.mark.parametrize(
    ("width", "work", "is_tried"), [(20, 2.0, True), (21, 2.0, False), (20, 0.0, False)]
)
def test_kernels_are_joined_before_the_first_proof_where_classes_are_tied_to_many(
    width: int, work: float, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[Selection]()
    monkeypatch.setattr(chosen_joins, "WIDE", width)
    monkeypatch.setattr(Extractor, "is_wider", lambda _, width: width < 21)
    monkeypatch.setattr(chosen_joins, "offer_joins", lambda *items: tried.append(items[2]) or ())
    view = saturated_view(random_graph(3, 30))
    found = find_candidates(view, CPU, Reach(view), NARROW)
    extract_joined(view, found, CPU, NARROW, Work(work))
    assert bool(tried) == is_tried


def test_the_width_of_candidates_is_that_of_their_largest_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = saturated_view(random_graph(3, 30))
    found = find_candidates(view, CPU, Reach(view), CutLimits())
    assert not Extractor(found, Work(2.0)).is_wider(0)
    monkeypatch.setattr(extract_module, "LONG", 1)
    assert Extractor(found, Work(2.0)).is_wider(0)


READ_OR_COMPUTED = """
graph g(x: f32[64, 64], w: f32[64, 64]) {
  v = exp(x)
  product = v @ w
  return s = transpose(product, [1, 0]) * v, v
}
"""


def test_no_kernel_is_offered_that_could_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of the last one and of v reads a product, which in this choice is of x alone, but
    may read v.
    """
    graph = next(graphs_of(mgn.parse(READ_OR_COMPUTED).lower()))
    simplify_graph(graph)
    view = saturated_view(graph)
    found = find_candidates(view, CPU, Reach(view), CutLimits())
    s, v = found.outputs
    last = next(n for n in found.candidates if n.results == (s,) and len(n.inputs) == 2)
    (product,) = {*last.inputs} - {v}
    alone = [n for n in found.candidates if not n.inputs and n.results in ((v,), (product,))]
    chosen = select(found, {n.results[0]: n.number for n in (last, *alone)})
    before = len(found.candidates)
    offer_joins(view, found, chosen, CPU, CutLimits())
    assert len(found.candidates) == before
    monkeypatch.setattr(Reach, "depends", lambda *_: False)
    offer_joins(view, found, chosen, CPU, CutLimits())
    joint = found.candidates[before]
    assert {*joint.results} == {s, v} and joint.inputs == (product,)


@BOTH
def test_a_choice_without_a_proof_is_joined_until_that_brings_nothing(device: Device) -> None:
    cheaper = 0
    for kind, seed in (("nas", 1), ("resnet", 3)):
        view = saturated_view(irregular_graph(kind, seed, 200))
        found = find_candidates(view, device, Reach(view), NARROW)
        before = replace(extract(found), budget_spent=True)
        once = Joins(view, found, before, device, NARROW).joined()
        after = join_chosen(view, found, before, device, NARROW)
        check_selection(view, found, after.selection, device)
        again = Joins(view, found, after, device, NARROW).joined()
        assert again.selection.cost >= after.selection.cost * (1.0 - PROVED)
        assert after.selection.cost <= once.selection.cost
        cheaper += after.selection.cost < once.selection.cost * (1.0 - PROVED)
    assert cheaper


def test_a_proved_choice_is_joined_until_that_brings_nothing() -> None:
    for kind, seed in (("nas", 1), ("resnet", 3)):
        view = saturated_view(irregular_graph(kind, seed, 200))
        found = find_candidates(view, CPU, Reach(view), NARROW)
        first = extract(found)
        once = Joins(view, found.only(found.candidates), first, CPU, NARROW).joined()
        after = join_chosen(view, found, first, CPU, NARROW)
        check_selection(view, found, after.selection, CPU)
        assert after.gap <= PROVED
        assert after.selection.cost < once.selection.cost * (1.0 - PROVED)
        again = Joins(view, found.only(found.candidates), after, CPU, NARROW).joined()
        assert again.selection.cost >= after.selection.cost * (1.0 - PROVED)
        assert extract(found).selection.cost >= after.bound * (1.0 - PROVED)


@BOTH
def test_a_large_choice_is_proved_once_more_where_joining_left_no_proof(device: Device) -> None:
    for kind in ("resnet", "nas"):
        report = saturate_graph(irregular_graph(kind, 1, 500), device)
        assert report.candidates > 500 and report.gap <= PROVED


@BOTH
def test_a_bound_is_kept_where_another_proof_finds_none(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_joins, "extract", lambda *items: replace(extract(*items), bound=0.0))
    monkeypatch.setattr(chosen_joins, "FEW", 0)
    cheaper = 0
    for seed in (1, 2, 3):
        view = saturated_view(irregular_graph("nas", seed, 200))
        found = find_candidates(view, device, Reach(view), NARROW)
        rough = replace(extract(found), selection=Extractor(found, work_for(found)).soon(1))
        once = Joins(view, found.only(found.candidates), rough, device, NARROW).joined()
        after = join_chosen(view, found, rough, device, NARROW)
        cheaper += after.selection.cost < once.selection.cost * (1.0 - PROVED)
        assert 0.0 < after.bound <= after.selection.cost * (1.0 + PROVED)
    assert cheaper


@BOTH
def test_a_value_that_both_kernels_write_is_written_once_by_the_kernel_of_both(
    device: Device,
) -> None:
    tried = 0
    for seed in (10, 11):
        view = saturated_view(random_graph(seed, 25))
        found = find_candidates(view, device, Reach(view), CutLimits())
        for first, second in permutations(found.candidates, 2):
            shared = {*first.results}.intersection(second.results)
            if not shared or {*first.results}.isdisjoint(second.inputs):
                continue
            writer = dict.fromkeys((*second.inputs, *second.results), second.number)
            writer |= dict.fromkeys((*second.inputs, *first.results), first.number)
            chosen = Selection(writer, [first.number, second.number], first.price + second.price)
            outputs = replace(found, outputs=(*found.outputs, *shared))
            joins = Joins(view, outputs, Extraction(chosen, 0.0, 1, 1), device, CutLimits())
            joint = joins.joint(first, second, joins.wanted(first, second))
            if joint is not None:
                tried += 1
                assert len({*joint.results}) == len(joint.results)
    assert tried >= 10


READ_BETWEEN = """
graph g(x: f32[64, 64], w: f32[64, 64]) {
  v = x @ w
  a = sin(v) * 0.3
  between = a @ w
  return s = (transpose(between, [1, 0]) + a) * v, t = a @ (w + 1.0), u = v @ w
}
"""


@BOTH
def test_kernels_are_not_joined_around_a_reader_of_what_both_write(device: Device) -> None:
    """The first kernel writes a and v, a product reads a, and the last kernel reads the product and
    v, and writes a once more: the kernel of both would wait for the product, and that for it.
    """
    graph = next(graphs_of(mgn.parse(READ_BETWEEN).lower()))
    simplify_graph(graph)
    view = saturated_view(graph)
    found = find_candidates(view, device, Reach(view), CutLimits())

    def kernel(results: set[int], inputs: set[int]) -> Candidate:
        of_these = [n for n in found.candidates if {*n.results} == results]
        return next(n for n in of_these if {*n.inputs} == inputs)

    first = next(n for n in found.candidates if len(n.results) == 2)
    a, v = first.results
    readers = [n for n in found.candidates if n.results == found.outputs[:1]]
    last = next(n for n in readers if len(n.inputs) == 2 and v in n.inputs and a not in n.inputs)
    between = kernel({*last.inputs} - {v}, {a})
    found.outputs = (*found.outputs[:1], *between.results)
    joins = Joins(view, found, Extraction(Selection({}, [], 0.0), 0.0, 1, 1), device, CutLimits())
    also_a = joins.joint(kernel({a}, {v}), last, (a,))
    assert also_a is not None
    again = found.add(also_a.template, also_a.classes)
    writer = {n: k.number for k in (again, between, first) for n in k.results}
    chosen = select(found, writer, again=True)
    assert chosen.kernels == [first.number, between.number, again.number]
    joins = Joins(view, found, Extraction(chosen, 0.0, 1, 1), device, CutLimits())
    joint = joins.joint(first, again, ())
    assert joint is not None and joint.price < first.price + again.price
    assert joins.joined().selection == chosen


@pytest.mark.parametrize("seed", range(24))
def test_joined_kernels_compute_the_same(seed: int) -> None:
    rng = random.Random(seed)
    device = DEVICES[rng.choice(sorted(DEVICES))]
    before = random_graph(seed, rng.randint(25, 60))
    after = before.clone()
    report = saturate_graph(after, device, SaturateOptions(limits=replace(NARROW, operations=32)))
    after.verify()
    check_same(before, after, seed)
    assert report.bound <= report.cost_after * (1 + 1e-9)


@BOTH
def test_kernels_that_read_the_same_side_by_side_are_joined(device: Device) -> None:
    """Pointwise ones, and sums of the same rows, as many as there are."""
    lines = ["tanh(x)", "x * 2", "exp(x) + 1", "relu(x)", "sum(x, 1)", "sum(x * x, 1)", "max(x, 1)"]
    results = ", ".join(f"y{number} = {line}" for number, line in enumerate(lines))
    text = f"graph g(x: f32[512, 96]) {{ return {results} }}"
    view = saturated_view(next(graphs_of(mgn.parse(text).lower())))
    found = find_candidates(view, device, Reach(view), NARROW)
    before = extract(found)
    assert len(before.selection.kernels) == 7
    after = join_chosen(view, found, before, device, NARROW)
    check_selection(view, found, after.selection, device)
    assert len(after.selection.kernels) == 1
    assert after.selection.cost < before.selection.cost
