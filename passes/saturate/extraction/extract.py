"""Extraction: the kernels that make the outputs at least cost, each shared value once.

In: a view and its candidates. Out: an `Extraction`: chosen kernels in order, cost, a lower bound on
any choice. All extractions for one graph share one `Work`.

The choice is cut into independent parts, and each is decided with a proof; equal parts are decided
once. Where no work is left, a part's choice is the best one found by then. Work is counted, and
ties go to the earlier candidate, so the result does not depend on the machine's speed.
"""

from dataclasses import dataclass

from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.extraction.components import LocalProblem, components_of
from mgn.passes.saturate.extraction.exact import ExactSolver, Solution
from mgn.passes.saturate.extraction.rings import cheapest_choice, order_of
from mgn.passes.saturate.extraction.selection import Selection, select
from mgn.passes.saturate.extraction.work import Work

BUDGETED = 10_000
"""Candidates for which the work of an extraction is meant; where there are more, so is work."""


@dataclass
class Extraction:
    """The chosen kernels, a lower bound on the cost of any choice, and whether too little work was
    allowed for these to be the same; how many parts there were, and how many distinct ones were not
    decided by comparison.
    """

    selection: Selection
    bound: float
    components: int
    distinct: int
    budget_spent: bool = False

    @property
    def gap(self) -> float:
        """How far, relatively, the cost can be from the least possible."""
        cost = self.selection.cost
        return max(0.0, (cost - self.bound) / cost) if cost > 0 else 0.0


def work_for(found: CandidateSet, budget: float = 2.0) -> Work:
    """The work of choosing among candidates: of so many seconds where these are few."""
    return Work(budget * max(1.0, len(found.candidates) / BUDGETED))


def extract(found: CandidateSet, work: Work | None = None) -> Extraction:
    """Chooses kernels with the work that is left; where none is given, with the usual one."""
    solver = ExactSolver(work_for(found) if work is None else work, found.memoise)
    solutions: dict[LocalProblem, Solution] = table(found.memoise)
    preferred: dict[int, int] = {}
    bound = 0.0
    parts = components_of(found)
    for part in parts:
        solution = solutions.get(part.problem)
        if solution is None:
            solution = solutions[part.problem] = cheapest_choice(part.problem, solver)
        assert solution.chosen is not None, "some class has no writer"
        bound += solution.bound
        for index in order_of(part.problem, solution.chosen)[0]:
            candidate = found.candidates[part.candidates[index]]
            for key in candidate.results:
                preferred.setdefault(key, candidate.number)
    selection = select(found, preferred, again=True)
    bound = min(bound, selection.cost)
    return Extraction(selection, bound, len(parts), len(solver.solved), solver.budget_spent)
