"""Reports and pages tell the forward pass from the backward pass and from the update."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.commands.train import main
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.places import BACKWARD, FORWARD, UPDATE, in_phase, phase_of, text_place
from mgn.driver.report import kernel_table
from mgn.explain.explanation import Explanation, explain_graph
from mgn.explain.page import page_of
from mgn.training.optimisers.optimisers import SGD
from mgn.training.step.step import training_step
from tests.conftest import run_in_process

NET = """
graph net(x: f32[32, 64], labels: i32[32]) {
  param w: f32[128, 64] = he_normal()
  param v: f32[10, 128] = he_normal()
  h = tanh(x @ w.T)
  return loss = cross_entropy(h @ v.T, labels)
}
"""
TANH, LOSS = 5, 6
"""Lines of the text, counted from 1."""


@pytest.fixture(scope="module")
def step() -> Explanation:
    """The explanation of a step by SGD."""
    program = mgn.parse(NET)
    module = training_step(program.lower(), optimizer=SGD(lr=0.1)).module
    return explain_graph(module, DEVICES["cpu"], texts=program.texts)


def test_a_place_keeps_its_line_in_every_part_of_a_step() -> None:
    (graph,) = graphs_of(mgn.parse(NET).lower())
    place = next(op.location for op in graph.block.ops if op.name == "mgn.tanh")
    assert phase_of(place) == FORWARD
    twice = in_phase(in_phase(place, UPDATE), BACKWARD)
    assert phase_of(twice) == BACKWARD and text_place(twice) is text_place(place)
    assert str(twice).startswith('loc("backward"(')


def test_what_is_backward_has_the_line_that_it_is_a_gradient_of(step: Explanation) -> None:
    lines = {
        phase: {op.place.line for op in step.operations if op.phase == phase and op.place}
        for phase in (FORWARD, BACKWARD, UPDATE)
    }
    assert lines[FORWARD] >= {TANH, LOSS} and lines[BACKWARD] == {TANH, LOSS}
    assert lines[UPDATE] == {2}, "the update is of the graph"
    products = [op.phase for op in step.operations if op.name == "matmul"]
    assert products == [FORWARD] * 2 + [BACKWARD] * 3


def test_a_kernel_belongs_to_the_parts_of_what_it_computes(step: Explanation) -> None:
    assert step.has_phases
    met = {phase for kernel in step.kernels for phase in kernel.phases}
    assert met == {FORWARD, BACKWARD, UPDATE}
    (forward,) = [kernel for kernel in step.kernels if "tanh" in kernel.operations]
    assert forward.phases == (FORWARD,)
    assert {line.phases for line in step.report.kernels} >= {(FORWARD,)}
    assert "launches by the part of the step: forward" in str(step.report)
    table = kernel_table(step.report.kernels, [1e-6] * len(step.report.kernels), DEVICES["cpu"])
    assert "roofline  part" in table.splitlines()[0] and "  forward" in table
    written = json.loads(step.report.to_json())["kernels"]
    assert [tuple(item["phases"]) for item in written] == [k.phases for k in step.report.kernels]


def test_the_page_has_a_table_of_the_parts_and_names_lines_by_them(step: Explanation) -> None:
    page = page_of(step)
    assert "Parts of the step" in page and "<th>part</th>" in page
    backward = page.split("From the gradients of these lines: backward</h3>")[1]
    assert "h = tanh(x @ w.T)" in re.sub("<[^>]+>", "", page) and "<pre>" in backward


def test_a_program_without_gradients_has_no_parts() -> None:
    program = mgn.parse("graph g(x: f32[8, 8]) { return y = tanh(x @ x) }")
    explanation = explain_graph(program.lower(), DEVICES["cpu"], texts=program.texts)
    assert not explanation.has_phases
    assert "Parts of the step" not in page_of(explanation)
    assert "part of the step" not in str(explanation.report)


def test_mgn_train_explains_a_step(tmp_path: Path) -> None:
    text = "graph g(x: f32[4]) { param w: f32[4] = ones()\n return loss = mean(w * w * x) }"
    (tmp_path / "net.mgn").write_text(text)
    np.savez(tmp_path / "data.npz", x=np.ones(8, np.float32))
    given = [str(tmp_path / "net.mgn"), "--data", str(tmp_path / "data.npz"), "--no-progress"]
    outcome = run_in_process(main, [*given, "--explain", str(tmp_path / "data.npz")])
    assert outcome.status == 1 and "data.npz" in outcome.stderr
    page = tmp_path / "step.html"
    outcome = run_in_process(main, [*given, "--explain", str(page)])
    assert outcome.status == 0, outcome.stderr
    assert "Parts of the step" in page.read_text()
