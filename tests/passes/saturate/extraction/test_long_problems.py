"""A long problem: the bound of its chain is true, and neighbourhoods make a choice cheaper."""

import random
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from mgn.passes.saturate.extraction import exact, long_problems, neighbourhoods, rings, separators
from mgn.passes.saturate.extraction.chain import Chain, chain_of, kinds_of
from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.elimination import is_wider
from mgn.passes.saturate.extraction.exact import ExactSolver, Solution, cost_of
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.neighbourhoods import improved
from mgn.passes.saturate.extraction.pruning import without_needless
from mgn.passes.saturate.extraction.rings import order_of
from mgn.passes.saturate.extraction.separators import along, cuts_of
from mgn.passes.saturate.extraction.work import Work
from tests.passes.saturate.extraction.test_saturate_parts import (
    SEEDS,
    enough,
    least_cost,
    random_problem,
    tied_layers,
)


@cache
def long_problem(seed: int) -> LocalProblem:
    """Eight classes in a row, each written from near ones, of which some come after it."""
    rng = random.Random(seed)
    while True:
        results: list[tuple[int, ...]] = []
        inputs: list[tuple[int, ...]] = []
        for key in range(8):
            for _ in range(rng.randint(1, 2)):
                written = {key, *[key + 1] * (key < 7 and rng.random() < 0.3)}
                near = [item for item in (key - 2, key - 1, key + 1, key + 2) if 0 <= item < 8]
                read = {item for item in near if rng.random() < 0.4 - 0.25 * (item > key)}
                results.append(tuple(sorted(written)))
                inputs.append(tuple(sorted(read - written)))
        prices = tuple([rng.uniform(1, 4) for _ in results])
        demands = tuple(sorted({7, *rng.sample(range(8), 2)}))
        problem = LocalProblem(demands, tuple(results), tuple(inputs), prices)
        if len(prices) <= 13 and least_cost(problem, acyclic=True) < float("inf"):
            return problem


@pytest.fixture(autouse=True)
def _few_links_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The links of small problems that are drawn at random are not equal, and short."""
    monkeypatch.setattr(long_problems, "KINDS", 1.0)
    monkeypatch.setattr(long_problems, "DISTINCT", 1.0)
    monkeypatch.setattr(separators, "STEP", 1)
    monkeypatch.setattr(separators, "WINDOW", 12)
    monkeypatch.setattr(neighbourhoods, "STEP", 2)
    monkeypatch.setattr(neighbourhoods, "WINDOW", 4)


def chain(seed: int) -> Chain | None:
    return chain_of(long_problem(seed))


def bound_of(links: Chain, solver: ExactSolver) -> float:
    """What the links of a chain cost together at least."""
    solve = partial(cheapest_choice, solver=solver)
    return sum([count * solution.bound for solution, count in links.easiest(solve)])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_of_a_chain_is_true(seed: int) -> None:
    problem, links = long_problem(seed), chain(seed)
    if links is not None:
        bound = bound_of(links, ExactSolver(enough()))
        assert 0.0 < bound <= least_cost(problem, acyclic=True) * (1 + 1e-6)


def test_what_is_tried_are_chains() -> None:
    links = [found for seed in SEEDS if (found := chain(seed)) is not None]
    assert len(links) >= 20
    assert max(len(found.links) for found in links) >= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_choice_is_improved_in_neighbourhoods_and_gets_no_ring(seed: int) -> None:
    problem = long_problem(seed)
    numbers, order = range(len(problem.prices)), range(8)
    everything = order_of(problem, numbers)[0]
    assert not order_of(problem, everything)[1]
    found = improved(problem, numbers, everything, order, ExactSolver(enough()))
    assert not order_of(problem, found)[1]
    assert {item for n in found for item in problem.results[n]}.issuperset(problem.demands)
    assert least_cost(problem, acyclic=True) * (1 - 1e-9) <= cost_of(problem, found)
    assert cost_of(problem, found) <= cost_of(problem, everything)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_neighbourhood_of_all_classes_has_the_best_choice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbourhoods, "WINDOW", 8)
    monkeypatch.setattr(neighbourhoods, "EACH", 1.0)
    problem = long_problem(seed)
    numbers = range(len(problem.prices))
    everything = order_of(problem, numbers)[0]
    found = improved(problem, numbers, everything, range(8), ExactSolver(enough()))
    assert cost_of(problem, found) == pytest.approx(least_cost(problem, acyclic=True))


def test_what_stays_waits_for_what_is_written_anew() -> None:
    """The third class is read from the second, which may not be written from the third."""
    results, inputs = ((0,), (1,), (2,), (1,)), ((), (0,), (1,), (2,))
    problem = LocalProblem((1, 2), results, inputs, (1.0, 5.0, 1.0, 0.5))
    found = improved(problem, range(4), (0, 1, 2), (0, 1), ExactSolver(enough()))
    assert sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_large_problem_is_solved_along_its_chain(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_problems, "LARGE", 2)
    monkeypatch.setattr(long_problems, "WIDE", -1)
    monkeypatch.setattr(long_problems, "FIRM", -1.0)
    monkeypatch.setattr(long_problems, "SOON", -1.0)
    problem = long_problem(seed)
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
    best = least_cost(problem, acyclic=True)
    assert solution.bound <= best * (1 + 1e-6)
    assert cost_of(problem, solution.chosen) >= best * (1 - 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_the_programs_of_links_are_near_the_whole_is_solved(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_problems, "LARGE", 2)
    monkeypatch.setattr(rings, "NEAR", 0.0)
    monkeypatch.setattr(long_problems, "WIDE", -1)
    monkeypatch.setattr(long_problems, "FIRM", 10.0)
    problem = long_problem(seed)
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.chosen is not None
    best = least_cost(problem, acyclic=True)
    assert cost_of(problem, solution.chosen) == pytest.approx(best)
    assert solution.bound == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_links_are_of_no_more_kinds_than_one(seed: int) -> None:
    problem = random_problem(seed)
    renamed = list(range(100, 200))
    random.Random(seed).shuffle(renamed)
    other = LocalProblem(
        tuple([renamed[key] for key in problem.demands]),
        tuple([tuple([renamed[key] for key in items]) for items in problem.results]),
        tuple([tuple([renamed[key] for key in items]) for items in problem.inputs]),
        problem.prices,
    )
    both = LocalProblem(
        problem.demands + other.demands,
        problem.results + other.results,
        problem.inputs + other.inputs,
        problem.prices + other.prices,
    )
    assert kinds_of(both) == kinds_of(problem)


def test_kernels_of_one_price_differ_by_the_kernels_that_write_what_they_read() -> None:
    """Pairs of kernels of which one reads what the other writes; the first of a pair differ."""
    count = 6
    results = tuple([(key,) for key in range(3 * count)])
    inputs = tuple([(key - 1,) if key % 3 else () for key in range(3 * count)])
    prices = tuple([1.0 if key % 3 else 2.0 + key for key in range(3 * count)])
    problem = LocalProblem((), results, inputs, prices)
    assert kinds_of(problem) == 3 * count
    assert kinds_of(replace(problem, prices=(1.0,) * 3 * count)) == 3


@pytest.mark.parametrize("are_alike", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_where_links_are_not_equal_the_whole_is_solved(
    seed: int, are_alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of candidates that are hardly alike no chain is looked for."""
    looked_at = list[LocalProblem]()

    def noted(problem: LocalProblem) -> Chain | None:
        looked_at.append(problem)
        return chain_of(problem)

    monkeypatch.setattr(long_problems, "chain_of", noted)
    if are_alike:
        monkeypatch.setattr(long_problems, "kinds_of", lambda _: 0)
    monkeypatch.setattr(long_problems, "LARGE", 2)
    monkeypatch.setattr(rings, "NEAR", 0.0)
    monkeypatch.setattr(long_problems, "WIDE", -1)
    monkeypatch.setattr(long_problems, "FIRM", -1.0)
    monkeypatch.setattr(long_problems, "SOON", -1.0)
    monkeypatch.setattr(long_problems, "KINDS", 0.0)
    monkeypatch.setattr(long_problems, "DISTINCT", 0.0)
    problem = long_problem(seed)
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.bound == pytest.approx(least_cost(problem, acyclic=True))
    assert are_alike or not looked_at


def test_where_the_whole_is_not_solved_the_improved_choice_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_problems, "LARGE", 2)
    monkeypatch.setattr(long_problems, "WIDE", -1)
    monkeypatch.setattr(long_problems, "SOON", -1.0)
    solve, others, asked = rings.as_a_whole, list[bool](), 0
    for seed in SEEDS:
        problem = long_problem(seed)
        monkeypatch.setattr(long_problems, "FIRM", -1.0)
        along = cheapest_choice(problem, ExactSolver(enough()))
        monkeypatch.setattr(long_problems, "FIRM", 10.0)
        others.clear()

        def poor(whole: LocalProblem, *rest: Any, problem: LocalProblem = problem) -> Solution:
            """All candidates, and no bound, for the whole; the links are solved."""
            others.append(whole is problem)
            everything = tuple(range(len(whole.prices)))
            return Solution(everything, 0.0, 0.0) if whole is problem else solve(whole, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(long_problems, "as_a_whole", poor)
            solution = cheapest_choice(problem, ExactSolver(enough()))
        asked += any(others)
        if not all(others):
            assert along.chosen is not None and solution.chosen is not None
            assert solution.bound == pytest.approx(along.bound) and solution.bound > 0.0
            assert cost_of(problem, solution.chosen) <= cost_of(problem, along.chosen) * (1 + 1e-9)
    assert asked >= 20


def test_links_are_followed_while_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_problems, "LARGE", 2)
    monkeypatch.setattr(long_problems, "WIDE", -1)
    monkeypatch.setattr(long_problems, "FIRM", -1.0)
    monkeypatch.setattr(long_problems, "SOON", -1.0)
    problem = equal_layers(20)
    solver = ExactSolver(Work(0.0))
    solution = cheapest_choice(problem, solver)
    assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
    assert solver.budget_spent
    assert solution.bound <= cost_of(problem, solution.chosen)


def test_the_linear_programs_of_both_ways_about_a_hub_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that all layers read is written or not, and each layer is a linear program then."""
    monkeypatch.setattr(exact, "WIDTH", 0)
    solution = ExactSolver(enough()).solve(tied_layers(100, 0.5))
    assert solution.bound == pytest.approx(500.5)
    assert 0.9 * solution.bound <= solution.relaxed <= solution.bound * (1 + 1e-9)


def test_programs_with_fractions_are_not_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three wanted classes each kernel writes two: half of each of three kernels is enough."""
    monkeypatch.setattr(exact, "WIDTH", 0)
    pairs = ((0, 1), (1, 2), (0, 2))
    ways = LocalProblem((0, 1, 2), (*pairs, (0,), (1,), (2,)), ((),) * 6, (2.0,) * 3 + (1.5,) * 3)
    solver = ExactSolver(enough())
    solution = solver.solve(ways)
    assert solution.bound == pytest.approx(3.5) and solution.relaxed == pytest.approx(3.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_best_choice_without_rings_needs_stays(seed: int) -> None:
    for problem in (random_problem(seed), long_problem(seed)):
        left = without_needless(problem).problem
        assert least_cost(left, acyclic=True) == pytest.approx(least_cost(problem, acyclic=True))


def equal_layers(count: int) -> LocalProblem:
    """Layers of five classes, each to be had in two ways, from other classes of the layer or from
    one of the last two of the layer before.
    """
    results, inputs, prices = [(0,), (1,)], [(), ()], [1.0, 2.0]
    ways = ((0, -2, -1), (1, -1, -2), (2, 0, 1), (3, 2, 1), (4, 1, 0))
    for first in range(2, 5 * count, 5):
        for number, one, other in ways:
            results += [(first + number,), (first + number,)]
            inputs += [(first + one,), (first + other,)]
            prices += [1.0, 1.5 + 0.25 * number]
    return LocalProblem((results[-1][0],), tuple(results), tuple(inputs), tuple(prices))


def test_equal_links_are_solved_once() -> None:
    solved: list[LocalProblem] = []
    solver = ExactSolver(enough())

    def solve(problem: LocalProblem) -> Solution:
        solved.append(problem)
        return cheapest_choice(problem, solver)

    counts: list[int] = []
    for layers in (20, 40):
        solved.clear()
        problem = equal_layers(layers)
        links = chain_of(problem)
        assert links is not None and len(links.links) > layers // 2
        bound = sum([count * found.bound for found, count in links.easiest(solve)])
        best = cheapest_choice(problem, solver)
        assert best.chosen is not None
        assert 0.0 < bound <= cost_of(problem, best.chosen) * (1 + 1e-6)
        counts.append(len(solved))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("seed", range(20))
def test_links_are_tied_through_the_classes_between_them_alone(seed: int) -> None:
    """Rows of classes tied at random within a layer, and to the next layer through two."""
    rng = random.Random(seed)
    ties: dict[int, set[int]] = {key: {key} for key in range(120)}

    def tie(one: int, other: int) -> None:
        ties[one].add(other)
        ties[other].add(one)

    for first in range(0, 120, 8):
        for key in range(first + 1, first + 8):
            for _ in range(2):
                tie(key, rng.randrange(first, key))
        for _ in range(4 * (first > 0)):
            tie(rng.randrange(first - 2, first), rng.randrange(first, first + 8))
    cuts = cuts_of(ties, along(ties))
    assert len(cuts.between) >= 5
    cut_of = {key: number for number, keys in enumerate(cuts.between) for key in keys}
    assert not cut_of.keys() & cuts.link_of.keys()
    assert cut_of.keys() | cuts.link_of.keys() <= ties.keys()
    for key, others in ties.items():
        for other in others:
            if key in cuts.link_of and other in cuts.link_of:
                assert cuts.link_of[key] == cuts.link_of[other]
            elif key in cuts.link_of:
                assert cuts.link_of[key] - cut_of[other] in (0, 1)


def test_how_wide_a_problem_is() -> None:
    demands, results = (3,), ((0,), (1,), (2,), (3,))
    apart = LocalProblem(demands, results, ((), (0,), (1,), (2,)), (1.0,) * 4)
    tied = LocalProblem(demands, results, ((), (0,), (0, 1), (0, 1, 2)), (1.0,) * 4)
    assert is_wider(apart, 0) and not is_wider(apart, 1)
    assert is_wider(tied, 2) and not is_wider(tied, 3)
