"""Products of many f64 in a body: beside each, the same product in f32 with an exponent of its own.

In: a body with a `prod` in f64. A 64-bit accumulator has no bits to spare for an exponent. Out: the
body with that product, a scaled product in f32, and a choice between them, which the template
writes.
"""

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.kernels.accumulation import GUIDE
from mgn.passes.kernels.body import Body, Node

CHOICE = "guided_product"
"""The elementwise node that chooses."""


def guided_products(body: Body) -> Body:
    """The body with each product in f64 as such a choice; the body itself where there is none."""
    if not any(map(_is_guided, body.nodes)):
        return body
    nodes: list[Node] = []
    for node in body.nodes:
        if _is_guided(node):
            given = (node.kind, node.operands, node.values, node.shape)
            plain = Node("prod", *given, node.element, node.location)
            guide = Node(GUIDE, *given, ELEMENT_TYPES["i64"], node.location)
            factors = node.operands[0].count // max(node.count, 1)
            node.name, node.kind, node.operands = CHOICE, Kind.ELEMENTWISE, (plain, guide)
            node.values = {"factors": factors}
            nodes += [plain, guide]
        node.__post_init__()
        nodes.append(node)
    return Body(body.inputs, body.written, nodes)


def _is_guided(node: Node) -> bool:
    return node.name == "prod" and node.element.name == "f64"
