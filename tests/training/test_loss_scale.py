"""Loss scaling: what it keeps from becoming 0, which steps are skipped, and what they leave."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import element_of
from mgn.training.run.fit import fit
from mgn.training.run.history import read_log
from mgn.training.step.loss_scale import LARGEST, LossScale, as_loss_scale
from mgn.training.step.options import StepOptions
from mgn.training.step.step import training_step

Arrays = dict[str, np.ndarray]

BOWL = """
graph bowl(x: f32[3]) {
  param w: f32[3] = ones()
  state total: f32[3]
  total <- total + x
  return loss = mean(x * w * w)
}
"""
GOOD = {"x": np.array([1, 2, 3], np.float32)}
BAD = {"x": np.array([1, np.inf, 3], np.float32)}
LARGE = {"x": np.array([1, 3e37, 3], np.float32)}
"""A loss that is finite, of which 1024 times as much is not."""


def trainer(scale: Any, text: str = BOWL, **options: Any) -> mgn.Trainer:
    """A trainer of a small program with momentum."""
    optimizer = mgn.SGD(0.1, momentum=0.5)
    return mgn.Trainer(mgn.parse(text), optimizer=optimizer, loss_scale=scale, **options)


@pytest.fixture(scope="module")
def moving() -> mgn.Trainer:
    """One whose scale moves soon."""
    return trainer(LossScale(1024.0, interval=2), ema=0.5, clip_norm=1.0)


def scales_of(rule: LossScale, goods: list[bool]) -> list[float]:
    """The scale of each step, as PyTorch's GradScaler moves it."""
    scale, good, found = rule.initial, 0, list[float]()
    for is_good in goods:
        found.append(scale)
        good = good + 1 if is_good else 0
        if not is_good:
            scale *= rule.backoff
        elif good == rule.interval:
            scale, good = scale * rule.growth, 0
    return found


def test_a_skipped_step_leaves_all_as_it_was_and_halves_the_scale(moving: mgn.Trainer) -> None:
    plain = trainer("none", ema=0.5, clip_norm=1.0)
    goods = [True, False, True, True, False, False, True, True, True]
    scales: list[float] = []
    for is_good in goods:
        before = moving.state()
        outputs = moving.step(GOOD if is_good else BAD)
        scales.append(float(outputs["loss_scale"]))
        assert outputs["skipped"] == (not is_good)
        if is_good:
            plain.step(GOOD)
            continue
        moved = {"optimizer.loss_scale", "optimizer.good_steps", "optimizer.skipped"}
        for name, value in moving.state().items():
            if name not in moved:
                np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert scales == scales_of(LossScale(1024.0, interval=2), goods)
    assert (moving.steps, moving.skipped, plain.steps) == (9, 3, 6)
    after = moving.state()
    for name, value in plain.state().items():
        np.testing.assert_allclose(after[name], value, rtol=1e-6, err_msg=name)


def test_the_scale_moves_as_that_of_pytorch() -> None:
    torch: Any = pytest.importorskip("torch")
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    goods = [bool(item) for item in np.random.default_rng(2).random(40) < 0.8]
    scales: list[float] = []
    options = StepOptions(loss_scale=LossScale(1024.0, interval=2))
    batches = [GOOD if is_good else BAD for is_good in goods]
    found = states(BOWL, batches, options, mgn.SGD(0.1, momentum=0.5))
    for batch, here in zip(batches, found, strict=True):
        optimizer.zero_grad()
        scaler.scale((torch.from_numpy(batch["x"]) * w * w).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        assert here["optimizer.loss_scale"] == scales[-1]
        np.testing.assert_allclose(here["w"], w.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert len({*scales}) > 4


def test_the_scale_is_a_part_of_the_state(moving: mgn.Trainer) -> None:
    saved = moving.state()
    batches = (GOOD, BAD, GOOD, GOOD)
    first = [moving.step(batch) for batch in batches]
    ended, counts = moving.state(), (moving.steps, moving.skipped)
    moving.load_state(saved)
    again = [moving.step(batch) for batch in batches]
    assert (moving.steps, moving.skipped) == counts
    for one, other in zip([*first, ended], [*again, moving.state()], strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_a_run_says_what_it_skips(moving: mgn.Trainer, tmp_path: Path) -> None:
    said: list[str] = []
    log, begun = tmp_path / "log.jsonl", moving.steps
    options: dict[str, Any] = {"progress": False, "say": said.append, "check_finite": True}
    kinds = (GOOD, LARGE, LARGE, GOOD)
    history = fit(moving, kinds, log=log, save=tmp_path / "a.safetensors", **options)
    assert [record.values["skipped"] for record in history.steps] == [0, 1, 1, 0]
    assert history.skipped == read_log(log).skipped == 2
    scale = history.steps[1].values["loss_scale"]
    line = f"step {begun + 2}: gradients are not finite: skipped; the loss scale was {scale:g}"
    assert [text for text in said if "skipped;" in text] == [f"{line}, and is made smaller"]
    assert said[-1].endswith(", 2 skipped")
    resumed = fit(moving, kinds, epochs=2, save=tmp_path / "a.safetensors", resume=True, **options)
    assert [record.step for record in resumed.steps] == [*range(begun + 5, begun + 9)]
    with pytest.raises(mgn.MgnError, match="'loss' is inf"):
        fit(moving, [BAD], **options)


SMALL = """
graph small(x: f32[2, 8]) {
  param w: f32[4, 8] = ones()
  return loss = 1e-9 * sum(x @ w.T)
}
"""


def test_a_scale_keeps_small_gradients_of_f16_from_becoming_0() -> None:
    x = {"x": np.ones((2, 8), np.float32)}
    steps = {
        scale: mgn.compile(
            mgn.parse(SMALL),
            mode="training",
            optimizer=mgn.SGD(1e8),
            precision="f16",
            loss_scale=scale,
        )
        for scale in ("auto", "none")
    }
    outputs = {scale: step(**x) for scale, step in steps.items()}
    assert (outputs["auto"].keys(), outputs["none"].keys()) == (
        {"loss", "skipped", "loss_scale"},
        {"loss"},
    )
    np.testing.assert_array_equal(steps["none"].params["w"], np.ones((4, 8), np.float32))
    np.testing.assert_allclose(steps["auto"].params["w"], np.full((4, 8), 0.8), rtol=1e-3)


def states(
    text: str, steps: list[Arrays], options: StepOptions, optimizer: mgn.Optimizer | None = None
) -> list[Arrays]:
    """The states behind each step, by the reference interpreter."""
    made = training_step(mgn.parse(text).lower(), "loss", optimizer or mgn.SGD(0.1), options)
    (graph,) = graphs_of(made.module)
    assert options.loss_scale is not None
    types = {name: op.type for name, op in states_of(made.module).items()}
    held: Arrays = {
        name: np.zeros(type.get_shape(), element_of(type).dtype) for name, type in types.items()
    }
    held["w"] = np.ones(3, np.float32)
    held["optimizer.loss_scale"] = np.array(options.loss_scale.initial, np.float32)
    interpreter = Interpreter(states=held)
    found: list[Arrays] = []
    for batch in steps:
        interpreter.run(graph, batch)
        found.append(dict(interpreter.states))
    return found


def test_a_scale_stays_between_its_ends() -> None:
    rule = LossScale(LARGEST / 2, growth=4.0, interval=1)
    small = {"x": np.full(3, 1e-30, np.float32)}
    found = states(BOWL, [small, small], StepOptions(loss_scale=rule))
    assert [item["optimizer.loss_scale"] for item in found] == [LARGEST, LARGEST]
    rule = LossScale(2.0**-23)
    found = states(BOWL, [BAD] * 3, StepOptions(loss_scale=rule))
    assert [item["optimizer.loss_scale"] for item in found] == [2.0**-24] * 3


def test_words_and_numbers_mean_scales() -> None:
    assert as_loss_scale("auto", "f16") == as_loss_scale("dynamic") == LossScale()
    assert LossScale() == LossScale(65536.0, 2.0, 0.5, 2000)
    assert as_loss_scale("auto", "bf16") is as_loss_scale("none", "f16") is None
    fixed = as_loss_scale(128)
    assert fixed is not None
    assert fixed.is_fixed
    assert not LossScale().is_fixed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("dynamik", r"loss_scale takes 'auto', 'dynamic', 'none', a number .*, not 'dynamik'"),
        (True, "loss_scale takes .*, not True"),
        (0.0, r"LossScale: initial takes a number from 2\*\*-24 to 2\*\*100, not 0.0"),
        (float("nan"), "LossScale: initial takes a number .*, not nan"),
    ],
)
def test_other_scales_are_refused(given: Any, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        trainer(given)
    with pytest.raises(mgn.MgnError, match="LossScale: interval takes a whole number"):
        LossScale(interval=0)


def test_a_scale_is_for_training() -> None:
    with pytest.raises(mgn.MgnError, match='a loss_scale goes with mode="training"'):
        mgn.compile(mgn.parse(BOWL), loss_scale=2.0)


def test_an_output_of_the_name_is_refused() -> None:
    text = BOWL.replace("return loss =", "return skipped = sum(x), loss =")
    with pytest.raises(mgn.MgnError, match="has an output 'skipped' of its own; rename it"):
        trainer("dynamic", text)
