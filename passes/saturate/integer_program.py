"""One independent problem as an integer program, solved by HiGHS (Q. Huangfu, J. A. J. Hall, 2018).

In: a `LocalProblem`, seconds. Out: the chosen candidates, and a bound on the cost of any choice.

Variables: x = 1 where a candidate is chosen, y = 1 where a class is taken from it: from the first
that writes the class, if there are several. A candidate with one result needs no y of its own. Rows
that make fractions dear, all true of choices in which no kernel waits for itself:

    forced k:          Σ y(k, ·) = 1
    c writes k:        y(k, c) ≤ x(c)
    k needs i always:  Σ y(k, ·) ≤ Σ y(i, ·)
    some writers of k  Σ y(k, those) ≤ Σ y(i, w) over writers w of i that neither write nor read k
      read i:

The third is for the dominators of `necessity`; the last says it once for all readers on the way to
k, where a row for each of them would let each read a fraction of i.
"""

from dataclasses import dataclass, field

import numpy as np

from mgn.passes.saturate.components import LocalProblem
from mgn.passes.saturate.necessity import Necessity, bits_of, necessity_of

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 1e-5,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""Good choices are found elsewhere: with these rows most bounds meet the choice before the solver
branches, so that its own searches for one take more time than they save.
"""


@dataclass
class LocalSolution:
    """Chosen candidates of a problem, or None where time ran out, and a bound on their cost."""

    chosen: tuple[int, ...] | None
    bound: float


@dataclass
class _Rows:
    """Rows of a sparse matrix, with the least and the greatest value of each."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])

    def add(self, entries: dict[int, float], lower: float, upper: float = float("inf")) -> None:
        self.columns.extend(entries)
        self.values.extend(entries.values())
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)


def solve_integer_program(problem: LocalProblem, time_budget: float) -> LocalSolution:
    """The optimum by HiGHS, or what it has and its bound where time runs out."""
    import highspy

    writers = problem.writers()
    if any(key not in writers for key in problem.demands):
        return LocalSolution(None, 0.0)
    count = len(problem.prices)
    taken, columns = _columns(problem)
    rows = _rows_of(problem, writers, taken)
    scale = 1.0 / max(min(problem.prices), 1e-12)
    cost = np.zeros(columns)
    cost[:count] = np.array(problem.prices) * scale
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, len(rows.lower)
    model.col_cost_ = cost
    model.col_lower_, model.col_upper_ = np.zeros(columns), np.ones(columns)
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.starts, dtype=np.int32)
    model.a_matrix_.index_ = np.array(rows.columns, dtype=np.int32)
    model.a_matrix_.value_ = np.array(rows.values)
    model.integrality_ = [highspy.HighsVarType.kInteger] * columns
    solver = highspy.Highs()
    for name, value in OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.setOptionValue("time_limit", max(time_budget, 0.01))
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    bound = max(info.mip_dual_bound / scale, 0.0) if np.isfinite(info.mip_dual_bound) else 0.0
    if info.primal_solution_status != 2:
        return LocalSolution(None, bound)
    solution = np.asarray(solver.getSolution().col_value)[:count]
    return LocalSolution(tuple(int(i) for i in np.flatnonzero(solution > 0.5)), bound)


def _columns(problem: LocalProblem) -> tuple[dict[tuple[int, int], int], int]:
    """The column of "this class is taken from this candidate", and how many columns there are."""
    taken: dict[tuple[int, int], int] = {}
    columns = len(problem.prices)
    for number, results in enumerate(problem.results):
        if len(results) == 1:
            taken[results[0], number] = number
            continue
        for key in results:
            taken[key, number] = columns
            columns += 1
    return taken, columns


def _rows_of(
    problem: LocalProblem, writers: dict[int, list[int]], taken: dict[tuple[int, int], int]
) -> _Rows:
    needs = necessity_of(problem)
    rows = _Rows()
    for key, numbers in writers.items():
        every = dict.fromkeys((taken[key, number] for number in numbers), 1.0)
        rows.add(every, float(needs.forced >> key & 1), 1.0)
    for number, results in enumerate(problem.results):
        if len(results) > 1:
            for key in results:
                rows.add({number: 1.0, taken[key, number]: -1.0}, 0.0)
    for key, numbers in writers.items():
        readers = _readers_towards(problem, key, numbers, needs)
        for item, reading in readers.items():
            if needs.forced >> item & 1 and item not in problem.tangled:
                continue
            row: dict[int, float] = {}
            for number in writers.get(item, ()):
                waits = key in problem.inputs[number]
                if not waits and (key not in problem.results[number] or number in reading):
                    row[taken[item, number]] = 1.0
            for number in reading:
                column = taken[key, number]
                row[column] = row.get(column, 0.0) - 1.0
            rows.add(row, 0.0)
    return rows


def _readers_towards(
    problem: LocalProblem, key: int, numbers: list[int], needs: Necessity
) -> dict[int, set[int]]:
    """For each class that writers of `key` need: those writers."""
    readers: dict[int, set[int]] = {}
    for number in numbers:
        for item in problem.inputs[number]:
            readers.setdefault(item, set()).add(number)
    always = needs.must[key] & ~(1 << key)
    nearest = always
    for item in bits_of(always):
        nearest &= ~(needs.must[item] & ~(1 << item))
    for item in bits_of(nearest):
        readers[item] = set(numbers)
    return readers
