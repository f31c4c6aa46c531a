"""The choice of kernels cut into independent parts.

In: candidates. Out: `Part`s: a `LocalProblem` over names of its own, so that equal parts compare
equal and are solved once, and which candidates it is made of.

A class is *forced* where every choice of kernels writes it: the outputs, and what all writers of a
forced class read. A forced class is paid for once whatever its readers do, so it separates its
readers' choice from its writers'. Only *tangled* classes do not: those in a ring of candidates that
read each other's results, where reading what is there anyway could make kernels wait for each
other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from mgn.passes.saturate.candidates import CandidateSet


@dataclass(frozen=True)
class LocalProblem:
    """Write all `demands` at least price; names are in dependency order.

    `results` and `inputs` of each candidate are local classes; inputs that are written in any case
    are left out.
    """

    demands: tuple[int, ...]
    results: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    prices: tuple[float, ...]
    tangled: tuple[int, ...] = ()

    @cached_property
    def fingerprint(self) -> int:
        """The hash, worked out once."""
        return hash((self.demands, self.results, self.inputs, self.prices, self.tangled))

    def __hash__(self) -> int:
        return self.fingerprint

    def writers(self) -> dict[int, list[int]]:
        """The candidates that write each class."""
        found: dict[int, list[int]] = {}
        for number, results in enumerate(self.results):
            for item in results:
                found.setdefault(item, []).append(number)
        return found


@dataclass(frozen=True)
class Part:
    """One independent problem, and the numbers that its candidates have outside."""

    problem: LocalProblem
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """Candidates as they are at one time: those left, what each writes and reads, its price."""

    numbers: Sequence[int]
    results: Mapping[int, Collection[int]]
    inputs: Mapping[int, Collection[int]]
    prices: Mapping[int, float]


def forced_classes(found: CandidateSet, banned: Set[int]) -> set[int]:
    """The classes that every solution without the banned candidates writes, seen step by step."""
    forced = {*found.outputs}
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


def components_of(found: CandidateSet, banned: Set[int]) -> list[Part]:
    """The independent parts of the choice, without the banned candidates."""
    forced, tangled = forced_classes(found, banned), tangled_classes(found)
    left = [item for item in found.candidates if item.number not in banned]
    choices = Choices(
        [item.number for item in left],
        {item.number: item.results for item in left},
        {item.number: item.inputs for item in left},
        {item.number: item.price for item in left},
    )
    return split(choices, forced, tangled, found.position)


def split(
    choices: Choices, forced: Set[int], tangled: Set[int], position: Mapping[int, int] | None = None
) -> list[Part]:
    """Parts that no candidate ties together, those that nothing is demanded of left out."""
    free = forced - tangled
    root = _tied_classes(choices, free)
    members: dict[int, list[int]] = {}
    for number in choices.numbers:
        members.setdefault(root[next(iter(choices.results[number]))], []).append(number)
    demands: dict[int, list[int]] = {}
    for key in sorted(forced):
        demands.setdefault(root.get(key, key), []).append(key)
    return [
        _localise(choices, members.get(key, ()), wanted, free, tangled, position)
        for key, wanted in demands.items()
    ]


def _tied_classes(choices: Choices, free: Set[int]) -> dict[int, int]:
    """A name for the part of each class."""
    parent: dict[int, int] = {}

    def find(item: int) -> int:
        above = parent.setdefault(item, item)
        while above != item:
            parent[item] = higher = parent[above]
            item, above = above, higher
        return item

    for number in choices.numbers:
        first, *tied = choices.results[number]
        tied.extend(item for item in choices.inputs[number] if item not in free)
        root = find(first)
        for item in tied:
            if parent.get(item) != root:
                parent[find(item)] = root
    return {item: find(item) for item in list(parent)}


def _localise(
    choices: Choices,
    numbers: Sequence[int],
    demands: Iterable[int],
    free: Set[int],
    tangled: Set[int],
    position: Mapping[int, int] | None,
) -> Part:
    """A part over names 0, 1, 2 …, so that equal parts compare equal."""
    classes = set(demands)
    for number in numbers:
        classes.update(choices.results[number])
        classes.update(item for item in choices.inputs[number] if item not in free)
    ordered = sorted(classes) if position is None else sorted(classes, key=position.__getitem__)
    names = {key: name for name, key in enumerate(ordered)}
    problem = LocalProblem(
        tuple(names[key] for key in demands),
        tuple(tuple(names[item] for item in choices.results[number]) for number in numbers),
        tuple(
            tuple(names[item] for item in choices.inputs[number] if item not in free)
            for number in numbers
        ),
        tuple(choices.prices[number] for number in numbers),
        tuple(names[key] for key in ordered if key in tangled) if tangled else (),
    )
    return Part(problem, tuple(numbers))


def tangled_classes(found: CandidateSet) -> set[int]:
    """Classes in rings of candidates, each of which reads a result of the one before.

    Where no candidate reads a class that comes after one of its results there are none.
    """
    before: dict[int, set[int]] = {}
    position = found.position
    suspects = False
    for candidate in found.candidates:
        first = min(position[item] for item in candidate.results)
        suspects |= any(position[item] >= first for item in candidate.inputs)
        for item in candidate.results:
            before.setdefault(item, set()).update(candidate.inputs)
    return _rings(before) if suspects else set()


def _rings(before: Mapping[int, Set[int]]) -> set[int]:
    """The members of strongly connected components of more than one (R. Tarjan, 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    done: set[int] = set()
    found: set[int] = set()
    for start in before:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        work = [(start, iter(before.get(start, ())))]
        while work:
            key, rest = work[-1]
            for item in rest:
                if item not in index:
                    index[item] = low[item] = len(index)
                    stack.append(item)
                    work.append((item, iter(before.get(item, ()))))
                    break
                if item not in done:
                    low[key] = min(low[key], index[item])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == index[key]:
                    ring = _tail(stack, key)
                    del stack[len(stack) - len(ring) :]
                    done.update(ring)
                    if len(ring) > 1:
                        found.update(ring)
    return found


def _tail(stack: list[int], key: int) -> list[int]:
    """The end of a stack from a key on."""
    place = len(stack) - 1
    while stack[place] != key:
        place -= 1
    return stack[place:]
