"""What arrangements of a kernel come to, for each distinct body worked out once.

In: a template, over names of a cut list, and an arrangement that it may have. Out: an `Outline`:
the kernels with their prices, over names that the body decides alone, so that equal bodies,
wherever they stand, have the same one. To find it, the template is written as a kernel, and
arranged; where the right operand of a product is packed, the product alone (`packed_outlines.py`).
"""

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.passes.arrangements.kernel_pieces import Arrangement, KernelPieces
from mgn.passes.arrangements.prepack_products import PackedOperand
from mgn.passes.saturate.candidates.candidates import Template
from mgn.passes.saturate.candidates.packed_outlines import packed_outline, product_alone
from mgn.passes.saturate.candidates.pieces import NewValue, Outline, OwnNames, Piece
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import Body, BodyNode
from mgn.passes.saturate.prices.forms import Facts, classify
from mgn.passes.saturate.prices.kernel_facts import priced_facts


class Outlines:
    """Outlines over one list of signatures, which grows by those of what arrangements make."""

    def __init__(self, signatures: list[Signature], device: Device) -> None:
        self.signatures, self.device = signatures, device
        self.numbers: dict[Signature, int] = {}
        self.known: dict[tuple[object, ...], Outline | None] = {}
        self.alone: dict[tuple[Arrangement, Body], Outline | None] = {}

    def of(
        self, arrangement: Arrangement, own: OwnNames, type_of: Callable[[int], TensorType]
    ) -> Outline | None:
        """What an arrangement of a template comes to; None where a kernel of it cannot be."""
        key = arrangement, own.body, own.reads, own.results
        try:
            return self.known[key]
        except KeyError:
            types = [type_of(name) for name in own.template.reads]
            if isinstance(arrangement, PackedOperand):
                found = self._packed(arrangement, own, types)
            else:
                found = self.written(arrangement, own, types)
            self.known[key] = found
            return found

    def written(
        self, arrangement: Arrangement, own: OwnNames, types: Sequence[TensorType]
    ) -> Outline | None:
        """The same, of the template written as a kernel; it reads values of these types."""
        return _Writer(self, own, types).write(arrangement)

    def _packed(
        self, arrangement: PackedOperand, own: OwnNames, types: Sequence[TensorType]
    ) -> Outline | None:
        """The same where the right operand of a product is packed."""
        heavy = next(node for node in own.body if node[0] == own.heavy)
        body = product_alone(heavy)
        key = arrangement, body
        if key not in self.alone:
            form = classify(body, self.signatures)
            assert form is not None
            name, number, operands = body[0]
            reads = tuple(dict.fromkeys(operands))
            template = OwnNames(Template(body, form, (name,), reads, reads, 0.0))
            found = dict(zip(operands, self.signatures[number].operand_types, strict=True))
            self.alone[key] = self.written(arrangement, template, [found[item] for item in reads])
        alone = self.alone[key]
        return alone and packed_outline(alone, own, types, self.signatures, self.device)

    def number(self, op: TensorOp) -> int:
        """The number of an operation's signature."""
        if not self.numbers:
            self.numbers.update((item, number) for number, item in enumerate(self.signatures))
        operands = tuple(operand.type for operand in op.operands)
        found = Signature(
            op.spec.name,
            tuple(op.properties.items()),
            op.results[0].type,  # type: ignore
            operands,  # type: ignore
        )
        number = self.numbers.setdefault(found, len(self.signatures))
        if number == len(self.signatures):
            self.signatures.append(found)
        return number


class _Writer:
    """Writes a template as a kernel, and finds what the kernels of an arrangement of it are."""

    def __init__(self, outlines: Outlines, own: OwnNames, types: Sequence[TensorType]) -> None:
        self.outlines, self.own = outlines, own
        self.scratch = _Scratch(own, types, outlines.signatures)
        self.made: dict[NewValue, int] = {}
        self.members: dict[BodyNode, None] = {}

    def write(self, arrangement: Arrangement) -> Outline | None:
        pieces = KernelPieces(self.scratch.fused)
        arrangement.write(pieces)
        found: list[Piece] = []
        for kernel in pieces.kernels:
            piece = self._piece(kernel, pieces)
            if piece is None:
                return None
            found.append(piece)
        return Outline(tuple(self.made), tuple(self.members), found)

    def _piece(self, kernel: FusedKernelOp, pieces: KernelPieces) -> Piece | None:
        names, body = self.scratch.names, list[BodyNode]()
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
                    body.append(self.scratch.nodes[names[result]])
                continue
            assert isinstance(op, TensorOp)
            number = self.outlines.number(op)
            operands = tuple(names[operand] for operand in op.operands)
            if result in pieces.made:
                node = (names[pieces.made[result]], number, operands)
                self.members[node] = None
            else:
                made = NewValue(result.type, number, operands)  # type: ignore
                node = (self._name_of(made), number, operands)
            names[result] = node[0]
            body.append(node)
        results = tuple(names[value] for value in kernel.written)
        names.update(zip(kernel.outputs, results, strict=True))
        return self._priced(kernel, tuple(body), results)

    def _priced(self, kernel: FusedKernelOp, body: Body, results: tuple[int, ...]) -> Piece | None:
        """A kernel with its form and price; None where it has no form, or one of another kind."""
        signatures, device = self.outlines.signatures, self.outlines.device
        form = classify(body, signatures)
        if form is None or form.kind is not kernel.kernel_kind:
            return None
        types = {self.scratch.names[item]: item.type for item in kernel.block.args}
        said = kernel.arranged.values if kernel.arranged is not None else {}
        arranged: Facts = tuple(said.items())
        price, facts = priced_facts(body, form, results, types, signatures, device, arranged)  # type: ignore
        return Piece(body, form, results, tuple(types), price, facts)

    def _name_of(self, value: NewValue) -> int:
        """The name of what an e-node computes: each that computes the same once."""
        return self.made.setdefault(value, len(self.own.outside) + len(self.made))


class _Scratch:
    """A template as a kernel that is written for the purpose, and the names of its values."""

    def __init__(
        self, own: OwnNames, types: Sequence[TensorType], signatures: Sequence[Signature]
    ) -> None:
        self.nodes: Mapping[int, BodyNode] = {node[0]: node for node in own.body}
        outer = Block(arg_types=types)
        block = Block(arg_types=[argument.type for argument in outer.args])
        inside: dict[int, SSAValue] = dict(zip(own.reads, block.args, strict=True))
        for name, number, operands in own.body:
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
        results = [inside[name] for name in own.results]
        block.add_op(FusionReturnOp(results))
        written = [value.type for value in results]
        self.fused = FusedKernelOp(own.template.form.kind, outer.args, written, Region(block))
        outer.add_op(self.fused)
        self.names: dict[SSAValue, int] = {value: name for name, value in inside.items()}
        self.names.update(zip(outer.args, own.reads, strict=True))
