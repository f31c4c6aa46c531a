"""The simplex method on a linear program, which may go round in circles.

In: a solver of HiGHS with its program. Out: how many iterations it made, and whether it found the
optimum. A solver that ends by the primal simplex may never come to one: it begins anew then.
"""

from math import inf
from typing import Any

CIRCLES = 3
"""Iterations, for each row and column, after which a solver goes round in circles: programs take
less than half a one.
"""


def run_simplex(solver: Any, most: float = inf) -> int:
    """Solves from where the solver stopped, by at most so many iterations; returns how many it
    made. One that goes round in circles from there begins anew, once.
    """
    enough = CIRCLES * (solver.getNumRow() + solver.getNumCol())
    made = _run(solver, min(most, enough))
    goes_round = most >= enough and _status(solver) == "kIterationLimit"
    if not goes_round or most - made < 1.0:
        return made
    solver.clearSolver()
    return made + _run(solver, min(most - made, enough))


def is_optimal(solver: Any) -> bool:
    """Whether the last run found the optimum."""
    return _status(solver) == "kOptimal"


def _run(solver: Any, most: float) -> int:
    solver.setOptionValue("simplex_iteration_limit", int(most))
    solver.run()
    return solver.getInfo().simplex_iteration_count


def _status(solver: Any) -> str:
    return solver.getModelStatus().name
