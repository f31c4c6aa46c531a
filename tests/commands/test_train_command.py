"""`mgn-train`: a classifier from nothing, files, resuming, and messages for wrong arguments."""

import json
import re
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.commands.actions.soft_end import soft_end
from mgn.commands.options.optimiser_call import read_optimiser
from mgn.diagnostics import MgnError
from mgn.training.optimisers.named import OPTIMISERS
from mgn.training.optimisers.optimisers import Optimizer
from mgn.training.run.checkpoints import read_checkpoint
from mgn.training.run.fit import fit
from mgn.training.run.trainee import Event
from tests.conftest import ROOT, Outcome, run_in_process
from tests.training.stand_in import StandIn, examples

Run = Callable[..., Outcome]
DIGITS = ROOT / "examples" / "digits"

PROGRAM = """
graph fit[B = 8](x: f32[B, 3], y: f32[B]) {
  param w: f32[3]  = zeros()
  prediction = sum(x * w, axis = 1)
  loss = mse(prediction, y)
  return loss, prediction
}
graph other[N](x: f32[N, 3]) { return y = sum(x) }
"""


@pytest.fixture
def mgn_train() -> Run:
    """Runs `mgn-train` in this process."""
    from mgn.commands.train import main

    return lambda *arguments: run_in_process(main, [str(item) for item in arguments])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A linear model as a file, with examples beside it."""
    x = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=x @ np.array([1, -2, 0.5], np.float32))
    path = tmp_path / "fit.mgn"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def device() -> None:
    """Skips where there is no OpenCL device, and says so."""
    from mgn.runtime.devices import list_devices

    if not list_devices():
        pytest.skip("there is no OpenCL device")


@pytest.mark.usefixtures("device")
def test_digits_are_learned_from_nothing(mgn_train: Run) -> None:
    outcome = mgn_train(
        *(DIGITS / "digits.mgn", "--data", DIGITS / "train.npz"),
        *("--eval", DIGITS / "held_out.npz", "--metric", "accuracy(logits, labels)"),
        *("--lr", "2e-3", "--epochs", "10"),
    )
    assert outcome.status == 0, outcome.stderr
    assert "steps: 220\n" in outcome.stdout
    assert float(outcome.stdout.split("evaluated accuracy: ")[1]) >= 0.97
    assert "epoch 10, step 220: loss 0.0" in outcome.stderr


@pytest.mark.usefixtures("device")
def test_a_run_is_saved_logged_and_resumed(mgn_train: Run, program: Path) -> None:
    folder = program.parent
    given = [program, "--data", folder / "d.npz", "--batch", 10, "--lr", "0.1"]
    options = ["--optimizer", "sgd(momentum=0.5)", "--schedule", "linear", "--warmup", "5"]
    files = ["--save", folder / "a.safetensors", "--log", folder / "a.jsonl"]
    part = mgn_train(*given, *options, "--steps", "20", *files, "--every", "8")
    assert part.status == 0, part.stderr
    assert read_checkpoint(folder / "a.safetensors").header.step == 20
    again = mgn_train(*given, *options, "--steps", "20", *files)
    assert again.status == 1
    assert "--resume goes on with it" in again.stderr
    last = folder / "w.safetensors"
    more = mgn_train(*given, *options, "--steps", "60", *files, "--resume", "--save-params", last)
    assert more.status == 0, more.stderr
    assert "resumed at step 20" in more.stderr
    assert "it goes on with SGD(lr=warmup(5, linear(0.1, 0, 55)), " in more.stderr
    lines = [json.loads(line) for line in (folder / "a.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines[1:]] == [*range(1, 61)]
    assert lines[1]["results"].keys() == {"loss"}
    found = read_checkpoint(folder / "a.safetensors")
    assert found.header.configuration["graph"] == "fit"
    assert found.header.configuration["dims"] == {"B": 10}
    np.testing.assert_allclose(found.arrays["w"], [1, -2, 0.5], atol=0.05)
    from mgn.runtime.weights import load_arrays

    assert list(load_arrays(last)) == ["w"]
    np.testing.assert_array_equal(load_arrays(last)["w"], found.arrays["w"])
    kept = mgn_train(*given, "--save-params", folder / "a.safetensors")
    assert kept.status == 1
    assert "is a checkpoint, of which parameters alone would be left" in kept.stderr
    begun = mgn_train(*given, *options, "--steps", "60", "--params", folder / "a.safetensors")
    assert begun.status == 0, begun.stderr
    (said,) = re.findall(r"a.safetensors: not used by this graph: 3 arrays \((.*)\)", begun.stderr)
    unused = ["'optimizer.seed'", "'optimizer.step'", "'optimizer.w.velocity'"]
    assert sorted(said.split(", ")) == unused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--data names a file of examples"),
        (["--data", "d.npz", "--epochs", "2", "--steps", "3"], "not both"),
        (["--data", "d.npz", "--batch", "0"], "--batch takes a whole number of at least 1"),
        (["--data", "d.npz", "--seed", "-1"], "--seed takes a number of at least 0"),
        (["--data", "d.npz", "--loss", "los"], "no graph of fit, other gives 'los'; --graph NAME"),
        (
            ["--data", "d.npz", "--graph", "fit", "--loss", "los"],
            "has no result 'los'; it has loss",
        ),
        (["--data", "d.npz", "--metric", "mae(a, y)"], "the graph has no 'a' among"),
        (["--data", "d.npz", "--metric", "mae(y"], "a metric is such as"),
        (["--data", "none.npz"], "cannot read"),
        (["--data", "d.npz", "--batch", "51"], "50 examples, and a batch has 51"),
        (["--data", "d.npz", "--batch", "5", "--dim", "B=6"], "--batch 5 and --dim B=6 differ"),
        (["--data", "d.npz", "--optimizer", "sdg"], "did you mean 'sgd'"),
        (["--data", "d.npz", "--optimizer", "sgd(0.9)"], "takes a name, or a call such as"),
        (["--data", "d.npz", "--save", "d.npz"], "would be written over a file"),
        (["--data", "d.npz", "--log", "fit.mgn"], "would be written over a file"),
        (["--data", "d.npz", "--save", "a.npz"], "whose name ends in .safetensors"),
        (["--data", "d.npz", "--metric", "mae(prediction, y)"], "and there are none"),
        (["--data", "d.npz", "--accumulate", "0"], "--accumulate takes a whole number of at"),
        (["--data", "d.npz", "--accumulate", "7"], "50 examples, and a step has 56: 7 batches"),
        (["--data", "d.npz", "--loss-scale", "half"], "--loss-scale takes auto, dynamic, none or"),
        (["--data", "d.npz", "--patience", "2"], "--patience goes with --eval"),
        (["--data", "d.npz", "--keep", "2"], "--keep goes with --save"),
        (["--data", "d.npz", "--keep-best"], "--keep-best goes with --save"),
        (["--data", "d.npz", "--norms"], "--norms goes with --log or --tensorboard"),
        (["--data", "d.npz", "--save-not-finite"], "--save-not-finite goes with --save or --save-"),
        (["--data", "d.npz", "--tokenizer", "t.json"], "--tokenizer makes tokens of a .txt file"),
        (["--data", "d.npz", "--loss-scale", "-1"], "a number from 2**-24 to 2**100, not '-1'"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(
    mgn_train: Run,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(program.parent)
    before = sorted(program.parent.iterdir())
    outcome = mgn_train(program.name, *arguments)
    assert outcome.status == 1
    assert outcome.stdout == ""
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert sorted(program.parent.iterdir()) == before


@pytest.mark.usefixtures("device")
def test_steps_of_several_batches_in_half_precision(mgn_train: Run, program: Path) -> None:
    folder = program.parent
    data = dict(np.load(folder / "d.npz"))
    data["y"][0] = np.inf
    np.savez(folder / "lost.npz", **data)
    files = ["--save", folder / "a.safetensors", "--log", folder / "a.jsonl"]
    options = ["--lr", "0.1", "--accumulate", "2", "--precision", "f16", "--batch", "5"]
    part = mgn_train(program, "--data", folder / "d.npz", *options, *files, "--epochs", "2")
    assert part.status == 0, part.stderr
    assert part.stdout.startswith("steps: 10\nloss: ")
    more = mgn_train(
        *(program, "--data", folder / "lost.npz", *options, *files, "--resume", "--epochs", "4"),
        *("--save-params", folder / "w.safetensors"),
    )
    assert more.status == 0, more.stderr
    assert more.stdout.startswith("steps: 20\nskipped: 2\nloss: ")
    assert "gradients are not finite: skipped; the loss scale was 65536" in more.stderr
    found = read_checkpoint(folder / "a.safetensors").arrays
    assert (found["optimizer.loss_scale"], found["optimizer.skipped"]) == (16384, 2)
    assert np.isfinite(found["w"]).all()
    lost = [program, "--data", folder / "lost.npz", "--save-params", folder / "v.safetensors"]
    begun = mgn_train(*lost, "--epochs", "1")
    assert begun.status == 1
    assert ": 'w' is not finite in 3 of 3 values: nothing is written" in begun.stderr
    assert mgn_train(*lost, "--epochs", "1", "--save-not-finite").status == 0


@pytest.mark.parametrize("command", ["generate", "opt", "run", "train"])
def test_a_command_is_a_module_that_runs(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [f"mgn-{command}", "--help"])
    monkeypatch.delitem(sys.modules, f"mgn.commands.{command}", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"mgn.commands.{command}", run_name="__main__")
    assert ended.value.code == 0
    assert f"mgn-{command}" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_behind_its_step_and_a_second_one_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    said: list[str] = []

    def send(event: Event) -> None:
        if event.step == 5 and event.kind == "step":
            signal.raise_signal(number)

    trainer, save = StandIn(), tmp_path / "a.safetensors"
    with soft_end(said.append) as end:
        looking: dict[str, Any] = {"callbacks": [send], "interrupted": end, "progress": False}
        history = fit(trainer, examples(), epochs=3, save=save, **looking)
        assert end.is_asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert history.stopped == "interrupted"
    assert read_checkpoint(save).header.step == trainer.steps == 5
    assert said == [f"{number.name}: the run ends behind this step"]
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("device")
def test_a_run_that_begins_with_a_checkpoint_of_another_is_resumed_by_the_same_command(
    mgn_train: Run, program: Path
) -> None:
    """The parameters are where it begins as long as there is nothing to go on with."""
    folder = program.parent
    given = [program, "--data", folder / "d.npz", "--graph", "fit", "--lr", "0.1"]
    first, save = folder / "w.safetensors", folder / "a.safetensors"
    assert mgn_train(*given, "--save-params", first).status == 0
    given += ["--params", first, "--save", save, "--resume", "--steps"]
    begun = mgn_train(*given, "3")
    assert begun.status == 0 and "the run begins" in begun.stderr
    assert mgn_train(*given, "9").status == 0
    whole = mgn_train(*given[:-3], folder / "b.safetensors", "--steps", "9")
    assert whole.status == 0, whole.stderr
    found, wanted = (read_checkpoint(folder / f"{name}.safetensors") for name in "ab")
    for name, value in wanted.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], value, err_msg=name)


def test_every_optimiser_can_be_asked_for_by_its_name() -> None:
    public = (getattr(mgn, name) for name in mgn.__all__)
    kinds = {item for item in public if isinstance(item, type) and issubclass(item, Optimizer)}
    assert {*OPTIMISERS.values()} == kinds - {Optimizer}
    for name, kind in OPTIMISERS.items():
        assert isinstance(read_optimiser(name, 1e-3, "cosine", 3, 10), kind)


@pytest.mark.parametrize(
    ("text", "rate", "message"),
    [
        ("sgd(momentun=0.9)", None, "sgd has no option 'momentun'; did you mean 'momentum'"),
        ("sgd(lr=0.1)", 0.2, "--lr gives the rate"),
        ("sgd(momentum=x)", None, "takes a name, or a call"),
        ("lion(", None, "takes a name, or a call"),
        ("zzz", None, "there are sgd, "),
        ("adam(betas=0.9)", None, r"Adam: betas takes 2 numbers, not 0\.9"),
        ("adam(betas=(1.0, 0.9))", None, r"betas is \(1\.0, 0\.9\), and is to be below 1"),
        ("adam(eps=-1)", None, "Adam: eps is -1, and is to be at least 0"),
        ("sgd(momentum='a')", None, "SGD: momentum takes a number, not 'a'"),
        ("sgd(nesterov=1)", None, "SGD: nesterov takes True or False, not 1"),
        ("sgd(nesterov=True)", None, "SGD: nesterov takes a momentum above 0 and no dampening"),
        (
            "sgd(momentum=0.9, nesterov=True, dampening=0.1)",
            None,
            "SGD: nesterov takes a momentum above 0 and no dampening",
        ),
        ("sgd(momentum=0.9, dampening=2)", None, "SGD: dampening is 2, and is to be at most 1"),
        ("sgd(lr_factors=['w'])", None, "lr_factors takes numbers by patterns of names"),
        ("sgd(lr_factors={'w': 'x'})", None, "lr_factors takes numbers by patterns of names"),
        ("sgd", -1.0, "SGD: lr is -1.0; a rate is a number of at least 0"),
        ("adafactor(clip=0)", None, "clip is 0, and is to be above 0"),
        ("muon(iterations=1.5)", None, "iterations takes a whole number, not 1.5"),
        ("muon(others='adam')", None, "Muon: others takes such as mgn.AdamW"),
        ("muon(others_for='(')", None, "Muon: others_for is no regular expression"),
    ],
)
def test_a_wrong_optimiser_says_what_is_wrong(text: str, rate: float | None, message: str) -> None:
    with pytest.raises(MgnError, match=message):
        read_optimiser(text, rate, "constant", 0, 10)


def test_flags_of_an_optimiser_are_written_as_in_python_or_in_the_language() -> None:
    for flag in ("True", "true"):
        call = f"sgd(momentum=0.9, nesterov={flag})"
        assert vars(read_optimiser(call, None, "constant", 0, 10))["nesterov"] is True


def test_options_of_an_optimiser_arrive() -> None:
    found = read_optimiser("SGD(momentum=0.5, nesterov=True, lr=0.25)", None, "constant", 0, 10)
    assert (found.lr, vars(found)["momentum"], vars(found)["nesterov"]) == (0.25, 0.5, True)
