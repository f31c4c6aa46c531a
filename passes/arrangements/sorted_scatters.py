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
that name one place stay in their order. Long runs of one id are cut on a GPU, so that no work-item
goes over a whole one:

    %t = fusion.kernel scatter (…) -> (…) { … mgn.part_totals … part = 256 … }
    %y = fusion.kernel scatter (…) -> (…) { … mgn.scatter_runs_in_parts … part = 256 … }

Where each element has an id of its own, it may be put in order with it. Then there are no bounds:

    %y = fusion.kernel scatter (…) -> (…) { … mgn.scatter_along … sorted = true … }

or, with totals of parts for long runs:

    %t = fusion.kernel reduction (…) -> (…) { … mgn.sum … }
    %y = fusion.kernel scatter (…) -> (…) { … mgn.scatter_along_in_parts … part = 16384 … }
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.dialects.mgn.operations.rows.digits import DIGIT_BITS
from mgn.dialects.mgn.operations.rows.order import RUN
from mgn.dialects.types import counting_type, element_of
from mgn.passes.arrangements.kernel_pieces import Finish, KernelPieces, Made, as_element
from mgn.passes.arrangements.split_digits import sort_by_digit
from mgn.passes.kernels.accumulation import accumulator

LEAST_IDS = 16
"""Fewer ids are looked at as they are."""


@dataclass(frozen=True)
class SortedScatter:
    """A scatter by ids in order; many are sorted in parts of so many. `carries`: elements too.
    `run_part`: the ids of a part of a long run.
    """

    part: int | None = None
    carries: bool = False
    run_part: int | None = None

    @property
    def text(self) -> str:
        return "ids in order"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        x, ids, src = scatter.operands
        axis, places = scatter.values["axis"], shape_of(x)[scatter.values["axis"]]
        count = shape_of(ids)[axis]

        def numbered(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            """The ids, brought inside, and their elements or else positions."""
            number = counting_type(places, element_type_of(given[0]))
            keys = b.clamp(b.cast(given[0], number), min=0.0, max=float(places - 1))
            if self.carries:
                return [keys, *given[1:]]
            line = [count if i == axis else 1 for i in range(len(shape_of(keys)))]
            order = b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape_of(keys))
            return [keys, order]

        if self.carries:
            self._carried(pieces, scatter, numbered, places)
            return
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

        how = {"axis": axis, "combine": scatter.values["combine"]}
        if self.run_part is not None:
            how["part"] = self.run_part

        def totals_of(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            src, ids, order = given
            src = as_element(b, src, accumulator(element_of(src.type)))
            return [b.part_totals(ids, order, src, **how)]

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            x, src, bounds, order, *totals = given
            if not totals:
                return b.scatter_runs(x, bounds, order, src, **how)
            return b.scatter_runs_in_parts(x, bounds, order, src, *totals, **how)

        totals: list[SSAValue] = []
        if self.run_part is not None:
            totals = pieces.add(KernelKind.SCATTER, [src], finish=totals_of, sources=found)
        made = Made(scatter, [*bounds, found[1], *totals], whole, [x, src])
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
        return self._by_digits(pieces, values, numbered, axis, places)

    def _carried(
        self, pieces: KernelPieces, scatter: TensorOp, numbered: Finish, places: int
    ) -> None:
        """Ids and elements are put in order together."""
        x, ids, src = scatter.operands
        how = {"axis": scatter.values["axis"], "combine": scatter.values["combine"]}
        found = self._by_digits(pieces, [ids, src], numbered, how["axis"], places)

        def totals_of(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            assert self.run_part is not None
            return [self._totals_of_parts(b, given[0], self.run_part, **how)]

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            if self.run_part is None:
                return b.scatter_along(*given, sorted=True, **how)
            return b.scatter_along_in_parts(*given, part=self.run_part, **how)

        if self.run_part is not None:
            found = [*found, *pieces.follow(KernelKind.REDUCTION, found[1:], totals_of)]
        pieces.finish(KernelKind.SCATTER, [Made(scatter, found, whole, [x])])

    def _totals_of_parts(
        self, b: Emitter, src: SSAValue, part: int, axis: int, combine: str
    ) -> SSAValue:
        """What each whole part of elements in order comes to."""
        shape = shape_of(src)
        count = shape[axis] // part
        stops = [count * part if i == axis else size for i, size in enumerate(shape)]
        value = b.slice(src, [0] * len(shape), stops)
        value = b.reshape(value, [*shape[:axis], count, part, *shape[axis + 1 :]])
        value = as_element(b, value, accumulator(element_of(src.type)))
        if combine == ADD:
            return b.sum(value, axis=[axis + 1])
        return b.max_reduce(value, axis=[axis + 1])

    def _by_digits(
        self,
        pieces: KernelPieces,
        values: list[SSAValue],
        moved: Finish,
        axis: int,
        places: int,
    ) -> list[SSAValue]:
        """Values in the order of ids, which are below so many and come first."""
        total = max((places - 1).bit_length(), 1)
        for shift in range(0, total, DIGIT_BITS):
            how = {"axis": axis, "shift": shift, "bits": min(DIGIT_BITS, total - shift)}
            values = sort_by_digit(pieces, values, moved, self.part, **how)
            moved = _unchanged
        return values


def _unchanged(_: Emitter, values: list[SSAValue]) -> list[SSAValue]:
    return values


def _sorted(b: Emitter, values: list[SSAValue], axis: int) -> list[SSAValue]:
    return [b.sort_runs(values[0], value, axis=axis) for value in values]
