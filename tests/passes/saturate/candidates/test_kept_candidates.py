"""Candidates leave out nothing that can win: choices beside those of all kernels there can be."""

from collections.abc import Callable, Iterator
from html import unescape

import pytest
from xdsl.ir import SSAValue

import mgn
from benchmarks.graphs.small_graphs import small_graph
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.explain.explanation import explain_graph
from mgn.explain.page import page_of
from mgn.passes.saturate import RuleClass, SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.candidates.readers import readers_of
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import forget_rule, register_rule
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.candidates.exhaustive_kernels import (
    AT_LENGTH,
    BY_ITSELF,
    compared,
    tree_graph,
)
from tests.passes.saturate.saturate_programs import (
    CPU,
    Body,
    build_graph,
    check_same,
    f32,
    kernels_of,
    random_graph,
)

GPU = DEVICES["nvidia-h200"]
BOTH = pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])


def column(b: Emitter, x: SSAValue, c: SSAValue) -> SSAValue:
    for _ in range(10):
        c = b.tanh(c)
    return b.add(x, c)


def decay(b: Emitter, x: SSAValue, dt: SSAValue, a: SSAValue) -> SSAValue:
    return b.mul(x, b.exp(b.mul(b.neg(b.call("softplus", dt)), b.exp(a))))


def log_of_softmax(b: Emitter, x: SSAValue) -> SSAValue:
    return b.log(b.call("softmax", x))


BROADCASTS = {
    "a column": (column, (4096, 4096), (4096, 1)),
    "a row": (column, (4096, 4096), (1, 4096)),
    "a decay": (decay, (4096, 4096), (4096, 1), (1,)),
    "a decay of two vectors": (decay, (4096, 4096), (4096, 1), (1, 4096)),
    "a logarithm of shares": (log_of_softmax, (4096, 4096)),
}


def broadcasting(name: str, most: int = 1 << 20) -> GraphOp:
    body, *shapes = BROADCASTS[name]
    return build_graph(body, *[f32(*[min(size, most) for size in shape]) for shape in shapes])


def programs() -> Iterator[tuple[str, GraphOp]]:
    """Those that broadcast, and random ones."""
    for name in BROADCASTS:
        yield name, broadcasting(name)
    for seed in range(30):
        yield f"random {seed}", random_graph(seed, 20)


@BOTH
def test_a_choice_never_costs_more_than_one_kernel_an_operation(device: Device) -> None:
    for name, graph in programs():
        report = saturate_graph(graph, device)
        assert report.cost_after <= report.cost_before * (1 + 1e-9), name


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "graph g(x: f32[64, 64]) { return y = x }",
        "graph g(x: f32[64, 64]) { param w: f32[64, 64]; return y = exp(x), z = w, v = x }",
        "graph g(x: f32[64, 64]) { state s: f32[64, 64]; s <- x; return y = exp(x) }",
        "graph g(x: f32[64, 64]) { state s: f32[64, 64]; y = exp(s); s <- y; return y }",
        "graph g(x: f32[64, 64]) { return y = exp(x), z = iota([64, 64], axis = 0) }",
        "graph g(x: f32[64, 64]) { return y = exp(x), z = full([64, 64], 3.0) }",
    ],
)
def test_results_that_no_operation_computes_have_kernels_before_and_after(
    text: str, device: Device
) -> None:
    def report(options: SaturateOptions) -> SaturateReport:
        found = mgn.optimize(mgn.parse(text), device=device, saturation=options).report.saturation
        assert isinstance(found, SaturateReport)
        return found

    fused, separate = report(SaturateOptions()), report(SaturateOptions(fuse=False))
    assert fused.cost_after <= separate.cost_after * (1 + 1e-9)
    assert separate.cost_after <= separate.cost_before * (1 + 1e-9)


@BOTH
@pytest.mark.parametrize("name", ["a column", "a row"])
def test_what_is_dear_is_computed_before_a_matrix_broadcasts_it(name: str, device: Device) -> None:
    assert saturate_graph(broadcasting(name), device).kernel_count == 2


@pytest.mark.parametrize("name", BROADCASTS)
def test_what_a_matrix_broadcasts_keeps_its_values(name: str) -> None:
    before = broadcasting(name, 64)
    after = before.clone()
    saturate_graph(after, CPU)
    check_same(before, after)


def test_what_is_cheap_is_computed_on_the_way() -> None:
    """A launch costs more than to scale a column once for each element of a matrix."""
    graph = build_graph(lambda b, x, c: b.add(x, b.neg(c)), f32(512, 512), f32(512, 1))
    report = saturate_graph(graph, CPU)
    assert report.kernel_count == 1
    assert report.candidates == 1


@BOTH
@pytest.mark.parametrize("size", [256, 4096])
def test_values_of_one_reader_lie_in_memory_where_that_costs_least(
    size: int, device: Device
) -> None:
    """Every value has one reader, so nothing is chosen but what is stored."""
    for seed in range(40):
        graph = tree_graph(seed, 5, size)
        found, least = compared(graph, device, BY_ITSELF, joined=False)
        assert found == pytest.approx(least, rel=PROVED), seed


@BOTH
@pytest.mark.parametrize("operations", [4, 6, 8])
def test_a_choice_costs_the_least_of_all_choices_of_all_kernels(
    operations: int, device: Device
) -> None:
    """Values are broadcast, have several readers, and are results."""
    for seed in range(14):
        graph = small_graph(seed, operations)
        found, least = compared(graph, device, BY_ITSELF)
        assert found == pytest.approx(least, rel=PROVED), seed


@BOTH
@pytest.mark.parametrize(("operations", "seeds"), [(10, (9, 13, 26)), (12, (8, 10))])
def test_larger_graphs_cost_the_least_where_there_is_time(
    operations: int, seeds: tuple[int, ...], device: Device
) -> None:
    """Those that are enumerated in a second; the module of the enumeration compares more."""
    for seed in seeds:
        found, least = compared(small_graph(seed, operations), device, AT_LENGTH)
        assert found == pytest.approx(least, rel=PROVED), seed


Inputs = tuple[SSAValue, SSAValue, SSAValue]

HEAVY: dict[str, Callable[[Emitter, Inputs], SSAValue]] = {
    "a product": lambda b, given: b.matmul(given[0], given[1]),
    "a scan": lambda b, given: b.cumsum(given[0], axis=1),
    "a scatter": lambda b, given: b.scatter_add(
        given[0], b.iota([32], axis=0, T="i32"), given[1], axis=0
    ),
}


@BOTH
@pytest.mark.parametrize("name", HEAVY)
def test_what_branches_off_a_heavy_operation_is_written_by_its_kernel_where_that_costs_least(
    name: str, device: Device
) -> None:
    """One branch is a result, the other one is read by two kernels. The enumeration has no
    arrangements, with which a choice may cost less.
    """

    def body(b: Emitter, *given: SSAValue) -> list[SSAValue]:
        x, w, v = given
        heavy = HEAVY[name](b, (x, w, v))
        branch = b.tanh(heavy)
        return [b.matmul(branch, v), b.cumsum(branch, axis=0), b.gelu(heavy)]

    for rows in (64, 1024):
        graph = build_graph(body, f32(rows, 32), f32(32, 32), f32(32, 16))
        found, least = compared(graph, device, BY_ITSELF)
        assert found <= least * (1 + PROVED), rows


def chain(b: Emitter, *inputs: SSAValue) -> SSAValue:
    total = inputs[0]
    for index in range(40):
        total = b.add(b.tanh(total), inputs[1 + index % 3])
    return total


def shifted(b: Emitter, x: SSAValue) -> SSAValue:
    for _ in range(40):
        x = b.tanh(b.add(x, 1.5))
    return x


FURTHER = {
    "sum-twice-turned": ("add(x, y)", "neg(neg(add(x, y)))"),
    "sum-as-difference": ("add(x, y)", "sub(x, neg(y))"),
    "tanh-is-odd": ("tanh(x)", "neg(tanh(neg(x)))"),
}


@BOTH
@pytest.mark.parametrize("name", FURTHER)
@pytest.mark.parametrize("body", [chain, shifted])
def test_a_further_rule_makes_no_choice_dearer(body: Body, name: str, device: Device) -> None:
    """Up to where a chain is cut that is longer than a kernel may be."""

    def cost() -> float:
        count = 4 if body is chain else 1
        return saturate_graph(build_graph(body, *[f32(256, 256)] * count), device).cost_after

    before = cost()
    register_rule(Rule(name, *FURTHER[name], RuleClass.EXACT, "-"))
    try:
        assert cost() <= before * 1.0005
    finally:
        forget_rule(name)


def test_readers_that_lead_to_one_value_count_once() -> None:
    """A diamond's arms are both needed; what only stands in for another arm is not."""

    def readers_of_tanh(body: Body) -> tuple[int, int]:
        view = saturated_view(build_graph(body, f32(4, 4)))
        (key,) = [key for key in view.classes if _names(view, key) == "tanh"]
        return view.classes[key].users, readers_of(view)[key]

    def diamond(b: Emitter, x: SSAValue) -> SSAValue:
        y = b.tanh(x)
        return b.add(b.exp(y), b.sin(y))

    assert readers_of_tanh(diamond) == (2, 2)
    register_rule(Rule("sine-is-odd", "sin(x)", "neg(sin(neg(x)))", RuleClass.EXACT, "-"))
    try:
        assert readers_of_tanh(lambda b, x: b.abs(b.sin(b.tanh(x)))) == (2, 1)
    finally:
        forget_rule("sine-is-odd")


def _names(view: View, key: int) -> str:
    members = view.classes[key].members
    return " ".join(sorted({view.signatures[item.signature].name for item in members}))


def statistics(b: Emitter, x: SSAValue) -> list[SSAValue]:
    values = [x, b.abs(x), b.mul(x, x)]
    names = ("sum", "max_reduce")
    return [b.call(name, item, axis=1, keepdims=True) for item in values for name in names]


def rows_and_their_sums(b: Emitter, x: SSAValue) -> list[SSAValue]:
    return [b.tanh(x), b.sum(x, axis=1), b.call("max_reduce", x, axis=1, keepdims=True)]


@BOTH
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("body", [statistics, rows_and_their_sums])
def test_all_that_is_made_of_the_same_rows_is_one_kernel(
    body: Callable[[Emitter, SSAValue], list[SSAValue]], count: int, device: Device
) -> None:
    def each(b: Emitter, *inputs: SSAValue) -> list[SSAValue]:
        return [value for x in inputs for value in body(b, x)]

    before = build_graph(each, *[f32(512, 768)] * count)
    after = before.clone()
    assert saturate_graph(after, device).kernel_count == count
    if count == 1:
        check_same(before, after)


@BOTH
def test_no_kernel_writes_what_nobody_reads(device: Device) -> None:
    for seed in range(20):
        graph = small_graph(seed, 8)
        saturate_graph(graph, device, BY_ITSELF)
        assert all(any(value.uses) for kernel in kernels_of(graph) for value in kernel.results)


def test_a_report_says_what_was_left_out_and_why() -> None:
    report = saturate_graph(random_graph(3, 40), CPU)
    assert report.passed_over
    for why, count in report.passed_over.items():
        assert f"{count} {why}" in str(report)


@pytest.mark.parametrize("name", ["relu", "sign", "floor", "ceil"])
def test_what_is_done_twice_is_done_once(name: str) -> None:
    graph = build_graph(lambda b, x: b.call(name, b.call(name, x)), f32(16, 16))
    saturate_graph(graph, CPU)
    assert sum(1 for op in graph.walk() if op.name == f"mgn.{name}") == 1


def test_the_page_of_a_program_says_what_was_left_out_and_why() -> None:
    module = mgn.parse("graph g(x: f32[64, 64]) { return y = softmax(x) + log(softmax(-x)) }")
    explanation = explain_graph(module.lower(), CPU, texts=module.texts)
    assert explanation.saturation.passed_over
    assert explanation.saturation.left_out_text in unescape(page_of(explanation))


@BOTH
def test_what_only_some_kernels_compute_on_the_way_may_be_read(device: Device) -> None:
    """Of two products that meet, one is in memory, though slices of a wide one could meet too."""
    text = """
    graph g(x: f32[1, 960]) {
      param g: f32[2560, 960]
      param u: f32[2560, 960]
      return y = silu(x @ g.T) * (x @ u.T)
    }
    """
    both = mgn.optimize(mgn.parse(text), device=device, precision="tf32").report.saturation
    products = mgn.optimize(
        mgn.parse("graph g(x: f32[1, 960]) { param g: f32[2560, 960]; return y = x @ g.T }"),
        device=device,
        precision="tf32",
    ).report.saturation
    assert isinstance(both, SaturateReport) and isinstance(products, SaturateReport)
    assert both.cost_after <= 2 * products.cost_after * 1.02
