"""What extraction is for: other choices cost much more, and the device's figures decide."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice, product
from statistics import geometric_mean

import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import tensor
from mgn.passes.saturate import SaturateReport, saturate_graph
from mgn.passes.saturate.candidates import offers
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.cut_lists import CutBuilder
from mgn.passes.saturate.candidates.cuts import Cut, Traits
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import KnownBody
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.ways_tried import best_of_each_kind
from mgn.passes.saturate.explain.trace import SaturateTrace
from mgn.passes.saturate.extraction.selection import CyclicSelection, select
from mgn.passes.saturate.prices.forms import Form
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import CPU, build_graph, f32, kernels_of
from tests.passes.saturate.saturate_zoo import SMALL, ZOO

GPU = DEVICES["nvidia-h200"]


def all_candidates(graph: GraphOp, device: Device, monkeypatch: pytest.MonkeyPatch) -> CandidateSet:
    """The candidates before those that others are better than in every way are left out."""
    with monkeypatch.context() as patched:
        patched.setattr(offers, "undominated", list)
        patched.setattr(CutBuilder, "_node_cuts", every_node_cut)
        view = saturated_view(graph)
        return offers.find_candidates(view, device, Reach(view))


def every_node_cut(
    builder: CutBuilder,
    signature: int,
    operands: Sequence[tuple[int, tuple[int, ...]]],
    traits: Sequence[Traits],
) -> list[Cut]:
    """All legal cuts of an e-node, each operand computed inside or read."""
    root = builder.view.signatures[signature]
    choices = [
        builder._choices(number, mapped, traits, root, builder._before(root, position))  # pyright: ignore
        for position, (number, mapped) in enumerate(operands)
    ]
    merged = (
        builder._merge(signature, operands, combination, traits)  # pyright: ignore
        for combination in islice(product(*choices), builder.limits.merges)
    )
    found = [cut for cut in merged if cut is not None]
    if found:
        return found
    alone = builder._merge(signature, operands, [None] * len(operands), traits, bounded=False)  # pyright: ignore
    return [] if alone is None else [alone]


def mean_cost(found: CandidateSet, pick: Callable[[list[int]], int], tries: int) -> float:
    """The mean cost of choices in which each class has the writer that is picked."""
    costs: list[float] = []
    for _ in range(tries):
        preferred = {key: pick(writers) for key, writers in found.writers.items()}
        try:
            costs.append(select(found, preferred).cost)
        except CyclicSelection:
            continue
    return sum(costs) / len(costs)


@cache
def chosen(name: str, device: str) -> tuple[GraphOp, SaturateReport]:
    """A graph of the zoo after saturation, and its report."""
    graph = ZOO[name]()
    return graph, saturate_graph(graph, DEVICES[device])


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_random_and_first_found_kernels_cost_at_least_three_tenths_more(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(0)
    at_random: list[float] = []
    first_found: list[float] = []
    for name, make in ZOO.items():
        found = all_candidates(make(), device, monkeypatch)
        best = chosen(name, device.name)[1].cost_after
        at_random.append(mean_cost(found, rng.choice, 30) / best)
        first_found.append(mean_cost(found, lambda writers: writers[0], 1) / best)
    for ratios in (at_random, first_found):
        assert min(ratios) >= 1 - 1e-9
        assert geometric_mean(ratios) >= 1.3


@pytest.mark.parametrize("name", list(ZOO))
def test_the_kernels_emitted_are_the_kernels_extracted(name: str) -> None:
    graph, report = chosen(name, CPU.name)
    assert Counter(kernel.kind.data for kernel in kernels_of(graph)) == report.kernels
    assert report.saturated


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", list(SMALL))
def test_each_kernel_emitted_computes_what_one_extracted_does(name: str, device: Device) -> None:
    graph, trace = ZOO[name](), SaturateTrace()
    saturate_graph(graph, device, trace=trace)
    assert trace.view is not None and trace.found is not None and trace.selection is not None
    extracted = [trace.found.candidates[number] for number in trace.selection.kernels]
    signatures = trace.view.signatures
    for kernel, candidate in zip(kernels_of(graph), extracted, strict=True):
        operations = [op for op in kernel.block.ops if isinstance(op, TensorOp)]
        wanted = [signatures[number] for _, number, _ in candidate.body]
        assert [op.spec.name for op in operations] == [item.name for item in wanted]
        assert [op.results[0].type for op in operations] == [item.type for item in wanted]
        assert kernel.kernel_kind is candidate.kind
        assert len(kernel.inputs) == len(candidate.reads)


@pytest.mark.parametrize("name", ["decoder", "decoder training"])
def test_the_report_has_the_prices_of_what_was_rejected(name: str) -> None:
    _, report = chosen(name, GPU.name)
    extraction = report.extraction
    total = sum(item.count for item in extraction.choices)
    assert total == report.kernel_count == report.candidates - extraction.rejected
    listed = [rival for item in extraction.choices for rival in item.rejected]
    assert 0 < len(listed) <= extraction.rejected + sum(report.arrangements.values())
    assert all(rival.price > 0 and rival.operations for rival in listed)
    alone = sum(item.chosen.price * item.count for item in extraction.choices)
    assert alone == pytest.approx(extraction.cost) or report.arrangements
    assert f"{extraction.rejected} rejected" in str(report)
    assert str(listed[0]) in str(next(item for item in extraction.choices if item.rejected))
    several = [rival for rival in listed if rival.results > 1]
    assert several and all(f", writes {item.results} values" in str(item) for item in several)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", list(ZOO))
def test_the_choice_is_close_to_its_bound(name: str, device: Device) -> None:
    _, report = chosen(name, device.name)
    assert report.gap <= 0.01


def test_most_choices_are_proved_best() -> None:
    proved = [chosen(name, CPU.name)[1].gap < 1e-4 for name in ZOO]
    assert sum(proved) > 0.8 * len(proved)


def chain(b: Emitter, x: SSAValue, w: SSAValue) -> list[SSAValue]:
    """A dear value with two readers that no one kernel serves."""
    dear = x
    for _ in range(3):
        dear = b.exp(b.tanh(dear))
    return [b.sum(b.transpose(dear, [1, 0]), axis=1), b.reshape(b.mul(dear, w), [-1])]


def prologue(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
    """A dear value that a product reads once for each of its columns of tiles."""
    return b.matmul(b.gelu(x), w)


def spread(b: Emitter, x: SSAValue, _: SSAValue) -> list[SSAValue]:
    """A small value that two large reductions read again and again."""
    table = b.exp(b.mul(x, 0.1))
    large = b.broadcast_to(table, (16, *x.type.get_shape()))  # pyright: ignore
    return [b.sum(b.tanh(large), axis=2), b.max_reduce(b.sin(large), axis=0)]


def turned(b: Emitter, x: SSAValue, w: SSAValue) -> list[SSAValue]:
    """A cheap value read by rows and by columns."""
    cheap = b.add(b.mul(x, 2.0), w)
    return [b.max_reduce(cheap, axis=0), b.softmax(cheap, axis=1)]


def cut_of(form: Form, leaves: tuple[int, ...]) -> Cut:
    """A way to compute a class, named 4, from these."""
    operands = tuple(range(1, 1 + len(leaves)))
    return Cut(KnownBody(((0, 0, operands),), form), form, (4, *leaves), operands, leaves, 0.0)


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [("pppc", "ppc"), ("pcprc", "pcpr"), ("cccc", "ccc"), ("pppp", "ppp"), ("", "")],
)
def test_ways_of_one_kind_do_not_crowd_out_another_kind(kinds: str, kept: str) -> None:
    known = (KernelKind.POINTWISE, KernelKind.REDUCTION, KernelKind.CONTRACTION)
    letters = {kind.value[0]: kind for kind in known}
    cuts = [cut_of(Form(letters[letter]), (place,)) for place, letter in enumerate(kinds)]
    traits = [Traits(tensor("f32", (4,)), True, False, 1, False)] * len(kinds)
    tried = best_of_each_kind(cuts, CutLimits(), traits)
    assert "".join(cut.form.kind.value[0] for cut in tried) == kept
    assert all(any(cut is item for item in cuts) for cut in tried)


def test_ways_that_differ_in_scalars_alone_do_not_crowd_out_others() -> None:
    scalar, rows = (Traits(tensor("f32", shape), True, False, 1, False) for shape in ((), (4,)))
    leaves = [(0, 2), (0, 3), (0,), (0, 1), (1, 3), (1,)]
    cuts = [cut_of(Form(KernelKind.POINTWISE), item) for item in leaves]
    tried = best_of_each_kind(cuts, CutLimits(), [rows, rows, scalar, scalar])
    assert [cut.leaves for cut in tried] == [(0, 2), (0, 1), (1, 3)]


def test_two_results_of_one_sum_are_one_kernel_though_each_alone_would_rather_read_the_sum() -> (
    None
):
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        total = b.add(x, y)
        return [b.relu(total), b.mul(total, 2.0)]

    graph = build_graph(body, f32(512, 768), f32(512, 768))
    saturate_graph(graph, GPU)
    (kernel,) = kernels_of(graph)
    assert len(kernel.results) == 2


def body_types(x: tuple[int, ...], w: tuple[int, ...]) -> tuple[TensorType, TensorType]:
    return f32(*x), f32(*w)


FREE = {"launch_cost": 0.0}
FIGURES = {
    "a launch costs a second": ({"launch_cost": 1.0}, FREE),
    "memory is slow": ({**FREE, "bandwidth": 1e6}, {**FREE, "bandwidth": 1e18}),
    "units are fast": ({**FREE, "rates": {"f32": 1e18}}, {**FREE, "rates": {"f32": 1e6}}),
}
"""Figures under which a value is computed again by each reader, and the same figures the other way,
under which it is stored.
"""
ALL = tuple(FIGURES)
CASES = (
    # body, shapes, kernels that compute again, which figures decide
    (chain, ((128, 256), (256,)), 2, ALL),
    (chain, ((512, 64), (64,)), 2, ALL),
    (prologue, ((64, 64), (64, 4096)), 1, ALL),
    (prologue, ((512, 256), (256, 128)), 1, ALL),
    (spread, ((256, 256), (1,)), 2, ALL),
    (spread, ((64, 512), (1,)), 2, ALL),
    (turned, ((256, 256), (256,)), 2, ALL[1:2]),
    (turned, ((1024, 64), (64,)), 2, ALL[1:2]),
)
TABLE = [
    pytest.param(device, body, shapes, figure, again, id=f"{body.__name__} {figure}")
    for device in (CPU, GPU)
    for body, shapes, again, figures in CASES
    for figure in figures
]


@pytest.mark.parametrize(("device", "body", "shapes", "figure", "again"), TABLE)
def test_one_figure_of_the_device_decides_between_storing_and_computing_again(
    device: Device,
    body: Callable[..., SSAValue],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    figure: str,
    again: int,
) -> None:
    kernels: list[int] = []
    written: list[int] = []
    for figures in FIGURES[figure]:
        graph = build_graph(body, *body_types(*shapes))
        saturate_graph(graph, device.with_figures(**figures))
        kernels.append(len(kernels_of(graph)))
        written.append(sum(len(kernel.outputs) for kernel in kernels_of(graph)))
    assert kernels[0] == again
    assert kernels[1] > kernels[0] or written[1] > written[0]


def test_the_table_of_figures_is_long_enough() -> None:
    assert len(TABLE) >= 20
