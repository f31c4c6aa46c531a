"""The solver of linear programs: what it finds, and that standard output stays the commands'."""

import subprocess
import sys

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
