"""What it costs to have classes that a state lacks, from what is in memory anyway.

In: a `LocalProblem`, what each class costs with all that it needs, the classes of a table. Out:
prices of sets of these, as sets of bits.

A class may be written by one more candidate, of whose inputs some are there and the others are
bought with all that they need. So a state is compared with another one at the price of a few
kernels, where it is far more to have each class with nothing shared.
"""

from collections.abc import Mapping, Sequence
from math import inf

from mgn.passes.saturate.extraction.components import LocalProblem

_Way = tuple[float, int]
"""What a class costs, and the classes that have to be there for it."""


class Market:
    """What the classes of a problem cost: `full` with all that they need, `inputs` are what each
    candidate reads that is not there in any case.
    """

    def __init__(
        self, problem: LocalProblem, inputs: Sequence[set[int]], full: Mapping[int, float]
    ) -> None:
        self.problem, self.inputs, self.full = problem, inputs, full

    def ways(self, key: int, slot: Mapping[int, int]) -> list[_Way]:
        """The ways to have a class, the cheapest first, each needing what no cheaper one does
        without; the last one needs nothing.
        """
        full = self.full.get(key, inf)
        found: list[_Way] = []
        for number in self.problem.writers().get(key, ()):
            price, needed = self.problem.prices[number], 0
            for item in self.inputs[number]:
                if item in slot:
                    needed |= 1 << slot[item]
                else:
                    price += self.full.get(item, inf)
            if price < full:
                found.append((price, needed))
        found.sort()
        kept: list[_Way] = []
        for price, needed in found:
            for _, other in kept:
                if not other & ~needed:
                    break
            else:
                kept.append((price, needed))
        return [*kept, (full, 0)]


class Purchases:
    """Prices over the classes of one table; `slot` is the bit of each."""

    def __init__(self, market: Market, slot: Mapping[int, int]) -> None:
        self.market, self.slot = market, slot
        self.full = {1 << bit: market.full.get(key, inf) for key, bit in slot.items()}
        self.key_of = {1 << bit: key for key, bit in slot.items()}
        self.known_ways: dict[int, list[_Way]] = {}
        self.alone: dict[int, tuple[float, float]] = {}
        self.shared: dict[tuple[int, int], float] = {}

    def price_alone(self, lacking: int) -> float:
        """What classes cost with all that they need, nothing shared."""
        full, price = self.full, 0.0
        while lacking:
            lowest = lacking & -lacking
            price += full[lowest]
            lacking ^= lowest
        return price

    def bounds(self, lacking: int) -> tuple[float, float]:
        """What classes cost at least, whatever is there, and `price_alone`."""
        known = self.alone.get(lacking)
        if known is None:
            ways, full, rest = self.known_ways, self.full, lacking
            least = most = 0.0
            while rest:
                lowest = rest & -rest
                least += (ways.get(lowest) or self._ways(lowest))[0][0]
                most += full[lowest]
                rest ^= lowest
            known = self.alone[lacking] = least, most
        return known

    def price_beside(self, lacking: int, there: int) -> float:
        """What classes cost where others are there, bought one after the other."""
        known = self.shared.get((lacking, there))
        if known is None:
            ways, known, missing, rest = self.known_ways, 0.0, ~there, lacking
            while rest:
                lowest = rest & -rest
                for price, needed in ways.get(lowest) or self._ways(lowest):
                    if not needed & missing:
                        known += price
                        break
                missing &= ~lowest
                rest ^= lowest
            self.shared[lacking, there] = known
        return known

    def _ways(self, bit: int) -> list[_Way]:
        """The ways to have the class of a bit, worked out when first asked for."""
        known = self.known_ways[bit] = self.market.ways(self.key_of[bit], self.slot)
        return known
