"""The trainer: steps, what is kept of them, and what goes on from there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from mgn.modules.module import Module
from mgn.runtime.errors import InputError
from tests.training.networks import batch, mlp


@pytest.fixture(scope="module")
def trainer() -> mgn.Trainer:
    return mgn.Trainer(mlp(dropout=0.1), optimizer=mgn.AdamW(lr=0.02), seed=3, ema=0.9)


def test_a_network_learns(trainer: mgn.Trainer) -> None:
    before = trainer.run_eval(batch())["loss"]
    for number in range(100):
        outputs = trainer.step(batch(number % 8))
        assert set(outputs) == {"loss", "logits"}
    assert trainer.steps == 100
    assert trainer.run_eval(batch())["loss"] < 0.2 * before


def test_what_is_saved_goes_on_bit_for_bit(trainer: mgn.Trainer) -> None:
    for number in range(3):
        trainer.step(batch(number))
    saved = trainer.state()
    names = {"hidden.weight", "optimizer.hidden.weight.first", "optimizer.step", "optimizer.seed"}
    assert names <= saved.keys()
    losses = [trainer.step(batch(number))["loss"] for number in range(5)]
    ended = trainer.state()
    trainer.load_state(saved)
    assert trainer.steps == int(saved["optimizer.step"])
    assert [trainer.step(batch(number))["loss"] for number in range(5)] == losses
    for name, value in trainer.state().items():
        np.testing.assert_array_equal(value, ended[name], err_msg=name)


def test_merged_launches_have_the_bits_of_separate_ones() -> None:
    ways = {way: mgn.Trainer(mlp(0.1), seed=3, resident=way) for way in ("on", "off")}
    for number in range(3):
        for trainer in ways.values():
            trainer.step(batch(number))
    ended = ways["off"].state()
    for name, value in ways["on"].state().items():
        assert value.tobytes() == ended[name].tobytes(), name
    assert ways["on"].executable.report.merged and not ways["off"].executable.report.merged
    with pytest.raises(mgn.MgnError, match="unknown residency 'maybe'"):
        mgn.Trainer(mlp(), resident="maybe")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden.bias": None}, r"'hidden\.bias' is missing"),
        ({"more": np.zeros(3)}, "'more' is not of this trainer"),
        ({"hidden.bias": np.zeros(3, np.float32)}, r"'hidden\.bias' is float32\[3\], not float32"),
        ({"optimizer.step": np.zeros((), np.int64)}, r"'optimizer\.step' is int64\[\], not int32"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(
    trainer: mgn.Trainer, change: dict[str, np.ndarray | None], message: str
) -> None:
    before = trainer.state()
    changed = {**before, **change, "hidden.weight": before["hidden.weight"] + 1}
    with pytest.raises(mgn.MgnError, match=message):
        trainer.load_state({name: item for name, item in changed.items() if item is not None})
    np.testing.assert_array_equal(trainer.params["hidden.weight"], before["hidden.weight"])


def test_training_begins_with_the_values_that_a_program_came_with() -> None:
    """As those of ONNX and PyTorch do."""
    text = "graph g(x: f32[2]) { param w: f32[2]; param v: f32[2]; return loss = sum(x * w * v) }"
    given = {"w": np.array([3, 4], np.float32), "v": np.array([5, 6], np.float32)}
    module = Module(mgn.parse(text).lower(), given, fixed=frozenset({"v"}))
    x, rule = np.array([1, 10], np.float32), mgn.SGD(0.5)
    trainer = mgn.Trainer(module, optimizer=rule)
    step = mgn.compile(module, mode="training", optimizer=rule)
    for params, run in ((trainer.params, trainer.step), (step.params, step.run)):
        assert params["w"].tolist() == [3, 4]
        assert run({"x": x})["loss"] == 255
        assert params["w"].tolist() == [0.5, -26]
        assert params["v"].tolist() == [5, 6]


def test_evaluation_changes_nothing_and_drops_nothing(trainer: mgn.Trainer) -> None:
    before = trainer.state()
    first, second = (trainer.run_eval(batch())["logits"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    for name, value in trainer.state().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    x = batch()["x"]
    w = {name: trainer.params[name].astype(np.float64) for name in trainer.params}
    hidden = np.maximum(x @ w["hidden.weight"].T + w["hidden.bias"], 0)
    expected = hidden @ w["output.weight"].T + w["output.bias"]
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)


def test_averages_follow_the_parameters() -> None:
    trainer = mgn.Trainer(mlp(), optimizer=mgn.SGD(0.5), ema=0.75)
    average = np.zeros(())
    for number in range(4):
        trainer.step(batch(number))
        moved = trainer.params["output.weight"].astype(np.float64)
        average = moved if number == 0 else 0.75 * average + 0.25 * moved
    np.testing.assert_allclose(trainer.state()["optimizer.output.weight.ema"], average, rtol=1e-5)
    averaged = trainer.run_eval(batch(), averaged=True)["logits"]
    for name in trainer.params:
        trainer.params[name] = trainer.state()[f"optimizer.{name}.ema"]
    np.testing.assert_array_equal(trainer.run_eval(batch())["logits"], averaged)


def test_averages_are_the_parameters_as_long_as_no_step_was_taken() -> None:
    trainer = mgn.Trainer(mlp(), ema=0.75, loss_scale=1.0)
    trainer.params["output.bias"] = np.float32([1, 2, 3])
    wanted = trainer.run_eval(batch())["logits"]
    np.testing.assert_array_equal(trainer.run_eval(batch(), averaged=True)["logits"], wanted)
    assert trainer.step({**batch(), "x": batch()["x"] * np.float32(np.inf)})["skipped"] == 1
    np.testing.assert_array_equal(trainer.run_eval(batch(), averaged=True)["logits"], wanted)


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_averages_of_half_precision_are_kept_in_f32_and_evaluated_rounded(element: str) -> None:
    text = f"""graph g(x: f32[4]) {{
      param w: {element}[4] = normal()
      y = cast(w, f32) * x
      return loss = mean(y * y), y = y
    }}"""
    trainer = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(0.1), ema=0.75, masters=True)
    x = np.array([1, 2, 3, 4], np.float32)
    for _ in range(3):
        trainer.step({"x": x})
    average = trainer.state()["optimizer.w.ema"]
    assert average.dtype == np.float32
    rounded = average.astype(trainer.params["w"].dtype).astype(np.float32)
    assert not np.array_equal(rounded, trainer.params["w"].astype(np.float32))
    np.testing.assert_array_equal(trainer.run_eval({"x": x}, averaged=True)["y"], rounded * x)


def test_dropout_draws_from_the_seed_and_the_step() -> None:
    with mgn.graph("drops") as g:
        x = g.input("x", "f32[4096]")
        dropped = ops.dropout(x * g.param("w", "f32", nn.ones()), 0.25)
        g.output(loss=ops.mean(dropped), dropped=dropped)
    x = {"x": np.ones(4096, np.float32)}
    runs = [mgn.Trainer(g, optimizer=mgn.SGD(0.0), seed=seed) for seed in (1, 1, 2)]
    drawn = [[trainer.step(x)["dropped"] for _ in range(2)] for trainer in runs]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    masks = {item.tobytes() for trainer in drawn for item in trainer}
    assert len(masks) == 4
    for item in drawn[0]:
        assert set(np.unique(item)) == {np.float32(0), np.float32(1 / 0.75)}
        assert abs((item == 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4096)


def test_parameters_are_set_loaded_and_saved(tmp_path: Path) -> None:
    trainer = mgn.Trainer(mlp(), optimizer=mgn.SGD(0.1))
    trainer.params["hidden.bias"] = np.arange(12, dtype=np.float32)
    trainer.save_params(tmp_path / "w.safetensors")
    trainer.step(batch())
    assert not np.array_equal(trainer.params["hidden.bias"], np.arange(12))
    assert trainer.load_params(tmp_path / "w.safetensors") == 0
    np.testing.assert_array_equal(trainer.params["hidden.bias"], np.arange(12))
    assert set(trainer.params) == {
        *("hidden.weight", "hidden.bias"),
        *("output.weight", "output.bias"),
    }
    with pytest.raises(KeyError):
        _ = trainer.params["hidden"]


def test_a_parameter_without_a_value_is_named() -> None:
    text = """
        graph g(x: f32[4]) {
          param w: f32[4]
          return loss = sum(x * w * w)
        }"""
    trainer = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(0.25))
    x = np.ones(4, np.float32)
    with pytest.raises(InputError, match="parameter 'w' has no value; load or set it first"):
        trainer.step({"x": x})
    trainer.params["w"] = np.array([1, 2, 3, 4], np.float32)
    assert trainer.step({"x": x})["loss"] == 30
    np.testing.assert_array_equal(trainer.params["w"], np.array([0.5, 1, 1.5, 2], np.float32))


DENSE = """
graph dense{dimension}(x: f32[{size}, 4]) {{
  param w: f32[4, 2] = normal(0.5)
  y = matmul(x, w)
  loss = mean(mean(y * y, axis=1), axis=0)
  return loss
}}
"""


@pytest.mark.parametrize(
    ("dimension", "size", "dims", "remedy"),
    [
        ("[B]", "B", {"B": 8}, r"another mgn\.Trainer, of dims=\{'B': 5\}"),
        ("[B = 8]", "B", None, r"another mgn\.Trainer, of dims=\{'B': 5\}"),
        ("", "8", None, r"graph dense\[B = 8\], and train .* of dims=\{'B': 5\}"),
    ],
)
def test_a_batch_of_another_size_is_refused_with_what_to_do(
    dimension: str, size: str, dims: dict[str, int] | None, remedy: str
) -> None:
    module = mgn.parse(DENSE.format(dimension=dimension, size=size))
    trainer = mgn.Trainer(module, dims=dims)
    said = rf"'x' has shape \[5, 4\], not \[8, 4\].*\n.*has 8 .* this one 5: leave out .*{remedy}"
    for call in (trainer.step, trainer.run_eval):
        with pytest.raises(InputError, match=said):
            call({"x": np.zeros((5, 4), np.float32)})
    assert trainer.steps == 0


def test_the_remedy_for_a_batch_of_another_size_works() -> None:
    module = mgn.parse(DENSE.format(dimension="[B = 8]", size="B"))
    first, other = (mgn.Trainer(module, dims=dims) for dims in (None, {"B": 5}))
    first.step({"x": np.ones((8, 4), np.float32)})
    other.load_state(first.state())
    other.step({"x": np.ones((5, 4), np.float32)})
    assert other.steps == 2


def test_a_graph_of_fixed_sizes_is_to_be_built_for_another_batch(trainer: mgn.Trainer) -> None:
    ragged = {name: array[:5] for name, array in batch().items()}
    with pytest.raises(InputError, match=r"16 examples, and this one 5: .* whose inputs have 5"):
        trainer.step(ragged)


@pytest.mark.parametrize(
    "given",
    [
        {"x": np.zeros((8, 5), np.float32)},
        {"x": np.zeros((5, 5), np.float32)},
        {"x": np.zeros(5, np.float32)},
        {"x": 3},
        {},
        3,
    ],
)
def test_what_is_no_batch_of_another_size_is_told_nothing_of_sizes(given: Any) -> None:
    trainer = mgn.Trainer(mgn.parse(DENSE.format(dimension="", size="8")))
    with pytest.raises(InputError) as caught:
        trainer.step(given)
    assert "leave out" not in str(caught.value)


def test_a_run_in_training_mode_is_a_step() -> None:
    text = """
        graph g[N](x: f32[N]) {
          param w: f32[N] = ones()
          state seen: i32[]
          seen <- seen + 1
          return total = sum(x * w * w)
        }"""
    module = mgn.parse(text)
    own = mgn.SGD(0.25)
    step = mgn.compile(module, "g", dims={"N": 2}, mode="training", optimizer=own, loss="total")
    x = np.array([1, 2], np.float32)
    assert step(x=x)["total"] == 3
    np.testing.assert_array_equal(step.params["w"], np.array([0.5, 0], np.float32))
    assert step(x=x)["total"] == 0.25
    assert set(step.state) == {"seen", "optimizer.step"}
    assert step.state["seen"] == 2
    step.reset()
    np.testing.assert_array_equal(step.params["w"], np.array([0.25, 0], np.float32))
    assert step.state["optimizer.step"] == 0
    with pytest.raises(mgn.MgnError, match='an optimizer goes with mode="training"'):
        mgn.compile(module, "g", dims={"N": 2}, optimizer=mgn.SGD())
    with pytest.raises(mgn.MgnError, match=r"takes one graph; mgn\.Trainer trains and evaluates"):
        mgn.compile(module, ["g"], dims={"N": 2}, mode="training")


def test_a_run_that_is_resumed_has_the_bits_of_an_unbroken_one(
    trainer: mgn.Trainer, tmp_path: Path
) -> None:
    batches = [batch(number) for number in range(3)]
    data = {name: np.concatenate([item[name] for item in batches]) for name in batches[0]}
    begin = trainer.state()
    options = {"eval": batch(7), "metric": "accuracy(logits, t)", "progress": False}
    wanted = trainer.fit(data, steps=7, **options)
    ended = trainer.state()
    trainer.load_state(begin)
    save = tmp_path / "a.safetensors"
    part = trainer.fit(data, steps=4, save=save, **options)
    trainer.load_state({**begin, "hidden.weight": begin["hidden.weight"] + 1})
    rest = trainer.fit(data, steps=7, save=save, resume=True, **options)
    assert [*part.losses, *rest.losses] == wanted.losses
    for name, value in trainer.state().items():
        np.testing.assert_array_equal(value, ended[name], err_msg=name)
    assert rest.metrics["accuracy"][-1] == wanted.metrics["accuracy"][-1]


def test_parameters_of_f16_are_drawn_where_a_script_has_numpy_raise_errors() -> None:
    text = """graph g(x: f32[999]) {
      param w: f16[999] = normal(std = 1e-4)
      return loss = mean(x * cast(w, f32))
    }"""
    with np.errstate(all="raise"):
        trainer = mgn.Trainer(mgn.parse(text))
        assert 0 < np.abs(trainer.params["w"].astype(np.float32)).max() < 1e-3


def test_a_state_that_is_none_is_refused(trainer: mgn.Trainer) -> None:
    with pytest.raises(mgn.MgnError, match=r"'state' takes arrays by name, .* not None"):
        trainer.load_state(None)  # pyright: ignore[reportArgumentType]
