"""Exact extraction: the cheapest set of kernels, with a proof, by integer programming on each component.

In: candidates, a time budget. Out: a preferred writer for each class, and a lower bound on every solution's cost.

Variables: x = 1 where a candidate is chosen. Each demanded class has a chosen writer; a chosen candidate's inputs have
chosen writers. Solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018); equal components are solved once. Components of one
class are decided by comparison. Cycles are not in the program: who finds one bans a candidate and asks again.
"""

import time
from dataclasses import dataclass, field

import numpy as np

from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.components import (
    Component,
    LocalProblem,
    components_of,
    localise,
    without_dominated,
)

RELATIVE_GAP = 1e-6


@dataclass
class LocalSolution:
    """Chosen candidates of a problem, None where none was found in time, and a bound on their cost."""

    chosen: tuple[int, ...] | None
    bound: float


@dataclass
class ExactResult:
    """Preferred writers of the classes in solved components, and the bound over all components."""

    preferred: dict[int, int] = field(default_factory=dict[int, int])
    bound: float = 0.0
    components: int = 0
    distinct: int = 0
    complete: bool = True


def solve_exactly(found: CandidateSet, banned: set[int], time_budget: float) -> ExactResult:
    """Solves all components within a time budget."""
    deadline = time.perf_counter() + time_budget
    result = ExactResult()
    solutions: dict[LocalProblem, LocalSolution] = {}
    for component in components_of(found, banned):
        result.components += 1
        simple = _decide_by_comparison(found, component)
        if simple is not None:
            result.preferred[component.demands[0]] = simple
            result.bound += found.candidates[simple].price
            continue
        problem = localise(found, component)
        solution = solutions.get(problem)
        if solution is None:
            remaining = deadline - time.perf_counter()
            solution = solutions[problem] = _solve(problem, remaining)
        result.bound += solution.bound
        if solution.chosen is None:
            result.complete = False
            continue
        numbers = [component.candidates[index] for index in solution.chosen]
        written = {number: found.candidates[number].results for number in numbers}
        for number in sorted(numbers, key=lambda n: len(written[n])):
            for key in written[number]:
                result.preferred[key] = number
    result.distinct = len(solutions)
    return result


def _decide_by_comparison(found: CandidateSet, component: Component) -> int | None:
    """The cheapest candidate of a component with one class; None where there are more."""
    if len(component.demands) != 1:
        return None
    candidates = [found.candidates[number] for number in component.candidates]
    if any(item.results != component.demands for item in candidates):
        return None
    return min(candidates, key=lambda item: (item.price, len(item.inputs), item.number)).number


def _solve(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """Solves one component; with no time left only bounds it."""
    if time_budget <= 0:
        return LocalSolution(None, 0.0)
    import highspy

    kept = without_dominated(problem)
    writers: dict[int, list[int]] = {}
    for column, number in enumerate(kept):
        for result in problem.results[number]:
            writers.setdefault(result, []).append(column)
    starts, indices, values, lower = [0], list[int](), list[float](), list[float]()

    def add_row(columns: dict[int, float], bound: float) -> None:
        indices.extend(columns)
        values.extend(columns.values())
        starts.append(len(indices))
        lower.append(bound)

    for key in problem.demands:
        add_row(dict.fromkeys(writers[key], 1.0), 1.0)
    for column, number in enumerate(kept):
        for key in problem.inputs[number]:
            row = dict.fromkeys(writers.get(key, ()), 1.0)
            row[column] = row.get(column, 0.0) - 1.0
            add_row(row, 0.0)
    scale = 1.0 / max(min(problem.prices), 1e-12)
    count = len(kept)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, len(lower)
    model.col_cost_ = np.array([problem.prices[number] * scale for number in kept])
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
    return LocalSolution(tuple(kept[i] for i in np.flatnonzero(solution > 0.5)), bound)
