"""The loop of a run: how long, in which order, what is noted, and where it goes on."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mgn.diagnostics import MgnError
from mgn.training.run import curves, progress
from mgn.training.run.checkpoints import read_checkpoint
from mgn.training.run.extras import need
from mgn.training.run.fit import fit
from mgn.training.run.history import History, read_log
from mgn.training.run.trainee import Event, StopTraining
from tests.conftest import ROOT
from tests.training.stand_in import StandIn, examples, same_states


def run(trainer: StandIn, source: Any = None, **options: Any) -> History:
    """A run on sixty examples, which make seven batches."""
    return fit(trainer, examples() if source is None else source, progress=False, **options)


def test_a_model_learns_and_the_history_says_so() -> None:
    trainer = StandIn()
    history = run(trainer, epochs=9, eval=examples(20, 1), metric="mae(prediction, y)")
    assert trainer.steps == len(history.steps) == 63
    assert history.losses[-1] < 0.05 * history.losses[0]
    assert history.metrics["mae"][-1] < 0.2
    assert [record.step for record in history.evaluations] == [*range(7, 64, 7)]
    assert [record.epoch for record in history.evaluations] == [*range(9)]
    assert repr(history).startswith("History(steps=63, loss=0.0")


def test_epochs_differ_in_their_order_from_call_to_call() -> None:
    once, twice = StandIn(), StandIn()
    run(once, epochs=2)
    run(twice, epochs=1)
    run(twice, epochs=1)
    assert same_states(once, twice)
    first, second = ([batch["x"] for batch in once.batches[part : part + 7]] for part in (0, 7))
    assert not np.array_equal(first, second)
    rows = [sorted(map(tuple, np.concatenate(part))) for part in (first, second)]
    assert len(set(rows[0])) == len(set(rows[1])) == 56


def test_steps_count_across_epochs_and_end_within_one() -> None:
    trainer = StandIn()
    looks: list[int] = []
    history = run(
        trainer,
        steps=17,
        every=5,
        eval=examples(),
        callbacks=[lambda event: event.kind == "evaluation" and looks.append(event.step)],
    )
    assert trainer.steps == len(history.steps) == 17
    assert looks == [5, 10, 15, 17]


@pytest.mark.parametrize(
    ("every", "broken"), [(None, 4), (None, 7), (None, 14), (1, 3), (4, 4), (4, 13), (7, 7)]
)
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(
    tmp_path: Path, every: int | None, broken: int
) -> None:
    options: dict[str, Any] = {"every": every, "eval": examples(16, 1)}
    whole, first, second = StandIn(2), StandIn(2), StandIn(2)
    wanted = run(whole, steps=20, **options)
    files = {"save": tmp_path / "a.safetensors", "log": tmp_path / "a.jsonl"}
    run(first, steps=broken, **options, **files)
    history = run(second, steps=20, **options, **files, resume=True)
    assert same_states(whole, second)
    for one, other in zip(whole.batches[broken:], second.batches, strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])
    assert history.losses == wanted.losses
    assert [item.step for item in history.steps] == [*range(1, 21)]


def test_a_run_over_an_iterable_is_resumed_at_its_batch(tmp_path: Path) -> None:
    source = [examples(8, number) for number in range(5)]
    whole, first, second = StandIn(), StandIn(), StandIn()
    run(whole, source, epochs=2)
    run(first, source, steps=7, save=tmp_path / "a.safetensors")
    run(second, source, epochs=2, save=tmp_path / "a.safetensors", resume=True)
    assert len(second.batches) == 3
    assert same_states(whole, second)


def test_a_run_that_is_complete_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    said: list[str] = []
    run(StandIn(), epochs=2, save=path)
    before = path.read_bytes()
    again = StandIn()
    run(again, epochs=2, save=path, resume=True, say=said.append)
    assert again.steps == 14
    assert not again.batches
    assert path.read_bytes() == before
    assert said == ["resumed at step 14", "nothing is left to do behind step 14"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "is of a run with seed 0, not 1"),
        ({"source": examples(61)}, "with examples = 60, and here it is 61"),
    ],
)
def test_another_run_is_not_resumed(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "a.safetensors"
    run(StandIn(), steps=3, save=path)
    with pytest.raises(MgnError, match=message):
        run(StandIn(change.get("seed", 0)), change.get("source"), save=path, resume=True)


def test_another_configuration_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    said: list[str] = []
    run(StandIn(), steps=3, save=path)
    run(StandIn(lr=0.01), steps=4, save=path, resume=True, say=said.append)
    assert "had optimizer = momentum(lr=0.05); it goes on with momentum(lr=0.01)" in said[0]


def test_it_ends_when_evaluations_get_no_better(tmp_path: Path) -> None:
    trainer = StandIn(lr=1e-6)
    trainer.params["w"] = np.array([1, -2, 0.5], np.float32)
    log = tmp_path / "a.jsonl"
    options: dict[str, Any] = {"eval": examples(), "patience": 3, "every": 2}
    history = run(trainer, steps=1000, log=log, **options)
    assert trainer.steps == 8
    assert history.stopped == "no better evaluation among the last 3"
    assert read_log(log).losses == history.losses


def test_the_best_evaluation_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    trainer = StandIn(lr=1e-6)
    options: dict[str, Any] = {"eval": examples(), "every": 2, "save": path, "keep_best": True}

    def disturb(event: Event) -> None:
        if event.step == 6 and event.kind == "step":
            trainer.params["w"] = np.array([1, -2, 0.5], np.float32)
        elif event.step == 7 and event.kind == "step":
            trainer.params["w"] = np.zeros(3, np.float32)

    run(trainer, steps=12, callbacks=[disturb], **options)
    assert read_checkpoint(path).header.step == 12
    best = read_checkpoint(tmp_path / "a.best.safetensors")
    assert best.header.step == 6
    np.testing.assert_array_equal(best.arrays["w"], np.array([1, -2, 0.5], np.float32))
    with pytest.raises(MgnError, match=r"a\.best\.safetensors' is there and not of this run"):
        path.rename(tmp_path / "b.safetensors")
        run(StandIn(), **options)
    (tmp_path / "b.safetensors").rename(path)
    run(StandIn(), **options, overwrite=True)
    assert read_checkpoint(tmp_path / "a.best.safetensors").header.run != best.header.run


@pytest.mark.parametrize("callbacks", [3, [3], len])
def test_what_is_no_callback_is_an_error_before_the_first_step(callbacks: Any) -> None:
    trainer = StandIn()
    with pytest.raises(MgnError, match=r"callbacks? (takes a list of functions|is a function)"):
        run(trainer, callbacks=callbacks)
    assert trainer.steps == 0


def test_patience_without_evaluations_is_an_error() -> None:
    with pytest.raises(MgnError, match="patience counts evaluations, and there is no eval data"):
        run(StandIn(), patience=3)


def test_patience_counts_across_a_break(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    options: dict[str, Any] = {"eval": examples(), "patience": 3, "every": 2, "save": path}
    best = np.array([1, -2, 0.5], np.float32)
    first, second = StandIn(lr=1e-6), StandIn(lr=1e-6)
    first.params["w"] = best
    run(first, steps=4, **options)
    assert run(second, steps=1000, resume=True, **options).stopped is not None
    assert second.steps == 8
    ended, again = path.read_bytes(), StandIn(lr=1e-6)
    history = run(again, steps=1000, resume=True, **options)
    assert history.stopped == "no better evaluation among the last 3"
    assert (again.steps, again.batches, path.read_bytes()) == (8, [], ended)
    run(again, steps=1000, resume=True, **{**options, "patience": 5})
    assert again.steps == 12


def test_the_best_of_another_metric_is_not_the_best_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    options: dict[str, Any] = {"eval": examples(), "save": path, "keep_best": True}
    run(StandIn(), epochs=8, **options)
    assert read_checkpoint(path).header.criterion == "loss of evaluations"
    least = read_checkpoint(path).header.best
    assert least is not None
    history = run(StandIn(), epochs=9, metric="mae(y, prediction)", resume=True, **options)
    header = read_checkpoint(tmp_path / "a.best.safetensors").header
    assert (header.step, header.criterion) == (63, "mae(y, prediction)")
    (error,) = history.metrics["mae"]
    assert header.best == error
    assert error > least > 0


def test_callbacks_see_what_happens_and_end_the_run(tmp_path: Path) -> None:
    events: list[Event] = []

    def watch(event: Event) -> None:
        events.append(event)
        if event.step == 10:
            raise StopTraining("ten are enough")

    trainer = StandIn()
    save = tmp_path / "a.safetensors"
    history = run(trainer, epochs=5, eval=examples(), save=save, callbacks=[watch])
    assert trainer.steps == 10
    assert history.stopped == "ten are enough"
    kinds = [event.kind for event in events if event.step == 7]
    assert kinds == ["step", "evaluation", "checkpoint"]
    assert events[0].trainer is trainer
    assert save.exists()


@pytest.mark.parametrize("every", [None, 5])
def test_the_log_of_a_run_that_left_no_checkpoint_begins_anew(
    tmp_path: Path, every: int | None
) -> None:
    """A kill, or a full disk, can come before the first checkpoint: the same command goes on."""
    log = tmp_path / "a.jsonl"
    options: dict[str, Any] = {"save": tmp_path / "a.safetensors", "log": log, "every": every}

    def fail(event: Event) -> None:
        raise OSError(f"step {event.step}")

    for step in (1, every or 7):
        with pytest.raises(OSError, match=f"step {step}"):
            run(
                StandIn(),
                epochs=2,
                callbacks=[lambda e, s=step: e.step == s and fail(e)],
                **options,
                resume=True,
            )
        assert len(read_log(log).steps) == step
    run(StandIn(), epochs=2, **options, resume=True)
    assert len(read_log(log).steps) == 14
    held = log.read_bytes()
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(MgnError, match="is the log of another run"):
        run(StandIn(), epochs=2, **options, resume=True)
    assert log.read_bytes() == held


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
@pytest.mark.parametrize("option", ["save", "log", "curves"])
@pytest.mark.parametrize("how", [{}, {"overwrite": True}, {"resume": True}])
def test_a_pipe_in_the_way_is_refused_and_not_waited_for(
    tmp_path: Path, option: str, how: dict[str, bool]
) -> None:
    if option == "curves":
        pytest.importorskip("matplotlib")
    names = {"save": "a.safetensors", "log": "a.jsonl", "curves": "a.png"}
    paths = {name: tmp_path / names[name] for name in {option, "save"}}
    os.mkfifo(paths[option])
    with pytest.raises(MgnError, match=rf"{names[option]}'? is (there|no file)"):
        run(StandIn(), steps=1, **paths, **how)


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": 3}',
        b'{"step": 3, "epoch": 0, "seconds": 0.1}',
        b'{"step": 3, "epoch": 0, "evaluation": 5}',
        b'{"step": Infinity, "epoch": 0, "evaluation": {}}',
        b'{"step": "many", "epoch": 0, "seconds": 0.1, "results": {"loss": 1.0}}',
        b'["step"]',
        b"\0\0\0\xff",
    ],
)
def test_a_damaged_line_ends_a_log(line: bytes, tmp_path: Path) -> None:
    log, save = tmp_path / "a.jsonl", tmp_path / "a.safetensors"
    run(StandIn(), epochs=1, log=log, save=save)
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join([*lines[:3], line, *lines[4:]]))
    assert [record.step for record in read_log(log).steps] == [1, 2, 4, 5, 6, 7]
    history = run(StandIn(), epochs=2, log=log, save=save, resume=True)
    assert [record.step for record in history.steps] == [1, 2, *range(8, 15)]
    assert read_log(log).losses == history.losses


def test_the_log_has_each_step_and_survives_a_cut(tmp_path: Path) -> None:
    log, save = tmp_path / "a.jsonl", tmp_path / "a.safetensors"
    options: dict[str, Any] = {"log": log, "save": save, "eval": examples(), "norms": True}
    run(StandIn(), epochs=1, **options)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["mgn"] == "training log"
    assert lines[0]["configuration"] == {"optimizer": "momentum(lr=0.05)"}
    assert [line["step"] for line in lines[1:]] == [*range(1, 8), 7]
    assert set(lines[1]) == {"step", "epoch", "seconds", "results", "norms"}
    assert lines[-1]["evaluation"].keys() == {"loss"}
    with log.open("a") as file:
        file.write('{"step": 8, "epoch": 1, "seconds": 0.1, "results": {}}\n{"step": 9, "ep')
    again = StandIn()
    history = run(again, epochs=2, resume=True, **options)
    assert [item.step for item in history.steps] == [*range(1, 15)]
    assert history.steps[6].norms["w"] > 0
    assert read_log(log).losses == history.losses


def test_what_is_not_finite_is_text_in_the_log(tmp_path: Path) -> None:
    data = examples(8)
    data["y"][0] = np.nan
    said: list[str] = []
    run(StandIn(), data, log=tmp_path / "a.jsonl", epochs=3, say=said.append)
    assert [line for line in said if "check_finite" in line] == [
        "step 1: loss is nan; check_finite names the operation that made it"
    ]
    assert '"loss": "nan"' in (tmp_path / "a.jsonl").read_text()
    assert np.isnan(read_log(tmp_path / "a.jsonl").losses).all()


def test_a_state_that_is_not_finite_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    save, said = tmp_path / "a.safetensors", list[str]()
    run(StandIn(), save=save, keep_best=True)
    lost = examples()
    lost["y"][0] = np.nan
    options: dict[str, Any] = {"save": save, "epochs": 2, "say": said.append, "keep_best": True}
    run(StandIn(), lost, resume=True, **options)
    assert said[-1] == (
        "step 14: not saved, since 'w' is not finite in 3 of 3 values: that of step 7 stays; "
        "save_not_finite saves it all the same"
    )
    for path in (save, tmp_path / "a.best.safetensors"):
        assert read_checkpoint(path).header.step == 7
    run(StandIn(), lost, resume=True, save_not_finite=True, **options)
    assert not np.isfinite(read_checkpoint(save).arrays["w"]).any()
    run(StandIn(), lost, epochs=1, save=tmp_path / "b.safetensors", say=said.append)
    assert "3 of 3 values: there is no checkpoint; save_not_finite" in said[-1]
    assert not (tmp_path / "b.safetensors").exists()


def test_nobody_elses_log_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text("notes\n")
    for overwrite in (False, True):
        with pytest.raises(MgnError, match="is no training log: it is not replaced"):
            run(StandIn(), log=log, overwrite=overwrite)
    assert log.read_text() == "notes\n"
    log.unlink()
    run(StandIn(), log=log)
    with pytest.raises(MgnError, match="the log of another run"):
        run(StandIn(), log=log)
    run(StandIn(), log=log, overwrite=True)
    assert len(read_log(log).steps) == 7
    save = tmp_path / "a.safetensors"
    run(StandIn(), save=save)
    with pytest.raises(MgnError, match="not the log of the run that is resumed"):
        run(StandIn(), log=log, save=save, resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs takes a whole number of at least 1, not 0"),
        ({"steps": 2.5}, r"steps takes a whole number of at least 1, not 2\.5"),
        ({"keep": 0, "save": "a.safetensors"}, "keep takes a whole number of at least 1, not 0"),
        ({"keep": "2"}, "keep takes a whole number of at least 1, not '2'"),
        ({"save": 3}, "fit: 'save' takes a path, not int"),
        (
            {"metric": 3},
            r"fit: 'metric' takes a call such as 'accuracy\(logits, labels\)', not int",
        ),
        ({"metric": "mae(prediction, y)"}, "there is none"),
        ({"metric": "mae(a, y)", "eval": examples()}, "the graph has no 'a'"),
        ({"eval": {"x": examples()["x"]}}, "the eval data: there is no array 'y'"),
        ({"source": examples(7)}, "7 examples, and a batch has 8"),
        ({"eval": examples(7)}, "the eval data: 7 examples, and a batch has 8; .* a metric is not"),
        ({"source": []}, "epoch 1 has no whole batch"),
        ({"keep_best": True}, "none are saved"),
        ({"resume": True}, "say where the checkpoint is"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    trainer = StandIn()
    with pytest.raises(MgnError, match=message):
        run(trainer, options.pop("source", None), **options)
    assert trainer.steps == 0


def test_an_evaluation_that_fails_leaves_a_checkpoint(tmp_path: Path) -> None:
    trainer, save = StandIn(), tmp_path / "a.safetensors"
    with pytest.raises(MgnError, match=r"accuracy.* of shapes \[8\], \[8\]: labels are classes"):
        metric = "accuracy(prediction, y)"
        run(trainer, eval=examples(8), metric=metric, save=save, keep_best=True)
    assert read_checkpoint(save).header.step == trainer.steps == 7
    assert not (tmp_path / "a.best.safetensors").exists()


def test_a_name_that_no_checkpoint_can_have_is_refused_at_once(tmp_path: Path) -> None:
    class Odd(StandIn):
        def state(self) -> dict[str, np.ndarray]:
            return super().state() | {"__metadata__": np.zeros(1)}

    trainer = Odd()
    with pytest.raises(MgnError, match="'__metadata__' is no name"):
        run(trainer, save=tmp_path / "a.safetensors")
    assert trainer.steps == 0


def test_a_bar_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    fit(StandIn(), examples(), say=said.append)
    assert said == [
        "the data: 4 of 60 examples of each epoch make no whole batch of 8: left out",
        said[1],
    ]
    assert said[1].startswith("epoch 1, step 7: loss ")
    pytest.importorskip("rich")
    import io

    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(progress.sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    fit(StandIn(), examples(), epochs=2, say=said.append)
    assert len(said) == 2
    assert "14/14" in stream.getvalue()
    assert "steps/s" in stream.getvalue()
    assert "epoch 2, step 14: loss" in stream.getvalue()


def test_curves_are_drawn_and_nobody_elses_picture_is_replaced(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    run(StandIn(), curves=path, eval=examples(), metric="mae(prediction, y)")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(MgnError, match="curves of another run"):
        run(StandIn(), curves=path)
    run(StandIn(), curves=path, overwrite=True)
    path.write_bytes(b"\x89PNG of somebody")
    with pytest.raises(MgnError, match="no picture of curves: it is not replaced"):
        run(StandIn(), curves=path, overwrite=True)


@pytest.mark.parametrize("extra", ["curves", "progress", "tensorboard"])
def test_what_an_extra_brings_is_named(extra: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in known["optional-dependencies"]
    with pytest.raises(MgnError, match=rf"a test needs nowhere: .* 'mgn-compiler\[{extra}\]'"):
        need("nowhere.part", extra, "a test")


def test_event_files_hold_losses_and_evaluations(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = run(StandIn(), tensorboard=tmp_path / "runs", eval=examples(), norms=True)
    found = EventAccumulator(str(tmp_path / "runs"))
    found.Reload()
    losses = [event.value for event in found.Scalars("train/loss")]
    assert losses == pytest.approx(history.losses)
    assert [event.step for event in found.Scalars("evaluation/loss")] == [7]
    assert len(found.Scalars("norm/w")) == 7


def test_event_files_that_cannot_be_leave_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the run that follows would find the log of another one."""

    class Writers:
        """What TensorBoard does where a folder cannot be."""

        @staticmethod
        def EventFileWriter(folder: str) -> None:
            raise NotADirectoryError(20, "Not a directory", folder)

    monkeypatch.setattr(curves, "need", lambda *_: Writers)
    log = tmp_path / "a.jsonl"
    with pytest.raises(MgnError, match="cannot write event files into 'x': not a directory"):
        run(StandIn(), tensorboard="x", log=log)
    assert not log.exists()
