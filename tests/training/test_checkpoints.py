"""Checkpoints: whole after any kill, refused where damaged, and nobody else's files."""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from mgn.diagnostics import MgnError
from mgn.runtime.host_arrays import DTYPES
from mgn.training.run.checkpoints import (
    KEY,
    Checkpoint,
    Checkpoints,
    Header,
    Position,
    begin_run,
    check_state,
    digest_of,
    encode,
    new_run,
    read_checkpoint,
)
from mgn.training.run.fit import fit
from mgn.training.run.trainee import Event, Interruption
from tests.conftest import ROOT
from tests.training.stand_in import StandIn, examples

RUN = "0123456789abcdef"


def checkpoint(step: int = 7, run: str = RUN) -> Checkpoint:
    """A checkpoint with arrays of all types."""
    arrays = {name: np.arange(6).reshape(2, 3).astype(dtype) for name, dtype in DTYPES.items()} | {
        "scalar": np.array(2.5, np.float32),
        "none": np.zeros((0, 3), np.float16),
    }
    position = Position(3, 2, 1, 4)
    return Checkpoint(
        Header(run, step, 9, position, {"batch": 8}, {"loss": "loss"}, 0.25, 1), arrays
    )


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "a.safetensors", RUN).write(checkpoint())
    found = read_checkpoint(tmp_path / "a.safetensors")
    assert found.header == checkpoint().header
    assert found.arrays.keys() == checkpoint().arrays.keys()
    for name, array in checkpoint().arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    assert [item.name for item in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_kill_at_any_moment_leaves_the_last_whole_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.training.killed_runs", str(tmp_path), "6"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stderr


def test_a_file_reaches_the_disk_before_its_name_and_its_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace, sync = Path.replace, os.fsync

    def noted_replace(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    def noted_sync(opened: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(opened).st_mode) else "file")
        sync(opened)

    monkeypatch.setattr(Path, "replace", noted_replace)
    monkeypatch.setattr(os, "fsync", noted_sync)
    Checkpoints(tmp_path / "a.safetensors", RUN).write(checkpoint())
    assert events == ["file", "rename", "folder"]
    Checkpoints(tmp_path / "b.safetensors", RUN, keep=2).write(checkpoint())
    assert events[3:] == ["file", "rename", "folder", "rename", "folder"]


def test_a_full_disk_leaves_the_last_checkpoint_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Checkpoints(tmp_path / "a.safetensors", RUN)
    files.write(checkpoint(1))

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(MgnError, match=r"cannot write .*a\.safetensors': no space left"):
        files.write(checkpoint(2))
    assert names(tmp_path) == ["a.safetensors"]
    assert read_checkpoint(tmp_path / "a.safetensors").header.step == 1


def test_any_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    whole = checkpoint()
    del whole.arrays["bool"]  # any byte but 0 is true
    data = encode(whole)
    random = np.random.default_rng(0)
    damaged = [data[:cut] for cut in random.integers(0, len(data), 20)]
    for place in random.integers(0, len(data), 40):
        damaged.append(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
    for item in damaged:
        path.write_bytes(item)
        with pytest.raises(MgnError, match=r"a\.safetensors"):
            read_checkpoint(path)


def test_a_header_that_says_more_than_is_known_is_of_another_version(tmp_path: Path) -> None:
    fields = asdict(checkpoint().header) | {"version": 1}
    for change in ({"more": 1}, {"position": {"epoch": 0, "row": 3}}, {"position": None}):
        held = {**fields, **change}
        path = tmp_path / "a.safetensors"
        text = json.dumps(held | {"digest": digest_of(held, {})})
        path.write_bytes(save({}, {KEY: text}))
        with pytest.raises(MgnError, match="is a checkpoint of another version of mgn"):
            read_checkpoint(path)


def test_what_is_no_checkpoint_says_so(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"w": np.zeros(3, np.float32)}, path)
    with pytest.raises(MgnError, match=r"is no checkpoint: .*load_params"):
        read_checkpoint(path)
    with pytest.raises(MgnError, match="no such file"):
        read_checkpoint(tmp_path / "missing.safetensors")
    with pytest.raises(MgnError, match=r"ends in \.safetensors, not"):
        Checkpoints(tmp_path / "a.bin", RUN)
    with pytest.raises(MgnError, match="no such file or directory"):
        Checkpoints(tmp_path / "none" / "a.safetensors", RUN)


def names(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_the_last_few_are_kept_and_all_others_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    others = ["a.step-1.safetensors", "a.step-x.safetensors", "b.step-2.safetensors"]
    for name in others:
        save_file({"w": np.zeros(3, np.float32)}, tmp_path / name)
    other = new_run()
    Checkpoints(tmp_path / "a.step-4.safetensors", other).write(checkpoint(4, other))
    files = Checkpoints(path, RUN, keep=2)
    for step in (2, 10, 11):
        files.write(checkpoint(step))
    kept = ["a.safetensors", "a.step-10.safetensors", "a.step-11.safetensors"]
    assert names(tmp_path) == sorted([*others, "a.step-4.safetensors", *kept])
    assert read_checkpoint(path).header.step == 11
    with pytest.raises(MgnError, match=r"a\.step-4\.safetensors' is there and not of this run"):
        files.write(checkpoint(4))
    assert read_checkpoint(path).header.step == 4
    assert read_checkpoint(tmp_path / "a.step-4.safetensors").header.run == other


def test_a_run_begins_in_nobody_elses_place(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"w": np.zeros(3, np.float32)}, path)
    before = path.read_bytes()
    for overwrite in (False, True):
        with pytest.raises(MgnError, match="is there and is no checkpoint: it is not replaced"):
            begin_run(path, resume=False, overwrite=overwrite, keep=1)
    assert path.read_bytes() == before
    path.unlink()
    files, found = begin_run(path, resume=True, overwrite=False, keep=2)
    assert files is not None and found is None
    for step in (1, 2):
        files.write(checkpoint(step, files.run))
    with pytest.raises(MgnError, match="checkpoint of another run; resume goes on with it"):
        begin_run(path, resume=False, overwrite=False, keep=1)
    _, found = begin_run(path, resume=True, overwrite=False, keep=1)
    assert found is not None and found.header.run == files.run
    anew, found = begin_run(path, resume=False, overwrite=True, keep=2)
    assert anew is not None and found is None and anew.run != files.run
    anew.write(checkpoint(1, anew.run))
    assert names(tmp_path) == ["a.safetensors", "a.step-1.safetensors"]
    with pytest.raises(MgnError, match="say where the checkpoint is"):
        begin_run(None, resume=True, overwrite=False, keep=1)


def test_what_a_killed_process_was_writing_goes_with_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    Checkpoints(path, RUN).write(checkpoint())
    own, other = tmp_path / f".mgn-{RUN[:8]}00000000.tmp", tmp_path / ".mgn-ffffffff00000000.tmp"
    own.touch()
    other.touch()
    begin_run(path, resume=True, overwrite=False, keep=1)
    assert not own.exists()
    assert other.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scalar": None}, r"'scalar' \(f32\[\]\) is missing"),
        ({"more": np.zeros(2, np.int8)}, "there is no 'more' here"),
        ({"f32": np.zeros((3, 2), np.float32)}, r"'f32' is f32\[3, 2\], not f32\[2, 3\]"),
        ({"i32": np.zeros((2, 3), np.int64)}, r"'i32' is i64\[2, 3\], not i32\[2, 3\]"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    arrays = checkpoint().arrays
    wanted = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    check_state("a", arrays, wanted)
    found = {name: item for name, item in {**arrays, **change}.items() if item is not None}
    with pytest.raises(MgnError, match=message):
        check_state("a", found, wanted)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    fields = json.dumps({"version": 99, "run": RUN})
    save_file({"w": np.zeros(3, np.float32)}, path, {"mgn.checkpoint": fields})
    with pytest.raises(MgnError, match="another version"):
        read_checkpoint(path)


@pytest.mark.parametrize("every", [None, 3])
@pytest.mark.parametrize("stop", [1, 6, 7, 9, 14])
def test_an_interrupted_run_is_saved_and_evaluated_where_a_whole_one_is(
    tmp_path: Path, stop: int, every: int | None
) -> None:
    """An evaluation may take longer than who interrupts a run waits, and counts for patience."""
    looking: dict[str, Any] = {"epochs": 2, "every": every, "eval": examples(20, 1)}
    whole = fit(StandIn(), examples(), progress=False, **looking, save=tmp_path / "b.safetensors")
    files: dict[str, Any] = {"save": tmp_path / "a.safetensors", "log": tmp_path / "a.jsonl"}

    def ends(event: Event) -> None:
        if event.step == stop and event.kind == "step":
            raise Interruption("now")

    begun = fit(StandIn(), examples(), progress=False, **looking, **files, callbacks=[ends])
    assert begun.stopped == "now"
    assert all(record.step < stop for record in begun.evaluations)
    assert read_checkpoint(files["save"]).header.step == stop
    ended = fit(StandIn(), examples(), progress=False, **looking, **files, resume=True)
    assert ended.losses == whole.losses
    assert ended.evaluations == whole.evaluations
    left, right = (read_checkpoint(tmp_path / f"{name}.safetensors").header for name in "ab")
    assert left == replace(right, run=left.run)


@pytest.mark.parametrize("steps", [14, 12])
def test_an_evaluation_is_interrupted_too(tmp_path: Path, steps: int) -> None:
    """It may take longer than who interrupts a run waits, behind the last step as well."""
    looking: dict[str, Any] = {"steps": steps, "every": 5, "eval": examples(20, 1)}
    whole = fit(StandIn(), examples(), progress=False, **looking, save=tmp_path / "b.safetensors")
    files: dict[str, Any] = {"save": tmp_path / "a.safetensors", "log": tmp_path / "a.jsonl"}
    trainer, seen = StandIn(), list[int]()

    def interrupted() -> bool:
        """Behind the second of three batches of the last evaluation."""
        seen.append(trainer.steps)
        return seen.count(steps) == 3

    begun = fit(trainer, examples(), progress=False, **looking, **files, interrupted=interrupted)
    assert begun.stopped == "interrupted"
    assert [record.step for record in begun.evaluations] == [5, 10]
    header = read_checkpoint(files["save"]).header
    assert (header.step, header.evaluated) == (steps, False)
    ended = fit(StandIn(), examples(), progress=False, **looking, **files, resume=True)
    assert ended.evaluations == whole.evaluations
    left, right = (read_checkpoint(tmp_path / f"{name}.safetensors").header for name in "ab")
    assert left == replace(right, run=left.run)


def test_a_run_that_is_resumed_without_a_log_knows_the_last_losses(tmp_path: Path) -> None:
    """The line of a look has their mean, and the best checkpoint without evaluations the last."""

    def lines(name: str, *stops: int) -> list[str]:
        said: list[str] = []
        for stop in (*stops, None):
            trainer = StandIn(lr=-0.05)  # so that it gets worse
            options: dict[str, Any] = {"every": 3, "keep_best": True, "progress": False}
            options |= {"save": tmp_path / f"{name}.safetensors", "resume": bool(said)}
            ends = (lambda stop=stop, held=trainer: held.steps == stop) if stop else None
            fit(trainer, examples(), epochs=2, **options, interrupted=ends, say=said.append)
        return [line for line in said if line.startswith("epoch")]

    assert lines("a", 6, 8) == lines("b")
    left, right = (read_checkpoint(tmp_path / f"{name}.best.safetensors").header for name in "ab")
    assert left.step == right.step == 3


def test_an_evaluation_that_failed_is_done_by_the_run_that_is_resumed(tmp_path: Path) -> None:
    files: dict[str, Any] = {"save": tmp_path / "a.safetensors", "progress": False}
    once = iter([{name: array[:8] for name, array in examples().items()}])
    with pytest.raises(MgnError, match="an iterator gives its batches once"):
        fit(StandIn(), examples(), epochs=2, eval=once, **files)
    ended = fit(StandIn(), examples(), epochs=3, eval=examples(), resume=True, **files)
    assert [record.step for record in ended.evaluations] == [14, 21]


def failing_data() -> Iterator[dict[str, np.ndarray]]:
    """Four batches, behind which a disk is gone."""
    arrays = examples()
    for first in range(0, 32, 8):
        yield {name: array[first : first + 8] for name, array in arrays.items()}
    raise OSError("a disk is gone")


def failing_callback(event: Event) -> None:
    """Somebody's error at the fourth step."""
    if event.step == 4:
        raise OSError("a disk is gone")


def test_an_error_of_the_last_evaluation_leaves_the_steps_before_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(OSError, match="a disk is gone"):
        fit(StandIn(), examples(), steps=5, eval=failing_data(), save=path, progress=False)
    header = read_checkpoint(path).header
    assert (header.step, header.evaluated) == (5, False)


@pytest.mark.parametrize(
    ("data", "callbacks"), [(failing_data(), []), (examples(), [failing_callback])]
)
def test_steps_before_an_error_of_somebody_else_are_saved(
    tmp_path: Path, data: Any, callbacks: list[Any]
) -> None:
    path, said = tmp_path / "a.safetensors", list[str]()
    trainer = StandIn()
    with pytest.raises(OSError, match="a disk is gone"):
        fit(trainer, data, save=path, callbacks=callbacks, progress=False, say=said.append)
    assert said[-1] == "saved at step 4, before this error:"
    header = read_checkpoint(path).header
    assert (header.step, header.position.batch, header.evaluated) == (4, 4, False)
    np.testing.assert_array_equal(read_checkpoint(path).arrays["w"], trainer.params["w"])


def test_a_step_that_failed_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    class Fails(StandIn):
        """A device that is lost at the tenth step, with all states."""

        def step(self, batch: Any) -> Any:
            if self.steps == 9:
                raise MgnError("the device is lost")
            return super().step(batch)

        def state(self) -> Any:
            if self.steps == 9:
                raise MgnError("the states are lost")
            return super().state()

    path = tmp_path / "a.safetensors"
    with pytest.raises(MgnError, match="the device is lost"):
        fit(Fails(), examples(), epochs=2, save=path, progress=False)
    assert read_checkpoint(path).header.step == 7


def test_batches_whose_step_could_not_be_completed_leave_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    """No run can go on from all batches of a step."""

    class Fails(StandIn):
        """No memory for the update of the third step, whose gradients are there."""

        def step(self, batch: Any) -> Any:
            if (self.steps, self.pending) == (2, 1):
                self.pending = 2
                raise MgnError("no memory is left")
            return super().step(batch)

    path = tmp_path / "a.safetensors"
    with pytest.raises(MgnError, match="no memory is left"):
        fit(Fails(accumulate=2), examples(), epochs=2, every=1, save=path, progress=False)
    header = read_checkpoint(path).header
    assert (header.step, header.position.batch) == (2, 4)
