"""Kernels as several that together do what they do, where that is cheaper: candidates all of them.

In: a template and the arrangements that it may have (arrangements.py). Out: the templates that are
worth trying: itself, or those of the cheapest arrangement, or both where other kernels may read the
same copies.

What kernels of an arrangement hand to each other, copies and partial results, are values like any
other: classes of the view, with the e-nodes that compute them. Two that compute the same are one.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.arrangements.copied_operands import ROUNDING
from mgn.passes.arrangements.kernel_pieces import Arrangement
from mgn.passes.arrangements.prepack_products import PackedOperand
from mgn.passes.arrangements.prepack_weights import PackedWeights
from mgn.passes.arrangements.transformed_filters import TransformedFilters
from mgn.passes.saturate.candidates.candidates import ALONE, Arranged, Template
from mgn.passes.saturate.candidates.cuts import Traits
from mgn.passes.saturate.candidates.outlines import Outlines
from mgn.passes.saturate.candidates.pieces import NewValue, OwnNames, Piece
from mgn.passes.saturate.egraph.view import Member, ValueClass, View
from mgn.passes.saturate.prices.arrangements import ARRANGED, arrangements_of
from mgn.passes.saturate.prices.bodies import Body, BodyNode, renamed
from mgn.passes.saturate.prices.kernel_facts import kernel_facts
from mgn.passes.saturate.prices.prices import price_per_run


@dataclass
class NewValues:
    """Values and e-nodes beside those of the view, over local names: the names of values follow
    those of the cut list; `members` are further e-nodes of its own classes.
    """

    traits: Sequence[Traits]
    made: list[NewValue] = field(default_factory=list[NewValue])
    names: dict[tuple[int, tuple[int, ...]], int] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], int]
    )
    members: dict[BodyNode, None] = field(default_factory=dict[BodyNode, None])
    prepared: set[int] = field(default_factory=set[int])

    def name_of(self, type: TensorType, signature: int, operands: tuple[int, ...]) -> int:
        """The name of what an e-node computes."""
        name = self.names.get((signature, operands))
        if name is None:
            name = self.names[signature, operands] = len(self.traits) + len(self.made)
            self.made.append(NewValue(type, signature, operands))
        return name

    def type_of(self, name: int) -> TensorType:
        known = len(self.traits)
        return self.traits[name].type if name < known else self.made[name - known].type

    def made_from(self, name: int) -> set[int]:
        """The cut list's values that a value is made from; one of these is itself."""
        known = len(self.traits)
        if name < known:
            return {name}
        operands = self.made[name - known].operands
        return {item for operand in operands for item in self.made_from(operand)}

    def is_prepared(self, name: int) -> bool:
        return self.traits[name].prepared if name < len(self.traits) else name in self.prepared

    def is_gathered(self, name: int) -> bool:
        """Whether a value is made from one of which runs take rows where it lies."""
        return any(self.traits[item].gathered for item in self.made_from(name))

    def is_written(self, name: int) -> bool:
        """Whether a kernel has to write the value before it can be read."""
        return name >= len(self.traits) or not self.traits[name].in_memory


@dataclass(frozen=True)
class Way:
    """An arrangement, its kernels and what they cost together."""

    arrangement: Arrangement
    pieces: Sequence[Template]

    @property
    def price(self) -> float:
        return sum(piece.price for piece in self.pieces)


class Arranger:
    """Works out the arrangements of templates, over the names of their cut lists.

    `local` says that each kernel's arrangement is its own affair: it may not depend on what others
    have copied.
    """

    def __init__(
        self, view: View, device: Device, local: bool = False, outlines: Outlines | None = None
    ) -> None:
        self.view, self.device, self.local = view, device, local
        self.outlines = outlines or Outlines(view.signatures, device)
        self.found: dict[tuple[Body, tuple[int, ...]], Sequence[Arrangement]] = {}

    def offers(self, template: Template, values: NewValues) -> Iterator[Template]:
        """The templates worth trying in the place of one."""
        ways = self.ways(template, values)
        if not ways:
            yield template
            return
        alone = (ALONE, template.price)
        known = [(way.arrangement.text, way.price) for way in ways]
        pieces = ways[0].pieces
        if template.price <= ways[0].price:
            yield replace(template, arranged=Arranged(*alone, tuple(known)))
        if template.price > (ways[0].price if self.local else self._shared_price(pieces, values)):
            yield from pieces[:-1]
            yield replace(pieces[-1], arranged=Arranged(*known[0], (alone, *known[1:])))

    def ways(self, template: Template, values: NewValues) -> list[Way]:
        """What a template's arrangements come to, the cheapest first."""
        if template.form.kind not in ARRANGED:
            return []
        found = self._arrangements(template, values)
        ways = [Way(item, self.pieces(item, template, values)) for item in found]
        return sorted((way for way in ways if way.pieces), key=lambda way: way.price)

    def _arrangements(self, template: Template, values: NewValues) -> Sequence[Arrangement]:
        """The arrangements of a template's body, found once for each."""
        key = template.body, template.reads
        try:
            return self.found[key]
        except KeyError:
            body, form, signatures = template.body, template.form, self.view.signatures
            types, device = {name: values.type_of(name) for name in template.reads}, self.device
            own = kernel_facts(body, form, template.results, types, signatures, device)
            found = [
                item
                for facts in dict.fromkeys((own, template.facts))
                for item in arrangements_of(body, form, types, signatures, device, facts)
            ]
            self.found[key] = list(dict.fromkeys(found))
            return self.found[key]

    def pieces(
        self, arrangement: Arrangement, template: Template, values: NewValues
    ) -> list[Template]:
        """The kernels of an arrangement; none where one of them cannot be."""
        spreads = isinstance(arrangement, TransformedFilters)
        if (spreads and not self.view.spreads) or self._packs_in_vain(
            arrangement, template, values
        ):
            return []
        own = OwnNames(template)
        outline = self.outlines.of(arrangement, own, values.type_of)
        if outline is None:
            return []
        names = list(own.outside)
        for value in outline.made:
            operands = tuple([names[item] for item in value.operands])
            names.append(values.name_of(value.type, value.signature, operands))
        values.members.update(dict.fromkeys(renamed(outline.members, names)))
        return [self._placed(piece, names, values) for piece in outline.pieces]

    def _shared_price(self, pieces: Sequence[Template], values: NewValues) -> float:
        """The price of an arrangement if all readers of what is copied read the same copies, and
        values that are only rounded are so by the kernels that write them.
        """
        known, total = len(values.traits), 0.0
        for piece in pieces:
            if self._rounds_what_is_written(piece, values):
                continue
            met = {name for node in piece.body for name in (node[0], *node[2]) if name < known}
            is_copy = piece.form.kind is KernelKind.POINTWISE
            readers = max((values.traits[name].users for name in met), default=1) if is_copy else 1
            total += piece.price / max(readers, 1)
        return total

    def _rounds_what_is_written(self, piece: Template, values: NewValues) -> bool:
        names = [self.view.signatures[node[1]].name for node in piece.body]
        return names == [ROUNDING] and all(map(values.is_written, piece.reads))

    def _packs_in_vain(
        self, arrangement: Arrangement, template: Template, values: NewValues
    ) -> bool:
        """Whether what is worth packing once would be packed in every run, or for a single row be
        there twice.
        """
        if isinstance(arrangement, PackedWeights):
            side = 0
        elif isinstance(arrangement, TransformedFilters) or (
            isinstance(arrangement, PackedOperand) and arrangement.once
        ):
            side = 1
        else:
            return False
        packed = next(node[2][side] for node in template.body if node[0] == template.form.heavy)
        twice = isinstance(arrangement, PackedOperand) and arrangement.single
        twice = twice and values.is_gathered(packed)
        return twice or not (self.view.prepares and values.is_prepared(packed))

    def _placed(self, piece: Piece, names: Sequence[int], values: NewValues) -> Template:
        """A kernel of an arrangement over names of a cut list and what it makes."""
        own = piece.at(names)
        prepared = self.view.prepares and all(map(values.is_prepared, own.reads))
        if prepared:
            values.prepared.update(own.results)
        inputs = tuple(filter(values.is_written, own.reads))
        price = price_per_run(own.price, prepared)
        return Template(own.body, own.form, own.results, own.reads, inputs, price, own.facts)


class Placer:
    """Enters new values into a view where a cut list stands: each that computes the same once.
    `handed` are those that were entered before.
    """

    def __init__(self, view: View, handed: Collection[int] = ()) -> None:
        self.view = view
        self.rank = {key: (place, 0) for place, key in enumerate(view.classes)}
        self.known: dict[tuple[int, tuple[int, ...]], int] = {}
        for key in handed:
            first = view.classes[key].members[0]
            self.known[first.signature, first.operands] = key
        self.next = max(view.classes, default=0) + 1
        self.shapes: dict[Template, tuple[int, tuple[int, ...]]] = {}
        self.numbers: dict[tuple[Body, tuple[int, ...]], int] = {}
        self.entered: set[tuple[int, ...]] = set()

    def is_first(self, template: Template, classes: Sequence[int]) -> bool:
        """Whether no equal template was entered before, for another reader of what it writes."""
        known = self.shapes.get(template)
        if known is None:
            own = OwnNames(template)
            number = self.numbers.setdefault((own.body, own.results), len(self.numbers))
            known = self.shapes[template] = number, own.outside
        number, names = known
        same = (number, *[classes[name] for name in names])
        if same in self.entered:
            return False
        self.entered.add(same)
        return True

    def place(self, values: NewValues, classes: tuple[int, ...]) -> tuple[int, ...]:
        """The classes of a cut list's names and of the new ones."""
        found = list(classes)
        for value in values.made:
            operands = tuple(found[name] for name in value.operands)
            key = self.known.get((value.signature, operands))
            if key is None:
                key = self._enter(value, operands, classes[0])
            found.append(key)
        for name, signature, operands in values.members:
            member = Member(signature, tuple(found[item] for item in operands))
            members = self.view.classes[found[name]].members
            if member not in members:
                members.append(member)
        return tuple(found)

    def _enter(self, value: NewValue, operands: tuple[int, ...], root: int) -> int:
        view, key = self.view, self.next
        self.next += 1
        self.known[value.signature, operands] = key
        made = ValueClass(key, value.type, [Member(value.signature, operands)])
        prepared = [view.classes[item].prepared for item in operands]
        made.prepared = view.prepares and bool(prepared) and all(prepared)
        view.classes[key] = made
        self.rank[key] = (max((self.rank[item][0] for item in operands), default=-1), key)
        if root in view.locations:
            view.locations[key] = view.locations[root]
        return key

    def sort(self) -> None:
        """Puts the view's classes in order again, operands before users."""
        if self.known:
            ordered = sorted(self.view.classes.items(), key=lambda item: self.rank[item[0]])
            self.view.classes.clear()
            self.view.classes.update(ordered)
