"""Exact extraction: the cheapest set of kernels, with a proof, by integer programming on each
component.

In: candidates, a time budget. Out: a preferred writer for each class, and a lower bound on every
solution's cost.

Variables: x = 1 where a candidate is chosen. Each demanded class has a chosen writer; a chosen
candidate's inputs have chosen writers. Solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018); equal
components are solved once. Components of one class are decided by comparison. Cycles are not in the
program: who finds one bans a candidate and asks again.
"""

import time
from collections.abc import Set
from dataclasses import dataclass, field

import numpy as np

from mgn.passes.saturate.branch import branch_and_bound
from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.components import (
    Component,
    LocalProblem,
    components_of,
    forced_classes,
    hubs_of,
    localise,
)

RELATIVE_GAP = 1e-6
MANY_HUBS = 12
"""Hubs from which on all are written once; the local search may change that."""
SOLVABLE = 2000
"""Candidates above which a component is bounded and left to the local search."""


@dataclass
class LocalSolution:
    """Chosen candidates of a problem, or None where time ran out, and a bound on their cost."""

    chosen: tuple[int, ...] | None
    bound: float


@dataclass
class ExactResult:
    """Preferred writers of the classes in solved components, their cost and its lower bound."""

    preferred: dict[int, int] = field(default_factory=dict[int, int])
    cost: float = 0.0
    bound: float = 0.0
    components: int = 0
    complete: bool = True


class ExactSolver:
    """Solves the choice among candidates part by part; equal parts are solved once."""

    def __init__(self, found: CandidateSet, time_budget: float) -> None:
        self.found = found
        self.deadline = time.perf_counter() + time_budget
        self.solutions: dict[LocalProblem, LocalSolution] = {}

    def solve(self, banned: Set[int] = frozenset()) -> ExactResult:
        """The best choice found. Hubs are tried both ways: written once, or computed by readers.

        The bound is that of the choice in which hubs are there for nothing.
        """
        hubs = hubs_of(self.found)
        stored = set(hubs)
        best = self._solve_parts(banned, stored, frozenset())
        bound = self._solve_parts(banned, frozenset(), stored).bound if hubs else best.bound
        readers: dict[int, set[int]] = {hub: set() for hub in hubs}
        for candidate in self.found.candidates:
            for item in stored.intersection(candidate.inputs):
                readers[item].add(candidate.number)
        for hub in hubs if len(hubs) <= MANY_HUBS else ():
            if time.perf_counter() > self.deadline:
                break
            without = stored - {hub}
            unread = set(banned).union(*(readers[item] for item in hubs if item not in without))
            trial = self._solve_parts(unread, without, frozenset())
            if trial.complete and (not best.complete or trial.cost < best.cost):
                best, stored = trial, without
        best.bound = min(bound, best.cost) if best.complete else bound
        return best

    def _solve_parts(self, banned: Set[int], assumed: Set[int], given: Set[int]) -> ExactResult:
        result = ExactResult()
        found = self.found
        forced = forced_classes(found, banned, assumed)
        for component in components_of(found, banned, given, forced):
            result.components += 1
            simple = _decide_by_comparison(found, component)
            if simple is not None:
                price = found.candidates[simple].price
                result.preferred[component.demands[0]] = simple
                result.bound += price
                result.cost += price
                continue
            problem = localise(found, component, given)
            solution = self.solutions.get(problem)
            if solution is None:
                remaining = self.deadline - time.perf_counter()
                solution = self.solutions[problem] = _solve(problem, remaining)
            result.bound += solution.bound
            if solution.chosen is None:
                result.complete = False
                continue
            chosen = [found.candidates[component.candidates[index]] for index in solution.chosen]
            result.cost += sum(candidate.price for candidate in chosen)
            for candidate in sorted(chosen, key=lambda item: len(item.results)):
                result.preferred.update(dict.fromkeys(candidate.results, candidate.number))
        return result


def _decide_by_comparison(found: CandidateSet, component: Component) -> int | None:
    """The cheapest candidate of a component with one class; None where there are more."""
    if len(component.demands) != 1:
        return None
    candidates = [found.candidates[number] for number in component.candidates]
    if not candidates or any(item.results != component.demands for item in candidates):
        return None
    return min(candidates, key=lambda item: (item.price, len(item.inputs), item.number)).number


def _solve(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """Solves one component; with no time left only bounds it."""
    chosen = branch_and_bound(problem)
    if chosen is not None:
        return LocalSolution(chosen, sum(problem.prices[number] for number in chosen))
    if time_budget <= 0 or len(problem.prices) > SOLVABLE:
        return LocalSolution(None, _least_price(problem))
    solution = solve_integer_program(problem, time_budget)
    solution.bound = max(solution.bound, _least_price(problem))
    return solution


def _least_price(problem: LocalProblem) -> float:
    """A bound at once: each demanded class at the least share of a price among its writers."""
    demands = set(problem.demands)
    least: dict[int, float] = {}
    for results, price in zip(problem.results, problem.prices, strict=True):
        demanded = demands.intersection(results)
        for key in demanded:
            least[key] = min(least.get(key, float("inf")), price / len(demanded))
    return sum(least.values())


def solve_integer_program(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """The optimum of one component by HiGHS, or its bound where time runs out."""
    import highspy

    count = len(problem.prices)
    writers: dict[int, list[int]] = {}
    for column, results in enumerate(problem.results):
        for result in results:
            writers.setdefault(result, []).append(column)
    starts, indices, values, lower = [0], list[int](), list[float](), list[float]()

    def add_row(columns: dict[int, float], bound: float) -> None:
        indices.extend(columns)
        values.extend(columns.values())
        starts.append(len(indices))
        lower.append(bound)

    for key in problem.demands:
        if key not in writers:
            return LocalSolution(None, 0.0)
        add_row(dict.fromkeys(writers[key], 1.0), 1.0)
    for column, inputs in enumerate(problem.inputs):
        for key in inputs:
            row = dict.fromkeys(writers.get(key, ()), 1.0)
            row[column] = row.get(column, 0.0) - 1.0
            add_row(row, 0.0)
    scale = 1.0 / max(min(problem.prices), 1e-12)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, len(lower)
    model.col_cost_ = np.array(problem.prices) * scale
    model.col_lower_, model.col_upper_ = np.zeros(count), np.ones(count)
    model.row_lower_, model.row_upper_ = np.array(lower), np.full(len(lower), highspy.kHighsInf)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(starts, dtype=np.int32)
    model.a_matrix_.index_ = np.array(indices, dtype=np.int32)
    model.a_matrix_.value_ = np.array(values)
    model.integrality_ = [highspy.HighsVarType.kInteger] * count
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("mip_rel_gap", RELATIVE_GAP)
    solver.setOptionValue("time_limit", max(time_budget, 0.01))
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    bound = max(info.mip_dual_bound / scale, 0.0) if np.isfinite(info.mip_dual_bound) else 0.0
    if info.primal_solution_status != 2:
        return LocalSolution(None, bound)
    solution = np.asarray(solver.getSolution().col_value)
    return LocalSolution(tuple(int(i) for i in np.flatnonzero(solution > 0.5)), bound)
