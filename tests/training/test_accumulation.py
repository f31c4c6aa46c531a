"""Steps of several batches: what they equal, what is left out, and where a run goes on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.states import states_of
from mgn.dialects.types import element_of
from mgn.training.run.fit import fit
from mgn.training.run.trainee import Event, StopTraining
from mgn.training.step.loss_scale import LossScale
from mgn.training.step.options import StepOptions
from mgn.training.step.step import training_step
from tests.training.stand_in import StandIn, examples, same_states

TEXT = """
graph net[B](x: f32[B, 8], t: i32[B]) {
  param a: f32[6, 8] = normal(std = 0.3)
  param b: f32[3, 6] = normal(std = 0.3)
  logits = tanh(x @ a.T) @ b.T
  return loss = cross_entropy(logits, t), size = mean(logits * logits)
}
"""


def trainer(size: int, **options: Any) -> mgn.Trainer:
    """A trainer of a small classifier for batches of a size."""
    optimizer = mgn.AdamW(mgn.schedules.linear(0.05, 0.01, 8))
    module = mgn.parse(TEXT)
    options = {"clip_norm": 0.3, "ema": 0.9} | options
    return mgn.Trainer(module, optimizer=optimizer, seed=5, dims={"B": size}, **options)


def data(count: int = 50) -> dict[str, np.ndarray]:
    """Rows whose class can be told from them."""
    x = np.random.default_rng(1).standard_normal((count, 8)).astype(np.float32)
    return {"x": x, "t": np.argmax(x[:, :3], axis=1).astype(np.int32)}


@pytest.fixture(scope="module")
def three() -> mgn.Trainer:
    return trainer(4, accumulate=3, loss_scale=LossScale(256.0))


def test_a_step_of_three_batches_is_one_of_the_joined_batch(three: mgn.Trainer) -> None:
    one = trainer(12)
    said: list[str] = []
    joined = one.fit(data(), epochs=2, eval=data(16), progress=False)
    parts = three.fit(data(), epochs=2, eval=data(16), progress=False, say=said.append)
    assert one.steps == three.steps == 8
    assert (
        "the data: 2 of 50 examples of each epoch make no whole step of 3 batches of 4" in said[0]
    )
    for name in ("loss", "size", "grad_norm"):
        left, right = ([item.values[name] for item in run.steps] for run in (joined, parts))
        np.testing.assert_allclose(left, right, rtol=2e-5, err_msg=name)
    left, right = one.state(), three.state()
    for name, value in left.items():
        np.testing.assert_allclose(right[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_gradients_of_half_precision_are_added_up_in_f32() -> None:
    text = """
    graph g(x: f32[4]) {
      param w: bf16[4] = ones()
      param v: f64[] = ones()
      return loss = mean(cast(w, "f64") * cast(x, "f64") * v), half = sum(w)
    }"""
    step = training_step(mgn.parse(text).lower(), options=StepOptions(accumulate=2))
    held = {name: element_of(op.type).name for name, op in states_of(step.module).items()}
    assert step.sums <= held.keys()
    assert {name: held[name] for name in step.sums} == {
        "optimizer.w.gradient": "f32",
        "optimizer.v.gradient": "f64",
        "optimizer.results.loss": "f64",
        "optimizer.results.half": "f32",
    }


def test_parameters_move_with_the_last_batch_alone(three: mgn.Trainer) -> None:
    batches = [{name: array[4 * i : 4 * i + 4] for name, array in data().items()} for i in range(6)]
    outputs: list[float] = []
    before, stepped = three.state(), dict[str, np.ndarray]()
    for number, batch in enumerate(batches[:3]):
        assert three.pending == number
        np.testing.assert_array_equal(three.params["b"], before["b"])
        own = three.run_eval(batch)
        outputs.append(float(own["loss"]))
        stepped = three.step(batch)
        assert ("grad_norm" in stepped) == (number == 2)
        if number < 2:
            np.testing.assert_allclose(stepped["loss"], own["loss"], rtol=1e-6)
    assert three.pending == 0
    np.testing.assert_allclose(stepped["loss"], np.mean(outputs), rtol=1e-6)
    assert not np.array_equal(three.params["b"], before["b"])


def test_the_middle_of_a_step_is_a_state_to_go_on_from(three: mgn.Trainer) -> None:
    batches = [{name: array[4 * i : 4 * i + 4] for name, array in data().items()} for i in range(5)]
    for batch in batches[:2]:
        three.step(batch)
    saved = three.state()
    ends: list[dict[str, np.ndarray]] = []
    for _ in range(2):
        three.load_state(saved)
        assert three.pending == 2
        results = [three.step(batch) for batch in batches[2:]]
        ends.append(three.state() | results[0])
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], err_msg=name)
    with pytest.raises(MgnError, match="has 3 batches of a step that is not complete, and a step"):
        three.load_state(saved | {"optimizer.batches": np.array(3, np.int32)})
    three.step(batches[0])


def test_a_batch_that_is_not_finite_has_the_whole_step_skipped(three: mgn.Trainer) -> None:
    batches = [{name: array[4 * i : 4 * i + 4] for name, array in data().items()} for i in range(3)]
    batches[1]["x"] = np.full((4, 8), np.nan, np.float32)
    before, skipped = three.state(), three.skipped
    outputs = [three.step(batch) for batch in batches]
    after = three.state()
    assert outputs[-1]["skipped"]
    assert three.skipped == skipped + 1
    moved = {"optimizer.loss_scale", "optimizer.good_steps", "optimizer.skipped"}
    for name in before:
        if name not in moved:
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)


def run(trainer: Any, source: Any = None, **options: Any) -> Any:
    """A run on sixty examples, which make seven batches, and three steps of two."""
    return fit(trainer, examples() if source is None else source, progress=False, **options)


def test_steps_are_whole_in_each_epoch() -> None:
    trainer = StandIn(accumulate=2)
    kinds: list[str] = []
    history = run(trainer, epochs=2, callbacks=[lambda event: kinds.append(event.kind)])
    assert [record.step for record in history.steps] == [*range(1, 7)]
    assert [record.epoch for record in history.steps] == [0, 0, 0, 1, 1, 1]
    assert kinds == ["batch", "step"] * 6
    assert len(trainer.batches) == 12
    batches = [{name: array[:8] for name, array in examples().items()}] * 5
    assert len(run(StandIn(accumulate=2), batches, epochs=3).steps) == 6
    with pytest.raises(MgnError, match="epoch 1 has no whole step of 6 batches"):
        run(StandIn(accumulate=6), batches)
    with pytest.raises(MgnError, match="60 examples, and a step has 64: 8 batches of 8"):
        run(StandIn(accumulate=8))


@pytest.mark.parametrize("stop", [1, 2, 5, 7, 8])
def test_a_run_that_is_stopped_in_a_step_is_resumed_bit_for_bit(tmp_path: Path, stop: int) -> None:
    whole = StandIn(accumulate=2)
    history = run(whole, epochs=2, every=2)
    files: dict[str, Any] = {"save": tmp_path / "a.safetensors", "log": tmp_path / "a.jsonl"}

    def ends(event: Event) -> None:
        if len(event.trainer.batches) == stop and event.kind in ("step", "batch"):
            raise StopTraining("enough")

    run(StandIn(accumulate=2), epochs=2, every=2, callbacks=[ends], **files)
    resumed = StandIn(accumulate=2)
    ended = run(resumed, epochs=2, every=2, resume=True, **files)
    assert same_states(resumed, whole)
    assert len(resumed.batches) == 12 - stop
    assert ended.losses == history.losses
