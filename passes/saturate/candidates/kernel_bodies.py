"""The bodies of all kernels of a small graph that a choice of some cost may have.

In: a view, a device, and the most that a choice may cost. Out: `Part`s, over the places of the
view's classes: what a kernel computes, reads, and writes at least. Without `heavy_roots` a kernel
of a heavy operation, as a product, has one root.

A body is found from its results down. A class that the body so far asks for is read, or computed by
one of its e-nodes. Any other class is a further root, or left out. So each body is met once.

A body is not followed where it can be no kernel's:

- roots side by side have no value in common;
- an input depends on a root;
- it has rows of two spaces;
- it has two heavy operations, unless both put values in the order of the same keys;
- a heavy operation has a root beside it that does not depend on it.

Nor is it followed where the parts that are decided cost more than a choice may. The kernel takes a
launch. It writes its roots, and it reads and computes the values of which all elements are asked
for: a kernel of a wider body costs no less. To obtain an input takes at least one of the kernels
that write it alone, and the inputs of that kernel: a kernel that writes more costs no less.
"""

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import tensor_bytes
from mgn.passes.saturate.egraph.view import Member, Signature, ValueClass, View
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.prices import least_seconds, price_per_run, seconds_of

ASKING_FOR_ALL = (Kind.ELEMENTWISE, Kind.REDUCTION)
"""Kinds of operations of which all elements take all elements of each operand."""

PART = 0.1
"""What a part of a body takes of the time of pricing a kernel."""

_Space = tuple[tuple[int, ...], tuple[int, ...]]


class TooMany(Exception):
    """A graph of more kernels than a search may look at."""


class _Choice(NamedTuple):
    """An e-node as a node of a body. `needs` are the computed classes that it needs, `leaves` the
    values in memory, both as bits by place. `space` is what it reduces. `asks_for_all` says whether
    it asks for all elements of what it needs. `alone` says that a kernel of it has no other heavy
    operation, and only roots that depend on it.
    """

    node: BodyNode
    needs: int
    leaves: int
    space: _Space | None
    asks_for_all: bool
    seconds: float
    alone: bool


class Part(NamedTuple):
    """A body down to some class: what it computes, asks for and reads, its roots from the last one
    on, and its nodes, users first. All elements of `whole` are asked for, and of `read` are read.
    To obtain what it reads takes at least `before`; to run it, so many bytes and seconds. It stays
    `alone` where a heavy operation wants it so.
    """

    inside: int = 0
    asked: int = 0
    inputs: int = 0
    roots: tuple[int, ...] = ()
    space: _Space | None = None
    nodes: tuple[BodyNode, ...] = ()
    whole: int = 0
    read: int = 0
    before: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    alone: bool = False


class KernelBodies:
    """The bodies over the places of `classes`: 0 is the first one. Values that arrangements hand
    from kernel to kernel are none of them; `others` are the classes that e-nodes beside `choices`
    compute.
    """

    def __init__(
        self,
        view: View,
        handed: Container[int],
        device: Device,
        budget: float,
        heavy_roots: bool,
    ) -> None:
        self.device, self.left, self.heavy_roots = device, budget, heavy_roots
        self.signatures = view.signatures
        self.values = [value for value in view.classes.values() if value.key not in handed]
        self.bytes = [tensor_bytes(value.type) for value in self.values]
        self.classes = tuple([value.key for value in self.values])
        self.place = {key: place for place, key in enumerate(self.classes)}
        self.others = 0
        self.choices = [self._choices_of(value) for value in self.values]
        if any(self.signatures[item.node[1]].heavy for row in self.choices for item in row):
            self.choices = [[item._replace(seconds=0.0) for item in row] for row in self.choices]
        self.below = self._all_below()
        self.met: dict[BodyNode, int] = {}
        self.obtained = [0.0] * len(self.values)

    def of(self, most: float) -> Iterator[Part]:
        """The bodies of kernels that a choice of at most that cost may have."""
        yield from self._from(Part(), len(self.values) - 1, most, True)

    def alone(self, place: int, most: float) -> Iterator[Part]:
        """Those of one root."""
        first = Part(roots=(place,), whole=1 << place, bytes=self.bytes[place])
        for start in self._computed(place, first):
            yield from self._from(start, place - 1, most, False)

    def floor(self, part: Part, extra: Sequence[int] = ()) -> float:
        """What a choice costs at least that has the kernel of a body, which writes some more."""
        moved = part.bytes + sum([self.bytes[item] for item in extra]) if extra else part.bytes
        price = seconds_of(moved, part.seconds, self.device)
        return part.before + price_per_run(price, self.values[part.roots[0]].prepared)

    def least(self, place: int) -> float:
        """The least that it takes to obtain a class in any way."""
        return self.floor(Part(roots=(place,), bytes=self.bytes[place]))

    def count(self, work: float) -> None:
        """Counts what takes as long as to price so many kernels; TooMany where that is too long."""
        self.left -= work
        if self.left < 0.0:
            raise TooMany

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
        leaves = sum({1 << item for item in operands if self.values[item].in_memory})
        node = (self.place[value.key], member.signature, operands)
        seconds = least_seconds(signature, self.device)
        asks = signature.kind in ASKING_FOR_ALL
        alone = signature.heavy not in (None, KernelKind.ORDER)
        return _Choice(node, needs, leaves, _space_of(signature), asks, seconds, alone)

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

    def _from(self, start: Part, place: int, most: float, several: bool) -> Iterator[Part]:
        """The bodies that go on from a part with what is decided of classes from a place down: of
        several roots, or no further ones.
        """
        pending = [(place, start)]
        while pending:
            place, part = pending.pop()
            self.count(PART)
            while place >= 0 and not (part.asked >> place & 1 or (several and self.choices[place])):
                place -= 1
            if place < 0:
                if part.nodes and self._hangs_together(part):
                    yield part
                continue
            for wider in self._wider(place, part):
                if wider is part or self.floor(wider) <= most:
                    pending.append((place - 1, wider))

    def _wider(self, place: int, part: Part) -> Iterator[Part]:
        """The parts that a part may become by what is done about a class."""
        if part.asked >> place & 1:
            if not any(self.below[place] >> root & 1 for root in part.roots):
                yield self._reading(place, part)
            yield from self._computed(place, part)
            return
        yield part
        roots, bit = part.roots, 1 << place
        if (
            part.alone
            or self.values[roots[0] if roots else place].prepared is not self.values[place].prepared
        ):
            return
        if not self.needed(part) & bit:
            wider = part._replace(
                roots=(*roots, place),
                whole=part.whole | bit,
                bytes=part.bytes + self.bytes[place],
            )
            yield from self._computed(place, wider)

    def needed(self, part: Part) -> int:
        """What the inputs of a body depend on."""
        found, inputs = 0, part.inputs
        while inputs:
            found |= self.below[inputs.bit_length() - 1]
            inputs &= ~(1 << inputs.bit_length() - 1)
        return found

    def _reading(self, place: int, part: Part) -> Part:
        """A part that reads a class."""
        bit = 1 << place
        read = part.read | part.whole & bit
        moved = part.bytes + (self.bytes[place] if part.whole & bit else 0)
        before = max(part.before, self.obtained[place])
        return part._replace(inputs=part.inputs | bit, read=read, bytes=moved, before=before)

    def _computed(self, place: int, part: Part) -> Iterator[Part]:
        """A part that computes a class besides, by each of its e-nodes that may be there."""
        bit = 1 << place
        for choice in self.choices[place]:
            if choice.space is not None and part.space not in (None, choice.space):
                continue
            if choice.alone and (part.alone or not self._leads_to_all(place, part.roots)):
                continue
            whole, read, moved, seconds = part.whole, part.read, part.bytes, part.seconds
            if whole & bit:
                seconds += choice.seconds
                if choice.asks_for_all:
                    whole |= choice.needs
                    new = choice.leaves & ~read
                    read |= new
                    while new:
                        moved += self.bytes[new.bit_length() - 1]
                        new &= ~(1 << new.bit_length() - 1)
            yield Part(
                part.inside | bit,
                part.asked | choice.needs,
                part.inputs,
                part.roots,
                part.space or choice.space,
                (*part.nodes, choice.node),
                whole,
                read,
                part.before,
                moved,
                seconds,
                part.alone or choice.alone,
            )

    def _leads_to_all(self, place: int, roots: Sequence[int]) -> bool:
        """Whether each root is a class or may be computed from it, and there may be so many."""
        few = self.heavy_roots or len(roots) == 1
        return few and all(root == place or self.below[root] >> place & 1 for root in roots)

    def _hangs_together(self, part: Part) -> bool:
        """Whether each root computes or reads what another one does."""
        if len(part.roots) == 1:
            return True
        groups: list[int] = []
        for node in part.nodes:
            group = self._met(node)
            apart: list[int] = []
            for other in groups:
                if group & other:
                    group |= other
                else:
                    apart.append(other)
            apart.append(group)
            groups = apart
        return len(groups) == 1

    def _met(self, node: BodyNode) -> int:
        """What a node computes and reads, as a set of bits by place."""
        known = self.met.get(node)
        if known is None:
            place, _, operands = node
            known = self.met[node] = sum({1 << item for item in (place, *operands)})
        return known


def _space_of(signature: Signature) -> _Space | None:
    if signature.kind is not Kind.REDUCTION:
        return None
    return signature.operand_shapes[0], tuple(signature.values["axis"])
