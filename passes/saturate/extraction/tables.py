"""Tables of states over a few classes, joined and extended while classes are eliminated.

In: a `LocalProblem` and what classes cost besides. Out: lists of states, the cheapest first.

A state says what a choice among some candidates costs, what it still needs of the classes, and what
it writes there. It goes where another one is no dearer even if it buys all that it lacks with
nothing shared: that can still be done above. It goes too where another one is cheaper that buys it
from what is there (`purchases.py`), be it from a candidate that was passed over: then the state is
in no best choice.
"""

from collections.abc import Mapping, Sequence, Set
from math import inf

from mgn.passes.saturate.extraction.purchases import Market, Purchases

RIVALS = 32
"""States that each one is compared with: the cheapest."""

CHEAPER = 1.0 - 1e-12
"""The share of a cost that is less than it, whatever the order of a sum."""

GROWN = 2
"""How many times as many states there are when some are looked for that can go."""

Trail = tuple["Trail", "Trail"] | int | None
"""The candidates that led to a state; a negative number stands for a class that was bought."""
State = tuple[float, int, int, Trail]
"""What a choice costs, what it needs and what it writes, as sets of bits, and how it came about."""
NOTHING: State = (0.0, 0, 0, None)


class Table:
    """States over some classes, made of tables and candidates one after the other.

    `slot` is the bit of each class, `market` what classes cost. `work` counts the states that were
    met. Of more than `most` states those are kept that promise most.
    """

    def __init__(
        self, classes: Sequence[int], slot: Mapping[int, int], market: Market, most: int
    ) -> None:
        self.slot = {key: slot[key] for key in classes}
        self.purchases = Purchases(market, self.slot)
        self.most = most
        self.work = 0
        self.kept = 1

    def joined(self, states: list[State], others: list[State]) -> list[State]:
        """Each state with each state of another table."""
        self.work += len(states) * len(others)
        if states == [NOTHING]:
            self.kept = len(others)
            return others
        found: dict[tuple[int, int], tuple[float, Trail]] = {}
        for cost, needed, written, trail in states:
            for more, wanted, had, other in others:
                there, total = written | had, cost + more
                state = (needed | wanted) & ~there, there
                known = found.get(state)
                if known is None or total < known[0]:
                    found[state] = total, (trail, other)
        return self._worth_keeping(found)

    def extended(
        self,
        states: list[State],
        number: int,
        results: Sequence[int],
        inputs: Set[int],
        price: float,
    ) -> list[State]:
        """Each state with and without a candidate, which writes and reads these classes."""
        self.work += len(states)
        writes = sum([1 << self.slot[item] for item in results])
        reads = sum([1 << self.slot[item] for item in inputs])
        found = {(needed, there): (cost, trail) for cost, needed, there, trail in states}
        for cost, needed, written, trail in states:
            there, total = written | writes, cost + price
            if there != written:
                state = (needed | reads) & ~there, there
                known = found.get(state)
                if known is None or total < known[0]:
                    found[state] = total, (trail, number)
        if len(found) > GROWN * self.kept:
            return self._worth_keeping(found)
        return [(cost, needed, there, trail) for (needed, there), (cost, trail) in found.items()]

    def without(self, states: list[State], key: int, demanded: bool) -> list[State]:
        """The states once a class is decided: it is bought where it is needed and not written."""
        bit = 1 << self.slot[key]
        price = self.purchases.price_alone(bit)
        found: dict[tuple[int, int], tuple[float, Trail]] = {}
        for cost, needed, written, trail in states:
            total, way = cost, trail
            if needed & bit or (demanded and not written & bit):
                total, way = cost + price, (trail, -1 - key)
            state = needed & ~bit, written & ~bit
            known = found.get(state)
            if total < inf and (known is None or total < known[0]):
                found[state] = total, way
        return self._worth_keeping(found)

    def _worth_keeping(self, found: Mapping[tuple[int, int], tuple[float, Trail]]) -> list[State]:
        """States by cost, without those that others replace."""
        states = [(cost, n, w, trail) for (n, w), (cost, trail) in found.items()]
        states.sort(key=_cost_of)
        kept: list[State] = []
        rivals: list[tuple[float, int, int]] = []
        alone, bounds = self.purchases.alone, self.purchases.bounds
        beside = self.purchases.price_beside
        for state in states:
            cost, needed, written, _ = state
            spare, below = ~needed, cost * CHEAPER
            for less, wanted, unwritten in rivals:
                lacking = wanted & spare | written & unwritten
                if not lacking:
                    break
                least, most = alone.get(lacking) or bounds(lacking)
                if less + most <= cost:
                    break
                if less + least < below and less + beside(lacking, needed | ~unwritten) < below:
                    break
            else:
                kept.append(state)
                if len(rivals) < RIVALS:
                    rivals.append((cost, needed, ~written))
        kept = kept if len(kept) <= self.most else self._most_promising(kept)
        self.kept = len(kept)
        return kept

    def _most_promising(self, states: list[State]) -> list[State]:
        """The states of least cost, with half of the price of what they need and do not write."""
        price = self.purchases.price_alone

        def promise(state: State) -> float:
            return state[0] + (price(state[1]) - price(state[2])) / 2

        return sorted(sorted(states, key=promise)[: self.most], key=_cost_of)


def _cost_of(state: State) -> float:
    return state[0]
