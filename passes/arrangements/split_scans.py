"""Scans of few long rows, cut so that the whole device has work: what each part comes to first.

Before:
    %y = fusion.kernel scan (%a = %x : tensor<16777216xf32>) -> (tensor<16777216xf32>) {
      %0 = mgn.running_sum(%a) axis = 0 : tensor<16777216xf32>
      fusion.return %0 : tensor<16777216xf32>
    }
After:
    %p = fusion.kernel reduction (…) -> (tensor<4096xf32>) { … mgn.sum … }
    %y = fusion.kernel scan (%a = %x : …, %c = %p : …) -> (tensor<16777216xf32>) {
      %0 = mgn.running_sum_in_parts(%a, %c) axis = 0, part = 4096, totals = true : …
      fusion.return %0 : tensor<16777216xf32>
    }

A row is read twice and written once. Where a work-item walks a part by itself, as on a CPU and
along columns, what was before each part has a kernel of its own, a scan of the totals:

    %b = fusion.kernel scan (%q = %p : …) -> (tensor<64xf32>) { … mgn.running_sum … }
    %y = fusion.kernel scan (%a = %x : …, %c = %b : …) -> (…) { … mgn.running_sum_in_parts … }
"""

from dataclasses import dataclass
from math import isqrt, prod

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.rows.scans import IN_PARTS
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.kernels.accumulation import accumulator, neutral
from mgn.passes.kernels.arithmetic import power_above

LEAST_ELEMENTS = {True: 1 << 16, False: 1 << 13}
"""Rows shorter than this are not worth further launches, on a CPU and on a GPU."""

STEP = {True: 4096, False: 2048}
"""What the length of a part is a multiple of."""

LEAST_COLUMN = 128
"""The same of a GPU's columns, along which work-items walk."""

ROWS_A_UNIT = 2
"""Rows for each unit of a device that are enough for it."""

PARTS_A_UNIT = {True: 4, False: 32}
"""Parts of rows for each unit of a CPU, and of a GPU, whose groups have one trip each then.
Measured on an NVIDIA H200: 2^24 numbers take 31 µs in parts of 4096, and 50 in parts of 32,768.
"""

REDUCED = {"running_sum": "sum", "running_product": "prod"}
"""What gives what a part comes to."""


def choose_part(name: str, shape: tuple[int, ...], axis: int, device: Device) -> int | None:
    """How long the parts of a scan should be; None where the device has enough rows to work on.
    Along columns a work-item walks a part, and before that another one the totals of all parts.
    """
    length, on_cpu = shape[axis], device.is_cpu
    rows, inner = prod(shape) // max(length, 1), prod(shape[axis + 1 :])
    wanted, step = PARTS_A_UNIT[on_cpu] * device.compute_units, STEP[on_cpu]
    if name in IN_PARTS and inner > 1 and not on_cpu and length >= LEAST_COLUMN:
        return power_above(isqrt(length))
    enough = rows > ROWS_A_UNIT * device.compute_units
    if name not in IN_PARTS or length < LEAST_ELEMENTS[on_cpu] or inner > 1 or enough or not rows:
        return None
    steps = -(-length // step)
    part = step * -(-steps // max(wanted // rows, 1))
    return part if part < length else None


@dataclass(frozen=True)
class SplitScan:
    """A scan whose rows are cut into parts of so many elements. `by_groups`: a group has a part,
    and adds up the totals of those before.
    """

    part: int
    by_groups: bool

    @property
    def text(self) -> str:
        return f"rows in parts of {self.part}"

    def write(self, pieces: KernelPieces) -> None:
        scan = pieces.only(Kind.SCAN)
        operand = scan.operands[0]
        totals = pieces.add(
            KernelKind.REDUCTION,
            [operand],
            finish=lambda b, given: [self._total(b, scan, given[0])],
        )
        how = {"axis": scan.values["axis"], "part": self.part, "totals": self.by_groups}
        if not self.by_groups:
            totals = pieces.follow(
                KernelKind.SCAN, totals, lambda b, given: [self._before(b, scan, given[0])]
            )

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            return b.call(IN_PARTS[scan.spec.name], *given, **how)

        pieces.finish(KernelKind.SCAN, [Made(scan, totals, whole, [operand])])

    def _total(self, b: Emitter, scan: TensorOp, value: SSAValue) -> SSAValue:
        """What each part comes to."""
        axis, shape, element = scan.values["axis"], shape_of(value), element_of(value.type)
        count = -(-shape[axis] // self.part)
        missing = count * self.part - shape[axis]
        if missing:
            sides = [[0, missing if i == axis else 0] for i in range(len(shape))]
            value = b.pad(value, sides, neutral(scan.spec.name, element))
        value = b.reshape(value, [*shape[:axis], count, self.part, *shape[axis + 1 :]])
        value = as_element(b, value, accumulator(element))
        return b.call(REDUCED[scan.spec.name], value, axis=[axis + 1])

    def _before(self, b: Emitter, scan: TensorOp, totals: SSAValue) -> SSAValue:
        """What the parts before each one come to."""
        axis, shape = scan.values["axis"], shape_of(totals)
        stops = [size - (i == axis) for i, size in enumerate(shape)]
        value = b.slice(totals, [0] * len(shape), stops)
        sides = [[int(i == axis), 0] for i in range(len(shape))]
        value = b.pad(value, sides, neutral(scan.spec.name, element_of(totals.type)))
        return b.call(scan.spec.name, value, axis=axis)
