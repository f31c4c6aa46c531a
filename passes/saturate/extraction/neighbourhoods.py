"""A choice of kernels for a long problem, improved in one neighbourhood after the other.

In: a `LocalProblem`, a choice without rings, an order of classes in which near ones are tied. Out:
a choice without rings that costs no more.

The classes of a *window* of the order are written anew, and the kernels of all others stay (large
neighbourhood search: P. Shaw, "Using constraint programming and local search methods to solve
vehicle routing problems", 1998). What these kernels write is there, and what they read is wanted.
So a window is a problem of its own, small enough to be solved; equal ones are solved once.
"""

from collections.abc import Iterable, Sequence, Set

from mgn.passes.saturate.extraction.components import LocalProblem, Part
from mgn.passes.saturate.extraction.elimination import tree_of
from mgn.passes.saturate.extraction.exact import ExactSolver, cost_of, outside
from mgn.passes.saturate.extraction.rings import as_a_whole, needed_of, order_of, writers_of

WINDOW, STEP = 180, 140
"""Classes of a window, and after how many the next one begins."""
EACH = 0.01
"""The share of the work that is left which a window may take."""


def improved(
    problem: LocalProblem,
    numbers: Iterable[int],
    chosen: Sequence[int],
    order: Sequence[int],
    solver: ExactSolver,
) -> tuple[int, ...]:
    """The choice, with the kernels of each window among these candidates and its own."""
    choice, each = _Choice(problem, numbers, chosen), solver.work.left * EACH
    for start in range(0, len(order), STEP):
        if not solver.has_work():
            break
        with solver.work.at_most(each):
            choice.improve(order[start : start + WINDOW], solver)
    return choice.chosen


class _Choice:
    """Chosen kernels, and the one that each class is taken from."""

    def __init__(
        self, problem: LocalProblem, numbers: Iterable[int], chosen: Sequence[int]
    ) -> None:
        self.problem, self.numbers = problem, frozenset(numbers)
        self.demands = frozenset(problem.demands)
        self._take(chosen)

    def _take(self, chosen: Sequence[int]) -> None:
        """Takes a choice without rings, less what nobody needs of it."""
        needed = needed_of(self.problem, chosen)
        self.chosen = tuple(order_of(self.problem, needed)[0])
        self.writer = writers_of(self.problem, needed)
        self.readers: dict[int, set[int]] = {}
        for number in self.chosen:
            for item in self.problem.inputs[number]:
                self.readers.setdefault(item, set()).add(number)

    def improve(self, window: Sequence[int], solver: ExactSolver) -> None:
        """Writes the classes of a window anew where that costs less, and makes no ring."""
        problem = self.problem
        gone = self._writing(window)
        stay = [number for number in self.chosen if number not in gone]
        part = self._without(gone, stay, window)
        tree = tree_of(part.problem)
        if any(key not in tree for key in part.problem.demands):
            return
        found = outside(part, as_a_whole(part.problem, tree, solver)).chosen
        if found is None:
            return
        anew = [number for number in found if number >= 0]
        if cost_of(problem, anew) < cost_of(problem, gone):
            self._take([*stay, *anew])

    def _writing(self, window: Iterable[int]) -> set[int]:
        """The kernels that some classes are taken from, and those that write for these alone."""
        inputs = self.problem.inputs
        gone = {self.writer[key] for key in window if key in self.writer}
        for near in [self.writer[key] for number in sorted(gone) for key in inputs[number]]:
            if not any(self._is_read(key, gone) for key in self._taken(near)):
                gone.add(near)
        return gone

    def _taken(self, number: int) -> list[int]:
        """The classes that are taken from a kernel."""
        return [key for key in self.problem.results[number] if self.writer[key] == number]

    def _is_read(self, key: int, gone: Set[int]) -> bool:
        """Whether a class is wanted by others than these kernels."""
        return key in self.demands or not self.readers.get(key, gone) <= gone

    def _without(self, gone: Set[int], stay: Sequence[int], window: Iterable[int]) -> Part:
        """The problem of what is lacking without some kernels, where others stay.

        What is there, but waits for something lacking, is a class of it that a candidate without a
        price writes from that; its number is negative.
        """
        problem, writers = self.problem, self.problem.writers()
        there, wanted = set[int](), set(self.demands)
        for number in stay:
            there.update(self._taken(number))
            wanted.update(problem.inputs[number])
        own = {*window, *[key for number in gone for key in problem.results[number]]} - there
        near = sorted({number for key in own for number in writers.get(key, ())})
        numbers = [
            number
            for number in near
            if (number in self.numbers or number in gone)
            and all(key in own or key in there for key in problem.inputs[number])
        ]
        read = {key for number in numbers for key in problem.inputs[number]}
        waiting = self._waiting(stay, own)
        waits = {key: waiting[key] for key in sorted(read - own) if waiting[key]}
        name = {key: place for place, key in enumerate(sorted({*own, *waits}))}

        def named(keys: Iterable[int]) -> tuple[int, ...]:
            return tuple([name[key] for key in keys if key in name])

        left = LocalProblem(
            named(sorted(wanted - there)),
            tuple([named([k for k in problem.results[n] if k in own]) for n in numbers])
            + tuple([named([key]) for key in waits]),
            tuple([named(problem.inputs[n]) for n in numbers])
            + tuple([named(sorted(keys)) for keys in waits.values()]),
            tuple([problem.prices[number] for number in numbers]) + (0.0,) * len(waits),
        )
        return Part(left, (*numbers, *[-1 - key for key in waits]))

    def _waiting(self, stay: Iterable[int], own: Set[int]) -> dict[int, frozenset[int]]:
        """What each class that is taken from kernels that stay waits for of some classes."""
        found: dict[int, frozenset[int]] = {}
        for number in stay:
            waits = frozenset[int]()
            for key in self.problem.inputs[number]:
                waits |= {key} if key in own else found[key]
            found.update(dict.fromkeys(self._taken(number), waits))
        return found
