"""HiGHS, and what it is asked to do (Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised
simplex method", 2018).

In: costs and rows of a linear program whose variables lie between 0 and 1. Out: a solver with it.
"""

from typing import Any

import numpy as np

from mgn.passes.saturate.extraction.program_rows import Rows
from mgn.passes.saturate.extraction.work import ENTRY, PIVOT, Work
from mgn.passes.simplex import is_optimal, run_simplex

OPTIONS = {"output_flag": False, "threads": 1, "random_seed": 0, "presolve": "off"}
"""The search for a smaller program takes more time than it saves."""
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


def add_rows(solver: Any, rows: Rows) -> None:
    """Adds rows to a program."""
    solver.addRows(
        len(rows.lower),
        np.array(rows.lower),
        np.array(rows.upper),
        len(rows.columns),
        np.array(rows.starts[:-1], dtype=np.int32),
        np.array(rows.columns, dtype=np.int32),
        np.array(rows.values),
    )


def run_within(solver: Any, work: Work) -> bool:
    """Whether a solver found the optimum, from where it stopped, with the work that is left."""
    each = PIVOT * max(1, solver.getNumRow())
    if work.left < each:
        return False
    work.did(run_simplex(solver, work.left / each), each)
    work.did(solver.getNumNz(), ENTRY)
    return is_optimal(solver)
