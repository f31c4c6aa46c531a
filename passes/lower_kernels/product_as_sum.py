"""A product of a few rows on a GPU is a reduction: each result a row of products to add up.

In: a body with one matmul. Out: the same body with the matmul written as a sum over the shared axis
of a product, in the type that sums are kept in, which the grouped reduction template takes. The sum
runs along the right operand's memory, or across it where columns are neighbours there.
"""

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import ElementType
from mgn.passes.lower_kernels.body import Body, Node
from mgn.passes.lower_kernels.product import Product
from mgn.passes.lower_kernels.scalar import accumulator


def product_as_sum(body: Body, product: Product, across: bool = False) -> Body:
    """The body with its matmul replaced; the matmul node itself becomes the sum, reshaped.

    `across` puts the columns last, else the shared axis.
    """
    matmul, batch = product.node, product.batch
    made: list[Node] = []

    def node(
        name: str, kind: Kind, source: tuple[Node, ...], shape: tuple[int, ...], **values: object
    ) -> Node:
        element = values.get("T", source[0].element)
        assert isinstance(element, ElementType)
        made.append(Node(name, kind, source, values, shape, element, matmul.location))
        return made[-1]

    def ordered(rows: int, columns: int) -> tuple[int, int, int]:
        depth = product.depth
        return (rows, depth, columns) if across else (rows, columns, depth)

    def side(operand: Node, turned: bool, own: tuple[int, int, int]) -> Node:
        """An operand in the order of the sum, with rows or columns of size 1."""
        shape = operand.shape
        if turned and len(shape) > 1:
            perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            shape = tuple(shape[n] for n in perm)
            operand = node("transpose", Kind.MOVEMENT, (operand,), shape, perm=perm)
        operand = node("reshape", Kind.MOVEMENT, (operand,), (*shape[:-2], *own))
        return node(
            "cast", Kind.ELEMENTWISE, (operand,), operand.shape, T=accumulator(operand.element)
        )

    values = matmul.values
    left = side(matmul.operands[0], bool(values["transpose_a"]), ordered(product.rows, 1))
    turned = bool(values["transpose_b"]) == across
    right = side(matmul.operands[1], turned, ordered(1, product.columns))
    full = (*batch, *ordered(product.rows, product.columns))
    terms = node("mul", Kind.ELEMENTWISE, (left, right), full)
    shape, axis = (*batch, product.rows, product.columns), len(full) - (2 if across else 1)
    total = node("sum", Kind.REDUCTION, (terms,), shape, axis=(axis,), keepdims=False)
    total = node("cast", Kind.ELEMENTWISE, (total,), shape, T=matmul.element)
    place = body.nodes.index(matmul)
    matmul.name, matmul.kind, matmul.operands, matmul.values = (
        "reshape",
        Kind.MOVEMENT,
        (total,),
        {},
    )
    return Body(body.inputs, body.written, [*body.nodes[:place], *made, *body.nodes[place:]])
