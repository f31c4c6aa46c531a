"""Few classes at a time that a long problem falls into a chain of links without.

In: which classes are tied to which. Out: an order of the classes from one end to the other, and
`Cuts`: classes between each link and the next one, and the link of each other class.

Every few classes of the order the fewest are sought between all before them and all that are some
way behind: by the most ways from the ones to the others that have no class in common (K. Menger,
"Zur allgemeinen Kurventheorie", 1927).
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

MOST = 4
"""Classes of a cut, at most."""
STEP, WINDOW = 40, 500
"""After how many classes of the order a cut is sought, and among how many."""
MEANS, DIGITS = 10, 6
"""How often means over ties are taken, and their digits by which classes are ordered."""
SWEEPS = 3
"""How often the farthest class is looked for, to find one at an end."""

Ties = Mapping[int, Set[int]]
"""For each class those that it is tied to, and perhaps itself."""
_Node = tuple[int, bool]
"""A class where a way comes in, or where it goes out."""


@dataclass(frozen=True)
class Cuts:
    """The classes between each link and the next, and the number of the link of each other class
    that is tied to the chain.
    """

    between: tuple[frozenset[int], ...]
    link_of: Mapping[int, int]


def along(ties: Ties) -> list[int]:
    """The classes of the largest part that ties hold together, from one end to the other.

    How many ties a class is from either end says only in which few layers it is. Means over what
    each class is tied to, taken several times, part these.
    """
    distance = _longest(ties)
    if not distance:
        return []
    back = _distances(ties, max(distance, key=distance.__getitem__))
    keys = sorted(distance)
    number_of = {key: number for number, key in enumerate(keys)}
    at = np.array([float(distance[key] - back[key]) for key in keys])
    counts = np.array([len(ties[key]) for key in keys], dtype=np.int64)
    rows = np.repeat(np.arange(len(keys)), counts)
    columns = np.array([number_of[item] for key in keys for item in ties[key]], dtype=np.int64)
    for _ in range(MEANS):
        at = np.bincount(rows, at[columns], len(keys)) / np.maximum(counts, 1)
    return [keys[number] for number in np.argsort(np.round(at, DIGITS), kind="stable").tolist()]


def cuts_of(ties: Ties, order: Sequence[int]) -> Cuts:
    """The cuts of the classes of an order, from its one end to the other."""
    place = {key: number for number, key in enumerate(order)}
    link_of: dict[int, int] = {}
    between: list[frozenset[int]] = []
    passed, far = set[int](), 0
    for number in range(STEP, len(order) - STEP, STEP):
        end = min(number + WINDOW, len(order) - 1)
        behind = set(order[number - STEP : number]) - passed
        far = _farthest(ties, place, behind, far)
        passed.update(behind)
        if far >= end:
            continue
        window = set(order[number:end]) - passed
        first = {key for key in window if not passed.isdisjoint(ties[key])}
        last = {key for key in window if any(place[item] >= end for item in ties[key])}
        cut = _Ways(ties, window, last).cut(first)
        if cut is not None:
            near = _reached(ties, first - cut, window - cut)
            link_of.update(
                dict.fromkeys((passed | near).difference(link_of, *between), len(between))
            )
            between.append(frozenset(cut))
            far = _farthest(ties, place, near | cut, far)
            passed.update(near, cut)
    rest = set(order).difference(link_of, *between)
    link_of.update(dict.fromkeys(rest, len(between)))
    return Cuts(tuple(between), _links(ties, between, link_of))


def _farthest(ties: Ties, place: Mapping[int, int], keys: Set[int], far: int) -> int:
    """The last place that is tied to some classes, or one that is known to be."""
    return max([far, *[place[item] for key in keys for item in ties[key]]])


def _links(ties: Ties, between: list[frozenset[int]], first: Mapping[int, int]) -> dict[int, int]:
    """The link of each class that is in no cut: those that are tied together are in the one that
    lies between the cuts they are tied to, or on the side where one of them is met `first`.
    """
    cut_of = {key: number for number, keys in enumerate(between) for key in keys}
    free = first.keys() - cut_of.keys()
    link_of: dict[int, int] = {}
    for key in first:
        if key not in cut_of and key not in link_of:
            together = _reached(ties, {key}, free)
            cuts = {cut_of[other] for item in together for other in ties[item] if other in cut_of}
            met = min([first[item] for item in together])
            link = max(cuts) if len(cuts) > 1 else min([met, *[cut + 1 for cut in cuts]])
            link_of.update(dict.fromkeys(together, max([link, *cuts])))
    return link_of


def _reached(ties: Ties, start: Set[int], among: Set[int]) -> set[int]:
    """The classes that some are tied to through others."""
    found, pending = set(start), list(start)
    while pending:
        for item in ties[pending.pop()]:
            if item in among and item not in found:
                found.add(item)
                pending.append(item)
    return found


class _Ways:
    """Ways through a window of classes to the last of them, no two of which have one in common."""

    def __init__(self, ties: Ties, window: Set[int], last: Set[int]) -> None:
        self.ties, self.window, self.last = ties, window, last
        self.steps: set[tuple[_Node, _Node]] = set()
        self.ahead: dict[int, int] = {}
        self.ends: set[int] = set()

    def cut(self, first: Set[int]) -> set[int] | None:
        """The fewest classes that all ways from the first ones lead through, as near to these as
        can be; None where that is more than `MOST`, or none.
        """
        for ways in range(MOST + 1):
            reached = self._another(first)
            if reached is not None:
                cut = {key for key, is_out in reached if not is_out and (key, True) not in reached}
                return cut if ways else None
        return None

    def _another(self, first: Set[int]) -> Set[_Node] | None:
        """Adds a way; where there is no other one, all that is reached."""
        came: dict[_Node, _Node | None] = {(key, False): None for key in first}
        pending = deque(came)
        while pending:
            node = pending.popleft()
            key, is_out = node
            if is_out and key in self.last and key not in self.ends:
                self._add(node, came)
                return None
            for other in self._next(key, is_out):
                if other not in came:
                    came[other] = node
                    pending.append(other)
        return came.keys()

    def _next(self, key: int, is_out: bool) -> Iterator[_Node]:
        """Where a way may go on: through a class that is on another way, only against that one."""
        is_taken = ((key, False), (key, True)) in self.steps
        if is_out:
            for item in self.ties[key]:
                if item in self.window and item != key:
                    yield item, False
            if is_taken:
                yield key, False
        elif not is_taken:
            yield key, True
        elif key in self.ahead:
            yield self.ahead[key], True

    def _add(self, end: _Node, came: Mapping[_Node, _Node | None]) -> None:
        """Adds the way that ends here; a step of it against another way takes that step away."""
        self.ends.add(end[0])
        node, before = end, came[end]
        while before is not None:
            if (node, before) in self.steps:
                self.steps.remove((node, before))
                if before[0] != node[0] and self.ahead[before[0]] == node[0]:
                    del self.ahead[before[0]]
            else:
                self.steps.add((before, node))
                if before[0] != node[0]:
                    self.ahead[node[0]] = before[0]
            node, before = before, came[before]


def _longest(ties: Ties) -> dict[int, int]:
    """How far each class of the largest part is from one at an end of it."""
    seen: set[int] = set()
    best: dict[int, int] = {}
    for key in ties:
        if key not in seen:
            found = _distances(ties, key)
            seen.update(found)
            best = found if len(found) > len(best) else best
    for _ in range(SWEEPS if best else 0):
        best = _distances(ties, max(best, key=best.__getitem__))
    return best


def _distances(ties: Ties, start: int) -> dict[int, int]:
    """How many ties each class is from one."""
    found = {start: 0}
    pending = deque((start,))
    while pending:
        key = pending.popleft()
        for item in ties[key]:
            if item not in found:
                found[item] = found[key] + 1
                pending.append(item)
    return found
