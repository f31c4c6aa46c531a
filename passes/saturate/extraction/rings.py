"""The cheapest choice of kernels none of which waits for itself.

In: a `LocalProblem`, an `ExactSolver`. Out: the chosen candidates, and a bound on the cost of any
choice.

The cheapest closed choice may have a ring of kernels that wait for each other. In a choice without
rings each class has a first writer, and around a ring not all classes can be from the kernels that
the ring has them from. So there is one problem for each class of the ring, in which that kernel
does not write it; of all problems so far the one of the least cost is next.
"""

from collections.abc import Container, Iterable, Mapping
from heapq import heappop, heappush

from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.elimination import full_prices
from mgn.passes.saturate.extraction.exact import (
    NONE,
    PROVED,
    ExactSolver,
    Solution,
    cost_of,
)
from mgn.passes.saturate.extraction.relaxation import among

LARGE, NEAR = 5000, 1e-3
"""Candidates from which on a choice without rings within that relative gap has to do."""

Arc = tuple[int, int]
"""A class, and the candidate that it is taken from."""


def cheapest_choice(problem: LocalProblem, solver: ExactSolver) -> Solution:
    """The choice without rings of least cost, or one near it where the solver has no proof."""
    tree = full_prices(problem, [set(items) for items in problem.inputs])[1]
    if any(key not in tree for key in problem.demands):
        return NONE
    waiting: list[tuple[float, int, frozenset[Arc], tuple[int, ...]]] = []
    pending: list[frozenset[Arc]] = [frozenset()]
    best = NONE
    entered = 0
    while True:
        for arcs in pending:
            part = without(problem, arcs)
            solution = solver.solve(part.problem)
            if solution.chosen is not None:
                chosen = tuple([part.candidates[number] for number in solution.chosen])
                heappush(waiting, (solution.bound, entered, arcs, chosen))
                entered += 1
        if not waiting:
            return best
        bound, _, arcs, closed = heappop(waiting)
        ring = ring_of(problem, closed, arcs)
        chosen = _repaired(problem, closed, tree, solver) if ring else closed
        best = _better(problem, best, chosen, bound)
        sure = bound * (1.0 + (PROVED if len(problem.prices) <= LARGE else NEAR))
        is_best = best.chosen is not None and cost_of(problem, best.chosen) <= sure
        if not ring or is_best or cost_of(problem, closed) > sure or not solver.has_time():
            return best
        pending = [arcs | {arc} for arc in ring]


def _better(
    problem: LocalProblem, best: Solution, chosen: tuple[int, ...], bound: float
) -> Solution:
    """The cheaper one of two choices, with a bound."""
    if best.chosen is None or cost_of(problem, chosen) < cost_of(problem, best.chosen):
        return Solution(chosen, bound)
    return Solution(best.chosen, bound)


def without(problem: LocalProblem, arcs: Iterable[Arc]) -> Part:
    """The problem in which candidates do not write these classes."""
    results = dict(enumerate(problem.results))
    for key, number in arcs:
        results[number] = tuple([item for item in results[number] if item != key])
    return among(problem, [number for number, items in results.items() if items], results)


def _repaired(
    problem: LocalProblem, chosen: Iterable[int], tree: Mapping[int, int], solver: ExactSolver
) -> tuple[int, ...]:
    """A choice without rings near one with some. From each ring the arc goes without which the
    choice is the cheapest: of the candidates chosen, and of all that write a class of the ring.

    The tree has for each class the candidate that writes it at least price with all that it needs;
    its arcs make no ring, and stay.
    """
    numbers = set(chosen)
    arcs: frozenset[Arc] = frozenset()
    choice = tuple(numbers)
    while True:
        ring = ring_of(problem, choice, arcs)
        if not ring:
            return choice
        writers = problem.writers()
        pending = [number for key, _ in ring for number in writers[key]]
        while pending:
            number = pending.pop()
            if number not in numbers:
                numbers.add(number)
                pending += [tree[item] for item in problem.inputs[number] if item in tree]
        tried: list[tuple[float, frozenset[Arc], tuple[int, ...]]] = []
        for arc in ring:
            if tree.get(arc[0]) != arc[1]:
                part = without(problem, arcs | {arc})
                kept = [place for place, n in enumerate(part.candidates) if n in numbers]
                found = solver.solve(among(part.problem, kept).problem).chosen
                if found is not None:
                    left = tuple([part.candidates[kept[place]] for place in found])
                    tried.append((cost_of(problem, left), arcs | {arc}, left))
        _, arcs, choice = min(tried, key=lambda item: item[0])


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


def ring_of(
    problem: LocalProblem, chosen: Iterable[int], without: Container[Arc] = ()
) -> list[Arc]:
    """Classes that chosen kernels wait for in a ring, each with the kernel that it is taken from;
    nothing where none wait so. They are not taken `without` from kernels that do not write them.
    """
    order, waiting = order_of(problem, chosen)
    written = {item for number in order for item in problem.results[number]}
    arcs = [(item, number) for number in waiting for item in problem.results[number]]
    writer = {item: number for item, number in arcs if (item, number) not in without}
    path: dict[int, int] = {}
    number = waiting[0] if waiting else None
    while number is not None and number not in path:
        path[number] = next(item for item in problem.inputs[number] if item not in written)
        number = writer.get(path[number])
    if number is None:
        return []
    ring = list(path)
    return [(path[member], writer[path[member]]) for member in ring[ring.index(number) :]]
