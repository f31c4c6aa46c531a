"""A large problem cut at its most connected classes, with a price for each piece's use of them.

In: a `LocalProblem` too large to solve at once. Out: a `Cut`: hubs, and pieces that share nothing
else.

A table of sines that all layers read ties them together: each may read it, or compute it again. A
piece may *buy* a hub for its share of the least price at which it can be written, so that all
pieces together pay at most that; what a hub's writers write for a piece they write at their full
price. So the pieces' bounds add up to a bound, and where all buy or none does, nothing is lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from mgn.passes.saturate.extraction.components import Choices, LocalProblem, Part, groups_of, split

SMALL = 600
"""Candidates up to which a problem is not cut, whatever its optimum is."""
WHOLE = 5000
"""Candidates up to which a problem is small enough to be searched state by state, and to be
branched on until nothing better is left.
"""
RELAXED = 15_000
"""Candidates up to which a problem has a program, whose optimum with fractions comes first."""
PIECE = 4000
"""Candidates that a piece has at most, where cutting can make it so; at most a quarter of all."""
LARGEST = 0.75
"""The share of a problem that a piece may be: otherwise it did not fall apart."""
HUB_CANDIDATES = 16
"""Candidates that touch a class from which on it may be cut."""


@dataclass(frozen=True)
class Cut:
    """Hubs, forced ones with the bound that they add, and pieces.

    Numbers of candidates in pieces from `first_buy` on are of no candidate: each is the purchase of
    a hub.
    """

    pieces: list[Part]
    hubs: tuple[int, ...]
    forced: frozenset[int]
    least: dict[int, float]
    purchases: dict[int, int]


def cut_at_hubs(problem: LocalProblem) -> Cut | None:
    """The pieces of a problem; None where no class is connected enough for it to fall apart."""
    hubs = _hubs_of(problem)
    if not hubs:
        return None
    demands, cut = set(problem.demands), set(hubs)
    choices = _without(problem, cut)
    tangled = set(problem.tangled)
    whole = [group.numbers for group in groups_of(choices, demands - cut, tangled)]
    home = {number: place for place, part in enumerate(whole) for number in part}
    least: dict[int, float] = dict.fromkeys(hubs, float("inf"))
    readers: dict[int, set[int]] = {hub: set() for hub in hubs}
    for number, results in enumerate(problem.results):
        price = 0.0 if number in choices.results else problem.prices[number]
        for hub in cut.intersection(results):
            least[hub] = min(least[hub], price / len(results))
        if number in home:
            for hub in cut.intersection(problem.inputs[number]):
                readers[hub].add(home[number])
    count = len(problem.prices)
    bought_anyway = cut & demands
    purchases = {count + place: hub for place, hub in enumerate(hubs)}
    pieces: list[Part] = []
    for place, part in enumerate(whole):
        bought = [(number, hub) for number, hub in purchases.items() if place in readers[hub]]
        results = {n: choices.results[n] for n in part}
        inputs = {n: [i for i in problem.inputs[n] if i not in bought_anyway] for n in part}
        prices = {n: problem.prices[n] for n in part}
        for number, hub in bought:
            results[number], inputs[number] = (hub,), []
            prices[number] = 0.0 if hub in demands else least[hub] / len(readers[hub])
        wanted = {key for n in part for key in results[n] if key in demands}
        numbers = [*part, *(number for number, _ in bought)]
        pieces += split(Choices(numbers, results, inputs, prices), wanted, tangled)
    if max(len(part.candidates) for part in pieces) > LARGEST * count:
        return None
    return Cut(pieces, tuple(hubs), frozenset(cut & demands), least, purchases)


def largest_share(cut: Cut, problem: LocalProblem) -> float:
    """How much of a problem the largest piece of its cut is."""
    return max(len(piece.candidates) for piece in cut.pieces) / len(problem.prices)


def _hubs_of(problem: LocalProblem) -> list[int]:
    """The connected classes that have to be cut; those that join few and small pieces stay: first
    what few touch, so that a class within a layer stays and one that all layers read does not.
    """
    touching: dict[int, list[int]] = {}
    for number, (results, inputs) in enumerate(zip(problem.results, problem.inputs, strict=True)):
        for item in {*results, *inputs}:
            touching.setdefault(item, []).append(number)
    connected = [item for item, numbers in touching.items() if len(numbers) >= HUB_CANDIDATES]
    demands, tangled, hubs = set(problem.demands), set(problem.tangled), set(connected)
    parent = list(range(len(problem.prices)))
    sizes = [1] * len(parent)

    def find(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def join(numbers: Iterable[int]) -> None:
        roots = list(dict.fromkeys(map(find, numbers)))
        for root in roots[1:]:
            parent[root] = roots[0]
            sizes[roots[0]] += sizes[root]

    for group in groups_of(_without(problem, hubs), demands - hubs, tangled):
        join(group.numbers)
    pending = sorted((0, 0, hub) for hub in connected)
    most = min(PIECE, len(parent) // 4)
    while pending:
        *known, hub = heappop(pending)
        roots = set(map(find, touching[hub]))
        size = sum(sizes[root] for root in roots)
        if [len(roots), size] > known:
            heappush(pending, (len(roots), size, hub))
        elif size <= most:
            join(touching[hub])
            hubs.discard(hub)
    return sorted(hubs)


def _without(problem: LocalProblem, hubs: set[int]) -> Choices:
    """The candidates that write anything else, as if the hubs were not there."""
    results: dict[int, Sequence[int]] = {}
    inputs: dict[int, Sequence[int]] = {}
    for number, items in enumerate(problem.results):
        left = items if hubs.isdisjoint(items) else [item for item in items if item not in hubs]
        if left:
            read = problem.inputs[number]
            results[number] = left
            inputs[number] = read if hubs.isdisjoint(read) else [i for i in read if i not in hubs]
    return Choices(list(results), results, inputs, dict(enumerate(problem.prices)))
