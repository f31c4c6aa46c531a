"""A choice of candidates: which kernel writes each class that is needed, each kernel paid once.

In: candidates, and for each class the one preferred to write it. Out: the kernels that the outputs
then need, their cost, or the cycle in which they wait for each other.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from math import inf

from mgn.passes.saturate.candidates.candidates import CandidateSet

IN_A_ROW = 2
"""By how many kernels, each reading what the last one writes, it is tried to obtain a value."""


@dataclass
class Selection:
    """Chosen kernels, producers before readers: the writer of each needed class, and the total
    price.
    """

    writer: dict[int, int]
    kernels: list[int]
    cost: float


class CyclicSelection(Exception):
    """Chosen kernels that wait for each other."""

    def __init__(self, kernels: list[int]) -> None:
        super().__init__(f"kernels wait for each other: {kernels}")
        self.kernels = kernels


def select(found: CandidateSet, preferred: Mapping[int, int], again: bool = False) -> Selection:
    """The kernels that the outputs need when each class is written by its preferred one.

    A class that a needed kernel writes anyway is not written again, unless `again` is set: then it
    is taken from the preferred one even so.
    """
    writer: dict[int, int] = {}
    needed = list(reversed(found.outputs))
    chosen: dict[int, None] = {}
    while needed:
        key = needed.pop()
        if key in writer:
            continue
        number = preferred[key]
        candidate = found.candidates[number]
        chosen[number] = None
        for result in candidate.results:
            if result == key or not (again or result in writer):
                writer[result] = number
        needed.extend(reversed(candidate.inputs))
    used = _used(found, writer)
    ordered = _ordered(found, writer, [number for number in chosen if number in used])
    return Selection(writer, ordered, sum(found.candidates[number].price for number in ordered))


def _used(found: CandidateSet, writer: Mapping[int, int]) -> set[int]:
    """The kernels that still write something needed."""
    used: set[int] = set()
    pending = [writer[key] for key in found.outputs]
    while pending:
        number = pending.pop()
        if number not in used:
            used.add(number)
            pending.extend(writer[item] for item in found.candidates[number].inputs)
    return used


def _ordered(found: CandidateSet, writer: Mapping[int, int], kernels: list[int]) -> list[int]:
    """Kernels, producers first. CyclicSelection where that cannot be."""
    ordered: list[int] = []
    state: dict[int, bool] = {}
    for start in reversed(kernels):
        path: list[int] = [start]
        while path:
            number = path[-1]
            if state.get(number) is True:
                path.pop()
                continue
            state[number] = False
            waiting = None
            for item in found.candidates[number].inputs:
                other = writer[item]
                if state.get(other) is False:
                    raise CyclicSelection(path[path.index(other) :])
                if other not in state:
                    waiting = other
                    break
            if waiting is None:
                state[number] = True
                ordered.append(number)
                path.pop()
            else:
                path.append(waiting)
    return ordered


def price_from(
    found: CandidateSet, there: Container[int], key: int, in_a_row: int = IN_A_ROW
) -> float:
    """What it takes at most to obtain a value from those that are there, by few kernels in a row;
    inf where these do not do.
    """
    if key in there:
        return 0.0
    least = inf
    for number in found.writers[key] if in_a_row else ():
        price = found.candidates[number].price
        for item in found.candidates[number].inputs:
            if price >= least:
                break
            price += price_from(found, there, item, in_a_row - 1)
        least = min(least, price)
    return least
