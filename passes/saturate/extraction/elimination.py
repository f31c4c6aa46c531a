"""Classes eliminated one by one, the least tied first: a problem becomes tables and a smaller one.

In: a `LocalProblem`. Out: what is decided, and the problem of the classes that are left.

To eliminate a class is to join all tables and candidates that know of it into one table over its
*bag*: the classes that these know besides. So the problem is solved in bags of a tree (R. Dechter,
"Bucket elimination: a unifying framework for reasoning", 1999), whatever the order of its classes.
Once only classes with wide bags are left, the tables become the candidates of a smaller problem,
which demands one state of each table. Many of these candidates do not matter any more, and the
problem falls apart.

What nothing shares costs more at each step, by powers of two and more: the price of a class with
all that it needs is at most a little above that of one choice of all (`above_best`). Whatever would
pay that is in no best choice, so it does not matter that it would have to pay more.

A choice is *closed* here: it writes what is demanded and what it reads, though kernels may wait for
each other in a ring.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf, isqrt

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.necessity import bits_of
from mgn.passes.saturate.extraction.purchases import Market
from mgn.passes.saturate.extraction.tables import NOTHING, State, Table, Trail
from mgn.passes.saturate.extraction.work import STATE, Work

ANY = 2**62
"""Where there is no limit."""
OVER = 1e-6
"""How much more, relatively, than a known choice has a price that is in no best one."""
BEAM = 128
"""States kept of each table where a choice is wanted that need not be the best."""
NARROWEST, SOON = 4, 32
"""States kept of each even where there is no work for more, and those that may be met for each
candidate in any case.
"""


class Elimination:
    """Classes of a problem eliminated while none is tied to more than `width` others, none takes
    more than `work` states and all together not more than `total`; `left` are the others.

    `decided` are the trails of tables over nothing, `cost` is what they cost, and `feasible` says
    whether there is a choice at all. No table keeps more than `most` states, or than lets all that
    are met be about `meant`.
    """

    def __init__(
        self,
        problem: LocalProblem,
        width: int,
        work: int,
        total: int,
        most: int = ANY,
        meant: int = ANY,
    ) -> None:
        self.problem = problem
        self.demands = demands = frozenset(problem.demands)
        self.inputs = [set(items) - demands for items in problem.inputs]
        full, self.writer = full_prices(problem, self.inputs)
        dear = above_best(problem, self.inputs, self.writer)
        self.full = {key: min(price, dear) for key, price in full.items()}
        self.market = Market(problem, self.inputs, self.full)
        self.decided: list[Trail] = []
        self.cost = 0.0
        self.work = 0
        self.feasible = True
        self.left: list[int] = []
        self._order(width)
        self._run(work, total, most, meant)

    def _order(self, width: int) -> None:
        """Works out the bag of each class, and which bag each candidate is joined in."""
        scopes = [
            inputs.union(results)
            for inputs, results in zip(self.inputs, self.problem.results, strict=True)
        ]
        self.bags, tied = _bags_of(scopes, self.demands, width)
        self.left = sorted(tied)
        place = {key: number for number, key in enumerate((*self.bags, *self.left))}
        self.above = {
            key: min(bag, key=place.__getitem__) if bag else None for key, bag in self.bags.items()
        }
        self.slot = _slots_of(self.bags, tied)
        self.own: dict[int, list[int]] = {key: [] for key in place}
        for number, scope in enumerate(scopes):
            self.own[min(scope, key=place.__getitem__)].append(number)
        self.tables: dict[int, list[tuple[Mapping[int, int], list[State]]]] = {}

    def _run(self, work: int, total: int, most: int, meant: int) -> None:
        waiting: set[int | None] = set()
        for place, key in enumerate(self.bags):
            each = max(meant - self.work, 0) // (len(self.bags) - place)
            kept = min(most, max(isqrt(each), NARROWEST))
            if key in waiting or not self._eliminate(key, min(work, total - self.work), kept):
                self.left.append(key)
                waiting.add(self.above[key])
            if not self.feasible:
                return

    def _eliminate(self, key: int, work: int, most: int) -> bool:
        """Whether a class could be eliminated in so much work."""
        bag, problem = self.bags[key], self.problem
        table = Table((*bag, key), self.slot, self.market, most)
        states = [NOTHING]
        for _, other in sorted(self.tables.get(key, ()), key=lambda item: len(item[1])):
            if table.work + len(states) * len(other) > work:
                return False
            states = table.joined(states, other)
        for number in sorted(self.own[key], key=problem.prices.__getitem__):
            results, price = problem.results[number], problem.prices[number]
            states = table.extended(states, number, results, self.inputs[number], price)
            if table.work > work:
                return False
        states = table.without(states, key, key in self.demands)
        self.work += table.work
        self.feasible = bool(states)
        self.tables.pop(key, None)
        above = self.above[key]
        if above is not None:
            classes = {self.slot[item]: item for item in bag}
            self.tables.setdefault(above, []).append((classes, states))
        elif states:
            self.decided.append(states[0][3])
            self.cost += states[0][0]
        return True

    def core(self) -> tuple[LocalProblem, list[Trail]]:
        """What is left as a problem, and the trail that each of its candidates stands for.

        Each class of a table may be bought besides, so that what its states lack can be had.
        """
        name = {key: number for number, key in enumerate(sorted(self.left))}
        results: list[tuple[int, ...]] = []
        inputs: list[tuple[int, ...]] = []
        prices: list[float] = []
        trails: list[Trail] = []
        bought: dict[int, None] = {}
        demands = [name[key] for key in self.left if key in self.demands]
        rows_from = count(len(name))

        def add(written: Sequence[int], read: Sequence[int], price: float, trail: Trail) -> None:
            results.append(tuple(written))
            inputs.append(tuple(read))
            prices.append(price)
            trails.append(trail)

        problem = self.problem
        for key in self.left:
            for number in self.own[key]:
                read = [name[item] for item in sorted(self.inputs[number])]
                written = [name[item] for item in problem.results[number]]
                add(written, read, problem.prices[number], number)
            for classes, states in self.tables.get(key, ()):
                row = next(rows_from)
                bought.update(dict.fromkeys(classes.values()))
                demands.append(row)
                for cost, needed, written, trail in states:
                    read = [name[classes[bit]] for bit in bits_of(needed)]
                    made = [name[classes[bit]] for bit in bits_of(written)]
                    add((row, *made), read, cost, trail)
        for key in bought:
            if key in self.full:
                add((name[key],), (), self.full[key], -1 - key)
        core = LocalProblem(tuple(sorted(demands)), tuple(results), tuple(inputs), tuple(prices))
        return core, trails

    def candidates(self, trails: Sequence[Trail]) -> tuple[int, ...]:
        """The candidates that trails are made of, each once."""
        found: dict[int, None] = {}
        pending = list(trails)
        while pending:
            trail = pending.pop()
            if trail is None:
                continue
            if isinstance(trail, tuple):
                pending += trail
            elif trail >= 0:
                found[trail] = None
            else:
                number = self.writer[-1 - trail]
                if number not in found:
                    found[number] = None
                    pending += [-1 - item for item in self.inputs[number]]
        return tuple(found)


def good_choice(problem: LocalProblem, work: Work, beam: int = BEAM) -> tuple[int, ...] | None:
    """A closed choice near the best one, found soon: of larger tables so many states are kept that
    promise most, and fewer where little work is left. None where there is no choice.
    """
    meant = int(min(max(work.left / STATE, SOON * len(problem.prices)), ANY))
    elimination = Elimination(problem, ANY, ANY, ANY, beam, meant)
    work.did(elimination.work, STATE)
    return elimination.candidates(elimination.decided) if elimination.feasible else None


def is_wider(problem: LocalProblem, width: int) -> bool:
    """Whether some class is tied to more than so many others when it is eliminated."""
    demands = frozenset(problem.demands)
    scopes = [
        {*results, *items} - (demands - {*results})
        for results, items in zip(problem.results, problem.inputs, strict=True)
    ]
    return bool(_bags_of(scopes, demands, width)[1])


def full_prices(
    problem: LocalProblem, inputs: Sequence[set[int]]
) -> tuple[dict[int, float], dict[int, int]]:
    """What each class costs with all that it needs, nothing shared, and the candidate that writes
    it so (D. Knuth, "A generalization of Dijkstra's algorithm", 1977).
    """
    full: dict[int, float] = {}
    writer: dict[int, int] = {}
    lacking, cost = [len(items) for items in inputs], list(problem.prices)
    readers: dict[int, list[int]] = {}
    for number, items in enumerate(inputs):
        for item in items:
            readers.setdefault(item, []).append(number)
    ready = [(cost[number], number) for number, count in enumerate(lacking) if not count]
    heapify(ready)
    while ready:
        least, number = heappop(ready)
        for item in problem.results[number]:
            if item not in full:
                full[item], writer[item] = least, number
                for reader in readers.get(item, ()):
                    cost[reader] += least
                    lacking[reader] -= 1
                    if not lacking[reader]:
                        heappush(ready, (cost[reader], reader))
    return full, writer


def tree_of(problem: LocalProblem) -> dict[int, int]:
    """The candidate that writes each class for the least, nothing shared; a class that nothing can
    write is not there.
    """
    return full_prices(problem, [set(items) for items in problem.inputs])[1]


def above_best(
    problem: LocalProblem, inputs: Sequence[set[int]], writer: Mapping[int, int]
) -> float:
    """A price above that of a best choice: that of all demands and what they need, each from its
    `writer` and paid for once.
    """
    chosen: dict[int, None] = {}
    pending = list(problem.demands)
    while pending:
        number = writer.get(pending.pop())
        if number is None:
            return inf
        if number not in chosen:
            chosen[number] = None
            pending += inputs[number]
    return sum([problem.prices[number] for number in chosen]) * (1.0 + OVER)


def _bags_of(
    scopes: Sequence[set[int]], demands: frozenset[int], width: int
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """The classes in the order of their elimination, always the one that is tied to fewest, each
    with those it is tied to by then; and the ties of those left, which are tied to more than
    `width`.
    """
    tied: dict[int, set[int]] = {key: set() for key in sorted(demands)}
    for scope in scopes:
        for key in scope:
            tied.setdefault(key, set()).update(scope)
    for key, items in tied.items():
        items.discard(key)
    waiting = [(len(items), key) for key, items in tied.items()]
    heapify(waiting)
    bags: dict[int, set[int]] = {}
    while waiting:
        ties, key = heappop(waiting)
        if key in bags or ties != len(tied[key]):
            continue
        if ties > width:
            break
        bags[key] = bag = tied.pop(key)
        for item in bag:
            others = tied[item]
            others |= bag
            others -= {item, key}
            heappush(waiting, (len(others), item))
    return bags, tied


def _slots_of(bags: Mapping[int, set[int]], tied: Mapping[int, set[int]]) -> dict[int, int]:
    """A bit for each class that no other class of its bags has."""
    slot: dict[int, int] = {}
    met = {**bags, **tied}
    for key in (*tied, *reversed([*bags])):
        taken = {slot[item] for item in met[key] if item in slot}
        slot[key] = next(number for number in count() if number not in taken)
    return slot
