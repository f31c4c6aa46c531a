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

On an NVIDIA GPU sums of floats may leave the lowest bits of ids in no order. Then a sub-group has a
bucket of places, which differ in these bits, and there are fewer digits to sort by:

    %t = fusion.kernel scatter (…) -> (…) { … mgn.bucket_totals … bits = 8, part = 8192 … }
    %y = fusion.kernel scatter (…) -> (…) { … mgn.scatter_in_buckets … bits = 8, part = 8192 … }

Ids are often in order already. Where a sort counts digits, its first count looks whether a row's
ids are, and then the kernels of the sort return at once. Whoever reads what they would have put in
order picks what was given (`mgn.pick`). Prices expect ids in no order: looking is all they count.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.dialects.mgn.operations.rows.order import RUN
from mgn.dialects.types import ELEMENT_TYPES, counting_type, element_of
from mgn.passes.arrangements.kernel_pieces import Finish, KernelPieces, Made, as_element
from mgn.passes.arrangements.split_digits import InOrder, placed_or_given, sort_by_digits
from mgn.passes.kernels.accumulation import accumulator

LEAST_IDS = 16
"""Fewer ids are looked at as they are."""


@dataclass(frozen=True)
class SortedScatter:
    """A scatter by ids in order; many are sorted in parts of so many. `carries`: elements too.
    `run_part`: the ids of a part of a long run. `bits`: the lowest bits of ids, in which a bucket's
    differ and which are in no order.
    """

    part: int | None = None
    carries: bool = False
    run_part: int | None = None
    bits: int = 0

    @property
    def text(self) -> str:
        return f"ids in order but for {self.bits} bits" if self.bits else "ids in order"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        if self.carries:
            self._carried(pieces, scatter)
        else:
            self._by_positions(pieces, scatter)

    def _by_positions(self, pieces: KernelPieces, scatter: TensorOp) -> None:
        """Ids are put in order with the positions of their elements."""
        x, ids, src = scatter.operands
        axis, places = scatter.values["axis"], shape_of(x)[scatter.values["axis"]]
        how = {"axis": axis, "combine": scatter.values["combine"]}
        if self.run_part is not None:
            how["part"] = self.run_part

        def numbered(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            keys = _inside(b, given[0], places)
            return [keys, _positions(b, keys, axis)]

        told: list[SSAValue] = []
        if shape_of(ids)[axis] <= RUN:
            found = pieces.add(
                KernelKind.ORDER,
                [ids],
                finish=lambda b, given: _sorted(b, numbered(b, given), axis),
            )
        else:
            known = pieces.known.get(ids)
            (lying,) = pieces.add(KernelKind.POINTWISE, [ids]) if known is None else [known]
            found, sums = self._by_digits(pieces, [lying], numbered, axis, places)
            told = [] if sums is None else [sums, lying]

        def ids_of(b: Emitter, placed: SSAValue, told: list[SSAValue]) -> SSAValue:
            if not told:
                return placed
            sums, lying = told
            return _inside(b, placed_or_given(b, placed, lying, sums, axis), places)

        def order_of(b: Emitter, placed: SSAValue, told: list[SSAValue]) -> SSAValue:
            if not told:
                return placed
            return placed_or_given(b, placed, _positions(b, placed, axis), told[0], axis)

        def bounds_of(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            return [b.run_bounds(ids_of(b, given[0], given[1:]), places, axis=axis)]

        def totals_of(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            src, ids, order, *told = given
            src = as_element(b, src, accumulator(element_of(src.type)))
            return [b.part_totals(ids_of(b, ids, told), order_of(b, order, told), src, **how)]

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            x, src, bounds, order, *rest = given
            order, totals = order_of(b, order, rest[: len(noted)]), rest[len(noted) :]
            if not totals:
                return b.scatter_runs(x, bounds, order, src, **how)
            return b.scatter_runs_in_parts(x, bounds, order, src, *totals, **how)

        bounds = pieces.follow(KernelKind.POINTWISE, [found[0], *told], bounds_of)
        totals, noted = list[SSAValue](), told[:1]
        if self.run_part is not None:
            sources = [*found, *told]
            totals = pieces.add(KernelKind.SCATTER, [src], finish=totals_of, sources=sources)
        made = Made(scatter, [*bounds, found[1], *noted, *totals], whole, [x, src])
        pieces.finish(KernelKind.SCATTER, [made])

    def _carried(self, pieces: KernelPieces, scatter: TensorOp) -> None:
        """Ids are put in order with their elements."""
        x, ids, src = scatter.operands
        axis, places = scatter.values["axis"], shape_of(x)[scatter.values["axis"]]
        how = {"axis": axis, "combine": scatter.values["combine"]}
        buckets = {"axis": axis, "bits": self.bits, "part": self.run_part}

        def numbered(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            return [_inside(b, given[0], places), *given[1:]]

        (keys, placed), sums = self._by_digits(pieces, [ids, src], numbered, axis, places)
        told = [] if sums is None else [sums]

        def picked(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            """What was put in order, or what was given: that comes first, and the sums last."""
            if not told:
                return given
            *given, sums = given
            half = len(given) // 2
            pairs = zip(given[half:], given[:half], strict=True)
            return [placed_or_given(b, placed, own, sums, axis) for placed, own in pairs]

        def totals_of(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
            assert self.run_part is not None
            if self.bits:
                ids, src = picked(b, given)
                ids = _inside(b, ids, places)
                src = as_element(b, src, accumulator(element_of(src.type)))
                return [b.bucket_totals(ids, src, **buckets)]
            (src,) = picked(b, given)
            return [self._totals_of_parts(b, src, self.run_part, **how)]

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            x, *rest = given
            if self.run_part is None:
                return b.scatter_along(x, *picked(b, rest), sorted=True, **how)
            *rest, totals = rest
            values = picked(b, rest)
            if self.bits:
                return b.scatter_in_buckets(x, *values, totals, **buckets)
            return b.scatter_along_in_parts(x, *values, totals, part=self.run_part, **how)

        own = [ids, src] if told else []
        totals: list[SSAValue] = []
        if self.bits:
            sources = [keys, placed, *told]
            totals = pieces.add(KernelKind.SCATTER, own, finish=totals_of, sources=sources)
        elif self.run_part is not None:
            sources = [placed, *told]
            totals = pieces.add(KernelKind.REDUCTION, own[1:], finish=totals_of, sources=sources)
        made = Made(scatter, [keys, placed, *told, *totals], whole, [x, *own])
        pieces.finish(KernelKind.SCATTER, [made])

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
    ) -> InOrder:
        """Values in the order of ids, which are below so many and come first."""
        total = max((places - 1).bit_length(), 1)
        return sort_by_digits(pieces, values, moved, self.part, axis, total, self.bits)


def _inside(b: Emitter, ids: SSAValue, places: int) -> SSAValue:
    """Ids, brought inside an axis of so many places."""
    number = ELEMENT_TYPES[counting_type(places, element_type_of(ids))]
    return b.clamp(as_element(b, ids, number), min=0.0, max=float(places - 1))


def _positions(b: Emitter, ids: SSAValue, axis: int) -> SSAValue:
    """The position of each id along an axis."""
    shape = shape_of(ids)
    line = [size if i == axis else 1 for i, size in enumerate(shape)]
    return b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape)


def _sorted(b: Emitter, values: list[SSAValue], axis: int) -> list[SSAValue]:
    return [b.sort_runs(values[0], value, axis=axis) for value in values]
