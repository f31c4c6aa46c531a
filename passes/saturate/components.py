"""The choice of kernels cut into independent parts.

In: candidates. Out: `Component`s: which classes each must write, which candidates may, and what
they need inside.

A class is *forced* where every choice of kernels writes it: the outputs, and what all writers of a
forced class read. A forced class is paid for once whatever its readers do, so it separates its
readers' choice from its writers'.
"""

from collections.abc import Set
from dataclasses import dataclass

from mgn.passes.saturate.candidates import CandidateSet


@dataclass(frozen=True)
class Component:
    """One independent problem: write all `demands` at least price with `candidates`."""

    demands: tuple[int, ...]
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class LocalProblem:
    """A component with names of its own: equal ones have one solution.

    `results` and `inputs` of each candidate are local classes; inputs that are forced elsewhere are
    left out.
    """

    demands: tuple[int, ...]
    results: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    prices: tuple[float, ...]


HUB_READERS = 8
"""Readers from which on a class that need not be written counts as a hub."""


def forced_classes(
    found: CandidateSet, banned: Set[int], assumed: Set[int] = frozenset()
) -> set[int]:
    """The classes that every solution without the banned candidates writes, and those assumed."""
    forced = {*found.outputs, *assumed}
    pending = list(forced)
    while pending:
        writers = [n for n in found.writers[pending.pop()] if n not in banned]
        if not writers:
            continue
        common = set(found.candidates[writers[0]].inputs)
        for number in writers[1:]:
            common &= set(found.candidates[number].inputs)
        pending.extend(common - forced)
        forced |= common
    return forced


def hubs_of(found: CandidateSet) -> list[int]:
    """Classes that tie far parts of the choice together: not forced, and read by many kernels.

    A table of sines that all layers read is one: it may be written once, or computed by each.
    """
    forced = forced_classes(found, frozenset())
    readers: dict[int, set[int]] = {}
    for candidate in found.candidates:
        for item in candidate.inputs:
            if item not in forced:
                readers.setdefault(item, set()).add(candidate.results[0])
    return [key for key in sorted(readers) if len(readers[key]) > HUB_READERS]


def components_of(
    found: CandidateSet, banned: Set[int], given: Set[int], forced: Set[int]
) -> list[Component]:
    """The independent parts of the choice, without the banned candidates.

    `forced` classes are demanded; `given` ones are there and cost nothing.
    """
    parent: dict[int, int] = {}

    def find(item: int) -> int:
        while parent.setdefault(item, item) != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for candidate in found.candidates:
        if candidate.number in banned:
            continue
        first = find(candidate.results[0])
        for item in (*candidate.results, *candidate.inputs):
            if item not in given and (item not in forced or item in candidate.results):
                parent[find(item)] = first
    members: dict[int, list[int]] = {}
    for candidate in found.candidates:
        if candidate.number not in banned:
            members.setdefault(find(candidate.results[0]), []).append(candidate.number)
    demands: dict[int, list[int]] = {}
    for key in sorted(forced - given):
        demands.setdefault(find(key), []).append(key)
    return [Component(tuple(demands[root]), tuple(members.get(root, ()))) for root in demands]


def localise(found: CandidateSet, component: Component, given: Set[int]) -> LocalProblem:
    """A component over names 0, 1, 2 …, so that equal components compare equal."""
    names: dict[int, int] = {}
    inside = {
        result for number in component.candidates for result in found.candidates[number].results
    }
    inside -= given
    demanded = set(component.demands)
    optional = inside - demanded
    classes = sorted(inside | demanded, key=found.position.__getitem__)
    for key in classes:
        names[key] = len(names)
    results: list[tuple[int, ...]] = []
    inputs: list[tuple[int, ...]] = []
    for number in component.candidates:
        candidate = found.candidates[number]
        results.append(tuple(names[item] for item in candidate.results if item in names))
        inputs.append(tuple(names[item] for item in candidate.inputs if item in optional))
    prices = tuple(found.candidates[number].price for number in component.candidates)
    return LocalProblem(
        tuple(names[item] for item in component.demands), tuple(results), tuple(inputs), prices
    )
