"""The first operation that made a NaN or an infinity is named, at its place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.diagnostics import DiagnosticsError
from mgn.training.step.finite import FiniteCheck, FiniteGuard, fault_among

PROGRAM = """
graph net(x: f32[4, 3]) {
  param w: f32[3] = constant(0.5)
  param v: f32[3] = ones()
  y = log(x * w)
  loss = mean(y * v)
  return loss
}
"""


class Steps:
    """A trainer whose steps are not taken: the program, and states to look at."""

    def __init__(self, text: str, state: dict[str, np.ndarray]) -> None:
        from mgn.training.step.step import training_step

        self.module = mgn.parse(text, "net.mgn")
        self.steps, self.pending = 3, 0
        step = training_step(self.module.lower(), "loss", mgn.SGD(lr=0.1))
        self.step_modules, self.texts = (step.module,), self.module.texts
        self.now = {**state, "optimizer.step": np.array(2, np.int32)}

    def state(self) -> dict[str, np.ndarray]:
        """What the step begins with."""
        return dict(self.now)


def message(text: str, x: Any, *, w: Any = (0.5, 0.5, 0.5), **after: Any) -> str:
    """What the check says of a step on an input, behind which something is not finite."""
    state = {"w": np.float32(w), "v": np.ones(3, np.float32)}
    trainer = Steps(text, state)
    check = FiniteCheck(trainer)
    check.before({"x": np.full((4, 3), x, np.float32)})
    trainer.now |= {name: np.float32(value) for name, value in after.items()}
    with pytest.raises(DiagnosticsError) as caught:
        check.after({"loss": np.float32(np.nan if not after else 0.0)})
    return str(caught.value)


def test_the_operation_is_named_at_its_place() -> None:
    said = message(PROGRAM, 0.0)
    assert said.startswith("net.mgn:5:7: error: step 3: 'loss' is nan. 'log' makes the first inf")
    assert "of finite numbers: 12 of 12 values\n    y = log(x * w)\n        ^" in said
    assert "'log' makes the first NaN" in message(PROGRAM, -1.0)


def test_a_batch_is_of_the_step_that_it_is_to_complete() -> None:
    trainer = Steps(PROGRAM, {"w": np.ones(3, np.float32), "v": np.ones(3, np.float32)})
    trainer.pending = 1
    check = FiniteCheck(trainer)
    check.before({"x": np.zeros((4, 3), np.float32)})
    with pytest.raises(DiagnosticsError, match="error: step 4: 'loss' is inf"):
        check.after({"loss": np.float32(np.inf)})


def test_an_operation_of_the_backward_pass_is_named_too() -> None:
    text = PROGRAM.replace("log(x * w)", "sqrt(x * w)")
    said = message(text, 0.0, w=(0.0, 1.0, 1.0), v=(1.0, np.nan, 1.0))
    assert said.startswith("net.mgn:5:7: error: step 3: 'v' is not finite in 1 of 3 values.")
    assert "makes the first infinity" in said


def test_what_was_not_finite_before_the_step_is_named() -> None:
    assert "input 'x' is not finite in 12 of 12 values" in message(PROGRAM, np.nan)
    said = message(PROGRAM, 1.0, w=(1.0, np.inf, 1.0))
    assert "before the step, 'w' is not finite in 1 of 3 values" in said


def test_a_step_that_the_reference_computes_without_says_so() -> None:
    assert "finds all values of this step finite" in message(PROGRAM, 1.0)


def test_integers_and_finite_values_are_no_fault() -> None:
    arrays = {"a": np.arange(3), "b": np.ones(0), "c": np.float16([1, 2])}
    assert fault_among(arrays) is None
    assert fault_among({**arrays, "d": np.float32(np.inf)}) == "'d' is inf"


def test_a_run_stops_at_its_first_nan(tmp_path: Path) -> None:
    from mgn.training.run.fit import fit

    class Trained(Steps):
        """Takes steps by the reference interpreter."""

        loss, seed, inputs = "loss", 0, {"x": ("f32", (4, 3))}
        accumulate, pending, division, evaluates = 1, 0, None, None

        @property
        def configuration(self) -> dict[str, Any]:
            return {}

        def step(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            from mgn.dialects.mgn.interpreter import Interpreter
            from mgn.dialects.mgn.structure import graphs_of

            interpreter = Interpreter(states=self.now)
            (graph,) = graphs_of(self.step_modules[0])
            results = interpreter.run(graph, batch)
            self.now = interpreter.states
            self.steps += 1
            return results

    trainer = Trained(PROGRAM, {"w": np.ones(3, np.float32), "v": np.ones(3, np.float32)})
    data = {"x": np.ones((12, 3), np.float32)}
    data["x"][5] = 0.0
    log = tmp_path / "a.jsonl"
    with pytest.raises(DiagnosticsError, match="'log' makes the first infinity"):
        fit(trainer, data, epochs=2, check_finite=True, log=log, progress=False)
    assert "inf" in log.read_text().splitlines()[-1]


def test_what_is_not_finite_at_first_may_stay_so() -> None:
    state = {"w": np.float32([0.5, 0.5, 0.5]), "v": np.float32([0.0, -np.inf, 0.0])}
    trainer = Steps(PROGRAM, state)
    guard = FiniteGuard(trainer)
    assert guard.fault({"w": np.float32([np.nan])}) is None
    guard.begin()
    assert guard.fault(trainer.state()) is None
    after = trainer.state() | {"w": np.float32([0.5, np.inf, 0.5])}
    assert guard.fault(after) == "'w' is not finite in 1 of 3 values"
