"""Local search over a choice of kernels: single classes change their writer while the cost falls.

In: candidates, a preferred writer for each class. Out: better preferences.

Values are counted by their readers, so that a change costs what it touches, and shared kernels are
paid once (A. Mishchenko, S. Chatterjee, R. Brayton, "Improvements to technology mapping for
LUT-based FPGAs", 2006: exact area recovery).
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from mgn.passes.saturate.candidates.candidates import CandidateSet

LEAST_GAIN = 1e-12


def improve(
    found: CandidateSet, preferred: Mapping[int, int], order: Sequence[int], time_budget: float
) -> dict[int, int]:
    """Preferences changed one writer at a time, from users to operands, until nothing helps or time
    is up. Candidates that read what no preferred writer can write are left alone.
    """
    state = _State(found, preferred)
    idle = {
        item.number for item in found.candidates if any(key not in preferred for key in item.inputs)
    }
    deadline = time.thread_time() + time_budget
    improved = True
    while improved:
        improved = False
        for key in reversed(order):
            if not state.readers.get(key):
                continue
            for number in found.writers.get(key, ()):
                if number != state.writer[key] and number not in idle:
                    improved |= state.try_writer(number)
            if time.thread_time() > deadline:
                return state.writer
    return state.writer


class _State:
    """Who writes each class, how many needed kernels read it, and what all of them cost."""

    def __init__(self, found: CandidateSet, preferred: Mapping[int, int]) -> None:
        self.candidates = found.candidates
        self.writer = dict(preferred)
        self.readers: dict[int, int] = {}
        self.uses: dict[int, int] = {}
        self.cost = 0.0
        self.freed: dict[tuple[int, ...], float] = {}
        for key in found.outputs:
            self._add_reader(key)

    def try_writer(self, number: int) -> bool:
        """Lets a candidate write all its results that are needed, if that costs less."""
        before = self.cost
        candidate = self.candidates[number]
        old = {key: self.writer[key] for key in candidate.results if self.readers.get(key)}
        if not self.uses.get(number):
            writers = tuple(old.values())
            freed = self.freed.get(writers)
            if freed is None:
                freed = self.freed[writers] = self._freed_without(Counter(writers))
            if candidate.price >= freed:
                return False
        for key in old:
            self._rewrite(key, number)
        if self.cost < before * (1 - LEAST_GAIN):
            self.freed.clear()
            return True
        for key, previous in reversed(old.items()):
            self._rewrite(key, previous)
        self.cost = before
        return False

    def _freed_without(self, writers: Counter[int]) -> float:
        """What is saved at most where kernels write that many values less: their own prices and
        those of all that nobody else needs. Nothing while others of their values are wanted.
        """
        before = self.cost
        gone = [number for number, less in writers.items() if self.uses[number] == less]
        for number in gone:
            for _ in range(writers[number]):
                self._release(number)
        freed = before - self.cost
        for number in gone:
            for _ in range(writers[number]):
                self._use(number)
        self.cost = before
        return freed

    def _rewrite(self, key: int, number: int) -> None:
        """Changes a class's writer; the new one is entered first, so that what both need stays."""
        previous, needed = self.writer[key], bool(self.readers.get(key))
        self.writer[key] = number
        if needed:
            self._use(number)
            self._release(previous)

    def _add_reader(self, key: int) -> None:
        pending = [key]
        while pending:
            key = pending.pop()
            self.readers[key] = count = self.readers.get(key, 0) + 1
            if count == 1:
                pending.extend(self._first_use(self.writer[key]))

    def _use(self, number: int) -> None:
        for key in self._first_use(number):
            self._add_reader(key)

    def _first_use(self, number: int) -> Sequence[int]:
        """Notes one more result wanted of a kernel; what it reads, where it was not there."""
        self.uses[number] = count = self.uses.get(number, 0) + 1
        if count > 1:
            return ()
        self.cost += self.candidates[number].price
        return self.candidates[number].inputs

    def _release(self, number: int) -> None:
        """Notes one result less wanted of a kernel, and what nobody then needs."""
        pending = [number]
        while pending:
            number = pending.pop()
            self.uses[number] -= 1
            if self.uses[number]:
                continue
            self.cost -= self.candidates[number].price
            for key in self.candidates[number].inputs:
                self.readers[key] -= 1
                if not self.readers[key]:
                    pending.append(self.writer[key])
