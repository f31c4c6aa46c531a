"""The cheapest choice of kernels where few values are alive between any two.

In: a component's `LocalProblem`, whose names are in dependency order. Out: its optimum, or None
where too many states are met: then the integer program solves it.

Classes are decided from users to operands. A state is what is still needed, and what is written
already though nobody has asked for it yet: the *frontier* between what is decided and what is not
(dynamic programming over a path decomposition: H. L. Bodlaender, "A partial k-arboretum of graphs
with bounded treewidth", 1998). However long a chain of layers is, there are few of them; the linear
program instead makes halves of kernels that overlap.
"""

from collections.abc import Iterable, Iterator

from mgn.passes.saturate.extraction.components import LocalProblem

FEW = 1_000
"""States after which to look whether the linear program is sooner done."""
SMALL, FEW_OF_SMALL = 200, 4_000
"""Candidates up to which that takes longer than more states, and how many these are."""
MANY = 20_000
"""States after which to give up."""
TRIED = 5
"""Candidates tried for each of these states, after which to give up, too."""

_State = tuple[int, int]
"""What is needed and not written yet, and what is written, as sets of bits."""
_Trail = tuple[int, "_Trail"] | None
"""The candidates that led to a state, the last one first."""


def few_of(problem: LocalProblem) -> int:
    """The states of a problem after which to look whether the linear program is sooner done."""
    return FEW_OF_SMALL if len(problem.prices) <= SMALL else FEW


def cheapest_choice(problem: LocalProblem, most: int) -> tuple[int, ...] | None:
    """The chosen candidates at least price; None where that takes more than so many states."""
    search = _Search(problem)
    return tuple(_chosen(search.best)) if search.run(most) else None


def _chosen(trail: _Trail) -> Iterator[int]:
    while trail is not None:
        number, trail = trail
        yield number


def _bits(items: Iterable[int]) -> int:
    return sum([1 << item for item in items])


class _Search:
    """States by the last class that they need: those of the last of all come next."""

    def __init__(self, problem: LocalProblem) -> None:
        self.prices, self.writers = problem.prices, problem.writers()
        self.results = [_bits(set(items)) for items in problem.results]
        self.inputs = [_bits(set(items)) for items in problem.inputs]
        self.late = 0
        for results, inputs in zip(problem.results, problem.inputs, strict=True):
            self.late |= _bits({item for item in inputs if item > min(results)})
        self.known: dict[_State, tuple[float, _Trail]] = {}
        self.waiting: dict[int, dict[_State, None]] = {}
        self.cost = float("inf")
        self.best: _Trail = None
        self._enter(_bits(set(problem.demands)), 0, 0.0, None)

    def run(self, most: int) -> bool:
        """Whether the best choice was found, there being one."""
        tried = 0
        while self.waiting and len(self.known) <= most and tried <= TRIED * most:
            key = max(self.waiting)
            states = self.waiting.pop(key)
            tried += len(states) * len(self.writers.get(key, ()))
            for state in states:
                self._decide(key, *state, *self.known[state])
        return not self.waiting and self.cost < float("inf")

    def _decide(self, key: int, needed: int, written: int, cost: float, trail: _Trail) -> None:
        """Lets each candidate that can write the last class needed do so."""
        for number in self.writers.get(key, ()):
            total = cost + self.prices[number]
            if total < self.cost:
                now = written | self.results[number]
                left = (needed | self.inputs[number]) & ~now
                self._enter(left, now, total, (number, trail))

    def _enter(self, needed: int, written: int, cost: float, trail: _Trail) -> None:
        """Notes a state, where it was not reached at less cost; what is written above the last
        class needed is kept only where a candidate may read it that writes a class below.
        """
        if not needed:
            self.cost, self.best = cost, trail
            return
        key = needed.bit_length() - 1
        state = needed, written & ((1 << key) - 1 | self.late)
        known = self.known.get(state)
        if known is None or cost < known[0]:
            self.known[state] = cost, trail
            self.waiting.setdefault(key, {})[state] = None
