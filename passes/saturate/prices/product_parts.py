"""What a kernel may take of a product: halves of its columns, groups of neighbouring results.

In: signatures of the product and of what follows it, a body. Out: whether they fit, and how.
"""

from collections.abc import Sequence

from mgn.dialects.fusion.pooled_bodies import MOVING_APART, Pool, Step, pool_behind
from mgn.dialects.fusion.product_bodies import may_be_halved, takes_half
from mgn.dialects.mgn.operation import Kind
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode


def pool_in(
    heavy: int, reduction: BodyNode, body: Sequence[BodyNode], signatures: Sequence[Signature]
) -> Pool | None:
    """Which results of a product a reduction of what follows it combines."""
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    moves, name = list[Step](), reduction[2][0]
    while name in nodes and nodes[name][0].name in MOVING_APART:
        moves.append(_step_of(nodes[name][0]))
        name = nodes[name][1][0]
    product = nodes[heavy][0]
    last = _step_of(signatures[reduction[1]])
    return pool_behind(product.shape, product.operand_shapes, moves[::-1], last)


def _step_of(signature: Signature) -> Step:
    return Step(signature.name, signature.values, signature.operand_shapes[0], signature.shape)


def is_half(signature: Signature, heavy: Signature) -> bool:
    """Whether a slice takes a half of the columns of a product that has some for it."""
    shape = signature.operand_shapes[0]
    if signature.name != "slice" or heavy.kind is not Kind.CONTRACTION:
        return False
    fits = may_be_halved(heavy.operand_shapes) and shape[-1] == heavy.shape[-1]
    return fits and takes_half(shape, signature.values)
