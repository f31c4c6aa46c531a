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

Many ids are sorted by one digit after the other (split_digits.py), each by further kernels. Ids
that name one place stay in their order.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.rows.digits import DIGIT_BITS
from mgn.dialects.mgn.operations.rows.order import RUN
from mgn.dialects.types import counting_type
from mgn.passes.arrangements.kernel_pieces import Finish, KernelPieces, Made
from mgn.passes.arrangements.split_digits import sort_by_digit

LEAST_IDS = 16
"""Fewer ids are looked at as they are."""


@dataclass(frozen=True)
class SortedScatter:
    """A scatter by ids in order; many are sorted in parts of so many."""

    part: int | None = None

    @property
    def text(self) -> str:
        return "ids in order"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        x, ids, src = scatter.operands
        axis, places = scatter.values["axis"], shape_of(x)[scatter.values["axis"]]
        count = shape_of(ids)[axis]

        def numbered(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            """The ids, brought inside, and their positions."""
            number = counting_type(places, element_type_of(given[0]))
            keys = b.clamp(b.cast(given[0], number), min=0.0, max=float(places - 1))
            line = [count if i == axis else 1 for i in range(len(shape_of(keys)))]
            order = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape_of(keys))
            return [keys, order]

        if count <= RUN:
            found = pieces.add(
                KernelKind.ORDER,
                [ids],
                finish=lambda b, given: _sorted(b, numbered(b, given), axis),
            )
        else:
            found = self._sorted_by_digits(pieces, ids, numbered, axis, places)
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

    def _sorted_by_digits(
        self,
        pieces: KernelPieces,
        ids: SSAValue,
        numbered: Finish,
        axis: int,
        places: int,
    ) -> list[SSAValue]:
        """Ids and positions in the order of the ids, which are below so many."""
        known = pieces.known.get(ids)
        values = pieces.add(KernelKind.POINTWISE, [ids]) if known is None else [known]
        total, moved = max((places - 1).bit_length(), 1), numbered
        for shift in range(0, total, DIGIT_BITS):
            how = {"axis": axis, "shift": shift, "bits": min(DIGIT_BITS, total - shift)}
            values = sort_by_digit(pieces, values, moved, self.part, **how)
            moved = _unchanged
        return values


def _unchanged(_: Emitter, values: list[SSAValue]) -> list[SSAValue]:
    return values


def _sorted(b: Emitter, values: list[SSAValue], axis: int) -> list[SSAValue]:
    return [b.sort_runs(values[0], value, axis=axis) for value in values]
