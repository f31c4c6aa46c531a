"""Which kernels round in an order of their own, and so give other bits beside other operations.

In: a body. Out: whether its kernel gives the bits of one kernel an operation.

A sum, a scan, a matrix product of floats rounds after each addition, and the maximum of zeros has
the sign of one of them: the order is the template's, which chooses it by all that the kernel holds.
So where bits count, such an operation is a kernel alone. All others give each element by itself.
"""

from collections.abc import Sequence

from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode

ORDERED = frozenset({Kind.REDUCTION, Kind.SCAN, Kind.SCATTER, Kind.CONTRACTION, Kind.COMPOSITE})


def order_decides(signature: Signature) -> bool:
    """Whether the bits of an operation depend on the order in which a kernel computes it."""
    types = (signature.type, *signature.operand_types)
    return signature.kind in ORDERED and any(element_of(type).is_float for type in types)


def keeps_bits(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> bool:
    """Whether a kernel of this body gives the bits of its operations as kernels of their own."""
    return len(body) == 1 or not any(order_decides(signatures[number]) for _, number, _ in body)
