"""The choice of kernels cut into independent parts.

In: candidates. Out: `Part`s: a `LocalProblem` over names of its own, so that equal parts compare
equal and are solved once, and which candidates it is made of.

A class is *forced* where every choice of kernels writes it: the outputs, and what all writers of a
forced class read. A forced class is paid for once whatever its readers do, so it separates its
readers' choice from its writers'. Only *tangled* classes do not: those in a ring of candidates that
read each other's results, where reading what is there anyway could make kernels wait for each
other.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from mgn.passes.saturate.candidates.candidates import CandidateSet


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

    @cached_property
    def fingerprint(self) -> int:
        """The hash, worked out once."""
        return hash((self.demands, self.results, self.inputs, self.prices))

    def __hash__(self) -> int:
        return self.fingerprint

    def writers(self) -> dict[int, list[int]]:
        """The candidates that write each class."""
        return self._writers

    @cached_property
    def _writers(self) -> dict[int, list[int]]:
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
    results: Mapping[int, Sequence[int]]
    inputs: Mapping[int, Sequence[int]]
    prices: Mapping[int, float]


@dataclass(frozen=True)
class _Group:
    """Candidates that others do not depend on, and which of the classes they write are demanded."""

    numbers: Sequence[int]
    demands: Sequence[int]


def forced_classes(found: CandidateSet) -> set[int]:
    """The classes that every choice writes, seen step by step."""
    forced = {*found.outputs}
    pending = list(forced)
    while pending:
        writers = found.writers[pending.pop()]
        common = set(found.candidates[writers[0]].inputs)
        for number in writers[1:]:
            common &= set(found.candidates[number].inputs)
        pending.extend(common - forced)
        forced |= common
    return forced


def components_of(found: CandidateSet) -> list[Part]:
    """The independent parts of the choice, without candidates that another one replaces at a look:
    what only they tie together is apart.
    """
    forced, tangled = forced_classes(found), tangled_classes(found)
    choices = Choices(
        range(len(found.candidates)),
        {item.number: item.results for item in found.candidates},
        {item.number: item.inputs for item in found.candidates},
        {item.number: item.price for item in found.candidates},
    )
    waiting = without_free(choices, forced - tangled)
    alone = [number for number in waiting.numbers if len(choices.results[number]) == 1]
    gone = set(alone).difference(undominated(replace(waiting, numbers=alone)))
    waiting = replace(waiting, numbers=[n for n in waiting.numbers if n not in gone])
    return apart(waiting, forced, found.position)


def apart(
    waiting: Choices, forced: Set[int], position: Mapping[int, int] | None = None
) -> list[Part]:
    """Parts that no candidate ties together, of choices that do not read what is there in any case;
    those that nothing is demanded of are left out.
    """
    return [_localise(waiting, group, position) for group in _groups(waiting, forced)]


def without_free(choices: Choices, free: Set[int]) -> Choices:
    """Choices that do not read what is there in any case."""
    if not free:
        return choices
    left: dict[int, Sequence[int]] = {}
    for number in choices.numbers:
        items = choices.inputs[number]
        if not free.isdisjoint(items):
            items = [item for item in items if item not in free]
        left[number] = items
    return Choices(choices.numbers, choices.results, left, choices.prices)


def undominated(choices: Choices, there: Callable[[int], int] | None = None) -> list[int]:
    """The candidates that no other one replaces: writing as much, from what one reads anyway, at no
    greater price. `there` tells as bits what else is in memory wherever a candidate runs.
    """
    results, inputs, prices = choices.results, choices.inputs, choices.prices
    order = [(prices[n], len(inputs[n]), -len(results[n]), n) for n in choices.numbers]
    order.sort()
    alone: dict[int, list[int]] = {}
    joint: dict[int, list[int]] = {}
    written: dict[int, frozenset[int]] = {}
    chosen: list[int] = []
    for _, _, count, number in order:
        mine = results[number]
        rivals: Sequence[int] = joint.get(mine[0], ())
        if count == -1:
            kept = alone
            rivals = [*alone.get(mine[0], ()), *rivals]
        else:
            kept = joint
            written[number] = writes = frozenset(mine)
            rivals = [other for other in rivals if writes <= written[other]]
        if rivals and _reads_as_much(number, rivals, inputs, there):
            continue
        chosen.append(number)
        for item in mine:
            kept.setdefault(item, []).append(number)
    chosen.sort()
    return chosen


def _reads_as_much(
    number: int,
    rivals: Sequence[int],
    inputs: Mapping[int, Sequence[int]],
    there: Callable[[int], int] | None,
) -> bool:
    """Whether one of the rivals reads only what is in memory wherever a candidate runs."""
    includes = frozenset(inputs[number]).issuperset
    for other in rivals:
        if includes(inputs[other]):
            return True
    if there is None:
        return False
    bits = there(number)
    for other in rivals:
        for item in inputs[other]:
            if not bits >> item & 1:
                break
        else:
            return True
    return False


def _groups(choices: Choices, forced: Set[int]) -> list[_Group]:
    root = _tied_classes(choices)
    members: dict[int, list[int]] = {}
    for number in choices.numbers:
        members.setdefault(root[choices.results[number][0]], []).append(number)
    demands: dict[int, list[int]] = {}
    for key in sorted(forced):
        demands.setdefault(root.get(key, key), []).append(key)
    return [_Group(members.get(key, ()), wanted) for key, wanted in demands.items()]


def _tied_classes(choices: Choices) -> dict[int, int]:
    """A name for the part of each class."""
    parent: dict[int, int] = {}
    results, inputs = choices.results, choices.inputs

    def find(item: int) -> int:
        above = parent.setdefault(item, item)
        while above != item:
            parent[item] = higher = parent[above]
            item, above = above, higher
        return item

    for number in choices.numbers:
        root = find(results[number][0])
        for item in (*results[number], *inputs[number]):
            if parent.get(item) != root:
                parent[find(item)] = root
    return {item: find(item) for item in list(parent)}


def _localise(choices: Choices, group: _Group, position: Mapping[int, int] | None) -> Part:
    """A part over names 0, 1, 2 …, so that equal parts compare equal."""
    numbers = group.numbers
    results = [choices.results[number] for number in numbers]
    inputs = [choices.inputs[number] for number in numbers]
    classes = set(group.demands).union(*results, *inputs)
    ordered = sorted(classes) if position is None else sorted(classes, key=position.__getitem__)
    name_of = {key: name for name, key in enumerate(ordered)}.__getitem__
    problem = LocalProblem(
        tuple(map(name_of, group.demands)),
        tuple([tuple(map(name_of, items)) for items in results]),
        tuple([tuple(map(name_of, items)) for items in inputs]),
        tuple([choices.prices[number] for number in numbers]),
    )
    return Part(problem, tuple(numbers))


def tangled_classes(found: CandidateSet) -> set[int]:
    """Classes in rings of candidates, each of which reads a result of the one before.

    Operands come before users, so a ring lies where candidates read a class that comes after one of
    their results: between these two.
    """
    position = found.position
    steps = [0] * (len(position) + 1)
    for candidate in found.candidates:
        if len(candidate.results) > 1 and candidate.inputs:
            first = min([position[item] for item in candidate.results])
            last = max([position[item] for item in candidate.inputs])
            if last >= first:
                steps[first] += 1
                steps[last + 1] -= 1
    depth = list(accumulate(steps))
    suspects = {key for key, place in position.items() if depth[place]}
    before: dict[int, set[int]] = {}
    for key in suspects:
        for number in found.writers.get(key, ()):
            inputs = suspects.intersection(found.candidates[number].inputs)
            before.setdefault(key, set()).update(inputs)
    return _rings(before)


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
