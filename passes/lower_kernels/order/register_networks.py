"""A work-group sorts runs in local memory by a bitonic network, a few steps at a time in registers.

A work-item loads a set of records that meet only each other in some steps in a row, exchanges them
in registers, and stores them: a third of the traffic of steps one by one, and of the barriers. The
steps are those of networks.py. Records lie with a gap after each few, so that sets of neighbours
are in different banks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.order.keys import Records
from mgn.passes.schedules.order import GAP_AFTER, HELD_STEPS

Places = Callable[[Index], list[Index]]
"""The places of a set of records, by its number."""

Pairs = Sequence[tuple[int, int]]
"""Which of a set are compared, the one that is to be the smaller first."""


def spot(place: Index) -> Index:
    """Where the record of a place lies."""
    return place + place // GAP_AFTER


@dataclass(frozen=True)
class RegisterNetwork:
    """The network of runs of so many slots, of all slots of a group.

    So many `steps` are done in registers at once; the record of a place lies `at` another. A
    work-item that is `alone` in its group waits for nobody.
    """

    code: Code
    records: Records
    arrays: Sequence[SSAValue]
    slots: int
    run: int
    item: Index
    items: int
    steps: int = HELD_STEPS
    at: Callable[[Index], Index] = spot
    alone: bool = False

    def sort(self) -> None:
        """Sorts each run."""
        held = 1 << self.steps
        self._pass(self.steps, lambda number: _neighbours(number, held), _whole_network(held))
        size = 2 * held
        while size <= self.run:
            self._join(size)
            size *= 2

    def _join(self, size: int) -> None:
        """Joins blocks in order to blocks of twice the size: a mirrored step, then halves."""
        steps, held = size.bit_length() - 1, 1 << self.steps
        first = (steps - 1) % self.steps + 1
        self._pass(
            first, lambda number: _mirrored(number, size, 1 << first), _mirrored_steps(1 << first)
        )
        left = steps - first
        while left:
            span = 1 << left
            self._pass(
                self.steps, lambda number, span=span: _apart(number, span, held), _halves(held)
            )
            left -= self.steps

    def _pass(self, steps: int, places: Places, pairs: Pairs) -> None:
        """Exchanges the records of each set of a group."""
        code, count = self.code, self.slots >> steps

        def one(turn: Index) -> None:
            number = turn * self.items + self.item

            def own() -> None:
                at = [code.index(self.at(place)) for place in places(code.known(number, count))]
                held = [self.records.load(self.arrays, place) for place in at]
                for low, high in pairs:
                    held[low], held[high] = self.records.in_order(held[low], held[high])
                for place, record in zip(at, held, strict=True):
                    self.records.store(record, self.arrays, place)

            code.when(code.is_below(number, count, 1), own)

        code.each(0, -(-count // self.items), one)
        if not self.alone:
            code.barrier()


def _neighbours(number: Index, count: int) -> list[Index]:
    return [number * count + place for place in range(count)]


def _mirrored(number: Index, size: int, count: int) -> list[Index]:
    """Records of the lower half of a block, and their mirror images in the order of places."""
    apart = size // count
    block, rest = number // apart * size, number % apart
    low = [block + rest + step * apart for step in range(count // 2)]
    mirror = block + rest * -1 + (size // 2 + apart - 1)
    return [*low, *[mirror + step * apart for step in range(count // 2)]]


def _apart(number: Index, span: int, held: int) -> list[Index]:
    """Records that are as far apart as a block of so many allows."""
    apart = span // held
    first = number // apart * span + number % apart
    return [first + step * apart for step in range(held)]


def _halves(count: int, start: int = 0) -> list[tuple[int, int]]:
    """Each record of the lower half with the one as far into the upper, then in the halves."""
    pairs: list[tuple[int, int]] = []
    stride = count // 2
    while stride:
        pairs += [(start + n, start + n + stride) for n in range(count) if not n & stride]
        stride //= 2
    return pairs


def _mirrored_steps(count: int) -> list[tuple[int, int]]:
    """Each record with its mirror image, then halves of both halves."""
    half = count // 2
    pairs = [(place, count - 1 - place) for place in range(half)]
    return [*pairs, *_halves(half), *_halves(half, half)]


def _whole_network(held: int) -> list[tuple[int, int]]:
    """All steps of a set of neighbours."""
    pairs: list[tuple[int, int]] = []
    size = 2
    while size <= held:
        for start in range(0, held, size):
            pairs += [(start + a, start + b) for a, b in _mirrored_steps(size)]
        size *= 2
    return pairs
