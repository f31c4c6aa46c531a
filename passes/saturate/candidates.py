"""Kernel candidates: what one kernel could compute, what it reads and writes, and its price.

In: a view and its cut sets. Out: `Candidate`s for all classes that some kernel may read or the
graph returns.

A candidate writes its root and, where their values are wanted elsewhere, also interior values of
its body that lie in the same iteration space: the residual sum next to its norm, both arms of a
diamond.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.cuts import CutBuilder, CutLimits, CutSet, PlacedCuts
from mgn.passes.saturate.forms import BodyNode, Form
from mgn.passes.saturate.prices import price_kernel, price_per_run
from mgn.passes.saturate.reach import Reach
from mgn.passes.saturate.view import View

DEFAULT_LIMITS = CutLimits()
EXTRA_RESULTS = 4
"""Interior values of one body that are considered as further results."""


@dataclass(frozen=True, eq=False)
class Template:
    """One possible kernel over names of its own, wherever it may stand. `results[0]` is its root;
    `inputs` are those of the values it reads that must be written before.
    """

    body: tuple[BodyNode, ...]
    form: Form
    results: tuple[int, ...]
    reads: tuple[int, ...]
    inputs: tuple[int, ...]
    price: float


class Candidate:
    """A template where it stands: `classes[i]` is the class of its name i."""

    __slots__ = ("classes", "inputs", "number", "price", "results", "template")

    def __init__(self, number: int, template: Template, classes: tuple[int, ...]) -> None:
        self.number = number
        self.template = template
        self.classes = classes
        self.price = template.price
        self.results = tuple([classes[name] for name in template.results])
        self.inputs = tuple([classes[name] for name in template.inputs])

    @property
    def kind(self) -> KernelKind:
        return self.template.form.kind

    @property
    def reads(self) -> tuple[int, ...]:
        """The classes that it reads from memory: inputs, and those that lie there anyway."""
        return tuple([self.classes[name] for name in self.template.reads])

    @property
    def body(self) -> tuple[BodyNode, ...]:
        """The e-nodes that it computes, operands first."""
        classes = self.classes
        return tuple(
            (classes[name], signature, tuple([classes[item] for item in operands]))
            for name, signature, operands in self.template.body
        )


def undominated(templates: Sequence[Template]) -> list[Template]:
    """Those that no other one replaces: same results or more, same inputs or fewer, no dearer."""
    kept: list[tuple[frozenset[int], frozenset[int]]] = []
    chosen: list[tuple[int, Template]] = []
    for place, item in sorted(
        enumerate(templates), key=lambda pair: (pair[1].price, len(pair[1].inputs), pair[0])
    ):
        results, inputs = frozenset(item.results), frozenset(item.inputs)
        if not any(results <= others and inputs >= needed for others, needed in kept):
            kept.append((results, inputs))
            chosen.append((place, item))
    return [item for _, item in sorted(chosen, key=lambda pair: pair[0])]


@dataclass
class CandidateSet:
    """All candidates by number, those that write each class, and the order of the classes."""

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    writers: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    position: dict[int, int] = field(default_factory=dict[int, int])
    outputs: tuple[int, ...] = ()
    considered: int = 0

    def add(self, template: Template, classes: tuple[int, ...]) -> Candidate:
        """Enters a candidate under the next number."""
        candidate = Candidate(len(self.candidates), template, classes)
        self.candidates.append(candidate)
        for result in candidate.results:
            self.writers.setdefault(result, []).append(candidate.number)
        return candidate


class NoKernel(RuntimeError):
    """A value that no kernel form can compute."""


def find_candidates(
    view: View, device: Device, reach: Reach, limits: CutLimits = DEFAULT_LIMITS
) -> CandidateSet:
    """The candidates that can take part in computing the outputs of a view."""
    builder = CutBuilder(view, device, limits)
    placed = builder.build()
    found = CandidateSet(position=reach.position, considered=builder.considered)
    wanted = [root for root in dict.fromkeys(view.outputs) if not view.classes[root].leaf]
    found.outputs = tuple(wanted)
    offers = _Offers(view, device, reach)
    queued = set(wanted)
    while wanted:
        key = wanted.pop()
        offered = offers.of(placed[key])
        for template in offered:
            candidate = found.add(template, placed[key].classes)
            for item in (*candidate.inputs, *candidate.results):
                if item not in queued:
                    queued.add(item)
                    wanted.append(item)
        if not offered:
            value = view.classes[key]
            names = sorted({view.signatures[item.signature].name for item in value.members})
            raise NoKernel(f"no kernel form can compute {' or '.join(names)} : {value.type}")
    return found


class _Offers:
    """Templates of a placed cut set, worked out once for each cut set."""

    def __init__(self, view: View, device: Device, reach: Reach) -> None:
        self.view = view
        self.device = device
        self.reach = reach
        self.made: dict[int, list[Template]] = {}
        self.kept: dict[tuple[int, frozenset[int]], list[Template]] = {}

    def of(self, placed: PlacedCuts) -> list[Template]:
        """The templates worth trying there: none that would wait for itself."""
        cuts, classes = placed.cuts, placed.classes
        made = self.made.get(cuts.number)
        if made is None:
            made = self.made[cuts.number] = list(self._make(cuts))
        waiting = frozenset(
            place
            for place, template in enumerate(made)
            if len(template.results) > 1 and self._waits(template, classes)
        )
        kept = self.kept.get((cuts.number, waiting))
        if kept is None:
            left = [template for place, template in enumerate(made) if place not in waiting]
            kept = self.kept[cuts.number, waiting] = undominated(left)
        return kept

    def _waits(self, template: Template, classes: tuple[int, ...]) -> bool:
        """Whether an input depends on a further result."""
        return any(
            self.reach.depends(classes[item], classes[extra])
            for extra in template.results[1:]
            for item in template.inputs
        )

    def _make(self, cuts: CutSet) -> Iterator[Template]:
        traits = cuts.traits
        signatures = self.view.signatures
        prepared = traits[0].prepared
        for cone in cuts.cones:
            inputs = tuple(name for name in cone.leaves if not traits[name].in_memory)
            yield Template(cone.body, cone.form, (0,), cone.leaves, inputs, cone.price)
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
                price = price_per_run(price, prepared)
                yield Template(cone.body, cone.form, results, cone.leaves, inputs, price)


def _subsets(names: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Non-empty subsets worth trying: singles, pairs, and all."""
    for size in sorted({1, 2, len(names)} & set(range(1, len(names) + 1))):
        yield from combinations(names, size)
