"""HiGHS, and what it is asked to do (Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised
simplex method", 2018).

In: costs and rows of a program whose variables lie between 0 and 1. Out: a solver with it.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mgn.passes.saturate.extraction.program_rows import Rows

OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "presolve": "off",
    "mip_rel_gap": 1e-7,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""Good choices are found elsewhere: with these rows most bounds meet the choice before the solver
branches, so that its own searches for one take more time than they save, and so does its search for
a smaller program.
"""
NEARLY = 1e-6
"""How far from a whole number a variable may be."""


def solver_of(costs: np.ndarray, rows: Rows) -> Any:
    """A solver that looks for the least cost."""
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(rows.lower)
    model.col_cost_ = costs
    model.col_lower_, model.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.starts, dtype=np.int32)
    model.a_matrix_.index_ = np.array(rows.columns, dtype=np.int32)
    model.a_matrix_.value_ = np.array(rows.values)
    solver = highspy.Highs()
    for name, value in OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    return solver


def add_row(solver: Any, entries: Mapping[int, float], least: float) -> None:
    """Adds a row: the values of its columns, and their least sum."""
    columns = np.fromiter(entries, dtype=np.int32)
    values = np.array(list(entries.values()))
    solver.addRow(least, np.inf, len(columns), columns, values)


def make_whole(solver: Any, columns: Iterable[int]) -> None:
    """Allows no fractions of these columns."""
    import highspy

    numbers = np.array([*columns], dtype=np.int32)
    kinds = np.full(len(numbers), highspy.HighsVarType.kInteger)
    solver.changeColsIntegrality(len(numbers), numbers, kinds)


def start_from(solver: Any, values: np.ndarray) -> None:
    """Tells a solver of a choice: the values of all columns."""
    solver.setSolution(len(values), np.arange(len(values), dtype=np.int32), values)


def run_until(solver: Any, deadline: float) -> None:
    """Runs a solver, from where it stopped, until the processor's time is `deadline`; its own clock
    is the wall's, which on a busy machine is sooner at its limit.
    """
    left = max(deadline - time.process_time(), 0.01)
    solver.setOptionValue("time_limit", solver.getRunTime() + left)
    solver.run()


def ran_out(solver: Any) -> bool:
    """Whether a solver stopped at its time limit."""
    return str(solver.getModelStatus()) == "HighsModelStatus.kTimeLimit"


def is_solved(solver: Any) -> bool:
    """Whether a solver found the optimum."""
    return str(solver.getModelStatus()) == "HighsModelStatus.kOptimal"
