"""The plan of least price that fits into so many bytes.

In: a problem with states written last, the same with states written early, and the bytes of the
arena. Out: `Fitted`, a plan that fits, or the plan of least memory that was found.

Plans without repeated tasks come first: the order of the program, other orders, states written
early. Then tasks run again. A linear programme says which, in the order of least memory
(`programme.py`). Where it has no plan, or none near its bound, steps down from each order look for
one (`descent.py`). Where a plan leaves room in the arena, it is improved: it keeps more values and
computes fewer again (`_improved`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mgn.passes.rematerialise.descent import Runs, descend
from mgn.passes.rematerialise.orders import orders
from mgn.passes.rematerialise.programme import Programme, Solution
from mgn.passes.rematerialise.stages import CHAINS, Stages
from mgn.passes.rematerialise.tasks import (
    Plan,
    Problem,
    arena_of,
    intervals_of,
    is_sound,
    live_bytes,
    plan_of,
)

IMPROVED = 2
"""How many plans are improved: those of least price."""

MOST_TRIED, GOOD = 200, 1.01
"""How many values an improved plan may try to keep. A plan within the second factor of its bound is
not improved.
"""

ATTEMPTS = 2
"""How often a plan is improved again after its values, once packed, had no room."""

MOST_RUNS, MOST_MORE = 800_000, 200_000
"""Runs of tasks in the plans that steps down look at, which take some seconds of the processor. The
second number holds where a programme has a plan.
"""

TIGHTER, OF_ALL = (1.0, 0.97, 0.93, 0.87), 0.9
"""Parts of the arena that a programme may fill: gaps between values take the rest. Where none of
them gives a plan, each further programme has `OF_ALL` of the room before. The first of these has
that part of the arena without repeated tasks.
"""


@dataclass(frozen=True)
class Fitted:
    """A plan, the bytes of its arena, and whether states are written early. It has the seconds of
    repeated tasks, and a lower bound of these for its order.
    """

    plan: Plan
    arena: int
    early: bool
    seconds: float = 0.0
    bound: float = 0.0


Found = tuple[Fitted, list[int]]
"""A plan without repeated tasks, and its order."""


def fit(problems: Sequence[Problem], room: int) -> Fitted:
    """The plan for an arena of so many bytes; `problems` are those without and with `early`."""
    found: list[Found] = []
    for early, problem in enumerate(problems):
        for order in _distinct(problem):
            plan = plan_of(problem, order)
            fitted = Fitted(plan, arena_of(problem, plan), bool(early))
            if fitted.arena <= room:
                return fitted
            found.append((fitted, order))
    found.sort(key=lambda item: (item[0].early, item[0].arena))
    ways = _least_of_each(found)
    own, others = [int(room * part) for part in TIGHTER], [*_rooms(min(w[0].arena for w in ways))]
    plans: list[Fitted] = []
    for plain, order in ways:
        if not plans:
            made = _programmed(problems[plain.early], order, own, room, plain)
            plans = [item for item in made if item.arena <= room]
    if not any(item.seconds <= GOOD * item.bound for item in plans):
        plans += _descents(problems, found, room, MOST_MORE if plans else MOST_RUNS)
    for plain, order in ways:
        if not any(item.arena <= room for item in plans):
            plans += _programmed(problems[plain.early], order, others, room, plain)
    return min([*plans, *(plain for plain, _ in ways)], key=lambda item: _rank(item, room))


def _distinct(problem: Problem) -> Iterator[list[int]]:
    seen: set[tuple[int, ...]] = set()
    for order in orders(problem, range(len(problem.tasks))):
        if tuple(order) not in seen:
            seen.add(tuple(order))
            yield order


def _least_of_each(found: Sequence[Found]) -> list[Found]:
    """The order of least memory; where states are written last in it, that with `early` as well."""
    least = min(found, key=lambda item: item[0].arena)
    early = min((it for it in found if it[0].early), key=lambda item: item[0].arena, default=least)
    return [least] if least[0].early else [least, early]


def _descents(
    problems: Sequence[Problem], found: Sequence[Found], room: int, most: int
) -> list[Fitted]:
    """The first plan with room of each order, or its lowest. States are written early only where
    there is no other with room.
    """
    plans: list[Fitted] = []
    runs = Runs(most)
    for plain, order in found:
        if plain.early and any(item.arena <= room and not item.early for item in plans):
            break
        problem = problems[plain.early]
        programme = Programme(Stages(problem, order), max(room, 1))
        for kept, plan in descend(programme, runs):
            plans.append(_fitted(plain, problem, plan))
            if plans[-1].arena <= room:
                plans[-1] = _improved(programme, plans[-1], kept, room)
                break
    return plans


def _fitted(plain: Fitted, problem: Problem, plan: Plan) -> Fitted:
    """A plan of the order of another one."""
    seconds, arena = _seconds(problem, plan), arena_of(problem, plan)
    return replace(plain, plan=plan, arena=arena, seconds=seconds)


def _rank(item: Fitted, room: int) -> tuple[int, float]:
    """Plans that fit come first, by their seconds, those with states written last before the
    others. Then come the rest, by the arena.
    """
    return (int(item.early), item.seconds) if item.arena <= room else (2, item.arena)


def _programmed(
    problem: Problem, order: Sequence[int], rooms: Sequence[int], room: int, plain: Fitted
) -> list[Fitted]:
    """Plans of programmes with these rooms, up to the first that fits. A programme counts more
    bytes than live while a chain runs, so a programme with more room may give a plan that fits. So
    may one with less room: its plan is that of a smaller arena.
    """
    found: list[Fitted] = []
    bound = 0.0
    for longest in CHAINS:
        stages = Stages(problem, order, longest)
        for size in rooms:
            programme = Programme(stages, max(size, 1))
            solution = programme.solve()
            if size == room and longest == CHAINS[0]:
                bound = solution.bound
            found += _plans(programme, solution, room, replace(plain, bound=bound))
            if any(item.arena <= room for item in found):
                return found
            if not solution.fits:
                break
    return found


def _rooms(arena: int) -> Iterator[int]:
    """Parts of an arena, each smaller than the one before."""
    size = arena * OF_ALL
    while size >= 1:
        yield int(size)
        size *= OF_ALL


def _plans(programme: Programme, solution: Solution, room: int, plain: Fitted) -> list[Fitted]:
    """The plans of a programme, and better ones of those that fit."""
    problem = programme.stages.problem
    found: list[tuple[Fitted, np.ndarray]] = []
    for chosen in solution.chosen:
        plan = programme.plan(chosen)
        if is_sound(problem, plan):
            found.append((_fitted(plain, problem, plan), chosen))
    fitting = [item for item in found if item[0].arena <= room]
    fitting.sort(key=lambda item: item[0].seconds)
    improved = [_improved(programme, *item, room) for item in fitting[:IMPROVED]]
    return [*(item for item, _ in found), *improved]


def _improved(programme: Programme, fitted: Fitted, chosen: np.ndarray, room: int) -> Fitted:
    """A plan of the same kind that keeps more values where there is room. Values that save most
    come first.
    """
    problem = programme.stages.problem
    tasks, maker = problem.tasks, problem.maker
    again = _again(fitted.plan)
    dropped = [
        (value, event)
        for (value, event), column in programme.kept.items()
        if not chosen[column] and (maker[value], event) in again
    ]
    dropped.sort(key=lambda pair: (-tasks[maker[pair[0]]].seconds, pair))
    limit = room
    for _ in range(ATTEMPTS):
        kept, best = chosen.copy(), fitted
        live = _live(problem, best.plan)
        for value, event in dropped[:MOST_TRIED]:
            if best.seconds <= GOOD * best.bound:
                break
            first, last = programme.gap(value, event)
            begins = [*best.plan.begins, len(best.plan.runs)]
            beside = live[begins[first + 1] : begins[last]]
            if max(beside, default=0) + problem.sizes[value] > limit:
                continue
            kept[programme.kept[value, event]] = True
            plan = programme.plan(kept)
            seconds, lives = _seconds(problem, plan), _live(problem, plan)
            fits = max(lives) <= limit and is_sound(problem, plan)
            if fits and seconds <= best.seconds:
                best, live = replace(best, plan=plan, seconds=seconds), lives
            else:
                kept[programme.kept[value, event]] = False
        best = replace(best, arena=arena_of(problem, best.plan))
        if best.arena <= room:
            return best
        limit -= best.arena - room
    return fitted


def _again(plan: Plan) -> set[tuple[int, int]]:
    """The tasks that run again, with their stages."""
    ends = [*plan.begins[1:], len(plan.runs)]
    stages = zip(plan.begins, ends, strict=True)
    return {
        (run.task, stage)
        for stage, (begin, end) in enumerate(stages)
        for run in plan.runs[begin:end]
        if run.is_repeated
    }


def _live(problem: Problem, plan: Plan) -> list[int]:
    return live_bytes(intervals_of(problem, plan), len(plan.runs))


def _seconds(problem: Problem, plan: Plan) -> float:
    return sum(problem.tasks[item].seconds for item in plan.repeated)
