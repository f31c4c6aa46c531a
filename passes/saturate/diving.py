"""Which classes a good choice of kernels writes, from the optimum where fractions are allowed.

In: a solver of HiGHS with a problem's program, the columns that say how much of each class is
written. Out: the classes written.

Those nearest to whole are written, or not, for good, and the optimum is looked for again: a *dive*
(T. Berthold, "Primal heuristics for mixed integer programs", 2006). More can always be written:
where no choice is left, none is given up any more, and those that were last given up never again.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

NEARLY = 1e-6
"""How far from a whole number a variable may be."""
STEP = 7
"""One of so many classes that are written in part is decided at once."""


def run_until(solver: Any, deadline: float) -> None:
    """Runs a solver, from where it stopped, until the processor's time is `deadline`; its own clock
    is the wall's, which on a busy machine is sooner at its limit.
    """
    left = max(deadline - time.process_time(), 0.01)
    solver.setOptionValue("time_limit", solver.getRunTime() + left)
    solver.run()


def written_classes(
    solver: Any, amounts: Mapping[int, int], deadline: float
) -> frozenset[int] | None:
    """The classes of a choice that writes none in part; None where none was found in time."""
    keys, columns = list(amounts), np.array(list(amounts.values()))
    given_up: list[int] = []
    last: list[int] = []
    needed: set[int] = set()
    while time.process_time() < deadline:
        run_until(solver, deadline)
        if str(solver.getModelStatus()) != "HighsModelStatus.kOptimal":
            if not given_up:
                return None
            for key in given_up:
                solver.changeColBounds(amounts[key], 0.0, 1.0)
            needed.update(last)
            given_up.clear()
            continue
        values = np.asarray(solver.getSolution().col_value)[columns]
        away = np.minimum(values, 1.0 - values)
        parts = [place for place in np.argsort(away, kind="stable") if away[place] > NEARLY]
        if not parts:
            return frozenset(key for key, value in zip(keys, values, strict=True) if value > 0.5)
        last = []
        for place in parts[: 1 + len(parts) // STEP]:
            key = keys[place]
            written = 1.0 if values[place] >= 0.5 or key in needed else 0.0
            solver.changeColBounds(amounts[key], written, written)
            if not written:
                last.append(key)
        given_up += last
    return None
