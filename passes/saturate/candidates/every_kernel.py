"""Every kernel of a small graph: each legal body, with each set of its values that it may write.

In: a view, a device, limits, and the most that a choice may cost. Out: templates over the places of
the view's classes.

A body is found from its results down: a class that the body so far asks for is read, or computed by
one of its e-nodes; one that it does not ask for is a further result, or left. So each body is met
once. What is none is left out: roots side by side that have no value in common, an input that
depends on a result, what no form or template can be. Beyond that:

- Of bodies with the same results and inputs the cheapest stays (`undominated`).
- A value inside a body that is no output, and whose one reader r is elementwise, of its shape, of
  elements as narrow, and inside too, is not written. Let a kernel c read the value: it does so to
  compute r. The kernel that writes r in its place writes no more, and c that reads r reads no more
  and computes less.

- A kernel that reads a value is in no choice that costs less than obtaining the value and running
  the kernel. To obtain a value takes at least one of the kernels that write it alone, and what that
  one reads: a kernel that writes more costs no less. To run a kernel takes a launch and writing its
  results. What so comes to more than `most` is left out, and not followed.

So each choice that costs at most `most` is a choice among these kernels, or one of these is no
dearer; where the search went on to `CutLimits.kernels`, nothing is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import tensor_bytes
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.candidates.within import SLACK
from mgn.passes.saturate.egraph.view import Member, Signature, ValueClass, View
from mgn.passes.saturate.prices.forms import Body, BodyNode, Form
from mgn.passes.saturate.prices.prices import price_per_run

SIDE_BY_SIDE = (KernelKind.POINTWISE, KernelKind.REDUCTION, KernelKind.ORDER)
"""Kinds of kernels that may have several roots."""

PART = 0.1
"""What a part of a body takes of the time of a kernel."""

_Space = tuple[tuple[int, ...], tuple[int, ...]]


class TooMany(Exception):
    """A graph of more kernels than there is time for."""


@dataclass(frozen=True)
class _Choice:
    """An e-node: as a node of a body, the computed classes that it needs, and the space that it
    reduces; sets of classes are bits by place.
    """

    node: BodyNode
    needs: int
    space: _Space | None


@dataclass(frozen=True)
class _Part:
    """A body down to some class: what it computes, asks for and reads, its roots from the last one
    on, and its nodes, users first. To obtain what it reads costs at least `before`, and to run it
    `own`.
    """

    inside: int = 0
    asked: int = 0
    inputs: int = 0
    roots: tuple[int, ...] = ()
    space: _Space | None = None
    nodes: tuple[BodyNode, ...] = ()
    before: float = 0.0
    own: float = 0.0


class EveryKernel:
    """The kernels of a view, over the places of its `classes`: 0 is the first one. Values that
    arrangements hand from kernel to kernel are none of them.
    """

    def __init__(
        self,
        view: View,
        found: CandidateSet,
        device: Device,
        limits: CutLimits,
        priced: PricedBodies,
    ) -> None:
        self.device, self.limits, self.priced = device, limits, priced
        self.signatures = view.signatures
        self.values = [value for value in view.classes.values() if value.key not in found.handed]
        self.classes = tuple([value.key for value in self.values])
        self.place = {key: place for place, key in enumerate(self.classes)}
        self.others = 0
        self.choices = [self._choices_of(value) for value in self.values]
        self.below = self._all_below()
        self.hidden = self._hidden()
        self.written = [self._seconds_to_write(value) for value in self.values]
        self.outputs = [self.place[key] for key in found.outputs]
        self.most, self.left, self.met = inf, 0.0, 0
        self.obtained = [0.0] * len(self.values)

    def least(self, most: float) -> float:
        """The least that any choice costs, if not more than `most`: found from what it takes to
        obtain each class, which is noted.
        """
        self.most, self.left = most, self.limits.kernels
        for place, value in enumerate(self.values):
            if value.leaf is None:
                self.obtained[place] = self._least(place)
        return max([self.obtained[place] for place in self.outputs], default=0.0)

    def templates(self, most: float) -> list[Template]:
        """The templates of all kernels that a choice of at most that cost may hold, which is no
        more than that which `least` was asked about; TooMany where there are too many.
        """
        self.most, self.left = most * (1.0 + SLACK), self.limits.kernels
        parts = self._bodies(_Part(), len(self.values) - 1, True)
        return [item for part in parts for item in self._of(part, True)]

    def _least(self, place: int) -> float:
        """The least that it takes to obtain a class by a kernel that writes it alone; a launch
        where arrangements or updates may do so.
        """
        first = _Part(roots=(place,), own=self._own(place, 0.0))
        if self.others & (self.below[place] | 1 << place):
            return first.own
        found = inf
        for start in self._computed(place, first):
            for part in self._bodies(start, place - 1, False):
                for template in self._of(part, False):
                    found = min(found, part.before + template.price)
        return found

    def _own(self, place: int, own: float) -> float:
        """The least that a kernel costs that writes one class more."""
        value = self.values[place]
        return (own or price_per_run(self.device.launch_cost, value.prepared)) + self.written[place]

    def _seconds_to_write(self, value: ValueClass) -> float:
        """The least that it takes to write a class, besides a launch."""
        device = self.device
        fastest = device.bandwidth * (max(device.cache_gain, 1.0) if device.cache else 1.0)
        return price_per_run(tensor_bytes(value.type) / fastest, value.prepared)

    def _choices_of(self, value: ValueClass) -> list[_Choice]:
        if value.leaf is not None:
            return []
        choices = [self._choice(value, member) for member in value.members]
        if None in choices:
            self.others |= 1 << self.place[value.key]
        return [item for item in choices if item is not None]

    def _choice(self, value: ValueClass, member: Member) -> _Choice | None:
        signature = self.signatures[member.signature]
        known = all(item in self.place for item in member.operands)
        if not known or signature.heavy is KernelKind.UPDATE:
            return None
        operands = tuple(self.place[item] for item in member.operands)
        needs = sum({1 << item for item in operands if self.values[item].leaf is None})
        node = (self.place[value.key], member.signature, operands)
        return _Choice(node, needs, _space_of(signature))

    def _all_below(self) -> list[int]:
        """The classes that some form of each class uses, directly or not."""
        below: list[int] = []
        for value in self.values:
            found = 0
            for member in value.members:
                for item in filter(self.place.__contains__, member.operands):
                    found |= 1 << self.place[item] | below[self.place[item]]
            below.append(found)
        return below

    def _hidden(self) -> dict[int, int]:
        """The classes that are not written beside their one reader, with that reader."""
        readers: dict[int, list[BodyNode]] = {}
        for place, value in enumerate(self.values):
            for member in value.members:
                operands = tuple(self.place.get(item, -1) for item in member.operands)
                for item in set(operands):
                    readers.setdefault(item, []).append((place, member.signature, operands))
        return {
            place: nodes[0][0]
            for place, nodes in readers.items()
            if len(nodes) == 1 and self._stands_for(nodes[0], self.values[place])
        }

    def _stands_for(self, reader: BodyNode, value: ValueClass) -> bool:
        """Whether what a value's one reader computes may be written in the value's place."""
        signature, made = self.signatures[reader[1]], self.values[reader[0]]
        if value.is_output or value.users != 1 or signature.kind is not Kind.ELEMENTWISE:
            return False
        same = signature.shape == tuple(value.type.get_shape())
        same = same and made.prepared is value.prepared
        return same and tensor_bytes(made.type) <= tensor_bytes(value.type)

    def _bodies(self, start: _Part, place: int, several: bool) -> Iterator[_Part]:
        """The bodies that go on from a part with what is decided of classes from a place down:
        those whose roots have something in common, or with no further roots.
        """
        pending = [(place, start)]
        while pending:
            place, part = pending.pop()
            self._count(PART)
            while place >= 0 and not (several or part.asked >> place & 1):
                place -= 1
            if place >= 0:
                for wider in self._wider(place, part):
                    if wider.before + wider.own <= self.most:
                        pending.append((place - 1, wider))
            elif part.nodes and _hang_together(part):
                yield part

    def _wider(self, place: int, part: _Part) -> Iterator[_Part]:
        """The parts that a part may become by what is done about a class."""
        bit, roots, inputs = 1 << place, part.roots, part.inputs
        if part.asked & bit:
            if not any(self.below[place] >> root & 1 for root in roots):
                before = max(part.before, self.obtained[place])
                yield replace(part, inputs=inputs | bit, before=before)
            yield from self._computed(place, part)
            return
        yield part
        if self.values[place].leaf is not None:
            return
        if roots and self.values[roots[0]].prepared is not self.values[place].prepared:
            return
        if any(inputs >> item & 1 and self.below[item] & bit for item in range(len(self.values))):
            return
        own = self._own(place, part.own)
        yield from self._computed(place, replace(part, roots=(*roots, place), own=own))

    def _computed(self, place: int, part: _Part) -> Iterator[_Part]:
        """A part that computes a class besides, by each of its e-nodes that may be there."""
        for choice in self.choices[place]:
            if choice.space is None or part.space is None or choice.space == part.space:
                yield replace(
                    part,
                    inside=part.inside | 1 << place,
                    asked=part.asked | choice.needs,
                    space=part.space or choice.space,
                    nodes=(*part.nodes, choice.node),
                )

    def _of(self, part: _Part, several: bool) -> Iterator[Template]:
        """The kernels of a body: each writes its roots, and any other values of it if several."""
        body: Body = part.nodes[::-1]
        form = self._form(body, part)
        if form is None:
            return
        reads = self._reads(body, part)
        if len(reads) > self.limits.leaves:
            return
        types = {item: self.values[item].type for item in reads}
        inputs = tuple(item for item in reads if self.values[item].leaf is None)
        prepared = self.values[part.roots[0]].prepared
        for extra in self._extras(body, form, part) if several else [()]:
            results = (*part.roots, *extra)
            if self._floor(part, extra) > self.most:
                continue
            self._count(1.0)
            self.met += 1
            price = price_per_run(self.priced.price(body, form, results, types), prepared)
            if part.before + price <= self.most:
                facts = self.priced.facts(body, form, results, types)
                yield Template(body, form, results, reads, inputs, price, facts)

    def _floor(self, part: _Part, extra: Sequence[int]) -> float:
        """What a choice costs at least that has a kernel of a body: it is read by another one where
        it writes no output.
        """
        floor = part.before + part.own + sum([self.written[item] for item in extra])
        if any(self.values[item].is_output for item in (*part.roots, *extra)):
            return floor
        return floor + price_per_run(self.device.launch_cost, self.values[part.roots[0]].prepared)

    def _count(self, work: float) -> None:
        """Counts what takes as long as to price so many kernels."""
        self.left -= work
        if self.left < 0.0:
            raise TooMany

    def _form(self, body: Body, part: _Part) -> Form | None:
        """The form of a body; None where no kernel computes its roots."""
        limits = self.limits
        if len(body) > limits.operations:
            return None
        form = self.priced.form(body)
        if form is None or (form.reduced and (self.device.is_cpu or len(part.roots) > 1)):
            return None
        if len(part.roots) > 1 and form.kind not in SIDE_BY_SIDE:
            return None
        if limits.keep_bits and not keeps_bits(body, self.signatures):
            return None
        signatures = {name: self.signatures[number] for name, number, _ in body}
        first = signatures[part.roots[0]]
        fits = all(form.writable(root, signatures[root], first) for root in part.roots)
        return form if fits else None

    def _reads(self, body: Body, part: _Part) -> tuple[int, ...]:
        """What a body reads from memory, in order."""
        met = dict.fromkeys(item for _, _, operands in body for item in operands)
        return tuple(
            [item for item in met if not part.inside >> item & 1 and not self.values[item].inline]
        )

    def _extras(self, body: Body, form: Form, part: _Part) -> Iterator[tuple[int, ...]]:
        """The sets of values inside a body that may be written besides its roots."""
        root = self.signatures[body[-1][1]]
        prepared = self.values[part.roots[0]].prepared
        needed = 0
        for place, below in enumerate(self.below):
            if part.inputs >> place & 1:
                needed |= below
        extras = [
            name
            for name, number, _ in body
            if name not in part.roots
            and not needed >> name & 1
            and not (name in self.hidden and part.inside >> self.hidden[name] & 1)
            and self.values[name].prepared is prepared
            and form.writable(name, self.signatures[number], root)
        ]
        for count in range(len(extras) + 1):
            yield from combinations(extras, count)


def _space_of(signature: Signature) -> _Space | None:
    if signature.kind is not Kind.REDUCTION:
        return None
    return signature.operand_shapes[0], tuple(signature.values["axis"])


def _hang_together(part: _Part) -> bool:
    """Whether each root computes or reads what another one does."""
    if len(part.roots) == 1:
        return True
    groups: list[set[int]] = []
    for name, _, operands in part.nodes:
        group = {name, *operands}
        apart: list[set[int]] = []
        for other in groups:
            if group.isdisjoint(other):
                apart.append(other)
            else:
                group |= other
        groups = [*apart, group]
    return len(groups) == 1
