"""The choice of kernels: its cost is least, it follows the device's figures, and it is checked."""

import random
import re
import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from benchmarks.graphs import egraph_graphs
from benchmarks.graphs.irregular_graphs import irregular_graph
from benchmarks.graphs.small_graphs import small_graph
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate import SaturateOptions, saturate, saturate_graph, search
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.check import ExtractionError, check_selection
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.explain.flow import flow_preferences
from mgn.passes.saturate.extraction.components import components_of
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.extraction.report import ExtractionReport, SaturateReport
from mgn.passes.saturate.extraction.selection import CyclicSelection, select
from mgn.passes.saturate.extraction.unread_results import drop_unread
from mgn.passes.saturate.extraction.work import Work
from mgn.passes.saturate.rebuild import rebuild_graph
from mgn.passes.saturate.saturate import saturated_view
from mgn.passes.schedules.choose import schedule_for
from tests.passes.saturate.saturate_programs import (
    CPU,
    body_names,
    build_graph,
    check_same,
    f32,
    kernels_of,
    random_graph,
    saturated,
)

GPU = DEVICES["nvidia-h200"]


def choices(graph: GraphOp, device: Device = CPU) -> tuple[View, CandidateSet]:
    view = saturated_view(graph)
    return view, find_candidates(view, device, Reach(view))


def random_selection_cost(found: CandidateSet, rng: random.Random) -> float:
    preferred = {key: rng.choice(writers) for key, writers in found.writers.items()}
    try:
        return select(found, preferred).cost
    except CyclicSelection:
        return float("inf")


@pytest.mark.parametrize("seed", range(20, 32))
def test_no_random_and_no_greedy_choice_is_cheaper(seed: int) -> None:
    view, found = choices(random_graph(seed, 20))
    best = extract(found)
    rng = random.Random(seed)
    costs = [random_selection_cost(found, rng) for _ in range(50)]
    first = {key: writers[0] for key, writers in found.writers.items()}
    least_flow = flow_preferences(found, list(view.classes))
    costs += [select(found, first).cost, select(found, least_flow).cost]
    limit = best.selection.cost * (1 - 1e-9)
    assert all(cost >= limit for cost in costs)
    assert best.bound <= best.selection.cost


def test_the_exact_choice_is_strictly_better_than_random_ones_somewhere() -> None:
    better = 0
    for seed in range(8):
        _, found = choices(random_graph(seed, 25))
        best = extract(found).selection.cost
        rng = random.Random(seed)
        costs = [random_selection_cost(found, rng) for _ in range(20)]
        finite = [cost for cost in costs if cost < float("inf")]
        better += best < 0.95 * sum(finite) / len(finite)
    assert better >= 4


def test_a_long_chain_of_rows_is_cut_into_kernels_with_a_proof() -> None:
    def chain(b: Emitter, x: SSAValue) -> SSAValue:
        for _ in range(8):
            x = b.softmax(b.add(b.layer_norm(x), b.tanh(x)))
        return x

    _, found = choices(build_graph(chain, f32(8, 8)))
    best = extract(found)
    assert best.gap == pytest.approx(0, abs=1e-9)


def test_flow_reaches_classes_whose_operands_come_later() -> None:
    view, found = choices(random_graph(3, 20))
    order = list(view.classes)
    assert flow_preferences(found, order[::-1]).keys() == flow_preferences(found, order).keys()


def test_a_choice_whose_budget_was_spent_is_told_from_one_that_is_proved() -> None:
    def hurried(seconds: float) -> SaturateReport:
        graph = egraph_graphs.training_graph(1)
        return saturate_graph(graph, CPU, SaturateOptions(extract_budget=seconds))

    late, best = hurried(0.0), hurried(30.0)
    assert late.gap > 0.05 and late.budget_spent and not late.is_settled
    assert re.search(r"lower bound .*: gap \d+\.\d+% \(budget spent\)", str(late))
    assert best.gap == pytest.approx(0) and best.is_settled
    assert re.search(r"lower bound .*: proved optimal$", str(best), re.MULTILINE)


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=["cpu", "gpu"])
def test_all_choices_for_a_graph_share_one_budget(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done beyond it is a step that was begun, and a few choices that are made at once:
    one, and others while its rings are broken.
    """
    steps: list[float] = []
    did = Work.did

    def counted(self: Work, count: float, seconds: float) -> None:
        steps.append(count * seconds)
        did(self, count, seconds)

    monkeypatch.setattr(Work, "did", counted)

    def steps_of(graph: GraphOp, budget: float) -> list[float]:
        steps.clear()
        options = SaturateOptions(extract_budget=budget, memoise=False)
        saturate_graph(graph.clone(), device, options)
        return [*steps]

    graphs = [small_graph(seed, 18) for seed in (6, 7, 9)] + [small_graph(6, 16)]
    graphs += [random_graph(3, 45), irregular_graph("resnet", 1, 300)]
    spent = 0
    for graph in graphs:
        whole, at_once = sum(steps_of(graph, 30.0)), sum(steps_of(graph, 0.0))
        for share in (0.1, 0.4, 0.7):
            done = steps_of(graph, share * whole)
            assert sum(done) <= share * whole + 4 * at_once + max(done)
            spent += sum(done) > share * whole
    assert spent >= 3


def test_no_choice_depends_on_how_fast_the_clock_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = choices(egraph_graphs.training_graph(1))
    for budget in (0.0, 0.002, 10.0):
        usual = extract(found, Work(budget))
        with monkeypatch.context() as patch:
            for clock in ("process_time", "perf_counter", "monotonic", "time"):
                patch.setattr(time, clock, lambda: 1e9 * random.random())
            assert extract(found, Work(budget)) == usual


def test_a_choice_that_no_method_proves_is_not_called_proved() -> None:
    report = ExtractionReport(3.0, 2.0, 1.9, 0.05, False, 0, ())
    assert report.proof == "gap 5.00%"
    assert replace(report, gap=3e-5).proof == "gap less than 0.01%"
    assert replace(report, gap=1e-12, budget_spent=True).proof == "proved optimal"


def test_a_value_that_a_kernel_could_write_and_nobody_reads_is_not_written() -> None:
    """Where kernels waited for each other, each class is taken from one of them alone."""

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        total = b.exp(b.sum(x, axis=1, keepdims=True))
        return [b.mul(x, total), b.tanh(total)]

    graph = build_graph(body, f32(8, 8))
    view, found = choices(graph)
    several = {
        key: item.number
        for item in found.candidates
        for key in found.outputs
        if key in item.results and len(item.results) > 1
    }
    assert len(several) == len(found.outputs) == 2
    selection = drop_unread(view, found, select(found, several, again=True), CPU)
    rebuild_graph(graph, view, found, selection)
    graph.verify()
    assert [len(kernel.results) for kernel in kernels_of(graph)] == [1, 1]


def test_a_kernel_whose_sums_another_one_writes_is_still_a_reduction() -> None:
    """Where it was chosen for the value that it sums."""

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        y = b.exp(x)
        return [y, b.sum(y, axis=1)]

    graph = build_graph(body, f32(8, 8))
    view, found = choices(graph)
    value, total = found.outputs
    (both,) = (item for item in found.candidates if set(item.results) == {value, total})
    (alone,) = (item for item in found.candidates if item.results == (total,) and not item.inputs)
    chosen = select(found, {value: both.number, total: alone.number}, again=True)
    rebuild_graph(graph, view, found, chosen)
    graph.verify()
    for kernel in kernels_of(graph):
        assert schedule_for(kernel, CPU)


def test_what_is_left_of_a_kernel_of_which_one_result_is_read_is_of_a_kind_of_its_own() -> None:
    """Without the result that it reduces for, a kernel that writes rows beside it only moves."""

    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        rows = b.reshape(x, [8, 4, 4])
        return [rows, b.sub(rows, b.mul(b.sum(rows, axis=(1, 2), keepdims=True), 0.0625))]

    graph = build_graph(body, f32(8, 16))
    before = graph.clone()
    view, found = choices(graph)
    rows, rest = found.outputs
    written = {item.results: item.number for item in found.candidates if rows not in item.inputs}
    both = next(n for items, n in written.items() if {*items} == {rows, rest})
    chosen = select(found, {rows: both, rest: written[rest,]}, again=True)
    selection = drop_unread(view, found, chosen, CPU)
    assert selection.cost < chosen.cost
    check_selection(view, found, selection, CPU)
    rebuild_graph(graph, view, found, selection)
    graph.verify()
    check_same(before, graph)
    kinds = {str(kernel.kernel_kind): body_names(kernel) for kernel in kernels_of(graph)}
    assert kinds["pointwise"] == ["reshape"] and "sum" in kinds["reduction"]


def two_users_of_a_long_chain(b: Emitter, x: SSAValue, w: SSAValue) -> list[SSAValue]:
    chain = x
    for _ in range(6):
        chain = b.exp(b.tanh(chain))
    turned = b.transpose(chain, [1, 0])
    return [b.sum(turned, axis=1), b.reshape(b.mul(chain, w), [-1])]


def kernel_count(body, types: tuple[TensorType, ...], device: Device) -> int:
    after, _ = saturated(body, *types, device=device)
    return len(kernels_of(after))


def test_a_shared_value_is_stored_when_launches_are_cheap_and_recomputed_when_not() -> None:
    types = (f32(128, 256), f32(256))
    cheap = CPU.with_figures(launch_cost=1e-9, bandwidth=1e12)
    dear = CPU.with_figures(launch_cost=1e-1)
    assert kernel_count(two_users_of_a_long_chain, types, cheap) > kernel_count(
        two_users_of_a_long_chain, types, dear
    )


def test_little_bandwidth_makes_readers_recompute_what_is_cheap_to_compute() -> None:
    def body(b: Emitter, x: SSAValue) -> list[SSAValue]:
        table = b.exp(b.mul(x, 0.1))
        return [
            b.sum(b.tanh(b.broadcast_to(table, (64, 512, 512))), axis=(1, 2)),
            b.max_reduce(b.sin(b.broadcast_to(table, (64, 512, 512))), axis=(0, 1)),
        ]

    slow_memory = CPU.with_figures(bandwidth=1e6, launch_cost=0.0, rates={"f32": 1e15})
    slow_units = CPU.with_figures(bandwidth=1e15, launch_cost=0.0, rates={"f32": 1e6})
    assert kernel_count_only(body, slow_memory) == 2
    assert kernel_count_only(body, slow_units) == 3


def kernel_count_only(body, device: Device) -> int:
    graph = build_graph(body, f32(512, 512))
    return saturate_graph(graph, device).kernel_count


def test_a_dear_prologue_is_not_evaluated_again_for_every_tile() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.matmul(b.gelu(x), w)

    wide, _ = saturated(body, f32(64, 64), f32(64, 4096))
    assert sorted(map(body_names, kernels_of(wide))) == [["gelu"], ["matmul"]]
    narrow, _ = saturated(body, f32(64, 64), f32(64, 8))
    assert list(map(body_names, kernels_of(narrow))) == [["gelu", "matmul"]]


def test_an_embedding_reads_only_the_rows_it_needs() -> None:
    def body(b: Emitter, ids: SSAValue, table: SSAValue) -> SSAValue:
        return b.embedding(b.cast(b.abs(ids), T="i32"), table)

    graph = build_graph(body, f32(4), f32(50000, 64))
    report = saturate_graph(graph, CPU.with_figures(launch_cost=0.0))
    assert report.cost_after * CPU.bandwidth < 4 * 64 * 4 * 4


def mlp(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
    return b.relu(b.add(b.matmul(b.rms_norm(x), w), x))


def test_the_checker_accepts_the_choice_and_notices_every_change() -> None:
    view, found = choices(build_graph(mlp, f32(64, 64), f32(64, 64)))
    selection = extract(found).selection
    check_selection(view, found, selection, CPU)
    with pytest.raises(ExtractionError, match="the cost is"):
        check_selection(view, found, replace(selection, cost=selection.cost / 2), CPU)
    with pytest.raises(ExtractionError, match=r"needs|is not computed"):
        check_selection(view, found, replace(selection, kernels=selection.kernels[1:]), CPU)
    with pytest.raises(ExtractionError, match="needs"):
        reverse = replace(selection, kernels=selection.kernels[::-1])
        check_selection(view, found, reverse, CPU)
    with pytest.raises(ExtractionError, match="twice"):
        twice = replace(selection, kernels=[*selection.kernels, selection.kernels[0]])
        check_selection(view, found, twice, CPU)
    chosen = found.candidates[selection.kernels[0]]
    form = replace(chosen.template.form, kind=KernelKind.SCAN)
    chosen.template = replace(chosen.template, form=form)
    with pytest.raises(ExtractionError, match="not a scan kernel"):
        check_selection(view, found, selection, CPU)


def layers(count: int) -> GraphOp:
    """Decoder-like layers that share a table, each with its own weights."""

    def body(b: Emitter, x: SSAValue, table: SSAValue, *weights: SSAValue) -> SSAValue:
        turned = b.sin(b.mul(table, 0.5))
        for index in range(count):
            up, down = weights[2 * index : 2 * index + 2]
            h = b.mul(b.rms_norm(x), turned)
            x = b.add(x, b.matmul(b.silu(b.matmul(h, up)), down))
        return x

    weights = [f32(64, 128), f32(128, 64)] * count
    return build_graph(body, f32(32, 64), f32(32, 64), *weights)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_equal_layers_are_solved_once_and_a_shared_table_does_not_tie_them(device: Device) -> None:
    graph = layers(24)
    report = saturate_graph(graph, device)
    assert report.gap == pytest.approx(0, abs=1e-6)
    assert report.distinct_components <= 20
    assert report.kernels == {"contraction": 48, "reduction": 24} or report.kernel_count <= 73


def test_a_large_graph_takes_time_in_proportion_to_its_size() -> None:
    times: list[float] = []
    for count in (20, 80):
        graph = layers(count)
        start = time.process_time()
        saturate_graph(graph, CPU)
        times.append(time.process_time() - start)
    assert times[1] < 12 * times[0]


def test_layers_are_chosen_apart_though_a_kernel_reaches_over_their_ends() -> None:
    """It computes a residual sum again that is written in any case."""
    sizes: list[int] = []
    for layers in (2, 4):
        _, found = choices(egraph_graphs.inference_graph(layers))
        sizes.append(max(len(part.candidates) for part in components_of(found)))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(("module", "stage"), [(search, "extract_joined"), (saturate, "recall")])
def test_every_compilation_is_checked(
    module: ModuleType, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A choice at half its price is refused, whether it is new or remembered."""
    graph = build_graph(mlp, f32(64, 32), f32(32, 32))
    saturate_graph(graph.clone(), CPU)
    right = getattr(module, stage)

    def wrong(*arguments: Any) -> Any:
        choice = right(*arguments)
        selection = choice.selection
        return replace(choice, selection=replace(selection, cost=selection.cost / 2))

    monkeypatch.setattr(module, stage, wrong)
    with pytest.raises(ExtractionError, match="the cost is"):
        saturate_graph(graph, CPU, SaturateOptions(memoise=stage == "recall"))
