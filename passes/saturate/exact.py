"""Exact extraction: the cheapest set of kernels, with a proof, part by part.

In: candidates, a time budget. Out: a preferred writer for each class, and a lower bound on every
solution's cost.

The choice is cut into independent parts; in each, what no best choice needs is left out, and it is
cut again. What remains is decided by comparison, frontier by frontier, or as an integer program;
equal parts are solved once. A part that is too large for that is cut at its most connected classes,
at a loss that the bound includes. Rings of kernels are not excluded: who finds one bans a candidate
and asks again.
"""

import time
from collections.abc import Set
from dataclasses import dataclass, field

from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.components import LocalProblem, components_of
from mgn.passes.saturate.frontier import FEW, MANY, cheapest_choice
from mgn.passes.saturate.hubs import RELAXED, SMALL, WHOLE, Cut, cut_at_hubs
from mgn.passes.saturate.integer_program import LocalSolution, Program
from mgn.passes.saturate.pruning import parts_of
from mgn.passes.saturate.repetition import table

SLACK = 1e-3
"""Relative gap up to which the choice of pieces is taken for that of the whole."""
PROVED = 1e-4
"""Relative gap up to which no better choice is searched for."""


@dataclass
class ExactResult:
    """Preferred writers of the classes in solved parts, a bound on the cost of any choice, and the
    classes whose writers are not proved to be the best.
    """

    preferred: dict[int, int] = field(default_factory=dict[int, int])
    bound: float = 0.0
    open: set[int] = field(default_factory=set[int])
    components: int = 0
    complete: bool = True


class ExactSolver:
    """Solves the choice among candidates part by part; equal parts are solved once."""

    def __init__(self, found: CandidateSet, time_budget: float) -> None:
        self.found = found
        self.deadline = time.process_time() + time_budget
        self.solutions: dict[LocalProblem, LocalSolution] = table(found.memoise)
        self.solved: set[LocalProblem] = set()

    def solve(self, banned: Set[int] = frozenset()) -> ExactResult:
        """The best choice found, and the bound of all."""
        result = ExactResult()
        candidates = self.found.candidates
        for part in components_of(self.found, banned):
            result.components += 1
            solution = self._solution(part.problem)
            result.bound += solution.bound
            if solution.chosen is None:
                result.complete = False
                continue
            for index in solution.open:
                result.open.update(candidates[part.candidates[index]].results)
            chosen = [candidates[part.candidates[index]] for index in solution.chosen]
            for candidate in sorted(chosen, key=lambda item: len(item.results)):
                result.preferred.update(dict.fromkeys(candidate.results, candidate.number))
        return result

    def _solution(self, problem: LocalProblem) -> LocalSolution:
        known = self.solutions.get(problem)
        if known is None:
            known = self.solutions[problem] = self._solve(problem)
        return known

    def _solve(self, problem: LocalProblem) -> LocalSolution:
        """Decides a part by comparison, or leaves out what is not needed and solves the rest."""
        simple = _decide_by_comparison(problem)
        if simple is not None:
            return _best(problem, (simple,))
        total = LocalSolution((), 0.0)
        for part in parts_of(problem):
            solution = self.solutions.get(part.problem)
            if solution is None:
                solution = self.solutions[part.problem] = self._solve_core(part.problem)
            _add(total, solution, part.candidates)
        return total

    def _solve_core(self, problem: LocalProblem) -> LocalSolution:
        """Solves what is left of a part; with no time left only bounds it."""
        simple = _decide_by_comparison(problem)
        if simple is not None:
            return _best(problem, (simple,))
        self.solved.add(problem)
        chosen = cheapest_choice(problem, FEW) if len(problem.prices) <= WHOLE else None
        if chosen is not None:
            return _best(problem, chosen)
        program = self._program(problem, WHOLE)
        solution = None if program is None else program.relaxed()
        if solution is not None:
            return _noting_open(problem, solution)
        chosen = None if program is None else cheapest_choice(problem, MANY)
        if chosen is not None:
            return _best(problem, chosen)
        pieces = LocalSolution(None, 0.0)
        cut = cut_at_hubs(problem) if len(problem.prices) > SMALL else None
        if cut is not None:
            pieces = self._solve_pieces(problem, cut)
        pieces.bound = max(pieces.bound, _least_price(problem))
        if _is_proved(problem, pieces, SLACK):
            return _noting_open(problem, pieces)
        if program is None:
            return _noting_open(problem, self._relaxed(problem, pieces))
        solution = program.whole()
        solution.bound = max(solution.bound, pieces.bound)
        if solution.chosen is None:
            solution.chosen = pieces.chosen
        return _noting_open(problem, solution)

    def _relaxed(self, problem: LocalProblem, pieces: LocalSolution) -> LocalSolution:
        """The choice of a large problem whose pieces prove too little: the optimum where fractions
        of kernels are allowed, or theirs with its bound.
        """
        program = self._program(problem, RELAXED)
        if program is None:
            return pieces
        solution = program.relaxed() or pieces
        solution.bound = max(solution.bound, program.bound)
        return solution

    def _program(self, problem: LocalProblem, most: int) -> Program | None:
        """The program of a problem; None where it is too large, or there is no time for it."""
        writers = problem.writers()
        too_large = len(problem.prices) > most or time.process_time() >= self.deadline
        if too_large or any(key not in writers for key in problem.demands):
            return None
        return Program(problem, self.deadline)

    def _solve_pieces(self, problem: LocalProblem, cut: Cut) -> LocalSolution:
        """The choices of the pieces, with writers of the hubs that they bought."""
        total = LocalSolution((), sum(cut.least[hub] for hub in cut.forced))
        for piece in cut.pieces:
            _add(total, self._solution(piece.problem), piece.candidates)
        if total.chosen is None:
            return total
        wanted = cut.forced.union(cut.purchases[n] for n in total.chosen if n in cut.purchases)
        chosen = [number for number in total.chosen if number not in cut.purchases]
        written = {item for number in chosen for item in problem.results[number]}
        writers = problem.writers()
        for hub in sorted(wanted - written):
            chosen.append(min(writers[hub], key=lambda n: (problem.prices[n], n)))
        total.chosen = tuple(chosen)
        return total


def _best(problem: LocalProblem, chosen: tuple[int, ...]) -> LocalSolution:
    """A choice than which there is none cheaper."""
    return LocalSolution(chosen, sum(problem.prices[number] for number in chosen))


def _add(total: LocalSolution, part: LocalSolution, numbers: tuple[int, ...]) -> None:
    """Adds a part's choice, whose candidates have these numbers in the whole."""
    total.bound += part.bound
    if total.chosen is None or part.chosen is None:
        total.chosen = None
    else:
        total.chosen += tuple(numbers[index] for index in part.chosen)
        total.open += tuple(numbers[index] for index in part.open)


def _noting_open(problem: LocalProblem, solution: LocalSolution) -> LocalSolution:
    """A choice for a whole problem, all of which is open where that is not proved."""
    proved = _is_proved(problem, solution, PROVED)
    solution.open = () if proved else tuple(range(len(problem.prices)))
    return solution


def _is_proved(problem: LocalProblem, solution: LocalSolution, slack: float) -> bool:
    """Whether a choice writes all that it has to, at no more than the bound."""
    if solution.chosen is None:
        return False
    written = {item for number in solution.chosen for item in problem.results[number]}
    needed = {item for number in solution.chosen for item in problem.inputs[number]}
    cost = sum(problem.prices[number] for number in solution.chosen)
    return needed.union(problem.demands) <= written and cost <= solution.bound * (1 + slack)


def _decide_by_comparison(problem: LocalProblem) -> int | None:
    """The cheapest candidate where there is one class; None where there are more."""
    if len(problem.demands) != 1 or not problem.prices:
        return None
    if any(item != problem.demands for item in problem.results):
        return None
    numbers = range(len(problem.prices))
    return min(numbers, key=lambda n: (problem.prices[n], len(problem.inputs[n]), n))


def _least_price(problem: LocalProblem) -> float:
    """A bound at once: each demanded class at the least share of a price among its writers."""
    demands = set(problem.demands)
    least: dict[int, float] = {}
    for results, price in zip(problem.results, problem.prices, strict=True):
        demanded = demands.intersection(results)
        for key in demanded:
            least[key] = min(least.get(key, float("inf")), price / len(demanded))
    return sum(least.values())
