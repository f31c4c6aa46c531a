"""Measurements of a device: rounds until the best speeds were met twice, kept, and taken again."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgn.runtime.devices import ComputeDevice, choose
from mgn.runtime.measurement import figures, speeds
from mgn.runtime.measurement.caches import system_caches
from mgn.runtime.measurement.figures import describe
from mgn.runtime.measurement.speeds import ROUNDS, Speeds

QUIET = {"f32": 4e11, "f64": 2e11, "copy": 2e10, "launches": 1e5, "copy 1048576": 6e10}


class Machine:
    """Stands for the measuring kernels: what each round finds, as shares of a quiet machine's."""

    def __init__(self, shares: Iterator[float]) -> None:
        self.shares, self.rounds = shares, 0

    def round(self) -> dict[str, float]:
        self.rounds += 1
        share = next(self.shares)
        return {name: speed * share for name, speed in QUIET.items()}


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ComputeDevice:
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(speeds.time, "sleep", lambda seconds: None)
    return choose("cpu")


def machine(monkeypatch: pytest.MonkeyPatch, *shares: float) -> Machine:
    found = Machine(iter(shares))
    monkeypatch.setattr(speeds, "_Bench", lambda *_: found)
    return found


def make_older(folder: Path) -> None:
    (stored,) = (folder / "mgn-cache" / "devices").glob("*.json")
    past = stored.stat().st_mtime - 2 * figures.SETTLING_SECONDS
    os.utime(stored, (past, past))


def test_a_quiet_machine_is_measured_twice_and_a_disturbed_one_until_its_best_is_met_again(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = machine(monkeypatch, 1.0, 0.95)
    assert describe(device)["bandwidth"] == QUIET["copy"]
    assert quiet.rounds == 2
    disturbed = machine(monkeypatch, 0.4, 0.7, 1.0, 0.5, 0.92, 1.0)
    assert describe(device, again=True)["rates"]["f32"] == QUIET["f32"]
    assert disturbed.rounds == 5


def test_what_was_met_twice_is_kept_and_measured_again_only_where_that_is_asked(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, 0.5, 0.5)
    loaded = describe(device)
    make_older(tmp_path)
    later = machine(monkeypatch, 1.0, 1.0)
    assert describe(device) == loaded
    assert later.rounds == 0
    assert describe(device, again=True)["launch_cost"] == loaded["launch_cost"] / 2
    assert describe(device)["launch_cost"] == loaded["launch_cost"] / 2


def test_of_processes_that_measure_at_the_same_time_the_first_has_the_word(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round of the one lasts as long as all that the other does."""
    others: list[dict[str, Any]] = []

    class Later(Machine):
        def round(self) -> dict[str, float]:
            if not others:
                machine(monkeypatch, 0.7, 0.7)
                others.append(describe(device))
            return super().round()

    later = Later(iter((1.0, 1.0)))
    monkeypatch.setattr(speeds, "_Bench", lambda *_: later)
    assert describe(device) == others[0] == describe(device)
    assert others[0]["bandwidth"] == 0.7 * QUIET["copy"] and later.rounds == 2


def test_speeds_in_doubt_are_used_for_a_while_then_measured_on(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    falling = [0.8**number for number in range(ROUNDS)]
    first = machine(monkeypatch, *falling)
    figures_then = describe(device)
    assert first.rounds == ROUNDS
    later = machine(monkeypatch, 0.97)
    assert describe(device) == figures_then
    assert later.rounds == 0
    make_older(tmp_path)
    assert describe(device) == figures_then
    assert later.rounds == 1
    make_older(tmp_path)
    assert describe(device) == figures_then
    assert later.rounds == 1


def test_a_machine_that_never_agrees_is_not_measured_for_ever(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worse = machine(monkeypatch, *(0.8**number for number in range(10 * ROUNDS)))
    for _ in range(8):
        describe(device)
        make_older(tmp_path)
    assert worse.rounds == figures.MOST_ROUNDS


class OtherCores:
    """Stands for a device's handle in a process that may use another number of cores."""

    def __init__(self, handle: Any) -> None:
        self.handle, self.max_compute_units = handle, handle.max_compute_units + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handle, name)


def test_speeds_are_kept_for_each_number_of_cores(
    device: ComputeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, 0.5, 0.5)
    describe(device)
    machine(monkeypatch, 1.0, 1.0)
    assert describe(replace(device, handle=OtherCores(device.handle)))["rates"]["f32"] == 4e11
    assert describe(device)["rates"]["f32"] == 2e11


@pytest.mark.parametrize(
    "damage", [{"best": 3}, {"second": {}}, {"rounds": "2"}, {"best": {"f32": -1.0}}, {"best": {}}]
)
def test_a_damaged_file_is_measured_anew(
    damage: dict[str, Any], device: ComputeDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, 0.5, 0.5)
    describe(device)
    (stored,) = (tmp_path / "mgn-cache" / "devices").glob("*.json")
    stored.write_text(json.dumps(json.loads(stored.read_text()) | damage))
    machine(monkeypatch, 1.0, 1.0)
    assert describe(device)["bandwidth"] == QUIET["copy"]


def test_a_cache_is_as_large_as_the_buffers_whose_copies_are_fast() -> None:
    found = Speeds()
    quick = {f"copy {1 << power}": 6e10 for power in range(19, 23)}
    slow = {f"copy {1 << power}": 2.1e10 for power in (23, 24)}
    found.add(QUIET | quick | slow)
    assert found.figures("cpu")["cache"] == 2 << 22
    assert found.figures("cpu")["cache_gain"] == pytest.approx(3.0)
    assert found.figures("cpu")["function_share"] == 1.0
    found.add({"tanh": QUIET["f32"] / 2 / 19.0})
    assert found.figures("cpu")["function_share"] == pytest.approx(0.25)
    found = Speeds()
    found.add({"f32": 5e13, "copy": 4e12, "launches": 2e5, "matrix bf16": 6e14})
    gpu = found.figures("gpu")
    assert (gpu["cache"], gpu["cache_gain"]) == (0, 1.0)
    assert gpu["matrix_rates"] == {"bf16": 6e14}


def test_caches_are_read_from_the_system(tmp_path: Path) -> None:
    for number, content in enumerate(
        [
            ("1", "Data", "48K"),
            ("1", "Instruction", "32K"),
            ("2", "Unified", "2M"),
            ("3", "", "x"),
        ]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), content, strict=True):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert system_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20}
    assert system_caches(tmp_path / "none") == {}
