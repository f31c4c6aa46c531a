"""The trait of operations whose regions use no value from outside, checked in one walk.

In: an operation with regions. Out: nothing, or xDSL's VerifyException. xDSL's own trait asks of
each operand all that is around its owner, up to the operation.
"""

from xdsl.ir import Block, Operation
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


class Isolated(IsolatedFromAbove):
    """xDSL's `IsolatedFromAbove`, by the blocks that were walked."""

    def verify(self, op: Operation) -> None:
        walked: set[int] = set()
        regions = list(op.regions)
        while regions:
            for block in regions.pop().blocks:
                walked.add(id(block))
                for child in block.ops:
                    for operand in child.operands:
                        owner = operand.owner
                        around = owner if isinstance(owner, Block) else owner.parent
                        if id(around) in walked:
                            continue
                        if owner is op or not op.is_ancestor(owner):
                            raise VerifyException(
                                "Operation using value defined out of its "
                                f"IsolatedFromAbove parent: {child}"
                            )
                    if child.regions and not child.has_trait(IsolatedFromAbove):
                        regions += child.regions
