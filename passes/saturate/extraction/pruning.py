"""Candidates that some best choice does without are left out, and the problem falls apart.

In: a `LocalProblem`. Out: its `Part`s.

A candidate goes where another one can take its place. That one writes all values that are wanted of
the candidate, at no greater price. It reads only values that are in memory whenever the candidate
runs: those that the candidate reads, those written on the way to these, and those that every choice
writes. A value that nobody reads any more is not wanted, so candidates that write it go next.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from mgn.passes.saturate.extraction.components import (
    Choices,
    LocalProblem,
    Part,
    apart,
    undominated,
    without_free,
)
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of
from mgn.passes.saturate.extraction.relaxation import among

ROUNDS = 4
LARGE = 5000
"""Candidates above which there is one round: so large a problem falls apart, and each piece is
looked at again.
"""
WORTHWHILE = 0.05
"""The share of the candidates that has to go for another round to be made."""


def parts_of(problem: LocalProblem) -> list[Part]:
    """The parts that a problem falls into once what no best closed choice needs is left out."""
    waiting, forced = _needed(problem, is_closed=True)
    return apart(waiting, forced)


def without_needless(problem: LocalProblem) -> Part:
    """The problem less what the best choice without rings does not need either."""
    waiting, _ = _needed(problem, is_closed=False)
    return among(problem, waiting.numbers, waiting.results)


def _needed(problem: LocalProblem, is_closed: bool) -> tuple[Choices, set[int]]:
    """Candidates that are left, and what every choice writes. Where there may be rings, that is
    there whoever reads it; where there are none, it may be written later.
    """
    left = _runnable(problem)
    results: Mapping[int, tuple[int, ...]] = dict(enumerate(problem.results))
    inputs, prices = dict(enumerate(problem.inputs)), dict(enumerate(problem.prices))
    waiting, forced = Choices((), {}, {}, {}), set[int]()
    for _ in range(1 if is_closed and len(left) > LARGE else ROUNDS):
        needs = necessity_of(_smaller(problem, left, results))
        forced = set(bits_of(needs.forced))
        results = _wanted_results(problem, left, results, forced)
        wanted = [number for number in left if results[number]]
        waiting = Choices(wanted, results, inputs, prices)
        if is_closed:
            waiting = without_free(waiting, forced)
        before, left = left, undominated(waiting, partial(needs.written_with, problem))
        if len(before) - len(left) <= WORTHWHILE * len(before):
            break
    return replace(waiting, numbers=left), forced


def _smaller(
    problem: LocalProblem, left: list[int], results: Mapping[int, tuple[int, ...]]
) -> LocalProblem:
    """A problem with the candidates left alone, which write only these results."""
    return LocalProblem(
        problem.demands,
        tuple([results[number] for number in left]),
        tuple([problem.inputs[number] for number in left]),
        tuple([problem.prices[number] for number in left]),
    )


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
    problem: LocalProblem,
    left: list[int],
    results: Mapping[int, tuple[int, ...]],
    forced: set[int],
) -> dict[int, tuple[int, ...]]:
    """What each candidate writes that somebody reads."""
    wanted = forced.union(*[problem.inputs[number] for number in left])
    found: dict[int, tuple[int, ...]] = {}
    for number in left:
        items = results[number]
        if not wanted.issuperset(items):
            items = tuple([item for item in items if item in wanted])
        found[number] = items
    return found
