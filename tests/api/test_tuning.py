"""The search for schedules with a made-up clock and made-up times, its trials, and what is kept."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mgn
from mgn.commands.run import main
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES
from mgn.driver.compilation import compile_graph
from mgn.passes.schedules.choose import schedule_for
from mgn.passes.schedules.space import AXES, Choice, Space
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
from mgn.tuning import trials
from mgn.tuning.search import Candidate, search
from mgn.tuning.store import ScheduleStore
from mgn.tuning.trials import DeviceTrials
from mgn.tuning.tuner import Tuner
from tests.support.lower_fixture import CPU, GPU_ON_CPU, fused_kernel, pieces

DEVICE = "a device/with a driver"


def scheduled(kind: str = "pointwise", size: int = 64, device: Any = CPU) -> FusedKernelOp:
    builds: dict[str, tuple[list[Any], Any]] = {
        "pointwise": ([("f32", (size * 1024,))], lambda e, x: e.neg(x)),
        "reduction": ([("f32", (8, size))], lambda e, x: e.sum(x, axis=[1])),
        "contraction": (
            [("f32", (size, 48)), ("f32", (48, 40))],
            lambda e, x, y: e.matmul(x, y, transpose_a=False, transpose_b=False),
        ),
        "scan": ([("f32", (size, 1000))], lambda e, x: e.running_sum(x, axis=1)),
        "on a matrix unit": (
            [("bf16", (size, 48)), ("bf16", (48, 40))],
            lambda e, x, y: e.matmul(x, y, transpose_a=False, transpose_b=False),
        ),
    }
    types, build = builds[kind]
    (fused,) = pieces(fused_kernel("contraction" if "unit" in kind else kind, types, build), device)
    fused.schedule = schedule_for(fused, device)
    return fused


def chunk_of(schedule: Mapping[str, Any]) -> int:
    """The elements of a work-item of a pointwise kernel."""
    return schedule["block"] * schedule["width"]


class Bench:
    """A clock that only trials move, by a second each, and times that a rule makes up."""

    def __init__(self, rule: Callable[[dict[str, Any]], float | None]) -> None:
        self.rule, self.now = rule, 0.0
        self.tried: list[tuple[FusedKernelOp, ScheduleAttr]] = []

    def clock(self) -> float:
        return self.now

    def trial(self, fused: FusedKernelOp, schedule: ScheduleAttr) -> float | None:
        self.now += 1.0
        self.tried.append((fused, schedule))
        return self.rule(dict(schedule.values))


def test_the_search_finds_the_best_of_two_axes_that_depend_on_each_other() -> None:
    fused = scheduled()
    bench = Bench(lambda s: abs(chunk_of(s) - 2048) + 100.0 * abs(s["width"] - 8) + 1)
    (outcome,) = search([Candidate(fused, 3)], bench.trial, 1000.0, bench.clock)
    assert outcome.won and (outcome.before, outcome.after) == (bench.rule(_values(fused)), 1.0)
    assert outcome.best.fixed == {"chunk": 2048, "lanes": 8}
    assert (outcome.schedule.values["block"], outcome.schedule.values["width"]) == (256, 8)
    *searched, _, _ = [schedule for _, schedule in bench.tried]
    assert len(searched) == len(set(searched))


def _values(fused: FusedKernelOp) -> dict[str, Any]:
    assert fused.schedule is not None
    return dict(fused.schedule.values)


def test_the_search_ends_with_its_time_and_takes_the_heaviest_kernel_first() -> None:
    light, heavy = scheduled(size=64), scheduled(size=128)
    bench = Bench(lambda s: 1.0)
    outcomes = search([Candidate(light, 1), Candidate(heavy, 9)], bench.trial, 6.0, bench.clock)
    assert bench.now == 6.0
    assert [outcome.tried for outcome in outcomes] == [0, 4]
    assert not any(outcome.won for outcome in outcomes)


def test_schedules_that_fail_or_gain_too_little_are_not_taken() -> None:
    fused = scheduled()
    first = _values(fused)
    for slower in (None, 0.98):
        bench = Bench(lambda s, slower=slower: 1.0 if s == first else slower)
        (outcome,) = search([Candidate(fused, 1)], bench.trial, 100.0, bench.clock)
        assert not outcome.won and outcome.schedule == fused.schedule


def test_a_schedule_that_was_only_lucky_is_given_up() -> None:
    fused = scheduled()
    first, seen = _values(fused), set[int]()

    def rule(schedule: dict[str, Any]) -> float:
        if schedule == first or seen:
            return 1.0
        seen.add(chunk_of(schedule))
        return 0.5

    bench = Bench(rule)
    (outcome,) = search([Candidate(fused, 1)], bench.trial, 100.0, bench.clock)
    assert seen and not outcome.won


def test_a_search_goes_on_from_what_an_earlier_one_found() -> None:
    fused = scheduled()
    bench = Bench(lambda s: 0.5 if chunk_of(s) == 1024 else 1.0)
    known = {"chunk": 1024}
    (outcome,) = search([Candidate(fused, 1, known)], bench.trial, 2.5, bench.clock)
    assert outcome.best.fixed == known and chunk_of(outcome.schedule.values) == 1024


def _walked(fused: FusedKernelOp, device: Any) -> list[ScheduleAttr]:
    """The schedules of a walk on which nothing is better than the first."""
    assert fused.schedule is not None
    walk = Space(fused, device).walk(Choice({}, fused.schedule))
    return [choice.schedule for choice in walk]


@pytest.mark.parametrize("form, kind", AXES, ids=str)
def test_every_axis_changes_a_schedule(form: str, kind: Any) -> None:
    device = {"cpu": CPU, "gpu": GPU_ON_CPU}[form]
    known = {"gather": "pointwise"}.get(str(kind), str(kind))
    fused = scheduled(known, device=device)
    schedules, axes = _walked(fused, device), Space(fused, device).axes
    assert len(schedules) >= len(axes)
    assert fused.schedule not in schedules


def test_products_on_a_matrix_unit_have_a_space_of_their_own_and_are_kept(tmp_path: Path) -> None:
    slow = DEVICES["nvidia-h200"].with_figures(rates={"f32": 1e11})
    fused = scheduled("on a matrix unit", device=slow)
    assert fused.schedule is not None and fused.schedule.values["matrix"] == "bf16"
    space = Space(fused, slow)
    choices = [*space.walk(Choice({}, fused.schedule))]
    schedules = [choice.schedule for choice in choices]
    assert {entry.values.get("groups") for entry in schedules} >= {0, 1}
    assert any("strip" in entry.values for entry in schedules)
    store = ScheduleStore(tmp_path, DEVICE)
    for choice in choices:
        store.save(fused, fused.schedule, choice.fixed)
        assert store.load(space) == choice.fixed
        assert space.complete(choice.fixed) == choice.schedule


def test_a_search_goes_on_to_other_variants_and_back(tmp_path: Path) -> None:
    """No number of one variant stays fixed for another."""
    fused = scheduled("scan", device=GPU_ON_CPU)
    space, store = Space(fused, GPU_ON_CPU), ScheduleStore(tmp_path, DEVICE)
    bench = Bench(lambda s: 0.5 if s["variant"] == "rows" else 1.0)
    candidate = Candidate(fused, 1, device=GPU_ON_CPU)
    (outcome,) = search([candidate], bench.trial, 100.0, bench.clock)
    assert _values(fused)["variant"] == "groups"
    assert outcome.won and outcome.schedule.values["variant"] == "rows"
    assert set(outcome.best.fixed) == {"variant", "width", "items"}
    assert fused.schedule is not None
    store.save(fused, fused.schedule, outcome.best.fixed)
    assert store.load(space) == outcome.best.fixed
    assert space.complete(outcome.best.fixed) == outcome.schedule


def test_a_store_gives_back_what_it_was_given_for_the_same_kernel_and_device(
    tmp_path: Path,
) -> None:
    fused = scheduled()
    assert fused.schedule is not None
    best, space = {"chunk": 1024}, Space(fused, CPU)
    store = ScheduleStore(tmp_path, DEVICE)
    assert store.state == "" and store.load(space) is None
    store.save(fused, fused.schedule, best)
    assert ScheduleStore(tmp_path, DEVICE).load(Space(scheduled(), CPU)) == best
    assert ScheduleStore(tmp_path, DEVICE).load(Space(scheduled(size=65), CPU)) is None
    assert ScheduleStore(tmp_path, "another").load(Space(scheduled(), CPU)) is None
    assert ScheduleStore(None, DEVICE).load(Space(scheduled(), CPU)) is None
    before = store.state
    store.save(fused, fused.schedule, {"chunk": 512})
    assert before and store.state not in ("", before)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"form": 3}', b'{"lanes": 5}'])
def test_an_entry_that_is_no_schedule_is_no_entry(content: bytes, tmp_path: Path) -> None:
    fused = scheduled()
    store = ScheduleStore(tmp_path, DEVICE)
    assert fused.schedule is not None
    store.save(fused, fused.schedule, {"chunk": 512})
    (path,) = tmp_path.glob("*/*/*.kernel")
    store._cache.store(path.stem, content)  # pyright: ignore[reportPrivateUsage]
    assert store.load(Space(fused, CPU)) is None


PROGRAM = "graph g(x: f32[65536]) { return y = neg(x) + 1 }"


def test_compilations_use_what_a_search_found_and_say_so(tmp_path: Path) -> None:
    store = ScheduleStore(tmp_path, DEVICE)
    bench = Bench(lambda s: 0.25 if chunk_of(s) == 2048 else 1.0)

    def compiled(tuner: Tuner) -> Any:
        return compile_graph(mgn.parse(PROGRAM).lower("g"), CPU, tuner=tuner)

    assert compiled(Tuner(store)).report.tuning is None
    report = compiled(Tuner(store, bench.trial, 100.0, bench.clock)).report
    assert (report.tuning.won, report.tuning.before, report.tuning.after) == (1, 1.0, 0.25)
    assert "1 better than the one chosen; their launches 1 s → 250 ms" in str(report)
    assert "1 distinct kernel with a tuned schedule" in str(compiled(Tuner(store)).report)
    seen: list[str] = []

    def observe(name: str, module: Any) -> None:
        if name == "lower-kernels":
            seen.append(str(module))

    for tuner in (None, Tuner(store)):
        compile_graph(mgn.parse(PROGRAM).lower("g"), CPU, observe, tuner=tuner)
    chosen, tuned = seen
    assert chosen != tuned


def device_trials() -> DeviceTrials:
    try:
        return DeviceTrials(choose("cpu"), CPU, "opencl")
    except DeviceError:
        pytest.skip("no OpenCL device for the CPU: install the extra 'cpu'")


@pytest.mark.parametrize("kind", ["pointwise", "reduction", "contraction"])
def test_a_trial_times_a_schedule_with_the_right_results(kind: str) -> None:
    trial, fused = device_trials(), scheduled(kind)
    assert fused.schedule is not None
    assert (trial(fused, fused.schedule) or 0) > 0
    changed = ScheduleAttr.of(**{**_values(fused), "lanes": 4})
    assert (trial(fused, changed) or 0) > 0


def test_a_trial_refuses_other_results_and_what_cannot_be_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial, fused = device_trials(), scheduled()
    assert fused.schedule is not None and trial(fused, fused.schedule) is not None
    other = fused_kernel("pointwise", [("f32", (64,))], lambda e, x: e.relu(x))
    lower = trials.lower_kernel
    monkeypatch.setattr(trials, "lower_kernel", lambda _, *rest: lower(other, *rest))
    assert trial(fused, fused.schedule) is None
    monkeypatch.undo()
    monkeypatch.setattr(trials, "kernel_signature", _not_a_kernel)
    assert trial(fused, fused.schedule) is None


def _not_a_kernel(*_: object) -> None:
    raise AssertionError("no tiling fits")


def test_a_tuned_graph_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    device_trials()
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    x = np.linspace(-1, 1, 65536, dtype=np.float32)
    executable = mgn.compile(mgn.parse(PROGRAM), device="cpu", tune=0.5)
    np.testing.assert_array_equal(executable(x=x)["y"], 1 - x)
    assert executable.report.tuning is not None and executable.report.tuning.kernels == 1


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["x.mgn", f"--tune={seconds}"]) == 1
    assert "--tune takes a number of seconds" in capsys.readouterr().err
    with pytest.raises(mgn.MgnError, match="tune takes a number of seconds"):
        mgn.compile(mgn.parse(PROGRAM), tune=float(seconds))
