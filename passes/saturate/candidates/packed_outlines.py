"""Outlines of products with a packed right operand, from the outline of the product alone.

In: a body with a product, with names that depend on the body alone. Out: its `Outline`.

One kernel packs the right operand, and some operations read the packed copy. Both depend on the
product's signature and on the panels, but not on the other operations of the product's kernel. So
they are written once for each product, and put in the product's place in each body. The product may
read its right operand by a view, in another shape than that in memory. The kernel that packs then
reads that view.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.pieces import NewValue, Outline, OwnNames, Piece
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import Body, BodyNode, renamed
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import kernel_facts
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.schedules.core.figures import RIGHT
from mgn.passes.schedules.core.packed_blocking import PANELS


def product_alone(node: BodyNode) -> Body:
    """The body of a product alone: its result is 0, and its operands follow."""
    _, number, operands = node
    names = {item: 1 + place for place, item in enumerate(dict.fromkeys(operands))}
    return ((0, number, tuple([names[item] for item in operands])),)


def packed_outline(
    alone: Outline,
    own: OwnNames,
    types: Sequence[TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> Outline | None:
    """The outline of a body that reads these types, from the outline of its product alone. None
    where no kernel computes the body.
    """
    place = next(place for place, node in enumerate(own.body) if node[0] == own.heavy)
    product = own.body[place]
    names = [product[0], *dict.fromkeys(product[2])]
    outside = len(names)
    names += range(len(own.outside), len(own.outside) + len(alone.made))
    pack, multiply = alone.pieces
    replaced = (*own.body[:place], *renamed(multiply.body, names), *own.body[place + 1 :])
    body = _needed(replaced, own.results)
    form = classify(body, signatures)
    if form is None or form.kind is not multiply.form.kind:
        return None
    leaf_types = dict(zip(own.reads, types, strict=True))
    read = {item for node in body for item in node[2]}
    read_types = {name: type for name, type in leaf_types.items() if name in read}
    (packed,) = pack.results
    read_types[names[packed]] = alone.made[packed - outside].type
    facts = (
        (RIGHT, PANELS),
        *kernel_facts(body, form, own.results, read_types, signatures, device),
    )
    price = price_kernel(body, form, own.results, read_types, signatures, device, facts)
    made = [
        NewValue(value.type, value.signature, tuple([names[item] for item in value.operands]))
        for value in alone.made
    ]
    viewed = tuple([node for node in own.body[:place] if node[0] == product[2][1]])
    first = pack.at(names)
    if viewed:
        copy, copy_reads = (*viewed, *first.body), viewed[0][2]
        copy_types = {name: leaf_types[name] for name in copy_reads}
        copy_form = classify(copy, signatures)
        assert copy_form is not None
        whole = copy, copy_form, first.results
        copy_price = price_kernel(*whole, copy_types, signatures, device, pack.facts)
        first = Piece(*whole, copy_reads, copy_price, pack.facts)
    last = Piece(body, form, own.results, tuple(read_types), price, facts)
    return Outline(tuple(made), renamed(alone.members, names), [first, last])


def _needed(body: Body, results: Sequence[int]) -> Body:
    """The nodes of a body that its results are computed from."""
    wanted, kept = set(results), list[BodyNode]()
    for node in reversed(body):
        if node[0] in wanted:
            kept.append(node)
            wanted.update(node[2])
    return tuple(reversed(kept))
