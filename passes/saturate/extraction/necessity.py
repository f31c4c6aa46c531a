"""What every choice of kernels must write: all that the writers of a class have in common.

In: a `LocalProblem`. Out: for each class the classes that are written wherever it is, as sets of
bits, and the *forced* ones: those of the demanded classes.

    must(k) = {k} ∪ ⋂ over writers w of k: results(w) ∪ inputs(w) ∪ must(inputs(w))

It is the least solution of these equations. It holds for every *closed* choice, one that writes
what it reads, even where its kernels wait for each other in a ring.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from mgn.passes.saturate.extraction.components import LocalProblem


@dataclass(frozen=True)
class Necessity:
    """`must[k]` has a bit for each class written wherever k is; `forced` those written always."""

    must: dict[int, int]
    forced: int

    def written_with(self, problem: LocalProblem, candidate: int) -> int:
        """What is in memory, whoever wrote it, before a candidate can run."""
        found = 0
        for item in problem.inputs[candidate]:
            found |= self.must[item]
        return found


def necessity_of(problem: LocalProblem) -> Necessity:
    """The necessities of a problem whose names are in dependency order."""
    writers = problem.writers()
    readers: dict[int, list[int]] = {}
    for number, inputs in enumerate(problem.inputs):
        for item in inputs:
            readers.setdefault(item, []).append(number)
    everything = (1 << (max(writers, default=-1) + 1)) - 1
    results, inputs = problem.results, problem.inputs
    must = {key: 1 << key for key in writers}
    pending = deque(sorted(writers))
    queued = set(pending)
    while pending:
        key = pending.popleft()
        queued.discard(key)
        common, alone = everything, 1 << key
        for number in writers[key]:
            needed = alone
            for item in results[number]:
                if item != key:
                    needed |= 1 << item
            for item in inputs[number]:
                needed |= must.get(item, everything)
            common &= needed
            if common == alone:
                break
        common |= alone
        if common == must[key]:
            continue
        must[key] = common
        for number in readers.get(key, ()):
            for item in results[number]:
                if item not in queued:
                    queued.add(item)
                    pending.append(item)
    forced = 0
    for key in problem.demands:
        forced |= must.get(key, 1 << key)
    return Necessity(must, forced)


def bits_of(number: int) -> Iterator[int]:
    """The places of a number's bits."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
