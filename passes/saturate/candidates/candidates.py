"""Kernel candidates: what one kernel could compute, what it reads and writes, and its price.

A candidate writes its root and, where their values are wanted elsewhere, also interior values of
its body that lie in the same iteration space: the residual sum next to its norm, both arms of a
diamond.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.cuts import Traits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode, renamed
from mgn.passes.saturate.prices.forms import Facts, Form

ALONE = "one kernel"
"""The arrangement of what is not done in several kernels."""


@dataclass(frozen=True)
class Arranged:
    """How something is done that kernels of several arrangements do, what all kernels of this one
    cost, and the arrangements that are dearer.
    """

    text: str
    price: float
    dearer: tuple[tuple[str, float], ...]


@dataclass(eq=False, slots=True)
class Template:
    """One possible kernel over names of its own, wherever it may stand. `results[0]` is its root;
    `inputs` are those of the values it reads that must be written before.

    `facts` are what it says of how values lie, of a matrix unit and of largest elements.
    `arranged` is there where there was a choice of arrangements, and this is the kernel that
    completes the one taken.
    """

    body: tuple[BodyNode, ...]
    form: Form
    results: tuple[int, ...]
    reads: tuple[int, ...]
    inputs: tuple[int, ...]
    price: float
    facts: Facts = ()
    arranged: Arranged | None = None
    _mentioned: tuple[int, ...] = field(default=(), init=False, repr=False)

    @property
    def mentioned(self) -> tuple[int, ...]:
        """The names in its body, in the order in which that mentions them; worked out when first
        asked for.
        """
        if not self._mentioned:
            names = [item for name, _, operands in self.body for item in (name, *operands)]
            self._mentioned = tuple(dict.fromkeys(names))
        return self._mentioned

    def shape(self, signatures: Sequence[Signature]) -> tuple[int, ...]:
        """The shape that it goes over: of a pointwise kernel that of its root."""
        if self.form.kind is KernelKind.POINTWISE:
            return signatures[self.body[-1][1]].shape
        return self.form.shape

    def body_at(self, classes: Sequence[int]) -> tuple[BodyNode, ...]:
        """The e-nodes that it computes where its names are those classes, operands first."""
        return renamed(self.body, classes)


class Candidate:
    """A template where it stands: `classes[i]` is the class of its name i."""

    __slots__ = ("_body", "classes", "inputs", "number", "price", "results", "template")

    def __init__(self, number: int, template: Template, classes: tuple[int, ...]) -> None:
        self.number = number
        self.template = template
        self.classes = classes
        self.price = template.price
        at = classes.__getitem__
        self.results = tuple(map(at, template.results))
        self.inputs = tuple(map(at, template.inputs))
        self._body: tuple[BodyNode, ...] = ()

    @property
    def kind(self) -> KernelKind:
        return self.template.form.kind

    @property
    def reads(self) -> tuple[int, ...]:
        """The classes that it reads from memory: inputs, and those that lie there anyway."""
        return tuple([self.classes[name] for name in self.template.reads])

    @property
    def body(self) -> tuple[BodyNode, ...]:
        """The e-nodes that it computes, operands first; worked out when first asked for."""
        if not self._body:
            self._body = self.template.body_at(self.classes)
        return self._body

    @property
    def written_and_computed(self) -> tuple[frozenset[int], frozenset[BodyNode]]:
        """The classes that it writes and the e-nodes that it computes, in any order."""
        return frozenset(self.results), frozenset(self.body)


class Kernel(Protocol):
    """What writes and reads something at a price: a template or a candidate."""

    @property
    def results(self) -> tuple[int, ...]: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def price(self) -> float: ...


K = TypeVar("K", bound=Kernel)


def undominated(kernels: Sequence[K]) -> list[K]:
    """Those that no other one replaces: same results or more, same inputs or fewer, no dearer."""
    bits: dict[int, int] = {}
    kept: dict[int, list[tuple[int, int]]] = {}
    chosen: list[int] = []
    for place, item in sorted(
        enumerate(kernels), key=lambda pair: (pair[1].price, len(pair[1].inputs), pair[0])
    ):
        results, inputs = _set_of(item.results, bits), _set_of(item.inputs, bits)
        others = min([kept.setdefault(key, []) for key in item.results], key=len)
        if not any(results & ~written == needed & ~inputs == 0 for written, needed in others):
            chosen.append(place)
            for key in item.results:
                kept[key].append((results, inputs))
    return [kernels[place] for place in sorted(chosen)]


def _set_of(names: Sequence[int], bits: dict[int, int]) -> int:
    """Names as a set of bits, of which each new name gets the next."""
    found = 0
    for name in names:
        found |= bits.setdefault(name, 1 << len(bits))
    return found


@dataclass(frozen=True, eq=False)
class ColumnSum:
    """Sums over the first axes, and what follows them, as one kernel that may have others in its
    place: where it stands, and at the price of what is cheapest.
    """

    template: Template
    classes: tuple[int, ...]
    traits: Sequence[Traits]

    @cached_property
    def results(self) -> tuple[int, ...]:
        """The classes that it writes."""
        return tuple([self.classes[name] for name in self.template.results])

    @cached_property
    def reads(self) -> frozenset[int]:
        """The classes that it reads."""
        return frozenset(self.classes[name] for name in self.template.reads)


@dataclass
class CandidateSet:
    """All candidates by number, those that write each class, and the order of the classes.

    `sums` are those of columns that kernels of rows may make besides (column_joins.py).
    `handed` are the values that kernels of an arrangement hand to each other; `memoise` says
    whether what repeats in all this is worked out once; `priced` is what is known of bodies,
    `joints` and `pairs` of the kernels of any two, as templates and where they stand.
    `left_out` counts by reason the distinct candidates that were met and are none of these.
    """

    candidates: list[Candidate] = field(default_factory=list[Candidate])
    writers: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    position: dict[int, int] = field(default_factory=dict[int, int])
    outputs: tuple[int, ...] = ()
    sums: list[ColumnSum] = field(default_factory=list[ColumnSum])
    handed: frozenset[int] = frozenset()
    considered: int = 0
    left_out: Counter[str] = field(default_factory=Counter[str])
    memoise: bool = True
    priced: PricedBodies | None = None
    joints: dict[object, tuple[Template | None]] = field(
        default_factory=dict[object, tuple[Template | None]]
    )
    pairs: dict[object, tuple[Candidate | None]] = field(
        default_factory=dict[object, tuple[Candidate | None]]
    )

    def priced_on(self, signatures: Sequence[Signature], device: Device) -> PricedBodies:
        """What bodies cost, looked up for all that goes on from these candidates."""
        if self.priced is None:
            self.priced = PricedBodies(signatures, device)
        return self.priced

    def add(self, template: Template, classes: tuple[int, ...]) -> Candidate:
        """Enters a candidate under the next number."""
        number, writers = len(self.candidates), self.writers
        candidate = Candidate(number, template, classes)
        self.candidates.append(candidate)
        for result in candidate.results:
            if result in writers:
                writers[result].append(number)
            else:
                writers[result] = [number]
        return candidate

    def leave_out_from(self, count: int) -> None:
        """Leaves out all candidates but the first ones."""
        for candidate in self.candidates[count:]:
            for result in dict.fromkeys(candidate.results):
                self.writers[result].pop()
        del self.candidates[count:]

    def add_missing(self, candidates: Collection[Candidate]) -> None:
        """Enters those candidates of another set that this one lacks."""
        for item in candidates:
            writers = map(self.candidates.__getitem__, self.writers.get(item.results[0], ()))
            written, work = set(item.results), item.written_and_computed
            alike = (other for other in writers if written == set(other.results))
            if all(other.written_and_computed != work for other in alike):
                self.add(item.template, item.classes)

    def only(self, candidates: Sequence[Candidate]) -> "CandidateSet":
        """A set of some of its candidates, under new numbers."""
        kept = replace(self, candidates=[], writers={}, left_out=Counter(self.left_out))
        for candidate in candidates:
            kept.add(candidate.template, candidate.classes).price = candidate.price
        return kept
