"""A product of a few rows, or of one column, on a GPU is a reduction: each result is a sum.

In: a body with one matmul. Out: the same body with the matmul written as a sum over the shared axis
of a product, in the type that sums are kept in, which the grouped reduction template takes.
"""

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ElementType
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Body, Node
from mgn.passes.kernels.product import Product


def product_as_sum(body: Body, product: Product) -> Body:
    """The body with its matmul replaced; the matmul node itself becomes the sum, reshaped."""
    matmul, batch = product.node, product.batch
    made: list[Node] = []

    def node(
        name: str, kind: Kind, source: tuple[Node, ...], shape: tuple[int, ...], **values: object
    ) -> Node:
        element = values.get("T", source[0].element)
        assert isinstance(element, ElementType)
        made.append(Node(name, kind, source, values, shape, element, matmul.location))
        return made[-1]

    def side(operand: Node, turned: bool, axis: int, count: int) -> Node:
        """An operand as `[…, rows, columns, depth]` with one of the two of size 1."""
        shape = operand.shape
        if turned and len(shape) > 1:
            perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            shape = tuple(shape[n] for n in perm)
            operand = node("transpose", Kind.MOVEMENT, (operand,), shape, perm=perm)
        own = [1, 1, product.depth]
        own[axis] = count
        operand = node("reshape", Kind.MOVEMENT, (operand,), (*shape[:-2], *own))
        return node(
            "cast", Kind.ELEMENTWISE, (operand,), operand.shape, T=accumulator(operand.element)
        )

    values = matmul.values
    left = side(matmul.operands[0], bool(values["transpose_a"]), 0, product.rows)
    right = side(matmul.operands[1], not values["transpose_b"], 1, product.columns)
    full = (*batch, product.rows, product.columns, product.depth)
    terms = node("mul", Kind.ELEMENTWISE, (left, right), full)
    total = node("sum", Kind.REDUCTION, (terms,), full[:-1], axis=(len(full) - 1,), keepdims=False)
    total = node("cast", Kind.ELEMENTWISE, (total,), full[:-1], T=matmul.element)
    place = body.nodes.index(matmul)
    matmul.name, matmul.kind, matmul.operands, matmul.values = (
        "reshape",
        Kind.MOVEMENT,
        (total,),
        {},
    )
    return Body(body.inputs, body.written, [*body.nodes[:place], *made, *body.nodes[place:]])
