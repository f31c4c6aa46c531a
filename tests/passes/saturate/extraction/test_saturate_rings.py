"""Kernels that wait for each other in a ring: no choice has one, and the cheapest is found."""

from typing import Any

import pytest

from mgn.passes.saturate.extraction import rings
from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.exact import (
    PROVED,
    ExactSolver,
    Solution,
    cost_of,
    found_soon,
)
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.rings import choice_soon, order_of, rings_of
from mgn.passes.saturate.extraction.work import Work
from tests.passes.saturate.extraction.test_saturate_parts import (
    SEEDS,
    enough,
    least_cost,
    random_problem,
)


def test_kernels_that_wait_for_each_other_have_no_order() -> None:
    problem = LocalProblem((0, 1), ((0,), (1,), (2,)), ((1,), (0,), ()), (1.0,) * 3)
    assert order_of(problem, (0, 1, 2)) == ([2], [0, 1])


@pytest.mark.parametrize("reads", [2, 3])
def test_a_ring_of_kernels_that_wait_for_each_other_is_excluded(reads: int) -> None:
    """Classes each to be had at 1 from the next one, or at 10 from nothing."""
    keys = tuple(range(reads))
    results = tuple((key,) for key in keys) * 2
    inputs = (*[((key + 1) % reads,) for key in keys], *[()] * reads)
    problem = LocalProblem(keys, results, inputs, (*[1.0] * reads, *[10.0] * reads))
    assert list(map(set, rings_of(problem, keys))) == [{(key, key) for key in keys}]
    assert rings_of(problem, (*keys[:-1], 2 * reads - 1)) == []
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
    assert cost_of(problem, solution.chosen) == pytest.approx(10.0 + reads - 1)
    assert solution.bound == pytest.approx(10.0 + reads - 1)


def test_a_ring_is_broken_though_there_is_no_time_to_look_for_the_best_way() -> None:
    problem = random_rings()
    solution = cheapest_choice(problem, ExactSolver(Work(0.0)))
    assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
    assert solution.bound <= least_cost(problem, acyclic=True)


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_what_only_a_ring_writes_is_left_out(seconds: float) -> None:
    """Classes 1 and 2 are written from each other alone, and 0 from the one or from nothing."""
    problem = LocalProblem(
        (0,), ((0,), (1,), (2,), (0,)), ((1,), (2,), (1,), ()), (1.0, 1.0, 1.0, 9.0)
    )
    solution = cheapest_choice(problem, ExactSolver(Work(seconds)))
    assert (solution.chosen, solution.bound) == ((3,), 9.0)
    assert choice_soon(problem, ExactSolver(Work(seconds)), 8) == (3,)


@pytest.mark.parametrize("beam", [1, 8])
def test_a_choice_that_is_found_soon_has_no_ring_either(beam: int) -> None:
    broken = 0
    for problem in map(random_problem, SEEDS):
        closed = found_soon(problem, enough(), beam)
        chosen = choice_soon(problem, ExactSolver(enough()), beam)
        assert closed is not None and chosen is not None
        broken += bool(rings_of(problem, closed))
        assert not order_of(problem, chosen)[1]
        written = {item for number in chosen for item in problem.results[number]}
        read = {item for number in chosen for item in problem.inputs[number]}
        assert written >= read.union(problem.demands)
    assert broken >= 3


def ring_in_many_ways(ways: int) -> LocalProblem:
    """Classes 0 and 1, of which so many kernels each write one from the other, and besides one of
    further classes; or at 10 from nothing.
    """
    extras = range(2, 2 + ways)
    results = [(key, extra) for key in (0, 1) for extra in extras]
    inputs = [(1 - key,) for key in (0, 1) for _ in extras]
    results += [(0,), (1,), *[(extra,) for extra in extras]]
    inputs += [()] * (ways + 2)
    prices = (*[1.0] * (2 * ways), 10.0, 10.0, *[0.5] * ways)
    return LocalProblem((0, 1, *extras), tuple(results), tuple(inputs), prices)


def without_a_choice_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice with rings has none without rings near it but that of all candidates."""
    near = rings.without_rings_near

    def everything(problem: LocalProblem, *rest: Any) -> tuple[tuple[int, ...], LocalProblem]:
        chosen, founded = near(problem, *rest)
        is_closed = rest[1] == chosen
        return chosen if is_closed else tuple(range(len(problem.prices))), founded

    monkeypatch.setattr(rings, "without_rings_near", everything)


def test_a_ring_that_many_kernels_make_is_broken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = list[LocalProblem]()

    class Counting(ExactSolver):
        def solve(self, problem: LocalProblem, effort: int = 0) -> Solution:
            solved.append(problem)
            return super().solve(problem, effort)

    without_a_choice_near(monkeypatch)
    few, many = ring_in_many_ways(2), ring_in_many_ways(7)
    assert least_cost(few, acyclic=True) == 11.5 > least_cost(few)
    for problem in (few, many):
        solved.clear()
        solution = cheapest_choice(problem, Counting(enough()))
        assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
        assert solution.bound == pytest.approx(cost_of(problem, solution.chosen))
        own = [item for item in solved if len(item.demands) == len(problem.demands)]
        assert len(own) == 3


def test_rings_are_left_out_where_no_choice_without_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of some kernels is chosen only where classes that it waits for are written otherwise."""
    without_a_choice_near(monkeypatch)
    with_rings = 0
    for problem in map(random_problem, SEEDS):
        least = least_cost(problem, acyclic=True)
        with_rings += least > least_cost(problem)
        solution = cheapest_choice(problem, ExactSolver(enough()))
        assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
        assert cost_of(problem, solution.chosen) == pytest.approx(least)
        assert solution.bound == pytest.approx(least)
    assert with_rings >= 3


def test_a_choice_near_the_cheapest_one_does_where_rings_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_a_choice_near(monkeypatch)
    nearby = 0
    for problem in map(random_problem, SEEDS):
        solver = ExactSolver(enough())
        solver.breaks_rings = False
        near = cheapest_choice(problem, solver)
        assert near.chosen is not None and not order_of(problem, near.chosen)[1]
        least = least_cost(problem, acyclic=True)
        assert near.bound <= least * (1 + PROVED) <= cost_of(problem, near.chosen) * (1 + 2e-6)
        nearby += near.bound < least * (1 - PROVED)
        solver.breaks_rings = True
        assert cheapest_choice(problem, solver).bound == pytest.approx(least)
    assert nearby >= 3


def random_rings() -> LocalProblem:
    """A problem whose cheapest closed choice is a ring."""
    return next(
        problem
        for problem in map(random_problem, SEEDS)
        if least_cost(problem, acyclic=True) > least_cost(problem)
    )
