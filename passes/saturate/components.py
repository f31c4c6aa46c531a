"""The choice of kernels cut into independent parts.

In: candidates. Out: `Component`s: which classes each must write, which candidates may, and what they need inside.

A class is *forced* where every choice of kernels writes it: the outputs, and what all writers of a forced class read. A
forced class is paid for once whatever its readers do, so it separates its readers' choice from its writers'.
"""

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

    `results` and `inputs` of each candidate are local classes; inputs that are forced elsewhere are left out.
    """

    demands: tuple[int, ...]
    results: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    prices: tuple[float, ...]


def forced_classes(found: CandidateSet) -> set[int]:
    """The classes that every solution writes."""
    forced = set(found.outputs)
    pending = list(forced)
    while pending:
        writers = found.writers[pending.pop()]
        common = set(found.candidates[writers[0]].inputs)
        for number in writers[1:]:
            common &= set(found.candidates[number].inputs)
        pending.extend(common - forced)
        forced |= common
    return forced


def components_of(found: CandidateSet, banned: set[int]) -> list[Component]:
    """The independent parts of the choice, without the banned candidates."""
    forced = forced_classes(found)
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
        for item in (*candidate.results, *(i for i in candidate.inputs if i not in forced)):
            parent[find(item)] = first
            first = find(first)
    members: dict[int, list[int]] = {}
    for candidate in found.candidates:
        if candidate.number not in banned:
            members.setdefault(find(candidate.results[0]), []).append(candidate.number)
    demands: dict[int, list[int]] = {}
    for key in sorted(forced):
        demands.setdefault(find(key), []).append(key)
    return [
        Component(tuple(demands[root]), tuple(members[root])) for root in members if root in demands
    ]


def localise(found: CandidateSet, component: Component) -> LocalProblem:
    """A component over names 0, 1, 2 …, so that equal components compare equal."""
    names: dict[int, int] = {}
    inside = {
        result for number in component.candidates for result in found.candidates[number].results
    }
    demanded = set(component.demands)
    classes = sorted(inside | demanded)
    for key in classes:
        names[key] = len(names)
    results: list[tuple[int, ...]] = []
    inputs: list[tuple[int, ...]] = []
    for number in component.candidates:
        candidate = found.candidates[number]
        results.append(tuple(names[item] for item in candidate.results))
        inputs.append(tuple(names[item] for item in candidate.inputs if item in inside - demanded))
    prices = tuple(found.candidates[number].price for number in component.candidates)
    return LocalProblem(
        tuple(names[item] for item in component.demands), tuple(results), tuple(inputs), prices
    )


def without_dominated(problem: LocalProblem) -> list[int]:
    """Candidates that no other one replaces: same results or more, same inputs or fewer, no dearer."""
    kept: list[int] = []
    order = sorted(
        range(len(problem.prices)), key=lambda n: (problem.prices[n], len(problem.inputs[n]), n)
    )
    for number in order:
        results, inputs = set(problem.results[number]), set(problem.inputs[number])
        if not any(
            results <= set(problem.results[other]) and inputs >= set(problem.inputs[other])
            for other in kept
        ):
            kept.append(number)
    return sorted(kept)
