"""Training steps within a budget of memory: they fit, and compute the bits of those without one."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import mgn
from benchmarks.budgets import decoder
from mgn.builder import GraphBuilder
from mgn.commands import opt, run, train
from mgn.dialects.kernel import DEVICES
from mgn.driver.compilation import compile_graph
from mgn.driver.pipelines import PipelineError, parse_passes
from mgn.driver.report import BudgetReport
from mgn.modules.module import Module
from mgn.program_cache.entry import entry_bytes, entry_of
from mgn.runtime.location import FIGURES_VARIABLE
from tests.conftest import ROOT
from tests.training.networks import batch, mlp


def budget_of(trainer: mgn.Trainer) -> BudgetReport:
    """What the report of a trainer's step says of its budget."""
    memory = trainer.executable.report.memory
    assert memory is not None and memory.budget is not None
    return memory.budget


def least(graph: GraphBuilder | Module) -> int:
    """The least memory that a refusal names."""
    with pytest.raises(mgn.MgnError, match="does not fit into 1 B of device memory") as refusal:
        mgn.Trainer(graph, memory=1)
    found = re.search(r"\((\d+) bytes\)", str(refusal.value))
    assert found is not None and "arena of" in str(refusal.value)
    return int(found[1])


def test_steps_in_the_least_memory_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGN_GUARD", "on")
    free, limit = mgn.Trainer(mlp(0.3), seed=3), least(mlp(0.3))
    trainer = mgn.Trainer(mlp(0.3), seed=3, memory=limit)
    for seed in range(2):
        same(trainer.step(batch(seed)), free.step(batch(seed)))
    same(trainer.state(), free.state())
    told, report = budget_of(trainer), trainer.executable.report
    assert trainer.executable.allocated == told.peak <= told.budget == limit
    assert free.executable.allocated > limit
    assert "of device memory, of a budget of" in str(report)
    assert [item.name for item in report.kernels] == [
        step.kernel for step in trainer.executable.plan.launches
    ]
    count = sum(item.launches for item in told.repeated)
    assert len(report.kernels) == len(free.executable.report.kernels) + count
    assert count and "computed twice for that" in str(report)
    assert told.seconds == pytest.approx(sum(item.seconds for item in told.repeated))


def same(given: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    for name in wanted:
        assert given[name].tobytes() == wanted[name].tobytes(), name


def test_budgets_from_the_least_that_is_named_on_have_plans() -> None:
    """Which kernels there are, and what they cost, hangs on the machine."""
    limit = least(decoder())
    for part in (1.0, 1.03, 1.2):
        trainer = mgn.Trainer(decoder(), memory=int(part * limit))
        assert trainer.executable.allocated <= part * limit


def test_both_graphs_of_an_accumulated_step_have_the_budget() -> None:
    def trainer(memory: int | None = None) -> mgn.Trainer:
        return mgn.Trainer(mlp(), optimizer=mgn.SGD(), accumulate=2, memory=memory)

    free = trainer()
    wanted = [free.step(batch(seed)) for seed in range(2)]
    limit = free.executable.allocated - 1
    limited = trainer(limit)
    for seed in range(2):
        same(limited.step(batch(seed)), wanted[seed])
    same(limited.state(), free.state())
    assert budget_of(limited).peak <= limit
    with pytest.raises(mgn.MgnError, match="does not fit into 1 B of device memory"):
        trainer(1)


HALVES = """
graph net(x: f32[16, 8], t: i32[16]) {
  param a: f16[16, 8] = normal(std = 0.3)
  param b: f16[16, 16] = normal(std = 0.3)
  param c: f16[5, 16] = normal(std = 0.3)
  h = gelu(x @ cast(a, f32).T)
  h = relu(h @ cast(b, f32).T) + h
  logits = h @ cast(c, f32).T
  return loss = cross_entropy(logits, t), logits
}
"""


def test_gradients_are_made_again_between_the_states_of_half_precision_that_they_move() -> None:
    def trainer(memory: int | None = None) -> mgn.Trainer:
        module = mgn.parse(HALVES)
        return mgn.Trainer(module, masters=True, ema=0.5, loss_scale=8.0, memory=memory)

    free = trainer()
    limit = int(0.95 * free.executable.allocated)
    limited = trainer(limit)
    assert limited.executable.allocated <= limit
    for _ in range(2):
        same(limited.step(batch()), free.step(batch()))
    same(limited.state(), free.state())


def test_a_running_mean_that_is_read_on_takes_no_room_in_the_arena() -> None:
    """The kernel that writes it could write over the mean of the batch, and writes the state."""
    text = """graph net(x: f32[16, 8], t: i32[16]) {
      param w: f32[3, 8] = normal(std = 0.3)
      state seen: f32[8]
      seen <- 0.9 * seen + 0.1 * mean(x, axis = 0)
      h = tanh((x - seen) * 0.5)
      return loss = cross_entropy(tanh(h @ w.T), t)
    }"""
    free = mgn.Trainer(mgn.parse(text))
    limit = least(mgn.parse(text))
    limited = mgn.Trainer(mgn.parse(text), memory=limit)
    assert limited.executable.allocated <= limit < free.executable.allocated
    for seed in range(2):
        same(limited.step(batch(seed)), free.step(batch(seed)))
    same(limited.state(), free.state())


def test_launches_that_run_twice_are_merged_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, limit = tmp_path / "figures.json", least(mlp())
    path.write_text(json.dumps({"barrier_cost": 1e-9, "launch_cost": 1e-3}))
    monkeypatch.setenv(FIGURES_VARIABLE, str(path))
    free = mgn.compile(mlp(), mode="training", device="cpu", resident="off")
    limited = mgn.compile(mlp(), mode="training", device="cpu", passes="default", memory=limit)
    report = limited.report
    assert report.merged and len(report.kernels) < len(free.report.kernels)
    assert report.memory is not None and report.memory.budget is not None
    count = sum(item.launches for item in report.memory.budget.repeated)
    assert count and limited.allocated <= limit < free.allocated
    for seed in range(2):
        same(limited.run(batch(seed)), free.run(batch(seed)))
    same(dict(limited.state), dict(free.state))


PLANNING = "raise-checks,differentiate,thread-states,simplify,saturate,choose-schedules"


@pytest.mark.parametrize(
    ("passes", "memory", "message"),
    [
        ("simplify,saturate", 1 << 20, "needs the pass 'lower-kernels', and the pipeline lacks it"),
        (f"{PLANNING},lower-kernels", 1 << 20, "needs the pass 'plan-memory'"),
        ('default{memory="1MiB"}', 1 << 20, "the budget of memory is said twice"),
        (f"{PLANNING},lower-kernels,rematerialise,plan-memory", None, "takes a budget"),
        (
            f"{PLANNING},lower-kernels,plan-memory,rematerialise",
            1 << 20,
            "'rematerialise' stands before 'plan-memory', not behind it",
        ),
    ],
)
def test_a_pipeline_of_ones_own_takes_a_budget_or_says_why_not(
    passes: str, memory: int | None, message: str
) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        mgn.compile(mlp(), passes=passes, memory=memory)


def test_a_pipeline_of_ones_own_gets_what_a_budget_needs() -> None:
    text = f"{PLANNING},lower-kernels,plan-memory{{alignment=512 prepare=false}}"
    told = [
        mgn.compile(mlp(), passes=passes, memory=memory).report.memory
        for passes, memory in (
            (text, "1MiB"),
            (text.replace("plan-memory", 'rematerialise{memory="1MiB"},plan-memory'), None),
        )
    ]
    budgets = [item.budget for item in told if item is not None]
    assert budgets[0] is not None and budgets[1] is not None
    assert budgets[0].budget == budgets[1].budget == 1 << 20
    assert budgets[0].peak == budgets[1].peak
    assert mgn.optimize(mlp(), passes=text, memory="1MiB").report.memory is not None
    lowered = text[text.index("lower-kernels") :]
    with pytest.raises(mgn.MgnError, match="known behind 'saturate', and the pipeline lacks that"):
        mgn.optimize(mlp(), passes=lowered, memory="1MiB")


def test_a_plan_that_takes_more_than_was_planned_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = ROOT / "filecheck" / "rematerialise" / "again.mlir"
    passes = "rematerialise{memory=1400},plan-memory{alignment=4096}"
    assert opt.main([str(source), "-p", passes]) == 1
    assert "both want the same options" in capsys.readouterr().err


def test_a_program_that_is_recalled_knows_its_budget() -> None:
    device = DEVICES["cpu"]
    module = mgn.optimize(mlp(), device=device).recipe.lower()
    compiled = compile_graph(module, device, memory=1 << 20)
    data = entry_bytes(compiled)
    assert data is not None
    entry = entry_of(data, device)
    assert entry is not None and entry.plan.budget == compiled.plan.budget == 1 << 20
    assert entry.report.memory == compiled.report.memory


def test_a_budget_that_is_large_enough_changes_nothing() -> None:
    graph = mlp(0.1)
    free, limited = mgn.Trainer(graph, seed=1), mgn.Trainer(graph, seed=1, memory="1GiB")
    plans = [item.executable.plan for item in (free, limited)]
    assert plans[0].steps == plans[1].steps and plans[0].arena == plans[1].arena
    assert budget_of(limited).repeated == ()
    same(free.step(batch(0)), limited.step(batch(0)))


def test_optimize_tells_the_memory_without_a_device() -> None:
    told = mgn.optimize(mlp(), memory="1MiB").report.memory
    assert told is not None and told.budget is not None
    assert told.arena < told.budget.peak < told.budget.budget == 1 << 20
    with pytest.raises(mgn.MgnError, match="the least found is"):
        mgn.optimize(mlp(), memory=64)
    with pytest.raises(mgn.MgnError, match=r"mgn\.optimize: memory takes a size such as 4GiB"):
        mgn.optimize(mlp(), memory="much")
    with pytest.raises(TypeError, match=r"'memory' takes a size such as '4GiB'"):
        mgn.compile(mlp(), memory=1.5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default{fast=1}", "takes no option 'fast'; it has one, memory"),
        ("default{memory=1,2}", 'takes memory="4GiB" or a number of bytes'),
        ("default{memory=1.5}", 'takes memory="4GiB" or a number of bytes'),
    ],
)
def test_a_pipeline_takes_a_budget_and_nothing_else(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(said)):
        parse_passes(text)
    names = [item.name for item in parse_passes('default{memory="4GiB"}')]
    assert names[-5:] == [
        "price-kernels",
        "lower-kernels",
        "rematerialise",
        "plan-memory",
        "merge-launches",
    ]
    assert "rematerialise" not in [item.name for item in parse_passes("default")]


@pytest.mark.parametrize("command", [run.main, train.main])
def test_commands_say_what_is_no_size(
    command: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(ROOT / "examples" / "line.mgn")
    assert command([program, "--memory", "lots", *["--data", "x.npz"] * (command is train.main)])
    assert "--memory takes a size such as 4GiB" in capsys.readouterr().err
