"""The cheapest closed choice of kernels for one problem, with a proof.

In: a `LocalProblem`, and `Work` that may be done. Out: a `Solution`: the chosen candidates, and a
bound on the cost of any choice.

What no best choice needs is left out, and the problem falls into parts; equal parts are solved
once. In each part, classes tied to few others are eliminated. What is left is a linear program. Of
a large one, rows are rounded until few fractions are left. A choice among the kernels that
fractions consist of is nearly as cheap as the bound, so few candidates are in a cheaper one: these
are a smaller problem, in which more classes are eliminated.
Where that does not help, the problem is branched on; and before all that on a class that very many
are tied to, without which it falls apart. Among very many candidates, a choice that is close to the
bound takes as much work again at most.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.extraction.branching import hub_of, taken_or_not, written_or_not
from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.elimination import ANY, BEAM, Elimination, good_choice
from mgn.passes.saturate.extraction.pruning import parts_of
from mgn.passes.saturate.extraction.relaxation import Program, Relaxation, among
from mgn.passes.saturate.extraction.work import LOOKED_AT, STATE, Work

WIDTH, WIDER = 8, 2
"""Classes that one is tied to which is eliminated: at first, and how many more each time again."""
WORK, HARDER = 20_000, 2
"""States met to eliminate one: at first, and how many times as many each time again."""
TOTAL, EACH = 200_000, 100
"""States met to eliminate all: so many, and as many more for each candidate."""
AT_ONCE = 2_000
"""States met to eliminate all where no work is left."""
ROUNDS, MOST = 4, 12
"""How often more classes are eliminated: in any case, and where that leaves fewer candidates."""
FEWER = 0.99
"""The share of the candidates left up to which there are fewer."""
FEW = 0.6
"""The share up to which no more rows are rounded: of few candidates more classes are eliminated."""
PIECE = 0.25
"""The share of the candidates that a part may be where a problem falls apart."""
NEAREST = (1, 3, 4)
"""How many times as many candidates as fractions consist of a choice is made of."""
LARGE = 100
"""Candidates from which on rows are rounded: of fewer ones more classes are eliminated first."""
IDLE, RISING = 2, 0.1
"""How often more rows may bring the bound less than that share of the gap nearer to a choice."""
MANY = 2_000
"""Candidates above which one effort has to do, where a choice has to be near alone."""
CLOSE, BESIDES = 1e-3, 1.0
"""Relative gap up to which a choice among so many is close, and how many times the work it took
may go into a cheaper one, or the proof that there is none.
"""
PROVED = 1e-6
"""Relative gap up to which there is no better choice."""


@dataclass(frozen=True)
class Solution:
    """Chosen candidates of a problem, None where there is no choice or none is known; a bound on
    the cost of all choices; and what the first linear programs allowed, which is no more.
    """

    chosen: tuple[int, ...] | None
    bound: float
    relaxed: float


NONE = Solution(None, inf, inf)


def cost_of(problem: LocalProblem, chosen: Iterable[int]) -> float:
    """What candidates cost together."""
    return sum([problem.prices[number] for number in chosen])


class ExactSolver:
    """Solves problems with the work that is left; equal ones are solved once. `budget_spent` says
    that one had too little for its proof, and `solved` are those that are not decided by
    comparison. `breaks_rings` says that the cheapest choice without rings is looked for; else one
    near it does.
    """

    def __init__(self, work: Work, memoise: bool = True, near: float = PROVED) -> None:
        self.work, self.memoise, self.near = work, memoise, near
        self.known: dict[LocalProblem, Solution] = table(memoise)
        self.cores: dict[LocalProblem, Solution] = table(memoise)
        self.solved: set[LocalProblem] = set()
        self.budget_spent = False
        self.breaks_rings = True
        self.last: tuple[LocalProblem, list[Part]] | None = None

    def solve(self, problem: LocalProblem, effort: int = 0) -> Solution:
        """The cheapest closed choice, part by part."""
        chosen: list[int] = []
        bound = relaxed = 0.0
        for part in self.parts(problem):
            solution = self._known(part.problem, effort)
            if solution.chosen is None:
                return NONE
            chosen += [part.candidates[number] for number in solution.chosen]
            bound += solution.bound
            relaxed += solution.relaxed
        return Solution(tuple(chosen), bound, relaxed)

    def parts(self, problem: LocalProblem) -> list[Part]:
        """The parts of a problem; those of the last one that is not small are remembered."""
        if self.last is not None and self.last[0] == problem:
            return self.last[1]
        parts = parts_of(problem)
        self.work.did(len(problem.prices), LOOKED_AT)
        if len(problem.prices) > MANY:
            self.last = problem, parts
        return parts

    def has_work(self) -> bool:
        """Whether work is left for another proof; noted where there is none."""
        left = self.work.left > 0.0
        self.budget_spent |= not left
        return left

    def _states_left(self) -> int:
        """How many states there is work for; a few in any case."""
        return int(min(max(self.work.left / STATE, AT_ONCE), ANY))

    def _known(self, problem: LocalProblem, effort: int) -> Solution:
        solution = self.known.get(problem)
        if solution is None:
            solution = _decided(problem) or self._solve_part(problem, effort)
            self.known[problem] = solution
        return solution

    def _solve_part(self, problem: LocalProblem, effort: int) -> Solution:
        """Eliminates the classes that are tied to few, and solves what is left."""
        self.solved.add(problem)
        elimination = Elimination(
            problem,
            WIDTH + WIDER * effort,
            WORK * HARDER**effort,
            min(TOTAL + EACH * len(problem.prices), self._states_left()),
        )
        self.work.did(elimination.work, STATE)
        if not elimination.feasible:
            return NONE
        trails, bound = list(elimination.decided), elimination.cost
        relaxed = bound
        if elimination.left:
            core, candidates = elimination.core()
            for part in parts_of(core):
                solution = self.cores.get(part.problem)
                if solution is None:
                    solution = _decided(part.problem) or self._solve_core(part.problem, effort)
                    self.cores[part.problem] = solution
                if solution.chosen is None:
                    return NONE
                trails += [candidates[part.candidates[number]] for number in solution.chosen]
                bound += solution.bound
                relaxed += solution.relaxed
        return Solution(elimination.candidates(trails), bound, relaxed)

    def _solve_core(self, problem: LocalProblem, effort: int) -> Solution:
        """Bounds what is left, and solves the problem of all choices that are cheaper than one."""
        hub = hub_of(problem)
        ways = None if hub is None else written_or_not(problem, hub)
        if ways is not None and _falls_apart(ways[0].problem):
            return self._best_of(problem, ways, effort)
        before = self.work.left
        program = Program(problem, self.work) if self.has_work() else None
        relaxation = None if program is None else program.relaxed()
        if program is None or relaxation is None:
            self.has_work()
            return self._at_once(problem)
        first = relaxation.bound
        known, cost, left, share = NONE, inf, Part(problem, ()), 1.0
        idle = 0 if len(problem.prices) >= LARGE else IDLE
        while not relaxation.is_whole:
            known = self._nearest(relaxation, known, NEAREST[:1] if idle < IDLE else NEAREST)
            cost = inf if known.chosen is None else cost_of(problem, known.chosen)
            if cost <= relaxation.bound * (1.0 + self.near) or not self.has_work():
                return Solution(known.chosen, relaxation.bound, first)
            left = relaxation.below(cost)
            share = len(left.problem.prices) / len(problem.prices)
            if idle == IDLE or share <= FEW:
                break
            closer = program.tightened(relaxation)
            if closer is None:
                idle = IDLE
            else:
                risen, gap = closer.bound - relaxation.bound, cost - relaxation.bound
                idle = 0 if risen > RISING * gap else idle + 1
                relaxation = closer
        if relaxation.is_whole:
            return Solution(relaxation.taken(0.5), relaxation.bound, first)
        if self.near > PROVED and len(problem.prices) > MANY:
            return Solution(known.chosen, relaxation.bound, first)
        is_close = len(problem.prices) > MANY and cost <= relaxation.bound * (1.0 + CLOSE)
        with self.work.at_most(BESIDES * (before - self.work.left) if is_close else inf):
            if share <= FEW and idle < IDLE:
                cheaper = self.solve(left.problem, effort)
            elif effort < ROUNDS or (share <= FEWER and effort < MOST):
                cheaper = self.solve(left.problem, effort + 1)
            else:
                key, number = relaxation.most_halved()
                ways = taken_or_not(left.problem, key, left.candidates.index(number))
                cheaper = self._best_of(left.problem, ways, effort, known)
        best = cheaper_of(problem, known, outside(left, cheaper))
        return Solution(best.chosen, max(relaxation.bound, min(cheaper.bound, cost)), first)

    def _at_once(self, problem: LocalProblem) -> Solution:
        """A choice where there is no work for a better one, and a bound."""
        least = _least_price(problem)
        return Solution(found_soon(problem, self.work), least, least)

    def _nearest(self, relaxation: Relaxation, known: Solution, many: Iterable[int]) -> Solution:
        """A choice among so many times the kernels that fractions consist of, or a known one that
        is cheaper.
        """
        problem, bound = relaxation.problem, relaxation.bound
        for times in many:
            part = among(problem, relaxation.nearest(times))
            found = Solution(found_soon(part.problem, self.work), bound, bound)
            known = cheaper_of(problem, known, outside(part, found))
        if known.chosen is None:  # what is near the bound may be no choice
            known = Solution(found_soon(problem, self.work), bound, bound)
        return known

    def _best_of(
        self,
        problem: LocalProblem,
        ways: tuple[Part, Part],
        effort: int,
        known: Solution = NONE,
    ) -> Solution:
        """The best choice of two problems; where one is known, the other is left without work."""
        one = outside(ways[0], self.solve(ways[0].problem, effort))
        if known.chosen is not None and not self.has_work():
            return Solution(one.chosen, 0.0, 0.0)
        other = outside(ways[1], self.solve(ways[1].problem, effort))
        chosen = cheaper_of(problem, one, other).chosen
        return Solution(chosen, min(one.bound, other.bound), min(one.relaxed, other.relaxed))


def outside(part: Part, solution: Solution) -> Solution:
    """A part's solution with the numbers that its candidates have outside."""
    if solution.chosen is None:
        return solution
    return replace(solution, chosen=tuple([part.candidates[n] for n in solution.chosen]))


def cheaper_of(problem: LocalProblem, one: Solution, other: Solution) -> Solution:
    """The one of two solutions whose choice costs less."""
    if one.chosen is None or other.chosen is None:
        return other if one.chosen is None else one
    return other if cost_of(problem, other.chosen) < cost_of(problem, one.chosen) else one


def _falls_apart(problem: LocalProblem) -> bool:
    """Whether no part of a problem is much of it."""
    largest = max(len(part.candidates) for part in parts_of(problem))
    return largest <= PIECE * len(problem.prices)


def found_soon(
    problem: LocalProblem, work: Work, beam: int = BEAM, parts: Sequence[Part] | None = None
) -> tuple[int, ...] | None:
    """A choice near the best one, part by part; equal parts are looked at once."""
    chosen: list[int] = []
    known: dict[LocalProblem, tuple[int, ...] | None] = {}
    for part in parts_of(problem) if parts is None else parts:
        if part.problem not in known:
            solution = _decided(part.problem)
            soon = good_choice(part.problem, work, beam) if solution is None else solution.chosen
            known[part.problem] = soon
        found = known[part.problem]
        if found is None:
            return None
        chosen += [part.candidates[number] for number in found]
    return tuple(chosen)


def _decided(problem: LocalProblem) -> Solution | None:
    """The cheapest candidate where there is one class; None where there are more."""
    if not problem.prices:
        return NONE
    if any(item != problem.demands for item in problem.results):
        return None
    numbers = range(len(problem.prices))
    best = min(numbers, key=lambda n: (problem.prices[n], len(problem.inputs[n]), n))
    return Solution((best,), problem.prices[best], problem.prices[best])


def _least_price(problem: LocalProblem) -> float:
    """A bound at once: each demanded class at the least share of a price among its writers."""
    demands = set(problem.demands)
    least: dict[int, float] = {}
    for results, price in zip(problem.results, problem.prices, strict=True):
        demanded = demands.intersection(results)
        for key in demanded:
            least[key] = min(least.get(key, inf), price / len(demanded))
    return sum(least.values())
