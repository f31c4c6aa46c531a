"""A long problem as a chain of links, each solved for what its neighbours give to it.

In: a `LocalProblem`. Out: its `Link`s, and what each costs at least.

The layers of a network touch in few classes. What a link costs is no less than where its neighbours
give all that they can, and want nothing of it. So is what all links cost together. For that each
link is a problem of its own, and equal ones are solved once.

What every choice writes ties no links: a link that does not write it reads it as if it were there.
So kernels of several links may wait for each other in a ring, and the bound holds all the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

from mgn.passes.saturate.extraction.branching import HUB
from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.exact import Solution, outside
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of
from mgn.passes.saturate.extraction.relaxation import among
from mgn.passes.saturate.extraction.separators import along, cuts_of

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


class Chain:
    """The links of a problem, and the classes between each of them and the next one; `order` has
    all classes that are tied to the chain, from one end to the other.
    """

    def __init__(
        self,
        links: Sequence[Link],
        between: Sequence[Sequence[int]],
        hubs: Mapping[int, int],
        forced: Set[int],
        order: Sequence[int],
    ) -> None:
        self.links, self.between, self.hubs = links, between, hubs
        self.forced, self.order = forced, order

    def easiest(self, solve: Solve) -> Iterator[tuple[Solution, int]]:
        """Each link solved where the most is given and the least is wanted of it, and how many are
        equal to it. No choice costs less than the bounds of all together.
        """
        equal: dict[tuple[LocalProblem, tuple[tuple[int, Role], ...]], list[Link]] = {}
        for number, link in enumerate(self.links):
            roles = self._roles(number).items()
            own = {link.name_of[key]: role for key, role in roles if key in link.name_of}
            equal.setdefault((link.problem, tuple(sorted(own.items()))), []).append(link)
        for (_, roles), links in equal.items():
            yield links[0].solved(dict(roles), solve), len(links)

    def _roles(self, number: int) -> dict[int, Role]:
        """What each class at its ends is to a link at the easiest."""
        link, found = self.links[number], dict[int, Role]()
        for place in (number - 1, number + 1):
            if 0 <= place < len(self.links):
                for key in self.between[min(place, number)]:
                    is_given = key in self.links[place].written
                    found[key] = Role.GIVEN if is_given else self._alone(link, key)
        for key, home in self.hubs.items():
            found[key] = self._alone(link, key) if number == home else Role.GIVEN
        return found

    def _alone(self, link: Link, key: int) -> Role:
        """What a class is to a link if no other one gives it."""
        if key in self.forced:
            return Role.WANTED
        return Role.OWN if key in link.written else Role.LACKING


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


def ties_of(problem: LocalProblem) -> tuple[dict[int, set[int]], list[int]]:
    """The classes that each one is tied to, without those that very many are; and these hubs.

    What every choice writes is not tied to what reads it.
    """
    ties: dict[int, set[int]] = {}
    for scope in _scopes(problem):
        for key in scope:
            ties.setdefault(key, set()).update(scope)
    hubs = [key for key, others in ties.items() if len(others) > HUB]
    for key in hubs:
        for other in ties.pop(key):
            if other in ties:
                ties[other].discard(key)
    return ties, hubs


def _scopes(problem: LocalProblem) -> list[set[int]]:
    """The classes that each candidate ties together."""
    forced = necessity_of(problem).forced
    return [
        {*results, *[key for key in items if not forced >> key & 1]}
        for items, results in zip(problem.inputs, problem.results, strict=True)
    ]


def chain_of(problem: LocalProblem) -> Chain | None:
    """A problem as a chain; None where it is none."""
    forced = frozenset(bits_of(necessity_of(problem).forced))
    scopes = _scopes(problem)
    ties, hubs = ties_of(problem)
    order = along(ties)
    cuts = cuts_of(ties, order)
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
    return Chain(links, between, home, forced, order)


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
