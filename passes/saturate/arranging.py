"""Kernels as several that together do what they do, where that is cheaper: candidates all of them.

In: a template and the arrangements that it may have (arrangements.py). Out: the templates that are
worth trying: itself, or those of the cheapest arrangement, or both where other kernels may read the
same copies.

What kernels of an arrangement hand to each other, copies and partial results, are values like any
other: classes of the view, with the e-nodes that compute them. Two that compute the same are one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.passes.kernel_pieces import Arrangement, KernelPieces
from mgn.passes.prepack_products import PackedOperand
from mgn.passes.saturate.arrangements import Facts, arrangements_of
from mgn.passes.saturate.candidates import ALONE, Arranged, Template
from mgn.passes.saturate.cuts import Traits
from mgn.passes.saturate.forms import BodyNode, classify
from mgn.passes.saturate.prices import price_kernel, price_per_run
from mgn.passes.saturate.view import Member, Signature, ValueClass, View


@dataclass(frozen=True)
class NewValue:
    """A value that an arrangement makes: its type and its e-node."""

    type: TensorType
    signature: int
    operands: tuple[int, ...]


@dataclass
class NewValues:
    """Values and e-nodes beside those of the view, over local names: the names of values follow
    those of the cut set; `members` are further e-nodes of its own classes.
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
        """The cut set's values that a value is made from; one of these is itself."""
        known = len(self.traits)
        if name < known:
            return {name}
        operands = self.made[name - known].operands
        return {item for operand in operands for item in self.made_from(operand)}

    def is_prepared(self, name: int) -> bool:
        return self.traits[name].prepared if name < len(self.traits) else name in self.prepared

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
    """Works out the arrangements of templates, over the names of their cut sets.

    `local` says that each kernel's arrangement is its own affair: it may not depend on what others
    have copied.
    """

    def __init__(self, view: View, device: Device, local: bool = False) -> None:
        self.view, self.device, self.local = view, device, local
        self.numbers: dict[Signature, int] = {}

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
        if template.price > (ways[0].price if self.local else _shared_price(pieces, values)):
            yield from pieces[:-1]
            yield replace(pieces[-1], arranged=Arranged(*known[0], (alone, *known[1:])))

    def ways(self, template: Template, values: NewValues) -> list[Way]:
        """What a template's arrangements come to, the cheapest first."""
        types = {name: values.type_of(name) for name in template.reads}
        signatures = self.view.signatures
        found = arrangements_of(template.body, template.form, types, signatures, self.device)
        ways = [Way(item, self._pieces(item, template, values)) for item in found]
        return sorted((way for way in ways if way.pieces), key=lambda way: way.price)

    def _pieces(
        self, arrangement: Arrangement, template: Template, values: NewValues
    ) -> list[Template]:
        """The kernels of an arrangement; none where one of them cannot be."""
        scratch = _Scratch(template, values, self.view.signatures)
        pieces = KernelPieces(scratch.fused)
        arrangement.write(pieces)
        made: list[Template] = []
        for kernel in pieces.kernels:
            piece = self._template(kernel, pieces, scratch, values)
            if piece is None:
                return []
            made.append(piece)
        if isinstance(arrangement, PackedOperand) and arrangement.once:
            packed = made[0].results
            return made if all(map(values.is_prepared, packed)) else []
        return made

    def _template(
        self, kernel: FusedKernelOp, pieces: KernelPieces, scratch: "_Scratch", values: NewValues
    ) -> Template | None:
        names, body = scratch.names, list[BodyNode]()
        names.update(
            (argument, names[outer])
            for argument, outer in zip(kernel.block.args, kernel.inputs, strict=True)
        )
        for op in kernel.block.ops:
            if isinstance(op, FusionReturnOp):
                continue
            result = op.results[0]
            if result in pieces.clones:
                names[result] = names[pieces.clones[result]]
                if isinstance(op, TensorOp):
                    body.append(scratch.nodes[names[result]])
                continue
            assert isinstance(op, TensorOp)
            number = self._number(op)
            operands = tuple(names[operand] for operand in op.operands)
            if result in pieces.made:
                node = (names[pieces.made[result]], number, operands)
                values.members[node] = None
            else:
                node = (values.name_of(result.type, number, operands), number, operands)  # type: ignore
            names[result] = node[0]
            body.append(node)
        results = tuple(names[value] for value in kernel.written)
        names.update(zip(kernel.outputs, results, strict=True))
        facts = () if kernel.arranged is None else tuple(kernel.arranged.values.items())
        reads = tuple(dict.fromkeys(names[argument] for argument in kernel.block.args))
        return self._priced(kernel.kernel_kind, body, results, reads, facts, values)

    def _priced(
        self,
        kind: KernelKind,
        body: Sequence[BodyNode],
        results: tuple[int, ...],
        reads: tuple[int, ...],
        facts: Facts,
        values: NewValues,
    ) -> Template | None:
        signatures = self.view.signatures
        form = classify(body, signatures)
        if form is None or form.kind is not kind:
            return None
        types = {name: values.type_of(name) for name in reads}
        price = price_kernel(body, form, results, types, signatures, self.device, facts)
        prepared = self.view.prepares and all(map(values.is_prepared, reads))
        if prepared:
            values.prepared.update(results)
        inputs = tuple(filter(values.is_written, reads))
        price = price_per_run(price, prepared)
        return Template(tuple(body), form, results, reads, inputs, price, facts)

    def _number(self, op: TensorOp) -> int:
        """The number of an operation's signature."""
        signatures = self.view.signatures
        if not self.numbers:
            self.numbers.update((item, number) for number, item in enumerate(signatures))
        operands = tuple(operand.type for operand in op.operands)
        found = Signature(
            op.spec.name,
            tuple(op.properties.items()),
            op.results[0].type,  # type: ignore
            operands,  # type: ignore
        )
        number = self.numbers.setdefault(found, len(signatures))
        if number == len(signatures):
            signatures.append(found)
        return number


def _shared_price(pieces: Sequence[Template], values: NewValues) -> float:
    """The price of an arrangement if all readers of what is copied read the same copies."""
    known, total = len(values.traits), 0.0
    for piece in pieces:
        met = {name for node in piece.body for name in (node[0], *node[2]) if name < known}
        is_copy = piece.form.kind is KernelKind.POINTWISE
        readers = max((values.traits[name].users for name in met), default=1) if is_copy else 1
        total += piece.price / max(readers, 1)
    return total


class _Scratch:
    """A template as a kernel that is written for the purpose, and the names of its values."""

    def __init__(
        self, template: Template, values: NewValues, signatures: Sequence[Signature]
    ) -> None:
        self.nodes: Mapping[int, BodyNode] = {node[0]: node for node in template.body}
        outer = Block(arg_types=[values.type_of(name) for name in template.reads])
        block = Block(arg_types=[argument.type for argument in outer.args])
        inside: dict[int, SSAValue] = dict(zip(template.reads, block.args, strict=True))
        for name, number, operands in template.body:
            signature = signatures[number]
            for item, type in zip(operands, signature.operand_types, strict=True):
                if item not in inside:
                    constant = ConstantOp.create(result_types=[type])
                    block.add_op(constant)
                    inside[item] = constant.results[0]
            op = signature.spec.op_class.create(
                operands=[inside[item] for item in operands],
                result_types=[signature.type],
                properties=signature.property_dict,
            )
            block.add_op(op)
            inside[name] = op.results[0]
        results = [inside[name] for name in template.results]
        block.add_op(FusionReturnOp(results))
        types = [value.type for value in results]
        self.fused = FusedKernelOp(template.form.kind, outer.args, types, Region(block))
        outer.add_op(self.fused)
        self.names: dict[SSAValue, int] = {value: name for name, value in inside.items()}
        self.names.update(zip(outer.args, template.reads, strict=True))


class Placer:
    """Enters new values into a view where a cut set stands: each that computes the same once."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.rank = {key: (place, 0) for place, key in enumerate(view.classes)}
        self.known: dict[tuple[int, tuple[int, ...]], int] = {}
        self.next = max(view.classes, default=0) + 1
        self.entered: set[tuple[tuple[int, ...], tuple[BodyNode, ...]]] = set()

    def is_first(self, template: Template, classes: Sequence[int]) -> bool:
        """Whether no equal template was entered before, for another reader of what it writes."""
        results = tuple(classes[name] for name in template.results)
        same = (results, template.body_at(classes))
        if same in self.entered:
            return False
        self.entered.add(same)
        return True

    def place(self, values: NewValues, classes: tuple[int, ...]) -> tuple[int, ...]:
        """The classes of a cut set's names and of the new ones."""
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
