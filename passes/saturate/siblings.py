"""Kernels that compute two values side by side, neither from the other, and read what both need
once.

In: a view and its candidates of one result. Out: candidates of two: both arms of a diamond that are
wanted, two statistics of the same rows.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates import Candidate, CandidateSet
from mgn.passes.saturate.cuts import body_order
from mgn.passes.saturate.forms import BodyNode, classify
from mgn.passes.saturate.prices import price_kernel, price_per_run
from mgn.passes.saturate.view import View

READERS = 6
"""Readers of one value that are tried with each other."""
WAYS = 2
"""Candidates of one class that are tried: the cheapest, and the next that reads other values."""

Depends = Callable[[int, int], bool]
Space = tuple[KernelKind, tuple[int, ...], tuple[int, ...]]


def sibling_candidates(
    view: View, found: CandidateSet, device: Device, depends: Depends
) -> Iterator[Candidate]:
    """Candidates of two results that are cheaper than the two kernels they replace."""
    groups: dict[tuple[int, Space], list[Candidate]] = {}
    for candidate in _cheap_alone(found):
        form = classify(candidate.body, view.signatures)
        if form is None or form.kind not in (KernelKind.POINTWISE, KernelKind.REDUCTION):
            continue
        root = view.signatures[candidate.body[-1][1]]
        shape = root.shape if form.kind is KernelKind.POINTWISE else form.shape
        for read in candidate.reads:
            groups.setdefault((read, (form.kind, shape, form.axes)), []).append(candidate)
    tried: set[tuple[int, int]] = set()
    for readers in groups.values():
        for first, second in combinations(readers[:READERS], 2):
            pair = (first.number, second.number)
            if pair not in tried and first.results != second.results:
                tried.add(pair)
                merged = _merged(view, first, second, device, depends)
                if merged is not None:
                    yield merged


def _cheap_alone(found: CandidateSet) -> Iterator[Candidate]:
    """For each class a few candidates that write it alone, from different values: first the
    cheapest of all classes.
    """
    ways: list[list[Candidate]] = [[] for _ in range(WAYS)]
    for key, numbers in found.writers.items():
        alone = [found.candidates[n] for n in numbers if found.candidates[n].results == (key,)]
        alone.sort(key=lambda item: (item.price, item.number))
        distinct = {frozenset(item.reads): item for item in reversed(alone)}
        rest = sorted(distinct.values(), key=lambda item: (item.price, item.number))
        for place, candidate in zip(ways, rest, strict=False):
            place.append(candidate)
    for place in ways:
        yield from place


def _merged(
    view: View, first: Candidate, second: Candidate, device: Device, depends: Depends
) -> Candidate | None:
    nodes: dict[int, BodyNode] = {node[0]: node for node in first.body}
    for node in second.body:
        nodes.setdefault(node[0], node)
    results = first.results + second.results
    prepared = view.classes[first.results[0]].prepared
    if view.classes[second.results[0]].prepared is not prepared:
        return None
    body = body_order(nodes, results)
    if body is None:
        return None
    computed = {name for name, _, _ in body}
    if any(result in other.reads for result in results for other in (first, second)):
        return None
    reads = tuple(
        dict.fromkeys(
            item
            for _, _, operands in body
            for item in operands
            if item not in computed and not view.classes[item].inline
        )
    )
    inputs = tuple(item for item in reads if view.classes[item].leaf is None)
    if any(depends(item, result) for item in inputs for result in results):
        return None
    form = classify(body, view.signatures)
    roots = [view.signatures[nodes[result][1]] for result in results]
    if form is None or form.kind is not first.kind:
        return None
    if not all(
        form.writable(result, root, roots[0]) for result, root in zip(results, roots, strict=True)
    ):
        return None
    types = {item: view.classes[item].type for item in reads}
    price = price_kernel(body, form, results, types, view.signatures, device)
    price = price_per_run(price, prepared)
    if price >= first.price + second.price:
        return None
    return Candidate(-1, form.kind, tuple(body), results, reads, inputs, price)
