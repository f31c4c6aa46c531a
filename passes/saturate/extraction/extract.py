"""Extraction: the kernels that make the outputs at least cost, each shared value once.

In: a view and its candidates. Out: an `Extraction`: chosen kernels in order, cost, a lower bound on
any choice. All extractions for one graph share one `Work`.

The choice is cut into independent parts, and each is decided with a proof; equal parts are decided
once. Where no work is left, a part's choice is the best one found by then. Work is counted, and
ties go to the earlier candidate, so the result does not depend on the machine's speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.extraction.components import LocalProblem, Part, components_of
from mgn.passes.saturate.extraction.elimination import is_wider
from mgn.passes.saturate.extraction.exact import ExactSolver, Solution
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.rings import BEAM, LONG, choice_soon, order_of
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
    def slack(self) -> float:
        """How many seconds more than the least possible the cost can be."""
        return max(0.0, self.selection.cost - self.bound)

    @property
    def gap(self) -> float:
        """How far, relatively, the cost can be from the least possible."""
        cost = self.selection.cost
        return self.slack / cost if cost > 0 else 0.0


def work_for(found: CandidateSet, budget: float = 2.0) -> Work:
    """The work of choosing among candidates: of so many seconds where these are few."""
    return Work(budget * max(1.0, len(found.candidates) / BUDGETED))


class Extractor:
    """What candidates are to be chosen among: `parts`, and a solver for them with the work that is
    left. It knows what an extractor `like` it has solved.
    """

    def __init__(self, found: CandidateSet, work: Work, like: "Extractor | None" = None) -> None:
        self.found, self.parts = found, components_of(found)
        self.solver = ExactSolver(work, found.memoise)
        if like is not None:
            self.solver.known, self.solver.cores = like.solver.known, like.solver.cores

    def is_wider(self, width: int) -> bool:
        """Whether some class is tied to more than so many others when it is eliminated."""
        return any(
            is_wider(piece.problem, width) for part in self.parts for piece in self._pieces(part)
        )

    def _pieces(self, part: Part) -> list[Part]:
        """What a part falls into, if it is so large that this matters."""
        return self.solver.parts(part.problem) if len(part.candidates) >= LONG else []

    def soon(self, beam: int = BEAM) -> Selection:
        """Kernels that cost little more than the cheapest ones, without a proof; `beam` is how many
        states are kept of each table.
        """
        soon: dict[LocalProblem, tuple[int, ...] | None] = table(self.found.memoise)
        preferred: dict[int, int] = {}
        for part in self.parts:
            chosen = soon.get(part.problem)
            if chosen is None:
                chosen = soon[part.problem] = choice_soon(part.problem, self.solver, beam)
            _prefer(preferred, self.found, part, chosen)
        return select(self.found, preferred, again=True)

    def best(self, begun: Sequence[int] = (), rings: bool = True) -> Extraction:
        """The cheapest kernels, or some near them where too little work is left: improved from a
        choice that prefers some candidates, the first ones most. Without `rings`, a choice near the
        cheapest one does where that has rings.
        """
        found, solver = self.found, self.solver
        solver.breaks_rings = rings
        solutions: dict[LocalProblem, Solution] = table(found.memoise)
        preferred: dict[int, int] = {}
        bound = 0.0
        for part in self.parts:
            solution = solutions.get(part.problem)
            if solution is None:
                place_of = {number: place for place, number in enumerate(part.candidates)}
                own = [place_of[number] for number in begun if number in place_of]
                solution = solutions[part.problem] = cheapest_choice(part.problem, solver, own)
            bound += solution.bound
            _prefer(preferred, found, part, solution.chosen)
        selection = select(found, preferred, again=True)
        bound = min(bound, selection.cost)
        distinct = len(solver.solved)
        return Extraction(selection, bound, len(self.parts), distinct, solver.budget_spent)


def extract(
    found: CandidateSet, work: Work | None = None, like: Extractor | None = None
) -> Extraction:
    """Chooses kernels with the work that is left; where none is given, with the usual one."""
    return Extractor(found, work_for(found) if work is None else work, like).best()


def _prefer(
    preferred: dict[int, int], found: CandidateSet, part: Part, chosen: tuple[int, ...] | None
) -> None:
    """Notes which chosen candidate of a part writes each class first."""
    assert chosen is not None, "some class has no writer"
    for index in order_of(part.problem, chosen)[0]:
        candidate = found.candidates[part.candidates[index]]
        for key in candidate.results:
            preferred.setdefault(key, candidate.number)
