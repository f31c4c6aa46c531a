"""The cheapest choice of kernels none of which waits for itself, of problems of any length.

In: a `LocalProblem`, an `ExactSolver`. Out: the chosen candidates, and a bound on the cost of any
choice.

A large problem in which each class is tied to many is bounded along its chain (`chain.py`) where
many links are equal. A choice is improved in one neighbourhood after the other
(`neighbourhoods.py`). It may be too far from the bound then. Where the links are soon solved, or
their linear programs are near what they cost, so is the whole. Then the whole is solved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgn.passes.saturate.extraction.chain import Chain, chain_of, kinds_of
from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.elimination import is_wider, tree_of
from mgn.passes.saturate.extraction.exact import NONE, ExactSolver, Solution
from mgn.passes.saturate.extraction.neighbourhoods import improved
from mgn.passes.saturate.extraction.pruning import without_needless
from mgn.passes.saturate.extraction.rings import (
    UNKNOWN,
    as_a_whole,
    better_of,
    choice_soon,
    may_do,
    preferring,
)

LARGE = 10_000
"""Candidates from which on a problem is looked at as a chain."""

WIDE = 24
"""Classes that one is tied to when it is eliminated, above which a large problem is too hard to
solve as a whole.
"""

KINDS, DISTINCT = 0.5, 0.75
"""The shares of the candidates that kinds may be, and that distinct links may have. Where they have
more, the whole is hardly harder to solve.
"""

FIRM = 0.005
"""How far the linear programs of links may be, relatively, from what links cost, where that of the
whole is soon decided too.
"""

SOON = 0.14
"""The share of the work that is left which all links may take, each solved for itself, where the
whole is soon solved too.
"""

EACH, ROUGH = 0.2, 5e-3
"""How much of its share of the work that is left a link may take, and the relative gap that does
for links and neighbourhoods.
"""

HALF = 0.5
"""The share of the work that is left which the whole may take, where there is another way."""


def cheapest_choice(
    problem: LocalProblem, solver: ExactSolver, begun: Sequence[int] = ()
) -> Solution:
    """The choice without rings of least cost, or one near it where the solver has no proof: that is
    improved from a choice of kernels that are preferred, the first ones most, where some are.
    """
    tree = tree_of(problem)
    if any(key not in tree for key in problem.demands):
        return NONE
    if len(problem.prices) >= LARGE and (chain := _long_chain(problem, solver)) is not None:
        return _along_chain(problem, *chain, tree, solver, begun)
    return as_a_whole(problem, tree, solver)


def _long_chain(problem: LocalProblem, solver: ExactSolver) -> tuple[Part, Chain] | None:
    """What a large problem needs, and that as a chain, if it is too hard to solve as a whole."""
    large = [part.problem for part in solver.parts(problem) if len(part.candidates) >= LARGE]
    if not any(is_wider(part, WIDE) for part in large):
        return None
    if kinds_of(problem) > KINDS * len(problem.prices):
        return None
    needed = without_needless(problem)
    chain = chain_of(needed.problem)
    if chain is None:
        return None
    distinct = sum([len(link.prices) for link in {link.problem for link in chain.links}])
    return (needed, chain) if distinct <= DISTINCT * len(needed.candidates) else None


def _along_chain(
    problem: LocalProblem,
    needed: Part,
    chain: Chain,
    tree: Mapping[int, int],
    solver: ExactSolver,
    begun: Sequence[int],
) -> Solution:
    """A choice near the cheapest one of a long problem; the cheapest one where that of the whole is
    soon found.
    """
    rough = ExactSolver(solver.work, solver.memoise, ROUGH)
    bound, is_soon = _bounded(chain, rough)
    soon = preferring(problem, begun, tree) if begun else choice_soon(problem, rough)
    assert soon is not None, "what the tree has is a choice"
    found = improved(problem, needed.candidates, soon, chain.order, rough)
    solver.solved |= rough.solved
    best = replace(bound, chosen=found)
    if is_soon and not may_do(problem, found, bound.bound, solver):
        with solver.work.shared(HALF):
            best = better_of(problem, best, as_a_whole(problem, tree, solver))
        if best.chosen is not None and may_do(problem, best.chosen, best.bound, solver):
            return best
    solver.budget_spent = True
    return best


def _bounded(chain: Chain, solver: ExactSolver) -> tuple[Solution, bool]:
    """What links cost together at least, and whether the whole is soon solved."""
    work = solver.work
    given, took = work.left, 0.0
    bound = relaxed = 0.0

    each = given * EACH / sum([len(link.candidates) for link in chain.links])

    def solve(problem: LocalProblem) -> Solution:
        with work.at_most(each * len(problem.prices)):
            return cheapest_choice(problem, solver) if solver.has_work() else UNKNOWN

    before = given
    for solution, count in chain.easiest(solve):
        took += count * (before - work.left)
        before = work.left
        bound += count * solution.bound
        relaxed += count * solution.relaxed
    is_soon = took <= SOON * given or bound <= relaxed * (1.0 + FIRM)
    return Solution(None, bound, relaxed), is_soon and solver.has_work()
