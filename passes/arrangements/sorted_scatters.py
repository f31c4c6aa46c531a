"""Scatters whose ids are put in order first, so that no element goes over all of them.

Before:
    %y = fusion.kernel scatter (%a = %x : …, %b = %ids : …, %c = %src : …) -> (…) {
      %0 = mgn.scatter_along(%a, %b, %c) axis = 0 : …
      fusion.return %0 : …
    }
After:
    %i, %p = fusion.kernel order (…) -> (…) { … mgn.sort_runs … mgn.sort_runs … }
    %n = fusion.kernel pointwise (…) -> (…) { … mgn.run_bounds … }
    %y = fusion.kernel scatter (…) -> (…) { … mgn.scatter_runs … }

Many ids are sorted in runs, which are merged by further kernels. Ids that name one place stay in
their order.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.order import RUN
from mgn.dialects.types import counting_type
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made

LEAST_IDS = 16
"""Fewer ids are looked at as they are."""


@dataclass(frozen=True)
class SortedScatter:
    """A scatter by ids in order."""

    text: str = "ids in order"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        x, ids, src = scatter.operands
        axis, places = scatter.values["axis"], shape_of(x)[scatter.values["axis"]]
        count = shape_of(ids)[axis]
        run = RUN if count > RUN else 0

        def first(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            number = counting_type(places, element_type_of(given[0]))
            keys = b.clamp(b.cast(given[0], number), min=0.0, max=float(places - 1))
            line = [count if i == axis else 1 for i in range(len(shape_of(keys)))]
            order = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape_of(keys))
            return [b.sort_runs(keys, item, axis=axis, run=run) for item in (keys, order)]

        found = pieces.add(KernelKind.ORDER, [ids], finish=first)
        while run:
            length, run = run, 2 * run if 2 * run < count else 0

            def merged(
                b: Emitter, given: list[SSAValue], run: int = run, length: int = length
            ) -> list[SSAValue]:
                how = {"axis": axis, "run": run, "ordered": length}
                return [b.sort_runs(given[0], item, **how) for item in given]

            found = pieces.follow(KernelKind.ORDER, found, merged)
        bounds = pieces.follow(
            KernelKind.POINTWISE,
            found[:1],
            lambda b, given: [b.run_bounds(given[0], places, axis=axis)],
        )

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            x, src, bounds, order = given
            how = {"axis": axis, "combine": scatter.values["combine"]}
            return b.scatter_runs(x, bounds, order, src, **how)

        made = Made(scatter, [*bounds, found[1]], whole, [x, src])
        pieces.finish(KernelKind.SCATTER, [made])
