"""A budget of memory: plans that fit, that compute the same, and cost what the best ones do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgn.diagnostics import MgnError
from mgn.passes.rematerialise import programme as programmes
from mgn.passes.rematerialise.budget import parse_bytes
from mgn.passes.rematerialise.descent import Runs, descend
from mgn.passes.rematerialise.fit import fit
from mgn.passes.rematerialise.orders import orders
from mgn.passes.rematerialise.programme import Programme
from mgn.passes.rematerialise.stages import Stages
from mgn.passes.rematerialise.tasks import (
    Plan,
    Problem,
    Task,
    arena_of,
    is_sound,
    peak_of,
    plan_of,
)


def chain(length: int) -> Problem:
    """A forward pass of equal layers, and the backward pass, which reads all of it again."""
    tasks = [Task((n - 1,) if n else (), (n,), 1.0) for n in range(length)]
    tasks.append(Task((length - 1,), (length,), 2.0))
    tasks += [Task((length + n, length - 2 - n), (length + n + 1,), 2.0) for n in range(length - 1)]
    return Problem(tasks, [100] * (2 * length), frozenset([2 * length - 1]))


def check(problem: Problem, plan: Plan) -> None:
    """Every task runs at least once, reads copies that are there, and none that is overwritten."""
    there: set[tuple[int, int]] = set()
    for run in plan.runs:
        task = problem.tasks[run.task]
        assert tuple(value for value, _ in run.reads) == task.reads
        assert tuple(value for value, _ in run.writes) == task.writes
        assert there.issuperset(run.reads) and there.isdisjoint(run.writes)
        there.update(run.writes)
    assert is_sound(problem, plan) and there.issuperset(plan.kept.values())
    first = [run.task for run in plan.runs if not run.is_repeated and run.writes]
    assert len(first) == len(set(first))
    place = {run.task: number for number, run in reversed([*enumerate(plan.runs)])}
    assert len(place) == len(problem.tasks)
    for number, before in enumerate(problem.predecessors()):
        assert all(place[item] < place[number] for item in before)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Tasks that read what tasks before them wrote, some of which write over what others read."""
    tasks: list[Task] = []
    sizes: list[int] = []
    for number in range(draw(st.integers(1, 25))):
        reads = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=3)) if sizes else []
        writes = tuple(range(len(sizes), len(sizes) + draw(st.integers(1, 2))))
        sizes += [draw(st.sampled_from([1, 10, 100, 300])) for _ in writes]
        pairs = [(read, writes[0]) for read in dict.fromkeys(reads) if draw(st.booleans())]
        over = tuple(pair for pair in pairs if sizes[pair[0]] == sizes[pair[1]])
        tasks.append(
            Task(tuple(reads), writes, draw(st.floats(0.1, 9)), over, again=draw(st.booleans()))
        )
        for earlier in draw(st.lists(st.integers(0, number), max_size=1)):
            if earlier < number:
                row = tasks[earlier]
                ahead = row.ahead_of | {number}
                tasks[earlier] = Task(
                    row.reads, row.writes, row.seconds, row.over, ahead, again=row.again
                )
    kept = draw(st.frozensets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3))
    return Problem(tasks, sizes, kept)


@settings(max_examples=15, deadline=None)
@given(problems(), st.floats(0.3, 1.0))
def test_a_plan_of_random_tasks_computes_all_from_what_is_there(
    problem: Problem, share: float
) -> None:
    plain = plan_of(problem, range(len(problem.tasks)))
    room = int(arena_of(problem, plain) * share)
    found = fit([problem, problem], room)
    check(problem, found.plan)
    assert found.arena == arena_of(problem, found.plan) <= arena_of(problem, plain)
    assert found.seconds == pytest.approx(
        sum(problem.tasks[item].seconds for item in found.plan.repeated)
    )
    assert found == fit([problem, problem], room)


@settings(max_examples=10, deadline=None)
@given(problems(), st.lists(st.floats(1.0, 2.0), max_size=2))
def test_the_least_that_a_refusal_names_has_a_plan_and_so_has_all_that_is_more(
    problem: Problem, parts: list[float]
) -> None:
    least = fit([problem, problem], 0).arena
    for part in (1.0, *parts):
        found = fit([problem, problem], int(part * least))
        assert found.arena <= part * least


def test_steps_down_lower_the_peak_each_time() -> None:
    random = np.random.default_rng(0)
    even = chain(24)
    tasks = [replace(task, seconds=float(random.uniform(0.5, 2))) for task in even.tasks]
    sizes = [int(size) for size in random.integers(50, 400, len(even.sizes))]
    problem = Problem(tasks, sizes, even.kept)
    programme = Programme(Stages(problem, range(len(tasks))), 1)
    plans = [plan for _, plan in descend(programme, Runs(10**6))]
    peaks = [peak_of(problem, plan) for plan in plans]
    assert not plans[0].repeated and peaks == sorted(set(peaks), reverse=True)
    assert peaks[-1] < 0.45 * peaks[0]
    for plan in plans:
        check(problem, plan)
    few = [plan for _, plan in descend(programme, Runs(10 * len(tasks)))]
    assert len(few) < len(plans)


def test_a_bound_is_what_a_solver_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends on its way, by the primal simplex, has more seconds than the least."""
    monkeypatch.setattr(programmes, "MOST_EXACT", 0)
    programme = Programme(Stages(chain(12), range(24)), 700)
    assert programme.solve().bound > 0.0
    monkeypatch.setattr(programmes, "is_optimal", lambda solver: False)
    assert programme.solve().bound == 0.0


@settings(max_examples=15, deadline=None)
@given(problems())
def test_every_order_runs_a_task_behind_what_it_waits_for(problem: Problem) -> None:
    for order in orders(problem, range(len(problem.tasks))):
        check(problem, plan_of(problem, order))


def test_a_short_chain_costs_what_the_best_plan_does() -> None:
    problem = chain(10)
    assert peak_of(problem, plan_of(problem, range(20))) == 1100
    for room, seconds in ((1100, 0.0), (825, 3.0), (550, 6.0)):
        found = fit([problem, problem], room)
        check(problem, found.plan)
        assert (found.arena <= room, found.seconds) == (True, seconds)
        assert found.bound == pytest.approx(seconds)


def test_a_long_chain_takes_half_the_memory_for_a_part_of_its_forward_pass() -> None:
    problem = chain(80)
    room = peak_of(problem, plan_of(problem, range(160))) // 2
    found = fit([problem, problem], room)
    check(problem, found.plan)
    assert found.arena <= room
    assert 0.0 < found.bound <= found.seconds <= 1.15 * found.bound


def test_what_may_not_run_twice_is_kept() -> None:
    fixed = Problem(
        [Task(row.reads, row.writes, 1.0, again=False) for row in chain(10).tasks],
        [100] * 20,
        frozenset([19]),
    )
    assert fit([fixed, fixed], 500).plan.repeated == []


def test_nothing_runs_again_behind_what_overwrites_what_it_reads() -> None:
    """The first task reads a state that the second last overwrites, so the last reads what was
    kept, though there is no room.
    """
    tasks = [
        Task((), (0,), 1.0, ahead_of=frozenset([3])),
        *(Task((n - 1,), (n,), 1.0) for n in (1, 2)),
        Task((2,), (3,), 1.0, again=False),
        Task((0, 3), (4,), 1.0),
    ]
    problem = Problem(tasks, [100] * 5, frozenset([4]))
    found = fit([problem, problem], 250)
    check(problem, found.plan)
    stages = Stages(problem, range(5))
    assert (0, 4) not in stages.repeats and (0, 4) not in Programme(stages, 250).again


def test_what_runs_again_behind_a_state_has_states_written_early() -> None:
    """The last two tasks write states. There is no room for what the second of them reads while
    there is what the first one reads.
    """

    def problem(commits: bool) -> Problem:
        tasks = [
            Task((), (0,), 1.0),
            Task((0,), (1,), 1.0),
            Task((1,), (2,), 1.0),
            Task((2,), (), 1.0, again=False, commits=commits, behind=frozenset(range(2))),
            Task((0,), (), 1.0, again=False, commits=commits, behind=frozenset(range(4))),
        ]
        return Problem(tasks, [100, 1, 150], frozenset())

    problems = [problem(True), problem(False)]
    found = fit(problems, 160)
    assert found.early and found.plan.repeated == [0] and found.arena == 151
    check(problems[True], found.plan)
    assert not is_sound(problems[False], found.plan)
    assert not fit(problems, 300).early


def test_what_may_run_again_ahead_of_states_is_preferred_to_states_written_early() -> None:
    """The first value would be the cheaper one to make again, but behind a task that commits."""

    def problem(commits: bool) -> Problem:
        tasks = [
            Task((), (0,), 1.0),
            Task((), (1,), 2.0),
            Task((0, 1), (2,), 1.0),
            Task((2,), (3,), 1.0),
            Task((3,), (4,), 1.0),
            Task((1, 4), (5,), 1.0),
            Task((5,), (), 1.0, again=False, commits=commits, behind=frozenset(range(6))),
            Task((0,), (), 1.0, again=False, commits=commits, behind=frozenset(range(7))),
        ]
        return Problem(tasks, [100, 100, 1, 150, 1, 1], frozenset())

    found = fit([problem(True), problem(False)], 260)
    assert not found.early and found.plan.repeated == [1] and found.arena <= 260
    check(problem(True), found.plan)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 << 30), ("512 MiB", 512 << 20), ("1.5kb", 1500), ("77", 77), (4096, 4096)],
)
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "4 Gi", "-1", "1e9", "0", 0, "9999999TiB", "١GiB"])
def test_what_is_no_size_is_refused(text: str | int) -> None:
    with pytest.raises(MgnError, match="memory takes a size"):
        parse_bytes(text)
