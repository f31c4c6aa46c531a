"""A problem as two, of which one has the best choice.

In: a `LocalProblem`. Out: `Part`s of it: in one a class is written, in the other not; or in one it
is taken from one candidate, in the other not from that one.

A table of sines that all layers read ties them together. Once it is known whether it is written,
the problem falls apart into the layers.
"""

from dataclasses import replace

from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.relaxation import among

HUB = 64
"""Classes that one has to be tied to, to be decided before all others: more than so many."""


def hub_of(problem: LocalProblem) -> int | None:
    """The class that is tied to most others, of those that are tied to very many."""
    tied: dict[int, set[int]] = {}
    demands = set(problem.demands)
    for results, inputs in zip(problem.results, problem.inputs, strict=True):
        scope = {*results, *inputs}
        for key in scope - demands:
            tied.setdefault(key, set()).update(scope)
    hub = max(tied, key=lambda key: (len(tied[key]), -key), default=None)
    return hub if hub is not None and len(tied[hub]) > HUB else None


def written_or_not(problem: LocalProblem, key: int) -> tuple[Part, Part]:
    """The problem in which a class is demanded, and the one in which it is never written."""
    written = among(problem, range(len(problem.prices)))
    results = _less(problem, key)
    readers = {number for number, items in enumerate(problem.inputs) if key in items}
    left = [number for number, items in results.items() if items and number not in readers]
    return _demanding(written, key), among(problem, left, results)


def taken_or_not(problem: LocalProblem, key: int, candidate: int) -> tuple[Part, Part]:
    """The problem in which a class is taken from one candidate, and the one in which it is not."""
    others = _less(problem, key)
    alone = {**others, candidate: problem.results[candidate]}
    others = {**dict(enumerate(problem.results)), candidate: others[candidate]}
    one, other = (
        among(problem, [number for number, items in results.items() if items], results)
        for results in (alone, others)
    )
    return _demanding(one, key), other


def _less(problem: LocalProblem, key: int) -> dict[int, tuple[int, ...]]:
    """What candidates write besides a class."""
    return {
        number: tuple([item for item in items if item != key]) if key in items else items
        for number, items in enumerate(problem.results)
    }


def _demanding(part: Part, key: int) -> Part:
    demands = tuple(sorted({*part.problem.demands, key}))
    return Part(replace(part.problem, demands=demands), part.candidates)
