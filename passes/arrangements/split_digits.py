"""Sorts of few long rows by a digit, cut so that the whole device has work: parts of rows.

On a GPU a part is no longer than a tile may be, which a group puts in order in local memory.

Before:
    %y = fusion.kernel order (%a = %x : tensor<16777216xf32>) -> (tensor<16777216xf32>) {
      %0 = mgn.sort_digits(%a, %a) axis = 0, shift = 8 : tensor<16777216xf32>
      fusion.return %0 : tensor<16777216xf32>
    }
After:
    %n = fusion.kernel order (…) -> (tensor<1x256x1024xi32>) { … mgn.digit_counts … }
    %s = fusion.kernel scan (…) -> (tensor<1x256x1024xi32>) { … mgn.running_sum … }
    %y = fusion.kernel order (…) -> (tensor<16777216xf32>) { … mgn.place_digits … }
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.rows.digits import DIGIT_BITS
from mgn.passes.arrangements.kernel_pieces import Finish, KernelPieces, Made, as_element
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.schedules.order import LONGEST_TILE

PARTS_A_UNIT = {True: 2, False: 8}
"""Parts of rows for each unit of a CPU, and of a GPU where they are not too long."""

STEP = {True: 1024, False: 2048}
"""What the length of a part is a multiple of."""


def choose_digit_part(shape: tuple[int, ...], axis: int, device: Device) -> int | None:
    """How long the parts of rows should be; None where the device has enough rows to work on, or
    rows are short.
    """
    length, step = shape[axis], STEP[device.is_cpu]
    rows = prod(shape) // max(length, 1)
    wanted = PARTS_A_UNIT[device.is_cpu] * device.compute_units
    if 2 * rows > wanted or length < 2 * step:
        return None
    part = step * -(-length // (step * max(wanted // max(rows, 1), 1)))
    return part if device.is_cpu else min(part, LONGEST_TILE)


@dataclass(frozen=True)
class SplitDigits:
    """A sort by a digit whose rows are cut into parts of so many elements."""

    part: int

    @property
    def text(self) -> str:
        return f"rows in parts of {self.part}"

    def write(self, pieces: KernelPieces) -> None:
        sorts = [
            op
            for op in pieces.fused.block.ops
            if isinstance(op, TensorOp) and op.spec.kind is Kind.ORDER
        ]
        keys, how = sorts[0].operands[0], {**sorts[0].values, "part": self.part}
        counts = pieces.add(
            KernelKind.ORDER, [keys], finish=lambda b, given: [b.digit_counts(given[0], **how)]
        )
        sums = _summed(pieces, counts)

        def placed(b: Emitter, given: list[SSAValue]) -> SSAValue:
            return b.place_digits(*given, **how)

        made = [Made(op, sums, placed, list(op.operands)) for op in sorts]
        pieces.finish(KernelKind.ORDER, made)


class InOrder(NamedTuple):
    """Values that were put in order. `sums` are those of the counts of the first digit, with falls;
    None where nothing was counted. Rows without falls were not put in order: `placed_or_given`
    reads what is in order anyway.
    """

    values: list[SSAValue]
    sums: SSAValue | None


def placed_or_given(
    b: Emitter, placed: SSAValue, given: SSAValue, sums: SSAValue, axis: int
) -> SSAValue:
    """A value that was put in order, or that was given, in rows that have no falls."""
    line = [1 if n == axis else size for n, size in enumerate(shape_of(placed))]
    falls = b.cast(b.reshape(_falls(b, sums), line), "bool")
    return b.pick(falls, placed, as_element(b, given, element_type_of(placed)))


def sort_by_digits(
    pieces: KernelPieces,
    sources: Sequence[SSAValue],
    moved: Callable[[Emitter, list[SSAValue]], list[SSAValue]],
    part: int | None,
    axis: int,
    total: int,
    first: int = 0,
) -> InOrder:
    """Adds kernels that put values in the order of bits of keys, from the `first` one up to the
    lowest `total`, a digit after the other. `moved` makes the values, the keys first, of values in
    memory or of the body; the keys of the first of these alone. The first kernel looks whether rows
    are in order.
    """
    values, sums = list(sources), None
    passes = ceil_div(total - first, DIGIT_BITS)
    each = ceil_div(total - first, max(passes, 1))
    for shift in range(first, total, max(each, 1)):
        how = {"axis": axis, "shift": shift, "bits": min(each, total - shift)}
        values, sums = _sort_by_digit(pieces, values, moved, part, sums, **how)
        moved = _unchanged
    return InOrder(values, sums)


def _unchanged(_: Emitter, values: list[SSAValue]) -> list[SSAValue]:
    return values


def _sort_by_digit(
    pieces: KernelPieces,
    sources: Sequence[SSAValue],
    moved: Callable[[Emitter, list[SSAValue]], list[SSAValue]],
    part: int | None,
    first: SSAValue | None,
    **how: int,
) -> tuple[list[SSAValue], SSAValue | None]:
    """The values in the order of a digit, and the sums of the first digit's counts: `first`, or
    those of this one's.
    """
    from_body = pieces.has(sources[0])
    told = [] if first is None else [first]

    def kernel(
        of: Sequence[SSAValue], finish: Finish, more: Sequence[SSAValue] = ()
    ) -> list[SSAValue]:
        if from_body:
            return pieces.add(KernelKind.ORDER, of, finish=finish, sources=more)
        return pieces.follow(KernelKind.ORDER, [*of, *more], finish)

    def counted(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        falls = [_falls(b, sums) for sums in given[1:]]
        return [b.digit_counts(moved(b, given)[0], *falls, part=part, with_falls=not falls, **how)]

    def placed(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        values, (sums, *more) = moved(b, given[: len(sources)]), given[len(sources) :]
        falls = _falls(b, *more) if more else _falls(b, sums)
        own = sums if more else _without_falls(b, sums)
        return [b.place_digits(values[0], value, own, falls, part=part, **how) for value in values]

    def sorted_(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        values = moved(b, given)
        return [b.sort_digits(values[0], value, **how) for value in values]

    if part is None:
        return kernel(sources, sorted_), None
    sums = _summed(pieces, kernel(sources[:1], counted, told))
    return kernel(sources, placed, [*sums, *told]), first or sums[0]


def _falls(b: Emitter, sums: SSAValue) -> SSAValue:
    """How many falls each row has, from sums of counts with falls."""
    rows, lines, parts = shape_of(sums)
    falls = b.slice(sums, [0, lines - 1, parts - 1], [rows, lines, parts])
    return b.reshape(falls, [rows])


def _without_falls(b: Emitter, sums: SSAValue) -> SSAValue:
    """The sums of digits alone."""
    rows, lines, parts = shape_of(sums)
    return b.slice(sums, [0, 0, 0], [rows, lines - 1, parts])


def _summed(pieces: KernelPieces, counts: Sequence[SSAValue]) -> list[SSAValue]:
    return pieces.follow(
        KernelKind.SCAN, counts, lambda b, given: [b.running_sum(given[0], axis=2)]
    )
