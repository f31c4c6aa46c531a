"""Branch and bound for small choices of kernels, which most components are.

In: a component's `LocalProblem`, whose names are in dependency order. Out: its optimum with a
proof, or None when the search would be long: then the integer program solves it.

Classes are decided from users to operands, so a state is what is still needed and what is written
already below that; a state reached at no less cost than before is left. The bound shares each price
equally among its results.
"""

from mgn.passes.saturate.components import LocalProblem

STATES = 4_000
SIZE = 64
"""Candidates above which a problem is left to the integer program."""


def branch_and_bound(problem: LocalProblem) -> tuple[int, ...] | None:
    """The chosen candidates at least price; None where that takes more than `STATES` states."""
    if len(problem.prices) > SIZE:
        return None
    search = _Search(problem)
    search.run()
    return None if search.states > STATES else search.best


_State = tuple[frozenset[int], frozenset[int], float, tuple[int, ...]]
"""What is needed and not written yet, what is written, at what cost, by which candidates."""


class _Search:
    def __init__(self, problem: LocalProblem) -> None:
        self.problem = problem
        self.writers: dict[int, list[int]] = {}
        self.least: dict[int, float] = {}
        for number, results in enumerate(problem.results):
            share = problem.prices[number] / max(len(results), 1)
            for result in results:
                self.writers.setdefault(result, []).append(number)
                self.least[result] = min(share, self.least.get(result, float("inf")))
        for numbers in self.writers.values():
            numbers.sort(key=lambda number: (problem.prices[number], number))
        self.best: tuple[int, ...] | None = None
        self.cost = float("inf")
        self.states = 0
        self.seen: dict[tuple[frozenset[int], frozenset[int]], float] = {}

    def run(self) -> None:
        empty: frozenset[int] = frozenset()
        pending: list[_State] = [(frozenset(self.problem.demands), empty, 0.0, ())]
        while pending and self.states <= STATES:
            needed, written, cost, chosen = pending.pop()
            if cost + sum(self.least.get(key, 0.0) for key in needed) >= self.cost:
                continue
            if not needed:
                self.cost, self.best = cost, chosen
                continue
            self.states += 1
            key = max(needed)
            state = (needed, frozenset(item for item in written if item < key))
            if self.seen.get(state, float("inf")) <= cost:
                continue
            self.seen[state] = cost
            for number in reversed(self.writers.get(key, ())):
                results = self.problem.results[number]
                now = written.union(results)
                pending.append(
                    (
                        needed.union(self.problem.inputs[number]) - now,
                        now,
                        cost + self.problem.prices[number],
                        (*chosen, number),
                    )
                )
