"""Rows against half kernels: an odd number of classes is not written by pairs.

In: a `LocalProblem`, its `Columns`, values of them that are not whole. Out: rows that these violate
and that all whole choices keep, for sets S of odd size:

    Σ ⌈|results(c) ∩ S| / 2⌉ · x(c) + Σ over k in S (1 − Σ y(k, ·)) ≥ (|S| + 1) / 2

It is the sum of "some kernel writes k, or it is not taken" over S, halved and rounded up (V.
Chvátal, 1973). Where five values lie in a ring of kernels that each write two neighbours, halves of
these five kernels would do.
"""

from collections.abc import Iterator, Mapping, Sequence

from mgn.passes.saturate.extraction.components import LocalProblem
from mgn.passes.saturate.extraction.program_rows import Columns
from mgn.passes.saturate.extraction.solver import NEARLY


def odd_set_rows(
    problem: LocalProblem, columns: Columns, values: Sequence[float]
) -> Iterator[tuple[dict[int, float], float]]:
    """Violated rows, each with its least value."""
    writers = problem.writers()
    tied = [
        results
        for number, results in enumerate(problem.results)
        if NEARLY < values[number] < 1 - NEARLY
    ]
    shares = {
        key: [columns.taken[key, number] for number in writers[key]]
        for results in tied
        for key in results
    }
    whole = {key for key, taken in shares.items() if sum(values[n] for n in taken) > 1 - NEARLY}
    for ring in _rings(tied, whole):
        row, least = _row(problem, shares, ring)
        if sum(value * values[column] for column, value in row.items()) < least - NEARLY:
            yield row, least


def _row(
    problem: LocalProblem, shares: Mapping[int, list[int]], ring: set[int]
) -> tuple[dict[int, float], float]:
    row: dict[int, float] = {}
    for number, results in enumerate(problem.results):
        inside = len(ring.intersection(results))
        if inside:
            row[number] = float((inside + 1) // 2)
    for key in ring:
        for column in shares[key]:
            row[column] = row.get(column, 0.0) - 1.0
    return row, float((len(ring) + 1) // 2 - len(ring))


def _rings(tied: Sequence[tuple[int, ...]], whole: set[int]) -> list[set[int]]:
    """The sets of odd size of classes that kernels of several results tie together."""
    rings: list[set[int]] = []
    for results in tied:
        ring = whole.intersection(results)
        if len(ring) < 2:
            continue
        touching = [other for other in rings if not other.isdisjoint(ring)]
        rings = [other for other in rings if other.isdisjoint(ring)]
        rings.append(ring.union(*touching))
    return [ring for ring in rings if len(ring) % 2]
