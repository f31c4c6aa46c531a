"""Kernel candidates: what one kernel could compute, what it reads and writes, and its price.

In: a view and its cut sets. Out: `Candidate`s for all classes that some kernel may read or the
graph returns.

A candidate writes its root and, where their values are wanted elsewhere, also interior values of
its body that lie in the same iteration space: the residual sum next to its norm, both arms of a
diamond.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.cuts import Cone, CutBuilder, CutLimits, PlacedCuts
from mgn.passes.saturate.forms import BodyNode
from mgn.passes.saturate.prices import price_kernel, price_per_run
from mgn.passes.saturate.view import View

DEFAULT_LIMITS = CutLimits()
EXTRA_RESULTS = 4
"""Interior values of one body that are considered as further results."""


@dataclass(frozen=True)
class Candidate:
    """One possible kernel. `results[0]` is its root; `inputs` are classes that must be in memory or
    written.
    """

    number: int
    kind: KernelKind
    body: tuple[BodyNode, ...]
    results: tuple[int, ...]
    reads: tuple[int, ...]
    inputs: tuple[int, ...]
    price: float


def undominated(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other one replaces: same results or more, same inputs or fewer, no dearer."""
    kept: list[tuple[frozenset[int], frozenset[int]]] = []
    chosen: list[Candidate] = []
    for item in sorted(candidates, key=lambda c: (c.price, len(c.inputs), c.number)):
        results, inputs = frozenset(item.results), frozenset(item.inputs)
        if not any(results <= others and inputs >= needed for others, needed in kept):
            kept.append((results, inputs))
            chosen.append(item)
    return sorted(chosen, key=lambda c: c.number)


@dataclass
class CandidateSet:
    """All candidates by number, those that write each class, and the order of the classes."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    writers: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    position: dict[int, int] = field(default_factory=dict[int, int])
    outputs: tuple[int, ...] = ()
    considered: int = 0

    def add(self, candidate: Candidate) -> None:
        """Enters a candidate under the next number."""
        number = len(self.candidates)
        self.candidates.append(replace(candidate, number=number))
        for result in candidate.results:
            self.writers.setdefault(result, []).append(number)


class NoKernel(RuntimeError):
    """A value that no kernel form can compute."""


def find_candidates(view: View, device: Device, limits: CutLimits = DEFAULT_LIMITS) -> CandidateSet:
    """The candidates that can take part in computing the outputs of a view."""
    builder = CutBuilder(view, device, limits)
    placed = builder.build()
    found = CandidateSet(considered=builder.considered)
    wanted = [root for root in dict.fromkeys(view.outputs) if not view.classes[root].leaf]
    found.outputs = tuple(wanted)
    reach = Reach(view)
    found.position = reach.position
    offers = _Offers(view, device)
    queued = set(wanted)
    while wanted:
        key = wanted.pop()
        offered: list[Candidate] = []
        for kind, body, results, reads, price in offers.of(placed[key]):
            inputs = tuple(item for item in reads if view.classes[item].leaf is None)
            if any(reach.depends(item, extra) for extra in results[1:] for item in inputs):
                continue
            number = len(offered)
            offered.append(Candidate(number, kind, body, results, reads, inputs, price))
        for candidate in undominated(offered):
            found.add(candidate)
            for item in (*candidate.inputs, *candidate.results):
                if item not in queued:
                    queued.add(item)
                    wanted.append(item)
        if not offered:
            value = view.classes[key]
            names = sorted({view.signatures[item.signature].name for item in value.members})
            raise NoKernel(f"no kernel form can compute {' or '.join(names)} : {value.type}")
    return found


Offer = tuple[KernelKind, tuple[BodyNode, ...], tuple[int, ...], tuple[int, ...], float]


class _Offers:
    """Candidates of a placed cut set; results and prices are worked out once for each cut set."""

    def __init__(self, view: View, device: Device) -> None:
        self.view = view
        self.device = device
        self.memo: dict[int, list[tuple[Cone, tuple[int, ...], float]]] = {}

    def of(self, placed: PlacedCuts) -> Iterator[Offer]:
        local = self.memo.get(placed.cuts.number)
        if local is None:
            local = self.memo[placed.cuts.number] = list(self._local(placed))
        classes = placed.classes
        for cone, results, price in local:
            body = tuple(
                (classes[name], signature, tuple(classes[item] for item in operands))
                for name, signature, operands in cone.body
            )
            yield (
                cone.form.kind,
                body,
                tuple(classes[name] for name in results),
                tuple(classes[name] for name in cone.leaves),
                price,
            )

    def _local(self, placed: PlacedCuts) -> Iterator[tuple[Cone, tuple[int, ...], float]]:
        traits = placed.cuts.traits
        signatures = self.view.signatures
        prepared = traits[0].prepared
        for cone in placed.cuts.cones:
            yield cone, (0,), cone.price
            root = signatures[cone.body[-1][1]]
            extras = [
                name
                for name, signature, _ in cone.body[:-1]
                if traits[name].shared
                and traits[name].prepared is prepared
                and cone.form.writable(name, signatures[signature], root)
            ]
            types = {name: traits[name].type for name in cone.leaves}
            for chosen in _subsets(extras[-EXTRA_RESULTS:]):
                results = (0, *chosen)
                price = price_kernel(cone.body, cone.form, results, types, signatures, self.device)
                yield cone, results, price_per_run(price, prepared)


def _subsets(names: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Non-empty subsets worth trying: singles, pairs, and all."""
    for size in sorted({1, 2, len(names)} & set(range(1, len(names) + 1))):
        yield from combinations(names, size)


class Reach:
    """Whether computing one class may need another, by the classes' order and edges."""

    def __init__(self, view: View) -> None:
        self.position = {key: index for index, key in enumerate(view.classes)}
        self.operands = {
            key: tuple({item for member in value.members for item in member.operands})
            for key, value in view.classes.items()
        }
        self.memo: dict[tuple[int, int], bool] = {}

    def depends(self, key: int, other: int) -> bool:
        """Whether some form of `key` uses `other`, directly or not."""
        position = self.position
        floor = position[other]
        if position[key] <= floor:
            return key == other
        known = self.memo.get((key, other))
        if known is None:
            known = self.memo[(key, other)] = self._uses(key, other, floor)
        return known

    def _uses(self, key: int, other: int, floor: int) -> bool:
        position, operands = self.position, self.operands
        pending, seen = [key], {key}
        while pending:
            for operand in operands[pending.pop()]:
                if operand == other:
                    return True
                if operand not in seen and position[operand] > floor:
                    seen.add(operand)
                    pending.append(operand)
        return False
