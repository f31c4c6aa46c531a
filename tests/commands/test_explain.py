"""The page that explains a program's kernels: its data, its pictures, the ways to ask for it."""

import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.diagnostics import MgnError
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.report import ROOFLINE, kernel_table
from mgn.explain.drawing import picture_before
from mgn.explain.explanation import Explanation, explain_graph
from mgn.explain.layers import lay_out
from mgn.explain.page import page_of
from mgn.explain.repeats import Repeat, find_repeats
from tests.conftest import ROOT, Outcome, run_in_process

GATED = """
graph gated(x: f32[64, 128]) {
  param gate: f32[128, 256]
  param up: f32[128, 256]
  g = x @ gate
  activated = g * (1.0 / (1.0 + exp(-g)))
  return y = activated * (x @ up), positive = sum(where(0.0 < g, 1.0, 0.0), axis = 1)
}
"""


def explained(text: str, name: str = "cpu") -> Explanation:
    """The explanation of a program's only graph, for a device of the table."""
    module = mgn.parse(text)
    return explain_graph(module.lower(), DEVICES[name], texts=module.texts)


def test_the_rules_that_led_to_a_kernel_are_named_in_the_order_they_acted() -> None:
    """The product with an input is not put beside the one with a parameter."""
    text = GATED.replace("  param up: f32[128, 256]\n", "\n").replace(
        "sum(where(0.0 < g, 1.0, 0.0), axis = 1)", "g"
    )
    explanation = explained(
        text.replace("(x: f32[64, 128])", "(x: f32[64, 128], up: f32[128, 256])")
    )
    (gated,) = [g for g in explanation.groups if "swiglu" in g.first.operations]
    names = [step.rule.name for step in gated.steps]
    assert names[0] == "one-over" and names[-1] == "swiglu"
    assert {"silu", "sigmoid-quotient"} & set(names[1:-1])
    last = gated.steps[-1]
    assert last.place is not None and last.place.line == 7
    assert last.bindings == (("x", "matmul of line 5"), ("y", "matmul of line 7"))


def test_a_kernel_that_reads_what_no_kernel_writes_is_no_alternative() -> None:
    """Rows of one element have forms of which no kept kernel writes the parts."""
    explanation = explained(
        "graph g(x: f32[8, 1]) { w = tanh(x); n = layer_norm(w)\n"
        "  return a = pad(n, [[1, 1], [2, 0]], 1.0), w, b = triu(n) }"
    )
    assert explanation.saturation.left_out_text in page_of(explanation)


def test_a_rule_that_only_another_kernel_rests_on_is_not_named() -> None:
    explanation = explained(
        "graph g(x: f32[8, 64], a: f32[64, 64], b: f32[64, 64]) "
        "{ h = abs(-x) @ a\n return y = transpose(transpose(h, [1, 0]), [1, 0]) @ b }"
    )
    named = [{step.rule.name for step in group.steps} for group in explanation.groups]
    first = next(i for i, g in enumerate(explanation.groups) if "abs" in g.first.operations)
    assert "abs-neg" in named[first]
    assert all("abs-neg" not in names for i, names in enumerate(named) if i != first)


def test_a_product_of_packed_weights_is_told_to_come_of_the_rule_that_joined_it() -> None:
    """The kernel reads a copy of the weights, which no e-node does."""
    weights = "param a: f32[64, 48] = zeros()\n param b: f32[64, 48] = zeros()\n"
    explanation = explained(
        f"graph g(x: f32[32, 64]) {{ {weights} return y = concat([x @ a, x @ b], axis = 1) }}"
    )
    (product,) = [group for group in explanation.groups if "matmul" in group.first.operations]
    assert "joined-products" in {step.rule.name for step in product.steps}


def test_every_operation_of_the_program_belongs_to_a_kernel() -> None:
    explanation = explained(GATED)
    covered = {number for kernel in explanation.kernels for number in kernel.sources}
    assert covered == set(range(len(explanation.operations)))
    (gated,) = [kernel for kernel in explanation.kernels if "swiglu" in kernel.operations]
    names = {explanation.operations[number].name for number in gated.sources}
    assert {"exp", "neg", "div", "mul"} <= names


PROJECTED = """fn heads(x, name: str) {
  param w: f32[64, 64] as "{name}" = normal(std = 0.1)
  return transpose(reshape(x @ w, [2, 24, 4, 16]), [0, 2, 1, 3])
}
graph g(x: f32[2, 24, 64]) {
  return y = softmax(heads(x, "q") @ heads(x, "k").T / 4.0) @ heads(x, "v")
}"""


def test_products_that_are_slices_of_a_wider_one_belong_to_its_kernel() -> None:
    explanation = explained(PROJECTED)
    named = {
        kernel.operations: [explanation.operations[number].name for number in kernel.sources]
        for kernel in explanation.kernels
    }
    (wide,) = [names for operations, names in named.items() if "matmul" in operations]
    (attention,) = [names for operations, names in named.items() if "attention" in operations]
    assert wide == ["matmul"] * 3
    assert attention.count("matmul") == 2 and "softmax" in attention


def test_what_was_not_chosen_makes_the_program_no_cheaper() -> None:
    explanation = explained(GATED)
    assert explanation.saturation.gap < 1e-9
    rivals = [rival for group in explanation.groups for rival in group.rivals]
    assert rivals
    for rival in rivals:
        assert rival.price > 0
        assert rival.change is None or rival.change >= -1e-12
    for group in explanation.groups:
        if len(group.first.operations) > 1:
            assert group.separate is not None and group.separate > group.first.predicted


def test_what_writes_some_of_several_values_needs_a_kernel_for_the_others() -> None:
    explanation = explained(
        "graph g(x: f32[32, 64]) { return a = tanh(x), b = exp(x), c = sin(x), d = cos(x) }"
    )
    assert explanation.saturation.gap < 1e-9
    rivals = [rival for group in explanation.groups for rival in group.rivals]
    fewer = [rival for rival in rivals if len(rival.operations) < 4]
    assert len(fewer) >= 4
    assert all(rival.change is not None and rival.change > 1e-5 for rival in fewer)


def test_predictions_add_up_to_the_cost_of_the_choice() -> None:
    explanation = explained(GATED)
    total = sum(kernel.predicted for kernel in explanation.kernels)
    assert total == pytest.approx(explanation.saturation.cost_after, rel=1e-9)


@pytest.fixture
def executable() -> mgn.Executable:
    """The gated program on the CPU, after a profiled run."""
    from mgn.runtime.devices import list_devices

    if not any(device.kind == "cpu" for device in list_devices()):
        pytest.skip("there is no OpenCL device of the CPU")
    exe = mgn.compile(mgn.parse(GATED), device="cpu")
    for name in exe.params:
        exe.params.initialise(name)
    exe.run({"x": np.ones((64, 128), np.float32)}, profile=True)
    return exe


def test_the_page_needs_nothing_else_and_shows_every_kernel(
    executable: mgn.Executable, tmp_path: Path
) -> None:
    path = tmp_path / "out.html"
    executable.explain(path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|src=|<link|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    for name in executable.kernels:
        assert re.search(rf"void {name}\(", text), "the OpenCL C of each kernel is there"
        assert f">{name}<" in text
    assert "activated = g * (1.0 / (1.0 + exp(-g)))" in text
    assert "sum(where(0.0 &lt; g, 1.0, 0.0), axis = 1)" in text
    assert "measured" in text and "did not run" not in text
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_prepared_kernel_takes_is_told_from_what_each_run_bears_of_it() -> None:
    explanation = explained("graph g() { param w: f32[64, 64]\n return y = tanh(w) }")
    (kernel,) = explanation.kernels
    assert kernel.prepared
    pattern = r"roofline, ([\d.]+) µs predicted .*, of which each run bears ([\d.]+) ns"
    found = re.search(pattern, page_of(explanation))
    assert found is not None
    assert float(found[1]) * 1e3 == pytest.approx(100 * float(found[2]), rel=0.02)


def test_the_page_counts_operations_and_kernels_as_the_report_does() -> None:
    """One operation does nothing, and what is made of the weight alone runs when it is set."""
    explanation = explained(
        "graph g(x: f32[32, 64]) { param w: f32[64, 128]\n return y = (x * 1.0) @ exp(w) }"
    )
    report = explanation.report
    assert len(report.kernels) == sum(not kernel.prepared for kernel in explanation.kernels) == 1
    assert len(report.prepared) == sum(kernel.prepared for kernel in explanation.kernels) == 1
    counts = (
        "3 operations as written (2 simplified)",
        ("1 kernel in each run and 1 prepared when parameters change"),
    )
    assert f"<b>3 → 1</b><span>{' → '.join(counts)}</span>" in page_of(explanation)
    assert " became ".join(counts) in str(report)
    assert "1 in each run (1 contraction); 1 prepared when parameters change (1 pointwise)" in str(
        report.saturation
    )


def test_what_takes_less_than_the_roofline_is_explained() -> None:
    """A processor's own cache is faster than the one whose bandwidth is counted."""
    module = mgn.parse("graph g(x: f32[4096]) { return y = relu(x) }")
    kernels = explain_graph(module.lower(), DEVICES["cpu"]).report.kernels
    device = DEVICES["cpu"]
    within = kernels[0].work.roofline_seconds(device)
    assert within == pytest.approx(8 * 4096 / device.bandwidth / device.cache_gain)
    assert "above 100 %" in kernel_table(kernels, [within / 2], device)
    assert "above 100 %" not in kernel_table(kernels, [within * 2], device)
    name = kernels[0].name
    explanation = explain_graph(module.lower(), device, times=[(name, within / 2)])
    assert "200 %" in page_of(explanation) and escape(ROOFLINE) in page_of(explanation)


class _Balance(HTMLParser):
    """Checks that what is opened is closed, in order."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert self.open, "nothing stands outside the page"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed() -> None:
    balance = _Balance()
    balance.feed(page_of(explained(GATED)))
    balance.close()
    assert balance.open == []


def test_kernels_of_an_arrangement_have_their_own_times() -> None:
    module = mgn.parse("graph g(x: f32[4194304]) { return y = sum(x) }")
    device = DEVICES["nvidia-h200"].with_figures(barrier_cost=0.0)
    plain = explain_graph(module.lower(), device)
    partial, whole = plain.kernels
    assert partial.measured is whole.measured is None and whole.reads == [partial.number]
    assert "did not run" in plain.remark
    times = [(kernel.function, 0.5 + kernel.number) for kernel in plain.kernels]
    timed = explain_graph(module.lower(), device, times=times)
    assert [kernel.measured for kernel in timed.kernels] == [0.5, 1.5]
    other = explain_graph(module.lower(), device, times=times[:1])
    assert other.kernels[0].measured is None and "other kernels" in other.remark


def test_kernels_of_one_launch_share_its_time() -> None:
    module = mgn.parse("graph g(x: f32[64, 64]) { return y = x @ x, z = cumsum(x, axis = 1) }")
    times = [("g_resident_0", 1.0)]
    merged = explain_graph(module.lower(), DEVICES["nvidia-h200"], times=times)
    assert sum(kernel.measured or 0.0 for kernel in merged.kernels) == pytest.approx(1.0)
    assert "2 kernels in one launch" in merged.remark and "shares of its time" in merged.remark


def _layers(count: int) -> str:
    params = "".join(f"  param w{n}: f32[64, 64]\n" for n in range(count))
    body = "".join(f"  x = x + gelu(rms_norm(x) @ w{n})\n" for n in range(count))
    return f"graph deep(x: f32[32, 64]) {{\n{params}{body}  return y = x\n}}\n"


def test_layers_that_repeat_are_drawn_once() -> None:
    shallow, deep = (picture_before(explained(_layers(n))) for n in (12, 40))
    assert "× the same" in deep
    assert deep.count("<g ") == shallow.count("<g ") < 40
    explanation = explained(_layers(40))
    assert len(explanation.groups) < 8
    assert len(page_of(explanation)) < 400_000


def test_repeats_are_found_from_the_first_item_on() -> None:
    assert find_repeats("xabcabcabcy") == [Repeat(1, 3, 3)]
    assert find_repeats("abababab" + "c" * 9) == [Repeat(0, 2, 4), Repeat(8, 1, 9)]
    assert find_repeats("abcdef") == []


def test_nodes_of_a_layer_do_not_overlap_and_edges_lead_down() -> None:
    widths = {name: 40.0 + 10 * n for n, name in enumerate("abcdefg")}
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d"), ("e", "d"), ("d", "f")]
    layout = lay_out(widths, edges)
    assert all(layout.layer[source] < layout.layer[target] for source, target in edges)
    for one in widths:
        for other in widths:
            if one < other and layout.layer[one] == layout.layer[other]:
                apart = abs(layout.across[one] - layout.across[other])
                assert apart >= (widths[one] + widths[other]) / 2 - 1e-9
    assert len(layout.routes["a", "d"]) == 1


def test_a_cycle_is_laid_out_too() -> None:
    layout = lay_out({"a": 10.0, "b": 10.0, "c": 10.0}, [("a", "b"), ("b", "c"), ("c", "b")])
    assert layout.layer == {"a": 0, "b": 1, "c": 2}


def run(*arguments: object) -> Outcome:
    """Runs `mgn-run` in this process."""
    from mgn.commands.run import main

    return run_in_process(main, [str(argument) for argument in arguments])


@pytest.mark.usefixtures("executable")
def test_mgn_run_writes_the_page_beside_its_results(tmp_path: Path) -> None:
    program = tmp_path / "gated.mgn"
    program.write_text(GATED)
    outcome = run(program, "--device", "cpu", f"--explain={tmp_path / 'out.html'}")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("y: f32[64, 256]")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "activated = g *" in text and "did not run" not in text


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere/out.html", "no such file or directory"), (".", "it is a directory")],
)
def test_a_path_that_cannot_be_written_is_told_before_anything_runs(
    path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "gated.mgn"
    program.write_text(GATED)
    monkeypatch.chdir(tmp_path)
    outcome = run(program, "--device", "cpu", f"--explain={path}")
    assert outcome.status == 1 and outcome.stdout == ""
    assert f"cannot write '{path}': {message}" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    with pytest.raises(MgnError, match="cannot write"):
        mgn.optimize(mgn.parse(GATED)).explain(path)


def test_the_page_takes_the_place_of_nothing_that_the_run_reads_or_writes(tmp_path: Path) -> None:
    program, trace = tmp_path / "gated.mgn", tmp_path / "t.json"
    program.write_text(GATED)
    for arguments in ([f"--explain={program}"], [f"--trace={trace}", f"--explain={trace}"]):
        outcome = run(program, "--device", "cpu", *arguments)
        assert outcome.status == 1 and "would be written over a file" in outcome.stderr
    assert program.read_text() == GATED
    assert not trace.exists()


def test_an_optimised_graph_and_mgn_opt_explain_without_a_device(
    tmp_path: Path, mgn_opt: Callable[..., Outcome]
) -> None:
    mgn.optimize(mgn.parse(GATED)).explain(tmp_path / "out.html")
    assert "The program did not run" in (tmp_path / "out.html").read_text(encoding="utf-8")
    program = ROOT / "examples" / "digits" / "digits.mgn"
    outcome = mgn_opt(program, "--graph", "digits", "-t", "explain")
    assert outcome.status == 0, outcome.stderr
    assert "softmax-by-reciprocal" in outcome.stdout
    both = mgn_opt(program, "-t", "explain")
    assert both.status == 1 and "this target takes one graph" in both.stderr
