"""`mgn-train`: which parameters are trained, drawn and saved, and texts as data."""

from pathlib import Path

import numpy as np
import pytest

from mgn.commands.train import main
from mgn.runtime.weights import load_arrays, save_params
from tests.conftest import Outcome, run_in_process

PROGRAM = """
graph fit[B = 5](x: f32[B, 3], y: f32[B]) {
  param a: f32[3] = ones()
  param b: f32[3] = zeros()
  param extra: f32[3] as "extra.lora" = ones()
  return loss = mse(sum(x * (a + b * extra), axis = 1), y)
}
graph lm(text: i32[2, 4]) { return loss = mean(cast(text, f32)) }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program, examples and a checkpoint."""
    x = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=x @ np.array([1, -2, 0.5], np.float32))
    (tmp_path / "fit.mgn").write_text(PROGRAM)
    (tmp_path / "d.txt").write_text("abc")
    save_params(tmp_path / "base.safetensors", {name: np.float32([2, 3, 4]) for name in "ab"})
    return tmp_path


def mgn_train(folder: Path, *arguments: object) -> Outcome:
    given = [folder / "fit.mgn", "--graph", "fit", "--data", folder / "d.npz", *arguments]
    return run_in_process(main, [str(item) for item in given])


def test_a_pattern_says_what_is_trained_and_what_is_drawn(folder: Path) -> None:
    outcome = mgn_train(
        folder,
        *("--params", folder / "base.safetensors", "--drawn", "lora", "--trained", "lora|b"),
        *("--frozen", "^b", "--lr", "0.1", "--steps", "3"),
        *("--save-params", folder / "all.safetensors"),
        *("--save-trained", folder / "some.safetensors"),
    )
    assert outcome.status == 0, outcome.stderr
    every, some = (load_arrays(folder / f"{name}.safetensors") for name in ("all", "some"))
    assert [*some] == ["extra.lora"]
    assert not np.array_equal(some["extra.lora"], [1, 1, 1])
    assert every.keys() == {"a", "b", "extra.lora"}
    assert np.array_equal(every["a"], [2, 3, 4]) and np.array_equal(every["b"], [2, 3, 4])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--drawn", "lora"], "--drawn goes with --params"),
        (["--trained", "none"], "trained: no parameter matches 'none'"),
        (["--save-trained", "a.npz"], "--save-trained takes a name that ends in .safetensors"),
        (["--data", "d.txt", "--graph", "lm"], "--tokenizer names what makes tokens of it"),
        (["--params", "base.safetensors"], "extra.lora"),
        (["--params", "base.safetensors", "--drawn", "none"], "drawn: no parameter matches"),
    ],
)
def test_what_cannot_be_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(folder)
    outcome = mgn_train(folder, *options)
    assert outcome.status == 1
    assert said in outcome.stderr
    assert "Traceback" not in outcome.stderr
