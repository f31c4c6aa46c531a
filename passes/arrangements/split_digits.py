"""Sorts of few long rows by a digit, cut so that the whole device has work: parts of rows.

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

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.passes.arrangements.kernel_pieces import Finish, KernelPieces, Made

PARTS_A_UNIT = {True: 2, False: 8}
"""Parts of rows for each unit of a CPU and of a GPU."""

STEP = {True: 1024, False: 2048}
"""What the length of a part is a multiple of."""


def choose_digit_part(shape: tuple[int, ...], axis: int, device: Device) -> int | None:
    """How long the parts of rows should be; None where the device has enough rows to work on."""
    length, step = shape[axis], STEP[device.is_cpu]
    rows = prod(shape) // max(length, 1)
    wanted = PARTS_A_UNIT[device.is_cpu] * device.compute_units
    if 2 * rows > wanted or length < 2 * step:
        return None
    return step * -(-length // (step * max(wanted // max(rows, 1), 1)))


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


def sort_by_digit(
    pieces: KernelPieces,
    sources: Sequence[SSAValue],
    moved: Callable[[Emitter, list[SSAValue]], list[SSAValue]],
    part: int | None,
    **how: int,
) -> list[SSAValue]:
    """Adds kernels that put values in the order of a digit. `moved` makes them, the keys first, of
    values in memory or of the body; the keys of the first of these alone.
    """
    from_body = pieces.has(sources[0])

    def kernel(
        of: Sequence[SSAValue], finish: Finish, more: Sequence[SSAValue] = ()
    ) -> list[SSAValue]:
        if from_body:
            return pieces.add(KernelKind.ORDER, of, finish=finish, sources=more)
        return pieces.follow(KernelKind.ORDER, [*of, *more], finish)

    def counted(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        return [b.digit_counts(moved(b, given)[0], part=part, **how)]

    def placed(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        *given, sums = given
        values = moved(b, given)
        return [b.place_digits(values[0], value, sums, part=part, **how) for value in values]

    def sorted_(b: Emitter, given: list[SSAValue]) -> list[SSAValue]:
        values = moved(b, given)
        return [b.sort_digits(values[0], value, **how) for value in values]

    if part is None:
        return kernel(sources, sorted_)
    return kernel(sources, placed, _summed(pieces, kernel(sources[:1], counted)))


def _summed(pieces: KernelPieces, counts: Sequence[SSAValue]) -> list[SSAValue]:
    return pieces.follow(
        KernelKind.SCAN, counts, lambda b, given: [b.running_sum(given[0], axis=2)]
    )
