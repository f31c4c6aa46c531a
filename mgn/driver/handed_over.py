"""What kernels of a run hand to one another, by element types.

In: a graph of kernels. Out: for each element type how many tensors and bytes, the most bytes first.
What depends on parameters alone is not written in a run, and does not count.
"""

from collections.abc import Set
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import element_of, tensor_bytes
from mgn.driver.quantities import bytes_text, counted


@dataclass(frozen=True)
class HandedOver:
    """The tensors of one element type, and their bytes."""

    element: str
    bytes: int
    tensors: int

    def __str__(self) -> str:
        return f"{bytes_text(self.bytes)} in {counted(self.tensors, 'tensor')} of {self.element}"


def handed_over(graph: GraphOp, prepared: Set[SSAValue]) -> list[HandedOver]:
    """What the kernels of a graph write for others of them, but for what is prepared."""
    found: dict[str, list[int]] = {}
    for op in graph.block.ops:
        if not isinstance(op, FusedKernelOp) or all(item in prepared for item in op.outputs):
            continue
        for value in op.outputs:
            if any(isinstance(use.operation, FusedKernelOp) for use in value.uses):
                name = element_of(value.type).name
                found.setdefault(name, []).append(tensor_bytes(value.type))
    items = [HandedOver(name, sum(sizes), len(sizes)) for name, sizes in found.items()]
    return sorted(items, key=lambda item: (-item.bytes, item.element))
