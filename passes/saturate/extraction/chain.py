"""A long problem as a chain of links, each solved for what it gives to its neighbours.

In: a `LocalProblem`. Out: its `Link`s, what each costs at least, and a bound and a choice from the
cheapest ways of each.

The layers of a network touch in few classes. For each of these a *state* says which side writes it
for the other one, if any does. Given the states of both its ends a link is a problem of its own,
and equal links are solved once. A choice is a path through the states (R. Bellman, "Dynamic
programming", 1957). What a link costs is no less than where it is given more, or less is wanted of
it: so the bound is the cheapest path where each is given most and the least is wanted of it. The
choice follows the chain from either end: each link is solved for what the one before it takes and
gives.

What every choice writes ties no links: a link that does not write it reads it as if it were there.
So kernels of several links may wait for each other in a ring, and the bound holds all the same.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np

from mgn.passes.saturate.extraction.branching import HUB
from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.exact import Solution, cost_of, outside
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of
from mgn.passes.saturate.extraction.relaxation import among
from mgn.passes.saturate.extraction.separators import cuts_of

LONG = 2_000
"""Candidates from which on a problem is looked at as a chain."""
MOST = 0.75
"""The share of the candidates that one link may have."""
HUBS = 2
"""Classes that links all over the chain may read, at most."""
NEIGHBOURS = 2
"""How many kernels away those are that make candidates of two kinds."""


class Role(IntEnum):
    """What a class at the end of a link is to it."""

    GIVEN = 0
    """It is there."""
    OWN = 1
    """It may be written, for the link alone."""
    LACKING = 2
    """It is not there, and not written."""
    WANTED = 3
    """It is written."""


class Giver(IntEnum):
    """Which side writes a class between two links for the other one."""

    NONE = 0
    BEFORE = 1
    BEHIND = 2


State = tuple[Giver, ...]
"""Who gives each class of a cut."""
Solve = Callable[[LocalProblem], Solution]


NOTHING = Solution((), 0.0, 0.0)
"""Of a link that nothing is wanted of."""


@dataclass(frozen=True)
class Link:
    """Candidates of a problem, and that problem of them over names of its own; `name_of` has those
    of the classes at its ends.
    """

    candidates: tuple[int, ...]
    problem: LocalProblem
    name_of: Mapping[int, int]

    @cached_property
    def written(self) -> frozenset[int]:
        """The classes at its ends that it can write."""
        return frozenset(
            key for key, name in self.name_of.items() if name in self.problem.writers()
        )

    def solved(self, roles: Mapping[int, Role], solve: Solve) -> Solution:
        """The cheapest choice where its ends have these roles."""
        part = _with_roles(self.problem, roles)
        return NOTHING if part is None else outside(part, solve(part.problem))


class Eased(NamedTuple):
    """What the ends of a link are to it where the most is given and the least is wanted of it, and
    the best choice then.
    """

    roles: np.ndarray
    solution: Solution


class _Ways:
    """What is known of links with one problem and the same ends. `roles` has a row for each pair
    of a state before them and one behind.
    """

    def __init__(self, roles: np.ndarray, shape: tuple[int, int]) -> None:
        self.roles, self.shape = roles, shape
        self.bounds, self.prices = np.zeros(len(roles)), np.full(len(roles), inf)
        self.chosen: dict[int, tuple[int, ...]] = {}

    def bound(self, roles: np.ndarray, solution: Solution) -> None:
        """Notes what links cost at least where the ends have these roles, or harder ones."""
        worse = (self.roles == Role.WANTED) & (roles == Role.LACKING)
        harder = np.all((self.roles >= roles) & ~worse, axis=1)
        self.bounds[harder] = np.maximum(self.bounds[harder], solution.bound)

    def allow(self, row: int, chosen: tuple[int, ...], cost: float) -> None:
        """Notes a choice for a pair of states."""
        if cost < self.prices[row]:
            self.prices[row], self.chosen[row] = cost, chosen

    def least(self) -> np.ndarray:
        """What each pair of states costs at least."""
        return self.bounds

    def costs(self) -> np.ndarray:
        """What the best known choice costs for each pair of states."""
        return self.prices


class Chain:
    """The links of a problem, and the classes between each of them and the next one."""

    def __init__(
        self,
        links: Sequence[Link],
        between: Sequence[Sequence[int]],
        hubs: Mapping[int, int],
        forced: Set[int],
    ) -> None:
        self.links, self.between, self.hubs = links, between, hubs
        self.states: list[list[State]] = [[()]]
        for before, behind, keys in zip(links[:-1], links[1:], between, strict=True):
            givers = [_givers(before, behind, key, forced) for key in keys]
            self.states.append([*product(*givers)])
        self.states.append([()])
        modes = [*product(*[(True,) if key in forced else (True, False) for key in hubs])]
        self.known: dict[LocalProblem, dict[bytes, Solution]] = {}
        known: dict[tuple[LocalProblem, bytes], _Ways] = {}
        self.ways = [
            [self._ways(number, mode, known) for number in range(len(links))] for mode in modes
        ]

    def _ways(
        self, number: int, mode: Sequence[bool], known: dict[tuple[LocalProblem, bytes], _Ways]
    ) -> _Ways:
        before, behind = self.states[number], self.states[number + 1]
        shape = len(before), len(behind)
        at_ends = self._roles(number, mode)
        names = sorted(self.links[number].name_of)
        roles = np.zeros((*shape, len(names)), dtype=np.int8)
        for place, name in enumerate(names):
            roles[:, :, place] = at_ends[name]
        roles = roles.reshape(shape[0] * shape[1], len(names))
        key = self.links[number].problem, roles.tobytes()
        return known.setdefault(key, _Ways(roles, shape))

    def easiest(self, solve: Solve) -> list[Eased]:
        """Each link solved where the most is given and the least is wanted of it."""
        found: list[Eased] = []
        for place, link in enumerate(self.links):
            ways = [mode[place] for mode in self.ways]
            roles = np.min([way.roles.min(axis=0) for way in ways], axis=0)
            found.append(Eased(roles, self._solved(link, roles, solve)))
        return found

    def nearest(self, solve: Solve, eased: Sequence[Eased]) -> Solution:
        """A choice near the best one, and a bound on the cost of all: of the cheapest path, where
        each link costs what it does at least, which `eased` begins with.
        """
        for mode in self.ways:
            for way, (roles, solution) in zip(mode, eased, strict=True):
                way.bound(roles, solution)
        for ways in self.ways:
            done = [self._follow(ways, solve, is_back) for is_back in (True, False)]
            if any(done):
                break
        bound, _ = self._shortest(_Ways.least)
        cost, path = self._shortest(_Ways.costs)
        if cost == inf:
            return Solution(None, bound, bound)
        chosen: list[int] = []
        for link, way, row in path:
            chosen += [link.candidates[number] for number in way.chosen[row]]
        return Solution(tuple(chosen), bound, bound)

    def _follow(self, ways: Sequence[_Ways], solve: Solve, is_back: bool) -> bool:
        """Solves each link for what the choice in the one before it takes and gives; or in the one
        behind it, from the last to the first. Whether all could be solved.
        """
        state = 0
        places = range(len(self.links))
        for place in reversed(places) if is_back else places:
            link, way = self.links[place], ways[place]
            rows = np.arange(len(way.roles)).reshape(way.shape)
            rows = rows[:, state] if is_back else rows[state]
            easiest = way.roles[rows].min(axis=0)
            solution = self._solved(link, easiest, solve)
            way.bound(easiest, solution)
            if solution.chosen is None:
                return False
            end = self._taken(place if is_back else place + 1, link, solution.chosen, is_back)
            if end is None:
                return False
            way.allow(int(rows[end]), solution.chosen, cost_of(link.problem, solution.chosen))
            state = end
        return True

    def _taken(self, place: int, link: Link, chosen: Sequence[int], is_back: bool) -> int | None:
        """The state at an end of a link whose choice reads what is given there, and gives what it
        has; None where something lacks.
        """
        own, other = (Giver.BEHIND, Giver.BEFORE) if is_back else (Giver.BEFORE, Giver.BEHIND)
        read = {item for number in chosen for item in link.problem.inputs[number]}
        written = {item for number in chosen for item in link.problem.results[number]}
        fitting: list[tuple[int, int]] = []
        for number, state in enumerate(self.states[place]):
            needless = 0
            for key, giver in zip(self._cut(place - 1), state, strict=True):
                name = link.name_of.get(key)
                if giver == other:
                    needless += name not in read
                elif name not in written if giver == own else name in read - written:
                    break
            else:
                fitting.append((needless, number))
        return min(fitting, default=(0, None))[1]

    def _solved(self, link: Link, roles: np.ndarray, solve: Solve) -> Solution:
        """The best choice in a link whose ends have these roles; of equal links found once."""
        known = self.known.setdefault(link.problem, {})
        key = roles.tobytes()
        if key not in known:
            names = sorted(link.name_of.values())
            known[key] = link.solved(
                dict(zip(names, map(Role, roles.tolist()), strict=True)), solve
            )
        return known[key]

    def _shortest(
        self, of: Callable[[_Ways], np.ndarray]
    ) -> tuple[float, list[tuple[Link, _Ways, int]]]:
        """The path of least cost, and which pair of states it has at each link."""
        best: tuple[float, list[tuple[Link, _Ways, int]]] = inf, []
        for ways in self.ways:
            costs, came = np.zeros(1), list[np.ndarray]()
            for way in ways:
                total = costs[:, None] + of(way).reshape(way.shape)
                came.append(total.argmin(axis=0))
                costs = total.min(axis=0)
            if costs[0] < best[0]:
                path: list[tuple[Link, _Ways, int]] = []
                state = 0
                for link, way, first in zip(self.links[::-1], ways[::-1], came[::-1], strict=True):
                    before = int(first[state])
                    path.append((link, way, before * way.shape[1] + state))
                    state = before
                best = float(costs[0]), path
        return best

    def _roles(self, number: int, mode: Sequence[bool]) -> dict[int, np.ndarray]:
        """What each class at its ends is to a link, for each state before it and each behind."""
        link, found = self.links[number], dict[int, np.ndarray]()
        before, behind = (np.array(self.states[place]) for place in (number, number + 1))
        for place, key in enumerate(self._cut(number - 1)):
            has = key in self.links[number - 1].written
            roles = np.array([Role.LACKING if has else Role.OWN, Role.GIVEN, Role.WANTED])
            found[key] = roles[before[:, place], None]
        for place, key in enumerate(self._cut(number)):
            none = Role.OWN if key in link.written else Role.LACKING
            found[key] = np.array([none, Role.WANTED, Role.GIVEN])[behind[None, :, place]]
        for (key, home), is_there in zip(self.hubs.items(), mode, strict=True):
            if number == home:
                found[key] = np.array(Role.WANTED if is_there else Role.OWN)
            else:
                found[key] = np.array(Role.GIVEN if is_there else Role.LACKING)
        return found

    def _cut(self, number: int) -> Sequence[int]:
        return self.between[number] if 0 <= number < len(self.between) else ()


def _givers(before: Link, behind: Link, key: int, forced: Set[int]) -> list[Giver]:
    found = [] if key in forced else [Giver.NONE]
    found += [Giver.BEFORE] * (key in before.written)
    return found + [Giver.BEHIND] * (key in behind.written)


def _with_roles(problem: LocalProblem, roles: Mapping[int, Role]) -> Part | None:
    """The problem of a link where its ends have these roles; None where nothing is wanted of it."""
    unwritten = {key for key, role in roles.items() if role in (Role.GIVEN, Role.LACKING)}
    lacking = {key for key, role in roles.items() if role == Role.LACKING}
    given = unwritten - lacking
    wanted = {key for key, role in roles.items() if role == Role.WANTED}
    results: dict[int, tuple[int, ...]] = {}
    inputs: list[tuple[int, ...]] = []
    for number, (written, read) in enumerate(zip(problem.results, problem.inputs, strict=True)):
        left = tuple([key for key in written if key not in unwritten])
        if left and lacking.isdisjoint(read):
            results[number] = left
        inputs.append(tuple([key for key in read if key not in given]))
    demands = tuple(sorted(wanted.union(problem.demands)))
    free = replace(problem, demands=demands, inputs=tuple(inputs))
    return among(free, [*results], results) if demands else None


def kinds_of(problem: LocalProblem) -> int:
    """How many kinds of candidates there are. Those of a kind cost the same, and read what those of
    the same kinds write: equal links have the same kinds, but where they differ at the ends.
    """
    kinds: list[float] = [*problem.prices]
    for _ in range(NEIGHBOURS):
        written: dict[int, int] = {}
        for kind, results in zip(kinds, problem.results, strict=True):
            own = hash((kind, len(results)))
            for key in results:
                written[key] = written.get(key, 0) + own
        kinds = [
            hash((kind, sum([hash((written.get(key, 0),)) for key in inputs])))
            for kind, inputs in zip(kinds, problem.inputs, strict=True)
        ]
    return len(set(kinds))


def chain_of(problem: LocalProblem) -> Chain | None:
    """A problem as a chain; None where it is none."""
    forced = frozenset(bits_of(necessity_of(problem).forced))
    scopes = [
        {*results, *[key for key in items if key not in forced]}
        for items, results in zip(problem.inputs, problem.results, strict=True)
    ]
    ties: dict[int, set[int]] = {}
    for scope in scopes:
        for key in scope:
            ties.setdefault(key, set()).update(scope)
    hubs = [key for key, others in ties.items() if len(others) > HUB]
    for key in hubs:
        for other in ties.pop(key):
            if other in ties:
                ties[other].discard(key)
    cuts = cuts_of(ties)
    if not cuts.between or len(hubs) > HUBS:
        return None
    cut_of = {key: place for place, keys in enumerate(cuts.between) for key in keys}
    last = len(cuts.between) + 1
    members: list[list[int]] = [[] for _ in range(last + 1)]
    for number, scope in enumerate(scopes):
        places = [cuts.link_of[key] for key in scope if key in cuts.link_of]
        places = places or [max([cut_of[key] for key in scope if key in cut_of], default=last)]
        members[places[0]].append(number)
    if max(map(len, members)) > MOST * len(scopes):
        return None
    between = [*map(sorted, cuts.between), list[int]()]
    links = [
        _link(problem, numbers, {*hubs, *before, *behind}, forced)
        for numbers, before, behind in zip(members, [[], *between], [*between, []], strict=True)
    ]
    home: dict[int, int] = {}
    for key in hubs:
        places = [place for place, link in enumerate(links) if key in link.written]
        if len(places) != 1:
            return None
        home[key] = places[0]
    return Chain(links, between, home, forced)


def _link(problem: LocalProblem, numbers: Sequence[int], ends: Set[int], forced: Set[int]) -> Link:
    """A link of some candidates; what every choice writes elsewhere is there for it."""
    results = [problem.results[number] for number in numbers]
    written = set[int]().union(*results)
    inputs = [
        [key for key in problem.inputs[number] if key in written or key not in forced]
        for number in numbers
    ]
    name_of = {key: name for name, key in enumerate(sorted(written.union(*inputs)))}
    own = LocalProblem(
        tuple([name_of[key] for key in sorted(written & forced - ends)]),
        tuple([tuple([name_of[key] for key in items]) for items in results]),
        tuple([tuple([name_of[key] for key in items]) for items in inputs]),
        tuple([problem.prices[number] for number in numbers]),
    )
    return Link(tuple(numbers), own, {key: name_of[key] for key in ends if key in name_of})
