"""The solver of linear programs: what it finds, and that standard output stays the commands'."""

import subprocess
import sys
from array import array
from typing import Any

import numpy as np
import pytest

from mgn.passes.saturate.extraction.program_rows import Rows
from mgn.passes.saturate.extraction.solver import run_within, solver_of
from mgn.passes.saturate.extraction.work import Work
from mgn.passes.simplex import CIRCLES

PROGRAM = """
import numpy as np
from mgn.passes.saturate.extraction.program_rows import Rows
from mgn.passes.saturate.extraction.solver import run_within, solver_of
from mgn.passes.saturate.extraction.work import Work

rows = Rows()
rows.add({0: 1.0, 1: 1.0}, 1.0, float("inf"))
solver = solver_of(np.array([3.0, 2.0]), rows)
assert run_within(solver, Work(float("inf")))
assert solver.getInfo().objective_function_value == 2.0
"""


def test_the_solver_prints_nothing_since_results_are_on_standard_output() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rows_that_are_compared_or_taken_from_others_are_those_added_one_by_one() -> None:
    added, compared, taken = Rows(), Rows(), Rows()
    added.add({0: 1.0}, 1.0, 2.0)
    added.add({1: 1.0, 3: 1.0, 2: -1.0, 0: -1.0}, 0.0)
    compared.compare(array("q", [2, 0]), array("q", [1]), array("q", [3]))
    taken.add({0: 1.0}, 1.0, 2.0)
    before = taken.arrays()
    taken.extend(compared)
    assert len(before[0]) == 1
    assert [part.tolist() for part in taken.arrays()] == [p.tolist() for p in added.arrays()]
    assert taken.entries(1) == {1: 1.0, 3: 1.0, 2: -1.0, 0: -1.0}


class Circling:
    """A solver that goes round in circles until it was cleared so often, as the primal simplex does
    from some bases: as many iterations as it may make lead nowhere.
    """

    def __init__(self, solver: Any, clearings: int) -> None:
        self.solver, self.clearings = solver, clearings
        self.made: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solver, name)

    def run(self) -> None:
        _, limit = self.solver.getOptionValue("simplex_iteration_limit")
        self.made.append(limit)
        if self.clearings:
            self.solver.setOptionValue("simplex_iteration_limit", 0)
        self.solver.run()

    def clearSolver(self) -> None:
        self.clearings -= 1
        self.solver.clearSolver()


@pytest.mark.parametrize(("clearings", "is_found"), [(0, True), (1, True), (2, False)])
def test_a_solver_that_goes_round_in_circles_begins_anew(clearings: int, is_found: bool) -> None:
    rows = Rows()
    rows.add({0: 1.0, 1: 1.0}, 1.0, float("inf"))
    solver = Circling(solver_of(np.array([3.0, 2.0]), rows), clearings)
    assert run_within(solver, Work(1e9)) is is_found
    assert solver.made == [CIRCLES * 3] * min(clearings + 1, 2)
    if is_found:
        assert solver.getInfo().objective_function_value == 2.0


def test_a_solver_without_work_does_not_begin_anew() -> None:
    rows = Rows()
    rows.add({0: 1.0, 1: 1.0}, 1.0, float("inf"))
    solver = Circling(solver_of(np.array([3.0, 2.0]), rows), 1)
    assert not run_within(solver, Work(0.0)) and not solver.made
