"""The cheapest choice of kernels none of which waits for itself.

In: a `LocalProblem`, an `ExactSolver`. Out: the chosen candidates, and a bound on the cost of any
choice.

The cheapest closed choice may have a ring of kernels that wait for each other. Then each chosen
kernel that writes one of some classes reads one of them: they are *unfounded*. In a choice without
rings the first of them is written by a kernel that reads none of them. So each kernel that reads
one and writes another needs a kernel that writes some of them from other classes. That is one more
class, which the latter write and the former read; the problem with it has the same choices without
rings. It is solved again, until no ring is left (F. Lin, Y. Zhao, "ASSAT: computing answer sets of
a logic program by SAT solvers", 2004, add formulas of loops to a logic program so).
"""

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.elimination import tree_of
from mgn.passes.saturate.extraction.exact import (
    PROVED,
    ExactSolver,
    Solution,
    cheaper_of,
    cost_of,
    found_soon,
    outside,
)
from mgn.passes.saturate.extraction.relaxation import among

BEAM = 8
"""States kept of each table for a choice that is found soon."""

LONG = 2_000
"""Candidates from which on a problem is looked at piece by piece."""

LARGE, NEAR = 10_000, 1e-3
"""Candidates from which on a choice without rings within that relative gap has to do."""

UNKNOWN = Solution(None, 0.0, 0.0)
"""Of a problem that nothing is known of yet."""

Arc = tuple[int, int]
"""A class, and the candidate that it is taken from."""


def choice_soon(
    problem: LocalProblem, solver: ExactSolver, beam: int = BEAM
) -> tuple[int, ...] | None:
    """A choice without rings near the cheapest one, found soon; None where there is none. One class
    of each ring is written besides from what it needs alone.
    """
    closed = found_soon(problem, solver.work, beam, solver.parts(problem))
    if closed is None or not rings_of(problem, closed):
        return closed
    tree = tree_of(problem)
    if (part := _obtainable(problem, tree)) is not None:
        soon = choice_soon(part.problem, solver, beam)
        return None if soon is None else tuple([part.candidates[number] for number in soon])
    return without_rings(problem, closed, tree)


def as_a_whole(problem: LocalProblem, tree: Mapping[int, int], solver: ExactSolver) -> Solution:
    """The choice without rings of least cost, from the cheapest closed ones."""
    if (part := _obtainable(problem, tree)) is not None:
        return outside(part, as_a_whole(part.problem, tree_of(part.problem), solver))
    best, bound, relaxed = UNKNOWN, 0.0, None
    founded = problem
    while True:
        solution = solver.solve(founded)
        closed, bound = solution.chosen, max(bound, solution.bound)
        relaxed = solution.relaxed if relaxed is None else relaxed
        if closed is None:
            return best
        chosen, founded = without_rings_near(problem, founded, closed, tree, solver)
        best = better_of(problem, best, Solution(chosen, bound, relaxed))
        does = best.chosen is not None and may_do(problem, best.chosen, bound, solver)
        if does or not may_do(problem, closed, bound, solver) or not solver.has_work():
            return best
        if not solver.breaks_rings:
            return best
        if solver.near > PROVED and len(problem.prices) > LONG:
            return best


def _obtainable(problem: LocalProblem, tree: Mapping[int, int]) -> Part | None:
    """The problem without candidates that read what only rings write; None where none does."""
    numbers = [
        number for number, items in enumerate(problem.inputs) if all(item in tree for item in items)
    ]
    return among(problem, numbers) if len(numbers) < len(problem.inputs) else None


def may_do(problem: LocalProblem, chosen: Iterable[int], bound: float, solver: ExactSolver) -> bool:
    """Whether a choice is as near a bound as it has to be."""
    near = max(solver.near, PROVED if len(problem.prices) <= LARGE else NEAR)
    return cost_of(problem, chosen) <= bound * (1.0 + near)


def better_of(problem: LocalProblem, one: Solution, other: Solution) -> Solution:
    """The cheaper one of two choices, and the larger one of two bounds."""
    bound, relaxed = max(one.bound, other.bound), max(one.relaxed, other.relaxed)
    return Solution(cheaper_of(problem, one, other).chosen, bound, relaxed)


def without_rings_near(
    problem: LocalProblem,
    founded: LocalProblem,
    closed: tuple[int, ...],
    tree: Mapping[int, int],
    solver: ExactSolver,
) -> tuple[tuple[int, ...], LocalProblem]:
    """A choice without rings near one with some, and the problem with what was unfounded on the way
    to it: the cheapest of the candidates chosen, and all that write what kernels of a ring write or
    read. Where no work is left, rings are broken soon.

    The tree has for each class the candidate that writes it at least price with all that it needs.
    """
    choice, numbers = closed, set(closed)
    while rings := rings_of(problem, choice):
        for keys in _unfounded(problem, choice, rings):
            founded = _founded(founded, keys)
        if not solver.has_work():
            return without_rings(problem, choice, tree), founded
        _add_writers(problem, rings, tree, numbers)
        part = among(founded, sorted(numbers))
        found = outside(part, solver.solve(part.problem)).chosen
        assert found is not None, "what the tree has is a choice"
        choice = found
    return choice, founded


def _unfounded(
    problem: LocalProblem, closed: Iterable[int], rings: Iterable[Sequence[Arc]]
) -> list[set[int]]:
    """For each ring of a choice classes that chosen kernels write only from some of them."""
    order, waiting = order_of(problem, closed)
    there = {item for number in order for item in problem.results[number]}
    writers: dict[int, list[int]] = {}
    for number in waiting:
        for item in problem.results[number]:
            writers.setdefault(item, []).append(number)
    found: list[set[int]] = []
    for ring in rings:
        pending = [key for key, _ in ring]
        keys = set(pending)
        while pending:
            for number in writers[pending.pop()]:
                inputs = problem.inputs[number]
                if keys.isdisjoint(inputs):
                    pending.append(next(item for item in inputs if item not in there))
                    keys.add(pending[-1])
        found.append(keys)
    return found


def _founded(problem: LocalProblem, keys: Set[int]) -> LocalProblem:
    """The problem in which what writes some classes from one of them needs another one of them that
    is not written so.
    """
    name = 1 + max(map(max, filter(None, (*problem.results, problem.demands))))
    results, inputs = list(problem.results), list(problem.inputs)
    for number, items in enumerate(problem.results):
        if not keys.isdisjoint(items):
            if keys.isdisjoint(inputs[number]):
                results[number] = (*items, name)
            else:
                inputs[number] = (*inputs[number], name)
    return replace(problem, results=tuple(results), inputs=tuple(inputs))


def without_rings(
    problem: LocalProblem, chosen: Iterable[int], tree: Mapping[int, int]
) -> tuple[int, ...]:
    """A choice without rings near one with some, found soon: the class of each ring for which the
    kernels of the tree cost least is written by these besides, from what is there without the ring.
    """
    choice = dict.fromkeys(chosen)
    while rings := rings_of(problem, choice):
        order, _ = order_of(problem, choice)
        there = {item for number in order for item in problem.results[number]}
        for ring in rings:
            ways = [_obtaining(problem, [key], tree, there) for key, _ in ring]
            choice |= min(ways, key=lambda way: cost_of(problem, way.keys() - choice.keys()))
    return needed_of(problem, choice)


def preferring(
    problem: LocalProblem, preferred: Sequence[int], tree: Mapping[int, int]
) -> tuple[int, ...]:
    """A choice without rings in which each class is written by the first of some candidates that
    can, and by that of the tree where none can.
    """
    writer = dict(tree)
    for number in reversed(preferred):
        writer.update(dict.fromkeys(problem.results[number], number))
    return without_rings(problem, _obtaining(problem, problem.demands, writer), tree)


def _obtaining(
    problem: LocalProblem,
    keys: Iterable[int],
    writer: Mapping[int, int],
    there: Container[int] = (),
) -> dict[int, None]:
    """The kernels that some classes are taken from, and what they need that is not there."""
    pending, found = [*keys], dict[int, None]()
    while pending:
        item = pending.pop()
        if item not in there and writer[item] not in found:
            found[writer[item]] = None
            pending += problem.inputs[writer[item]]
    return found


def needed_of(problem: LocalProblem, chosen: Iterable[int]) -> tuple[int, ...]:
    """Those of a choice without rings that first write something needed."""
    return tuple(_obtaining(problem, problem.demands, writers_of(problem, chosen)))


def writers_of(problem: LocalProblem, chosen: Iterable[int]) -> dict[int, int]:
    """The kernel that first writes each class, of a choice without rings."""
    order = order_of(problem, chosen)[0]
    return {item: number for number in reversed(order) for item in problem.results[number]}


def _add_writers(
    problem: LocalProblem, rings: Iterable[Sequence[Arc]], tree: Mapping[int, int], to: set[int]
) -> None:
    """Adds all that write what kernels of a ring write or read, and what the tree has for what
    they need.
    """
    writers = problem.writers()
    kernels = {number for ring in rings for _, number in ring}
    near = {
        item for number in kernels for item in (*problem.results[number], *problem.inputs[number])
    }
    pending = [number for key in near for number in writers[key]]
    while pending:
        number = pending.pop()
        if number not in to:
            to.add(number)
            pending += [tree[item] for item in problem.inputs[number]]


def order_of(problem: LocalProblem, chosen: Iterable[int]) -> tuple[list[int], list[int]]:
    """Chosen kernels, each after those that write what it reads, and those that wait for ever."""
    numbers = list(chosen)
    readers: dict[int, list[int]] = {}
    lacking = [0] * len(numbers)
    for place, number in enumerate(numbers):
        for item in set(problem.inputs[number]):
            readers.setdefault(item, []).append(place)
            lacking[place] += 1
    order: list[int] = []
    written: set[int] = set()
    ready = [place for place, count in enumerate(lacking) if not count]
    while ready:
        order += [numbers[place] for place in ready]
        found: list[int] = []
        for item in {item: None for place in ready for item in problem.results[numbers[place]]}:
            if item not in written:
                written.add(item)
                for place in readers.get(item, ()):
                    lacking[place] -= 1
                    if not lacking[place]:
                        found.append(place)
        ready = sorted(found)
    return order, [number for number, count in zip(numbers, lacking, strict=True) if count]


def rings_of(problem: LocalProblem, chosen: Iterable[int]) -> list[list[Arc]]:
    """Classes that chosen kernels wait for in rings, no two of a kernel in common, each with the
    kernel that it is taken from.
    """
    order, waiting = order_of(problem, chosen)
    written = {item for number in order for item in problem.results[number]}
    writer = {item: number for number in waiting for item in problem.results[number]}
    found: list[list[Arc]] = []
    seen: set[int] = set()
    for start in waiting:
        path: dict[int, int] = {}
        number = start
        while number not in seen:
            seen.add(number)
            path[number] = next(item for item in problem.inputs[number] if item not in written)
            number = writer[path[number]]
        if number in path:
            ring = list(path)
            ring = ring[ring.index(number) :]
            found.append([(path[member], writer[path[member]]) for member in ring])
    return found
