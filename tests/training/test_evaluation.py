"""Evaluations by another graph than the one that is trained."""

from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.commands.run import main as main_of_run
from mgn.commands.train import main as main_of_train
from tests.conftest import run_in_process

TEXT = """
fn norm(x, training: bool) {
  state mean: f32[3] = zeros()
  state spread: f32[3] = ones()
  m = mean(x, axis = 0)
  v = var(x, axis = 0)
  if training {
    mean <- mean * 0.5 + m * 0.5
    spread <- spread * 0.5 + v * 0.5
  } else {
    m = mean
    v = spread
  }
  return (x - m) / sqrt(v + 1e-3)
}

fn logits_of(x, training: bool) {
  param w: f32[2, 3] = normal()
  param b: f32[2] = normal()
  return linear(norm(x, training), w, b)
}

graph step[B = 8](x: f32[B, 3], t: i32[B]) {
  logits = dropout(logits_of(x, true), 0.0)
  return loss = cross_entropy(logits, t), logits
}

graph use[B = 5](x: f32[B, 3], t: i32[B]) {
  logits = logits_of(x, false)
  return loss = cross_entropy(logits, t), logits
}
"""


def examples(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of which the sign of the first number is the class."""
    x = np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32) * 2 + 1
    return {"x": x, "t": (x[:, 0] > 1).astype(np.int32)}


def expected(trainer: mgn.Trainer, x: np.ndarray, kind: str = "") -> np.ndarray:
    """The logits by the running statistics, in f64."""
    state = {name: np.float64(value) for name, value in trainer.state().items()}
    w, b = (state[f"optimizer.{name}{kind}" if kind else name] for name in ("w", "b"))
    return (x - state["mean"]) / np.sqrt(state["spread"] + 1e-3) @ w.T + b


def test_an_evaluation_computes_the_graph_that_is_named_and_changes_nothing() -> None:
    trainer = mgn.Trainer(
        mgn.parse(TEXT), "step", optimizer=mgn.SGD(0.1), ema=0.5, eval_graph="use"
    )
    for seed in range(4):
        trainer.step(examples(8, seed))
    before = trainer.state()
    assert not np.array_equal(before["mean"], np.zeros(3))
    held_out = examples(5, 9)
    found = trainer.run_eval(held_out)["logits"]
    np.testing.assert_allclose(found, expected(trainer, held_out["x"]), rtol=1e-5, atol=1e-5)
    averaged = trainer.run_eval(held_out, averaged=True)["logits"]
    wanted = expected(trainer, held_out["x"], ".ema")
    np.testing.assert_allclose(averaged, wanted, rtol=1e-5, atol=1e-5)
    for name, value in trainer.state().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_its_sizes_and_results_are_those_of_evaluations() -> None:
    trainer = mgn.Trainer(mgn.parse(TEXT), "step", optimizer=mgn.SGD(0.1), eval_graph="use")
    held_out = examples(12, 9)
    history = trainer.fit(
        examples(40), epochs=3, eval=held_out, metric="accuracy(logits, t)", progress=False
    )
    share = (expected(trainer, held_out["x"]).argmax(1) == held_out["t"]).mean()
    assert history.metrics["accuracy"][-1] == pytest.approx(share)
    bound = mgn.Trainer(mgn.parse(TEXT), "step", dims={"B": 4}, eval_graph="use")
    assert bound.run_eval(examples(4))["logits"].shape == (4, 2)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("graph use(x: f32[5, 3]) { return logits = x }", "has no result 'loss'; it has logits"),
        (
            "graph use(x: f32[5, 3]) { param u: f32[3] = ones(); return loss = sum(x * u) }",
            "has the parameter 'u', which graph 'step' does not have",
        ),
        ("graph other(x: f32[5, 3]) { return loss = sum(x) }", "use"),
    ],
)
def test_a_graph_that_cannot_say_how_good_another_is(graph: str, message: str) -> None:
    text = TEXT[: TEXT.index("graph use")] + graph
    with pytest.raises(mgn.MgnError, match=message):
        mgn.Trainer(mgn.parse(text), "step", eval_graph="use")


def test_a_run_of_the_command_evaluates_by_another_graph_and_its_states_are_used(
    tmp_path: Path,
) -> None:
    program, data, held_out = tmp_path / "g.mgn", tmp_path / "d.npz", tmp_path / "e.npz"
    saved = str(tmp_path / "c.safetensors")
    program.write_text(TEXT)
    np.savez(data, **examples(40))  # pyright: ignore[reportArgumentType]
    np.savez(held_out, **examples(5, 9))  # pyright: ignore[reportArgumentType]
    common = [str(program), "--data", str(data), "--epochs", "2", "--save", saved]
    looked = ["--eval", str(held_out), "--metric", "accuracy(logits, t)", "--eval-graph", "use"]
    done = run_in_process(main_of_train, [*common, *looked])
    assert done.status == 0, done.stderr
    loss = done.stdout.split("evaluated loss: ")[1].split()[0]
    using = [str(program), "--graph", "use", "--params", saved, "--inputs", str(held_out)]
    done = run_in_process(main_of_run, using)
    assert f"has 2 states of this graph as well: --states {saved}" in done.stderr
    done = run_in_process(main_of_run, [*using, "--states", saved])
    assert done.status == 0, done.stderr
    assert "as well" not in done.stderr
    assert float(done.stdout.split("loss: f32[] mean ")[1].split()[0]) == float(loss)
    done = run_in_process(main_of_train, [*common, "--eval-graph", "use", "--overwrite"])
    assert done.status == 1
    assert "--eval-graph goes with --eval" in done.stderr
