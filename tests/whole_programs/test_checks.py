"""Class ids that are checked: a run with a wrong one fails, and changes nothing."""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

import mgn
from mgn import ops
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.runtime.errors import RuntimeFault
from tests.whole_programs.test_states import DEVICE

TEXT = """graph g(x: f32[4, 300], y: i32[4], small: u8[4], one: i64) {
  state steps: i32
  state rows: f32[8, 300]
  rows <- dynamic_update_slice(rows, x[0:1], [steps, 0])
  steps <- steps + 1
  loss = cross_entropy(x + rows[0], y, ignore_index = -1, check = true)
  a = nll(x, small, reduction = "sum", check = true)
  b = cross_entropy(x[0], one, check = true)
  c = cross_entropy(x, y)
  return loss, slope = grad(loss, x), total = a + b + c
}"""
"""States that are written in place and at the end, checks of several types, and none."""

X = np.random.default_rng(3).standard_normal((4, 300)).astype(np.float32)
RIGHT: dict[str, Any] = {
    "x": X,
    "y": np.array([0, 299, -1, 7], np.int32),
    "small": np.array([0, 255, 3, 4], np.uint8),
    "one": 299,
}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "above": ({"y": np.array([0, 300, -1, 301], np.int32)}, r":6:10: cross_entropy.* \(2 in all\)"),
    "below": ({"y": np.array([-2, 0, 0, -(2**31)], np.int32)}, r"300 classes \(2 in all\)$"),
    "far": ({"one": 2**32}, r":8:7: cross_entropy\(\) has ids that are none of its 300 classes"),
    "two": ({"one": -1, "y": np.array([-2, 0, 0, 0], np.int32)}, r"(?s)\(1 in all\).*\(1 in all\)"),
}
"""Inputs with wrong ids, and what is said."""

RUNS = {
    "run": lambda exe, inputs: exe(**inputs),
    "on the device": lambda exe, inputs: exe.run_on_device(**inputs),
    "timed": lambda exe, inputs: exe.run(inputs, profile=True),
}


@pytest.fixture(scope="module")
def exe() -> mgn.Executable:
    return mgn.compile(mgn.parse(TEXT), device=DEVICE)


@pytest.mark.parametrize("how", RUNS)
def test_a_run_with_a_wrong_id_fails_and_leaves_states_as_they_were(
    exe: mgn.Executable, how: str
) -> None:
    for again in range(2):
        exe.reset()
        for count, (inputs, message) in enumerate(WRONG.values(), 1):
            RUNS[how](exe, RIGHT)
            before = {name: exe.state[name] for name in exe.state}
            assert before["steps"] == count
            np.testing.assert_array_equal(before["rows"][count - 1], X[0])
            with pytest.raises(RuntimeFault, match=message):
                RUNS[how](exe, RIGHT | inputs | {"x": X + 1})
            for name, value in before.items():
                np.testing.assert_array_equal(exe.state[name], value, err_msg=str(again))


def test_results_are_those_of_the_interpreter_and_checks_are_not_among_them(
    exe: mgn.Executable,
) -> None:
    (graph,) = graphs_of(mgn.parse(TEXT).lower())
    exe.reset()
    states = {name: exe.state[name] for name in exe.state}
    wanted = Interpreter(states=states).run(graph, RIGHT)
    found = exe(**RIGHT)
    assert list(found) == list(wanted) == ["loss", "slope", "total"]
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    for inputs, _ in WRONG.values():
        with pytest.raises(InterpretationError, match="has ids that are none of its 300 classes"):
            Interpreter(states=states).run(graph, RIGHT | inputs)


def test_a_check_stays_where_nobody_reads_the_loss() -> None:
    text = """graph g(x: f32[2, 3], y: i32[2]) {
      loss = cross_entropy(x, y, check = true)
      return slope = grad(loss, x)
    }"""
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    x = np.ones((2, 3), np.float32)
    exe(x=x, y=np.array([0, 2], np.int32))
    with pytest.raises(RuntimeFault, match="none of its 3 classes"):
        exe(x=x, y=np.array([0, 3], np.int32))


def test_the_builder_takes_a_check_and_names_the_line_of_the_call() -> None:
    with mgn.graph("g") as g:
        x, y = g.input("x", "f32[2, 3]"), g.input("y", "i32[2]")
        g.output(loss=ops.cross_entropy(x, y, check=True))
    exe = mgn.compile(g, device=DEVICE)
    with pytest.raises(RuntimeFault, match=r"test_checks\.py:\d+:\d+: cross_entropy\(\) has ids"):
        exe(x=np.ones((2, 3), np.float32), y=np.array([-1, 0], np.int32))


def test_probabilities_cannot_be_checked() -> None:
    text = "graph g(x: f32[2, 3]) { return y = cross_entropy(x, softmax(x), check = true) }"
    with pytest.raises(mgn.DiagnosticsError, match="check is of class ids, and labels are prob"):
        mgn.parse(text).lower()
