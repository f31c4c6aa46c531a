"""Reductions of few long rows, cut so that the whole device has work: partial results first.

Before:
    %y = fusion.kernel reduction (%a = %x : tensor<67108864xf32>) -> (tensor<f32>) {
      %0 = mgn.sum(%a) axis = [0] : (tensor<67108864xf32>) -> tensor<f32>
      fusion.return %0 : tensor<f32>
    }
After:
    %p = fusion.kernel reduction (%a = %x : tensor<67108864xf32>) -> (tensor<512xf32>) {
      %0 = mgn.reshape(%a) shape = [512, 131072] : (tensor<67108864xf32>) -> tensor<512x131072xf32>
      %1 = mgn.sum(%0) axis = [1] : (tensor<512x131072xf32>) -> tensor<512xf32>
      fusion.return %1 : tensor<512xf32>
    }
    %y = fusion.kernel reduction (%a = %p : tensor<512xf32>) -> (tensor<f32>) { … mgn.sum … }

Each stage of dependent reductions becomes such a pair of kernels. The second kernel also computes
the values that there are one of for each row. A pointwise kernel computes the values of each
element. Partial sums of half precision are kept in f32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.kernels.accumulation import accumulator, neutral
from mgn.passes.kernels.rows import RowSpace

LEAST_ELEMENTS = 1 << 18
"""Tensors smaller than this are not worth a second launch."""

LEAST_PART = {True: 64, False: 8192}
"""The least length of a part of a row: where neighbours belong to different rows, and where not."""

COLUMNS_A_GROUP = 128
"""How many rows a group on a GPU takes where neighbours belong to different rows."""

KEPT_ROWS = 1024
"""Elements of columns that a GPU's group keeps in registers at most, of each a few: they are read
in less time than a second launch takes.
"""

BUSY = 0.9
"""The share of a GPU's units that are enough to read as fast as its memory gives."""


@dataclass(frozen=True)
class Cut:
    """A reduced axis becomes `parts` times `length`; the last part may be padded."""

    axis: int
    parts: int
    length: int


def choose_cut(space: RowSpace, device: Device, stages: int, columns: int = 32) -> Cut | None:
    """How a reduction should be cut; None where the device has enough rows to work on.

    `columns` is how few rows a group on a GPU may take where neighbours belong to different rows.
    """
    if space.rows * space.length < LEAST_ELEMENTS:
        return None
    across = space.innermost_is_kept
    if across and not device.is_cpu and space.rows // columns >= BUSY * device.compute_units:
        return None
    if across and not device.is_cpu and space.length <= KEPT_ROWS:
        return None
    workers, enough = busy_from(space, device)
    if workers >= enough or (stages > 1 and not device.is_cpu and 4 * workers >= enough):
        return None
    wanted = device.compute_units * (8 if across and not device.is_cpu else 4)
    axis = max(space.reduced, key=lambda number: space.shape[number])
    size = space.shape[axis]
    parts = min(wanted // workers, space.length // LEAST_PART[across], size // 2)
    if parts < 2:
        return None
    for whole in (16, 1):
        near = sorted(range(max(2, parts // 2), 2 * parts + 1), key=lambda n: abs(n - parts))
        for count in near:
            if size % (count * whole) == 0:
                return Cut(axis, count, size // count)
    length = -(-size // (16 * parts)) * 16
    return Cut(axis, -(-size // length), length)


def busy_from(space: RowSpace, device: Device) -> tuple[int, int]:
    """How many groups or work-items the rows make, and how many the device needs to be busy."""
    if not space.innermost_is_kept:
        return space.rows, device.compute_units * (2 if device.is_cpu else 1)
    if not device.is_cpu:
        return -(-space.rows // COLUMNS_A_GROUP), 2 * device.compute_units
    inner = next(size for size in reversed(space.kept_shape) if size != 1)
    return space.rows // inner * -(-inner // 16), 2 * device.compute_units


@dataclass(frozen=True)
class SplitReduction:
    """A reduction that first reduces parts of its rows."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    cut: Cut

    @property
    def text(self) -> str:
        return f"rows in {self.cut.parts} parts"

    def write(self, pieces: KernelPieces) -> None:
        written, known = pieces.fused.written, pieces.known
        by_row = not any(self._is_full(value) for value in written)
        stages = _stages(pieces.fused)
        for number, stage in enumerate(stages):
            partial = pieces.add(
                KernelKind.REDUCTION,
                [op.operands[0] for op in stage],
                finish=lambda b, values, stage=stage: [
                    self._reduce(b, op, value) for op, value in zip(stage, values, strict=True)
                ],
            )
            made = [
                Made(op, [value], lambda b, parts, op=op: self._combine(b, op, parts[0]))
                for op, value in zip(stage, partial, strict=True)
            ]
            if number == len(stages) - 1 and by_row:
                pieces.finish(KernelKind.REDUCTION, made)
                return
            wanted = self._by_row(pieces, [op.results[0] for op in stage])
            known.update(zip(wanted, pieces.add(KernelKind.REDUCTION, wanted, made), strict=True))
        left = [value for value in dict.fromkeys(written) if value not in known]
        for shape in dict.fromkeys(map(shape_of, left)):
            wanted = [value for value in left if shape_of(value) == shape]
            known.update(zip(wanted, pieces.add(KernelKind.POINTWISE, wanted), strict=True))

    def _by_row(self, pieces: KernelPieces, reduced: Sequence[SSAValue]) -> list[SSAValue]:
        """The values, one for each row, that follow from reductions and are read after them."""
        kept = tuple(1 if n in self.reduced else size for n, size in enumerate(self.shape))
        dropped = tuple(size for n, size in enumerate(self.shape) if n not in self.reduced)
        found = dict.fromkeys(reduced)
        for op in pieces.fused.block.ops:
            if not isinstance(op, TensorOp) or op.spec.kind is Kind.REDUCTION:
                continue
            shapes = {shape_of(value) for value in (*op.operands, *op.results)}
            rest = [value for value in op.operands if value not in found]
            there = all(value in pieces.known or _is_constant(value) for value in rest)
            if len(rest) < len(op.operands) and there and shapes <= {kept, dropped, ()}:
                found.update(dict.fromkeys(op.results))
        inside = {value.owner for value in found}
        return [v for v in found if any(use.operation not in inside for use in v.uses)]

    def _is_full(self, value: SSAValue) -> bool:
        """Whether a value has one number for each element, in whatever shape."""
        return prod(shape_of(value)) == prod(self.shape)

    def _reduce(self, b: Emitter, op: TensorOp, value: SSAValue) -> SSAValue:
        """The partial results of a reduction, in its operand's shape with one element a part."""
        cut, shape, element = self.cut, list(self.shape), element_of(value.type)
        missing = cut.parts * cut.length - shape[cut.axis]
        if missing:
            sides = [[0, missing if axis == cut.axis else 0] for axis in range(len(shape))]
            value = b.pad(value, sides, neutral(op.spec.name, element))
        value = b.reshape(
            value, [*shape[: cut.axis], cut.parts, cut.length, *shape[cut.axis + 1 :]]
        )
        value = as_element(b, value, accumulator(element))
        axes = [axis + (axis >= cut.axis) for axis in self.reduced]
        return b.call(op.spec.name, value, axis=axes)

    def _combine(self, b: Emitter, op: TensorOp, partial: SSAValue) -> SSAValue:
        """The whole reduction, of partial results: parts are on the cut axis, other axes are
        reduced.
        """
        axes, keepdims = list(self.reduced), op.values["keepdims"]
        shape = list(self.shape)
        for axis in axes:
            shape[axis] = self.cut.parts if axis == self.cut.axis else 1
        partial = partial if len(axes) == 1 else b.reshape(partial, shape)
        value = b.call(op.spec.name, partial, axis=axes, keepdims=keepdims)
        return as_element(b, value, element_of(op.results[0].type))


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def _stages(fused: FusedKernelOp) -> list[list[TensorOp]]:
    """The reductions in stages: by the length of the longest chain of reductions before each."""
    level: dict[SSAValue, int] = {}
    stages: list[list[TensorOp]] = []
    for op in fused.block.ops:
        below = max((level.get(operand, 0) for operand in op.operands), default=0)
        is_reduction = isinstance(op, TensorOp) and op.spec.kind is Kind.REDUCTION
        for result in op.results:
            level[result] = below + is_reduction
        if isinstance(op, TensorOp) and is_reduction:
            if below == len(stages):
                stages.append([])
            stages[below].append(op)
    return stages
