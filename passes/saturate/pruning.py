"""Candidates that some best choice does without are left out, and the problem falls apart.

In: a `LocalProblem`. Out: its `Part`s.

A candidate goes where another one writes all that is wanted of it, at no greater price, from what
is in memory whenever this one runs: what it reads, what was written on the way to that, and what
every choice writes. What nobody reads any more is not wanted, so candidates that write it go next.
"""

from collections.abc import Mapping, Set

from mgn.passes.saturate.components import (
    Choices,
    LocalProblem,
    Part,
    split,
    undominated,
    without_free,
)
from mgn.passes.saturate.necessity import Necessity, bits_of, necessity_of

ROUNDS = 4
LARGE = 5000
"""Candidates above which there is one round: so large a problem falls apart, and each piece is
looked at again.
"""
WORTHWHILE = 0.05
"""The share of the candidates that has to go for another round to be made."""


def parts_of(problem: LocalProblem) -> list[Part]:
    """The parts that a problem falls into once what no best choice needs is left out."""
    left = _runnable(problem)
    results: Mapping[int, tuple[int, ...]] = dict(enumerate(problem.results))
    inputs = dict(enumerate(problem.inputs))
    prices = dict(enumerate(problem.prices))
    tangled = set(problem.tangled)
    needs = Necessity({}, 0)
    for _ in range(1 if len(left) > LARGE else ROUNDS):
        smaller = LocalProblem(
            problem.demands,
            tuple([results[number] for number in left]),
            tuple([inputs[number] for number in left]),
            tuple([prices[number] for number in left]),
        )
        needs = necessity_of(smaller)
        results = _wanted_results(problem, left, results, needs.forced)
        before, left = left, _undominated(problem, left, results, needs, tangled)
        if len(before) - len(left) <= WORTHWHILE * len(before):
            break
    forced = set(bits_of(needs.forced))
    return split(Choices(left, results, inputs, prices), forced, tangled)


def _runnable(problem: LocalProblem) -> list[int]:
    """The candidates whose inputs some candidate writes."""
    left = list(range(len(problem.prices)))
    while True:
        written = {item for number in left for item in problem.results[number]}
        kept = [number for number in left if written.issuperset(problem.inputs[number])]
        if len(kept) == len(left):
            return left
        left = kept


def _wanted_results(
    problem: LocalProblem, left: list[int], results: Mapping[int, tuple[int, ...]], forced: int
) -> dict[int, tuple[int, ...]]:
    """What each candidate writes that somebody reads."""
    wanted = {item for number in left for item in problem.inputs[number]}
    wanted.update(bits_of(forced))
    return {n: tuple([item for item in results[n] if item in wanted]) for n in left}


def _undominated(
    problem: LocalProblem,
    left: list[int],
    results: Mapping[int, tuple[int, ...]],
    needs: Necessity,
    tangled: Set[int],
) -> list[int]:
    """Those of the candidates left that no other one replaces."""
    free = set(bits_of(needs.forced)) - tangled
    wanted = [number for number in left if results[number]]
    choices = Choices(
        wanted, results, dict(enumerate(problem.inputs)), dict(enumerate(problem.prices))
    )
    return undominated(without_free(choices, free), lambda n: needs.written_with(problem, n))
