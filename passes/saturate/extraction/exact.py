"""Exact extraction: the cheapest set of kernels, with a proof, part by part.

In: candidates, a time budget. Out: a preferred writer for each class, and a lower bound on every
solution's cost.

The choice is cut into independent parts; in each, what no best choice needs is left out, and it is
cut again. What remains is decided by comparison, frontier by frontier, or as an integer program,
whose fractions are looked at piece by piece; equal parts and pieces are solved once. A part that is
too large for that is cut at its most connected classes, at a loss that the bound includes. Rings of
kernels are excluded as they are met; where there is no time for that, who finds one bans a
candidate and asks again.
"""

import time
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.extraction.components import LocalProblem, Part, components_of
from mgn.passes.saturate.extraction.decomposition import Optima, falls_apart, solve_pieces
from mgn.passes.saturate.extraction.frontier import MANY, cheapest_choice, few_of
from mgn.passes.saturate.extraction.hubs import (
    RELAXED,
    SMALL,
    WHOLE,
    Cut,
    cut_at_hubs,
    largest_share,
)
from mgn.passes.saturate.extraction.integer_program import (
    RINGS,
    LocalSolution,
    Program,
    order_of,
    ring_of,
    solve_integer_program,
)
from mgn.passes.saturate.extraction.pruning import parts_of

FINE = 1 / 16
"""The share of a problem up to which pieces of a cut are so small that they are soon solved: then
they are tried first, though fractions fall apart, too.
"""
SHARE = 0.25
"""The share of the time left in which the pieces of a problem are solved that has a program."""
PROVED = 1e-4
"""Relative gap up to which no better choice is searched for."""
LEAST = 1e-6
"""Relative change of a bound that is one."""
BRANCHED = {2000: LEAST, 3000: PROVED, RELAXED: 1e-3}
"""Relative gaps from which on a program of up to so many candidates is branched on."""


@dataclass
class ExactResult:
    """Preferred writers of the classes in solved parts, those that write them first, a bound on the
    cost of any choice, and the classes whose writers are not proved to be the best.
    """

    preferred: dict[int, int] = field(default_factory=dict[int, int])
    first: dict[int, int] = field(default_factory=dict[int, int])
    bound: float = 0.0
    open: set[int] = field(default_factory=set[int])
    components: int = 0
    complete: bool = True


class ExactSolver:
    """Solves the choice among candidates part by part; equal parts are solved once. `timed_out`
    says that time kept a part from its proof.
    """

    def __init__(self, found: CandidateSet, time_budget: float) -> None:
        self.found = found
        self.deadline = time.process_time() + time_budget
        self.solutions: dict[LocalProblem, LocalSolution] = table(found.memoise)
        self.pieces: Optima = table(found.memoise)
        self.solved: set[LocalProblem] = set()
        self.timed_out = False

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
            for index in order_of(part.problem, solution.chosen)[0]:
                candidate = candidates[part.candidates[index]]
                for key in candidate.results:
                    result.first.setdefault(key, candidate.number)
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
        small = len(problem.prices) <= WHOLE
        chosen = cheapest_choice(problem, few_of(problem)) if small else None
        if chosen is not None and not ring_of(problem, chosen):
            return _best(problem, chosen)
        program = self._program(problem)
        if program is None:
            return self._noting_open(problem, self._in_pieces(problem, _cut_of(problem), 1.0))
        solution = program.relaxed()
        if solution is not None:
            return self._noting_open(problem, solution)
        chosen = cheapest_choice(problem, MANY) if small else None
        if chosen is not None and not ring_of(problem, chosen):
            return _best(problem, chosen)
        known, cut = LocalSolution(None, program.bound), _cut_of(problem)
        if not falls_apart(program) or (cut is not None and largest_share(cut, problem) <= FINE):
            known = _better(problem, self._in_pieces(problem, cut, SHARE), known)
        if program.taken and not _is_proved(problem, known, PROVED):
            known = self._around_fractions(problem, program, known)
        slack = next(gap for most, gap in BRANCHED.items() if len(problem.prices) <= most)
        if not _is_proved(problem, known, slack):
            program.deadline = (time.process_time() + self.deadline) / 2
            known = _better(problem, program.whole(known.chosen or ()), known)
        return self._noting_open(problem, known, program.timed_out)

    def _around_fractions(
        self, problem: LocalProblem, program: Program, known: LocalSolution
    ) -> LocalSolution:
        """A choice near the optimum with fractions, and a bound, both better piece by piece, while
        fractions cost more with the pieces' rows.
        """
        before = 0.0
        known = self._crossed(problem, program, known, known)
        while known.bound > before * (1 + LEAST) and self._has_time():
            before = known.bound
            start = known.chosen if _writes_all(problem, known.chosen) else None
            pieces = solve_pieces(program, self.pieces, start or ())
            known = self._crossed(problem, program, pieces, known)
            if _is_proved(problem, known, PROVED):
                break
            whole = program.relaxed() or LocalSolution(None, program.bound)
            known = _better(problem, whole, known)
            if _is_proved(problem, known, PROVED):
                break
        return known

    def _crossed(
        self, problem: LocalProblem, program: Program, one: LocalSolution, other: LocalSolution
    ) -> LocalSolution:
        """The best choice of the kernels in any of two choices and those that there are fractions
        of (E. Danna, E. Rothberg, C. Le Pape, "Exploring relaxation induced neighborhoods", 2005).
        """
        met = {*program.taken, *(one.chosen or ()), *(other.chosen or ())}
        chosen = self._chosen_among(problem, program, met)
        return _better(problem, LocalSolution(chosen, one.bound), other)

    def _chosen_among(
        self, problem: LocalProblem, program: Program, met: Set[int]
    ) -> tuple[int, ...] | None:
        """The best choice of these kernels: of those that wait for each other in a ring, which the
        program then excludes, one with several results is left out.
        """
        left = set(met)
        for _ in range(RINGS):
            chosen = self._chosen_in_parts(_among(problem, sorted(left)))
            ring = ring_of(problem, chosen or ())
            several = [number for _, number in ring if len(problem.results[number]) > 1]
            if not several:
                return chosen
            program.exclude(ring)
            left.discard(max(several))
        return None

    def _in_pieces(self, problem: LocalProblem, cut: Cut | None, share: float) -> LocalSolution:
        """The choice of a problem's pieces, where it falls into some, in a share of the time."""
        least = _least_price(problem)
        if cut is None:
            return LocalSolution(None, least)
        deadline = self.deadline
        self.deadline -= (1.0 - share) * max(deadline - time.process_time(), 0.0)
        pieces = self._solve_pieces(problem, cut)
        self.deadline = deadline
        pieces.bound = max(pieces.bound, least)
        return pieces

    def _chosen_in_parts(self, whole: Part) -> tuple[int, ...] | None:
        """A choice for a problem that falls into small parts."""
        total = LocalSolution((), 0.0)
        for part in parts_of(whole.problem):
            chosen = cheapest_choice(part.problem, few_of(part.problem))
            if chosen is None:
                left = max(self.deadline - time.process_time(), 0.0)
                chosen = solve_integer_program(part.problem, left / 4).chosen
            _add(total, LocalSolution(chosen, 0.0), part.candidates)
        if total.chosen is None:
            return None
        return tuple([whole.candidates[number] for number in total.chosen])

    def _program(self, problem: LocalProblem) -> Program | None:
        """The program of a problem; None where it is too large, or there is no time for it."""
        writers = problem.writers()
        too_large = len(problem.prices) > RELAXED or not self._has_time()
        if too_large or any(key not in writers for key in problem.demands):
            return None
        return Program(problem, self.deadline)

    def _noting_open(
        self, problem: LocalProblem, solution: LocalSolution, timed_out: bool = False
    ) -> LocalSolution:
        """A choice for a whole problem, all of which is open where that is not proved."""
        proved = _is_proved(problem, solution, PROVED)
        solution.open = () if proved else tuple(range(len(problem.prices)))
        self.timed_out |= not proved and (timed_out or not self._has_time())
        return solution

    def _has_time(self) -> bool:
        return time.process_time() < self.deadline

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
        total.chosen = _completed(problem, chosen)
        return total


def _cut_of(problem: LocalProblem) -> Cut | None:
    """The cut of a problem that is large enough for one."""
    return cut_at_hubs(problem) if len(problem.prices) > SMALL else None


def _best(problem: LocalProblem, chosen: tuple[int, ...]) -> LocalSolution:
    """A choice than which there is none cheaper."""
    return LocalSolution(chosen, _cost(problem, chosen))


def _add(total: LocalSolution, part: LocalSolution, numbers: tuple[int, ...]) -> None:
    """Adds a part's choice, whose candidates have these numbers in the whole."""
    total.bound += part.bound
    if total.chosen is None or part.chosen is None:
        total.chosen = None
    else:
        total.chosen += tuple(numbers[index] for index in part.chosen)
        total.open += tuple(numbers[index] for index in part.open)


def _completed(problem: LocalProblem, chosen: Sequence[int]) -> tuple[int, ...]:
    """A choice with writers of what it reads and does not write: of each class the one that is
    cheapest with what it reads besides.
    """
    writers, found = problem.writers(), list(chosen)
    written = {item for number in chosen for item in problem.results[number]}
    pending = [*problem.demands, *(item for number in chosen for item in problem.inputs[number])]

    def least(key: int) -> float:
        return min((problem.prices[number] for number in writers.get(key, ())), default=0.0)

    def price(number: int) -> float:
        lacking = (item for item in problem.inputs[number] if item not in written)
        return problem.prices[number] + sum(map(least, lacking))

    while pending:
        key = pending.pop()
        if key in writers and key not in written:
            number = min(writers[key], key=lambda n: (price(n), n))
            found.append(number)
            written.update(problem.results[number])
            pending += problem.inputs[number]
    return tuple(found)


def _among(problem: LocalProblem, numbers: Sequence[int]) -> Part:
    """The problem with these candidates alone."""
    left = replace(
        problem,
        results=tuple([problem.results[number] for number in numbers]),
        inputs=tuple([problem.inputs[number] for number in numbers]),
        prices=tuple([problem.prices[number] for number in numbers]),
    )
    return Part(left, tuple(numbers))


def _better(problem: LocalProblem, solution: LocalSolution, other: LocalSolution) -> LocalSolution:
    """The cheaper one of two choices that write all they have to, with the greater bound."""
    one, two = (
        _cost(problem, item.chosen) if _writes_all(problem, item.chosen) else float("inf")
        for item in (solution, other)
    )
    chosen = solution.chosen if one <= two and solution.chosen is not None else other.chosen
    return LocalSolution(chosen, max(solution.bound, other.bound))


def _cost(problem: LocalProblem, chosen: Iterable[int] | None) -> float:
    return sum(problem.prices[number] for number in chosen or ())


def _writes_all(problem: LocalProblem, chosen: Collection[int] | None) -> bool:
    """Whether a choice writes what is demanded, each kernel from what others write before."""
    order, waiting = order_of(problem, chosen or ())
    return not waiting and {i for n in order for i in problem.results[n]}.issuperset(
        problem.demands
    )


def _is_proved(problem: LocalProblem, solution: LocalSolution, slack: float) -> bool:
    """Whether a choice writes all that it has to, at no more than the bound."""
    if solution.chosen is None or not _writes_all(problem, solution.chosen):
        return False
    return _cost(problem, solution.chosen) <= solution.bound * (1 + slack)


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
