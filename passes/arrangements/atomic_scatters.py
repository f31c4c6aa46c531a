"""Scatters of integers on a GPU by atomic operations, where what was there before is copied first.

Before:
    %y = fusion.kernel scatter (%b = %ids : …, %c = %src : …) -> (tensor<1000000xi32>) {
      %0 = mgn.scatter_along(%nobody, %b, %c) axis = 0, combine = "max" : …
      fusion.return %0 : tensor<1000000xi32>
    }
After:
    %p = fusion.kernel scatter (%b = %ids : …, %c = %src : …) -> (tensor<1000000xi32>) {
      %0 = mgn.slice(%b) … : (tensor<65536xi32>) -> tensor<1xi32>
      %1 = mgn.slice(%c) … : (tensor<65536xi32>) -> tensor<1xi32>
      %2 = mgn.scatter_along(%nobody, %0, %1) axis = 0, combine = "max" : …
      fusion.return %2 : tensor<1000000xi32>
    }
    %y = fusion.kernel scatter (%a = %p : …, …) -> (…) arranged {combined = "in place"} {
      … mgn.scatter_along(%a, …) axis = 0, combine = "max" : …
    }

The first kernel copies, and each element looks at the first id on the way. So the copy depends on
the run, also where what was there before is a constant. The second one's result lies where the copy
does. Integers give the same in any order.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import COMBINED, IN_PLACE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made


@dataclass(frozen=True)
class AtomicScatter:
    """A scatter that combines integers where a copy of what was there before lies."""

    @property
    def text(self) -> str:
        return "combined in place"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        scattered = scatter.operands[1:]
        how, axis = scatter.values, scatter.values["axis"]
        count = shape_of(scattered[0])[axis]

        def part(b: Emitter, value: SSAValue, start: int, stop: int) -> SSAValue:
            shape = shape_of(value)
            starts = [start if i == axis else 0 for i in range(len(shape))]
            return b.slice(value, starts, [stop if i == axis else n for i, n in enumerate(shape)])

        def first(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            before, *others = given
            return [b.scatter_along(before, *(part(b, item, 0, 1) for item in others), **how)]

        def rest(b: Emitter, given: list[SSAValue]) -> SSAValue:
            *others, copy = given
            return b.scatter_along(copy, *(part(b, item, 1, count) for item in others), **how)

        copies = pieces.add(KernelKind.SCATTER, scatter.operands, finish=first)
        pieces.finish(
            KernelKind.SCATTER,
            [Made(scatter, copies, rest, scattered)],
            {COMBINED: IN_PLACE},
        )
