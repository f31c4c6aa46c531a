"""Bounds on what any choice of kernels costs: true of deep graphs, and whatever a solver says."""

import random
from math import inf

import numpy as np
import pytest

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.elimination import OVER, Elimination, above_best, full_prices
from mgn.passes.saturate.extraction.exact import ExactSolver, cost_of
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.relaxation import Program
from mgn.passes.saturate.extraction.work import Work
from tests.passes.saturate.extraction.test_saturate_parts import SEEDS, least_cost, random_problem

DEPTH, BREADTH = 50, 11


def deep_problem(seed: int) -> LocalProblem:
    """Layers whose classes are each read by several of the next layer, so that what nothing shares
    costs three times as much at each of them.
    """
    rng = random.Random(seed)
    results: list[tuple[int, ...]] = []
    inputs: list[tuple[int, ...]] = []
    prices: list[float] = []
    for key in range(DEPTH * BREADTH):
        layer = key // BREADTH
        before = range((layer - 1) * BREADTH, layer * BREADTH) if layer else range(0)
        for _ in range(2):
            beside = key + 1 if (key + 1) % BREADTH and rng.random() < 0.3 else key
            results.append(tuple(sorted({key, beside})))
            inputs.append(tuple(sorted(rng.sample(before, min(3, len(before))))))
            prices.append(rng.uniform(1e-6, 3e-5))
    last = range((DEPTH - 1) * BREADTH, DEPTH * BREADTH)
    return LocalProblem(tuple(last), tuple(results), tuple(inputs), tuple(prices))


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_deep_problem_is_at_most_what_its_choice_costs(seed: int) -> None:
    """Prices of 1e18 beside some of 1e-6 made a linear program of which a solver found no bound."""
    problem = deep_problem(seed)
    full, writer = full_prices(problem, [set(items) for items in problem.inputs])
    assert max(full.values()) > 1e12
    solution = cheapest_choice(problem, ExactSolver(Work(0.5)))
    assert solution.chosen is not None
    cost = cost_of(problem, solution.chosen)
    assert solution.bound <= cost * (1.0 + 1e-9)
    assert cost <= above_best(problem, [set(items) for items in problem.inputs], writer)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_above_the_best_choice_is_the_price_of_one(seed: int) -> None:
    problem = random_problem(seed)
    inputs = [set(items) for items in problem.inputs]
    full, writer = full_prices(problem, inputs)
    above = above_best(problem, inputs, writer)
    assert least_cost(problem) * (1.0 + OVER / 2) < above <= sum(problem.prices) * (1.0 + OVER)
    assert above_best(problem, inputs, {}) == inf
    assert max(Elimination(problem, 0, 0, 0).full.values(), default=0.0) <= above
    assert full.keys() == writer.keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_any_values_of_rows_prove_a_bound_that_no_choice_is_below(seed: int) -> None:
    """A solver's own are near the best ones; a bound from others is lower, and as true."""
    problem = random_problem(seed)
    best, program = least_cost(problem), Program(problem, Work(60.0))
    relaxation = program.relaxed()
    assert relaxation is not None
    optimum = program.solver.getInfo().objective_function_value / program.scale
    assert relaxation.bound == pytest.approx(optimum, rel=1e-6)
    duals = np.asarray(program.solver.getSolution().row_dual)
    draw = np.random.default_rng(seed)
    for spread in (0.01, 0.1, 1.0, 10.0):
        others = duals + draw.normal(0.0, spread, len(duals)) * max(program.costs)
        bound, reduced = program.bounded_by(others)
        assert bound <= best * (1.0 + 1e-9)
        assert len(reduced) == program.columns.count
