"""The schedule that a candidate gets if it is chosen, by which it is priced.

In: a legal body of e-nodes, what a kernel of it says, a device. Out: the first of the schedules
that `schedules` enumerates for it; None where no template can write it.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.stabilising_maximum import IDENTITIES
from mgn.dialects.types import element_of
from mgn.passes.kernels.body import INPUT, SPLAT, Body, Node, is_expanded, read_operation
from mgn.passes.kernels.guided_products import guided_products
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import Facts, Form, classify
from mgn.passes.schedules.choose import enumerated_schedules
from mgn.passes.schedules.core.figures import LEFT, RIGHT, Traits, figures_for
from mgn.passes.schedules.core.packed_blocking import SIMPLE_EPILOGUE
from mgn.passes.schedules.core.schedule import Request, Schedule

T = TypeVar("T")

ROUNDING, ROW_BY_ROW = "round_tf32", ("reshape", "broadcast_to", "slice", "pad", "concat")
"""An elementwise operation that templates read through where they look for what lies in memory; and
movement that leaves rows rows.
"""


def schedule_of(
    body: Sequence[BodyNode],
    form: Form,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts,
) -> Schedule | None:
    """The schedule of a kernel with a heavy operation."""

    def first(request: Request) -> Schedule | None:
        try:
            return enumerated_schedules(form.kind, request)[0]
        except VerifyException:
            return None

    return once_cut_alike("schedule", first, body, form, leaf_types, signatures, device, facts)


def once_cut_alike(
    what: str,
    find: Callable[[Request], T],
    body: Sequence[BodyNode],
    form: Form,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts,
) -> T:
    """What is found of a kernel with a heavy operation, such as its schedule: once for all bodies
    that its template cuts alike, beside that operation's signature.
    """
    part, widest = _heavy_part(body, form, signatures, device), _widest(body, signatures)
    known = _known(next(signatures[item[1]] for item in part if item[0] == form.heavy), device)
    key = what, _cut_by(part, form, leaf_types, signatures, device, facts), widest, facts
    if key not in known:
        known[key] = find(request_of(part, form, leaf_types, signatures, device, facts, widest))
    return known[key]


def _cut_by(
    part: Sequence[BodyNode],
    form: Form,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts,
) -> tuple[object, ...]:
    """What all parts of bodies have in common that are cut alike: nodes, over names of their own,
    and which values lie in memory. For a product on a CPU it does not matter how an operand is
    computed element by element, nor what follows, but for how much that is, and what is written.
    """
    nodes, computed, after = part, frozenset[int](), None
    whole = form.reduced or form.halved or form.pooled
    if form.kind is KernelKind.CONTRACTION and device.is_cpu and not whole:
        computed = _computed_operands(part, form, leaf_types, signatures, facts)
        after = _few_follow(part, form, signatures), signatures[part[-1][1]].element
        nodes = _before(part, form, computed)
    names: dict[int, int] = {}
    own = names.setdefault
    over_own = tuple(
        [
            (number, own(name, len(names)), tuple([own(item, len(names)) for item in operands]))
            for name, number, operands in nodes
        ]
    )
    lies = tuple([None if name in computed else name in leaf_types for name in names])
    return over_own, lies, after


def _few_follow(part: Sequence[BodyNode], form: Form, signatures: Sequence[Signature]) -> bool:
    """Whether what follows a product is simple."""
    depends, count = {form.heavy}, 0
    for name, number, operands in part:
        if not depends.isdisjoint(operands):
            depends.add(name)
            places = [place for place, item in enumerate(operands) if item in depends]
            count += _following(signatures[number], tuple(places))
    return count <= SIMPLE_EPILOGUE


def _computed_operands(
    part: Sequence[BodyNode],
    form: Form,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    facts: Facts,
) -> frozenset[int]:
    """The operands of a product that are computed element by element from numbers in f32, whose
    rows are read as rows: they are all cut alike, and not as what lies in memory. What is arranged
    is none of them.
    """
    other = {name for name, type in leaf_types.items() if element_of(type).name != "f32"}
    computed, arranged = set[int](), {name for name, _ in facts}
    for name, number, operands in part:
        signature = signatures[number]
        if name == form.heavy:
            pairs = zip((LEFT, RIGHT), operands, strict=True)
            return frozenset(o for side, o in pairs if o in computed and side not in arranged)
        plain = signature.kind is Kind.ELEMENTWISE and signature.name != ROUNDING
        plain = plain and signature.element in ("f32", "bool")
        if not other.isdisjoint(operands) or not (plain or signature.name in ROW_BY_ROW):
            other.add(name)
        elif plain or signature.name == "concat" or not computed.isdisjoint(operands):
            computed.add(name)
    return frozenset()


def _before(part: Sequence[BodyNode], form: Form, computed: Container[int]) -> Sequence[BodyNode]:
    """The nodes of a product and of what it is computed from, but for operands that are given."""
    wanted, found = {form.heavy}, list[BodyNode]()
    for node in reversed(part):
        if node[0] in wanted:
            found.append(node)
            wanted.update([item for item in node[2] if item not in computed])
    return found[::-1]


def is_possible(signature: Signature, device: Device) -> bool:
    """Whether a template can compute an operation by itself on a device."""
    operands = tuple(range(1, 1 + len(signature.operand_types)))
    body, types = [(0, 0, operands)], dict(zip(operands, signature.operand_types, strict=True))
    form = classify(body, [signature])
    return form is not None and schedule_of(body, form, types, [signature], device, ()) is not None


def _known(heavy: Signature, device: Device) -> dict[object, Any]:
    """What was found for an operation, by all else that it depends on; the device is held, so that
    its id is no other's.
    """
    held = heavy.schedules.get(id(device))
    if held is None:
        held = heavy.schedules[id(device)] = (device, {})
    return held[1]


def _heavy_part(
    body: Sequence[BodyNode], form: Form, signatures: Sequence[Signature], device: Device
) -> Sequence[BodyNode]:
    """The part of a body that decides how its template is cut: the heavy operation, and what a
    product is computed from. It is the whole body where rows are reduced, where halves meet or
    neighbours are combined, where much follows on a CPU, in a scatter, and where rows are in
    blocks.
    """
    if form.kind in (KernelKind.SCATTER, KernelKind.ROW_BLOCKS):
        return body
    if form.kind is not KernelKind.CONTRACTION:
        return [node for node in body if node[0] == form.heavy]
    if form.reduced or form.halved or form.pooled:
        return body
    wanted, part, after = {form.heavy}, list[BodyNode](), 0
    for node in reversed(body):
        if node[0] in wanted:
            part.append(node)
            wanted.update(node[2])
        elif device.is_cpu:
            after += _elementwise_count(signatures[node[1]])
    return body if after > SIMPLE_EPILOGUE else part[::-1]


def _widest(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> int:
    """The bytes of the widest value that a kernel computes or reads."""
    return max([4, *[signatures[number].widest for _, number, _ in body]])


def request_of(
    body: Sequence[BodyNode],
    form: Form,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts,
    widest: int | None = None,
) -> Request:
    """A kernel with a heavy operation as those that enumerate schedules see it: how much lies in
    memory decides nothing about it.
    """
    met = {item for _, _, operands in body for item in operands}
    read = {name: type for name, type in leaf_types.items() if name in met}
    traits = Traits(form.kind, widest or _widest(body, signatures), 0, 0)
    entries = figures_for(traits, dict(facts), device)
    whole = guided_products(body_of(body, [body[-1][0]], read, signatures))
    return Request(whole, entries, device)


def body_of(
    body: Sequence[BodyNode],
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
) -> Body:
    """E-nodes as a kernel's template sees them."""
    known: dict[int, Node] = {
        name: _leaf(INPUT, type, number) for number, (name, type) in enumerate(leaf_types.items())
    }
    inputs = list(known.values())
    nodes: list[Node] = list(inputs)
    for name, number, operands in body:
        signature = signatures[number]
        for place, operand in enumerate(operands):
            if operand not in known:
                known[operand] = _leaf(SPLAT, signature.operand_types[place])
                nodes.append(known[operand])
        known[name] = _applied(signature, [known[operand] for operand in operands], nodes)
    return Body(inputs, [known[name] for name in results], nodes)


def _leaf(name: str, type: TensorType, number: int = 0) -> Node:
    values = {"value": 0.0} if name == SPLAT else {}
    shape = tuple(type.get_shape())
    return Node(name, Kind.CONSTANT, (), values, shape, element_of(type), number=number)


def _applied(signature: Signature, operands: Sequence[Node], nodes: list[Node]) -> Node:
    """The result of an operation on nodes; what it makes is added to all nodes."""
    made = [*operands]
    steps, result = _pattern(signature)
    for node, places in steps:
        inner = tuple([made[place] for place in places])
        made.append(Node(node.name, node.kind, inner, node.values, node.shape, node.element))
    nodes.extend(made[len(operands) :])
    return made[result]


@cache
def _pattern(signature: Signature) -> tuple[list[tuple[Node, list[int]]], int]:
    """An operation as core operations: each with the places of what it takes among the operands
    and the results of those before, and the place of the result.
    """
    count = len(signature.operand_types)
    if not is_expanded(signature.spec) and signature.name not in IDENTITIES:
        shape, element = signature.shape, element_of(signature.type)
        whole = Node(signature.name, signature.kind, (), signature.values, shape, element)
        return [(whole, [*range(count)])], count
    block = Block(arg_types=signature.operand_types)
    body = read_operation(
        signature.spec.op_class.create(
            operands=block.args,
            result_types=[signature.type],
            properties=signature.property_dict,
        )
    )
    places = {node: place for place, node in enumerate((*body.inputs, *body.nodes))}
    steps = [(node, [places[operand] for operand in node.operands]) for node in body.nodes]
    return steps, places[body.written[0]]


@cache
def _elementwise_count(signature: Signature) -> int:
    """The elementwise core operations that an operation is."""
    return sum(node.kind is Kind.ELEMENTWISE for node, _ in _pattern(signature)[0])


@cache
def _following(signature: Signature, places: tuple[int, ...]) -> int:
    """Those of them that depend on operands at some places."""
    depends, count = {*places}, 0
    for place, (node, given) in enumerate(_pattern(signature)[0], len(signature.operand_types)):
        if not depends.isdisjoint(given):
            depends.add(place)
            count += node.kind is Kind.ELEMENTWISE
    return count
