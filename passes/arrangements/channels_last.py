"""Convolutions whose image is copied first with its channels side by side, as units read them.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<32x64x56x56xbf16>, %b = %w : …) -> (…) {
      %0 = mgn.pad(%a) …   %1 = mgn.windows(%0) sizes = [3, 3] …
      %2 = mgn.transpose(%1) …   %3 = mgn.reshape(%2) … tensor<32x576x3136xbf16>
      %4 = mgn.matmul(%b, %3) …
      fusion.return %4 : tensor<32x64x3136xbf16>
    }
After:
    %p = fusion.kernel pointwise (%a = %x : …) -> (tensor<32x1x3136x64xbf16>) { … mgn.transpose … }
    %q = fusion.kernel pointwise (%b = %w : …) -> (tensor<64x576xbf16>) { … mgn.transpose … }
    %y = fusion.kernel contraction (%a = %p : …, %b = %q : …) -> (…) {
      … mgn.transpose, mgn.pad, mgn.windows … mgn.matmul … transpose_b = true …
    }

The shared axis then has the channels innermost: neighbours of it are neighbours in memory, also
where windows begin anywhere. No windows lie in memory, and no padding. Where the channels of a
group are no multiple of a chunk, zeros follow them. Weights are parameters for the most part, whose
copy is made once.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import HALVES, MOVED
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.arrangements.copied_operands import SCATTERED, TILED, chunk_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.schedules.core.figures import ROUNDED

LEAST_CHANNELS = 16
"""Fewer channels are not copied by tiles."""


@dataclass(frozen=True)
class ChannelsLast:
    """A convolution of which image and weights are copied; `unit` is what a matrix unit multiplies,
    if there is one.
    """

    unit: str | None

    @property
    def text(self) -> str:
        return "channels side by side"

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        weights, columns = product.operands
        image = ImageOperand.of(columns)
        if image is None:
            return
        chunk = chunk_of(self.unit or "tf32")
        missing = -image.each % chunk
        turned = self._turned(pieces, image, missing)
        reordered = self._reordered(pieces, weights, image, missing)

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            rows, found = values
            element = ELEMENT_TYPES[element_of(columns.type).name]
            found = image.windows_of(b, found, image.each + missing)
            outer = shape_of(columns)[:-2]
            found = b.reshape(found, [*outer, prod(image.places), shape_of(rows)[-1]])
            if self.unit == "tf32":
                rows, found = b.round_tf32(rows), b.round_tf32(found)
            rows, found = as_element(b, rows, element), as_element(b, found, element)
            return b.matmul(rows, found, transpose_b=True)

        facts = {ROUNDED: 1} if self.unit == "tf32" else None
        made = Made(product, [reordered, turned], multiply)
        pieces.finish(KernelKind.CONTRACTION, [made], facts)

    def _turned(self, pieces: KernelPieces, image: "ImageOperand", missing: int) -> SSAValue:
        """The image with its channels innermost: batch, groups, places, channels of a group."""
        groups, each, spatial = image.groups, image.each, image.spatial

        def arranged(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            value = self._as_unit(b, values[0])
            value = b.reshape(value, [image.batch, groups, each, prod(spatial)])
            value = b.transpose(value, [0, 1, 3, 2])
            return [self._padded(b, value, missing)]

        tiled = not missing and each >= LEAST_CHANNELS
        facts = {TILED if tiled else SCATTERED: 1}
        (copy,) = pieces.add(KernelKind.POINTWISE, [image.value], finish=arranged, facts=facts)
        return copy

    def _reordered(
        self, pieces: KernelPieces, weights: SSAValue, image: "ImageOperand", missing: int
    ) -> SSAValue:
        """The weights with their channels innermost."""

        def arranged(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            value = self._as_unit(b, values[0])
            outer, sizes = shape_of(value)[:-1], prod(image.sizes)
            value = b.reshape(value, [prod(outer), image.each, sizes])
            value = self._padded(b, b.transpose(value, [0, 2, 1]), missing)
            return [b.reshape(value, [*outer, sizes * (image.each + missing)])]

        facts = {SCATTERED: 1}
        (copy,) = pieces.add(KernelKind.POINTWISE, [weights], finish=arranged, facts=facts)
        return copy

    def _as_unit(self, b: Emitter, value: SSAValue) -> SSAValue:
        """A value in the type that lies in memory for the unit."""
        if self.unit == "tf32":
            return b.round_tf32(value)
        if self.unit is not None and element_of(value.type).name != self.unit:
            return b.cast(value, self.unit)
        return value

    @staticmethod
    def _padded(b: Emitter, value: SSAValue, missing: int) -> SSAValue:
        if not missing:
            return value
        rank = len(shape_of(value))
        return b.pad(value, [*[[0, 0]] * (rank - 1), [0, missing]], 0.0)


@dataclass(frozen=True)
class ImageOperand:
    """A product's right operand that is windows of an image: `value`, which the body has, padded by
    `padding` where the windows are taken. There are `groups` groups of `each` channels.
    """

    value: SSAValue
    batch: int
    groups: int
    each: int
    spatial: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    @staticmethod
    def of(columns: SSAValue) -> "ImageOperand | None":
        """What a product's right operand is windows of; None where it is something else."""
        moves: list[TensorOp] = []
        op = columns.owner
        while isinstance(op, TensorOp) and op.spec.name in (*PASSED, "windows"):
            moves.append(op)
            if op.spec.name == "windows":
                break
            op = op.operands[0].owner
        names = [op.spec.name for op in moves if op.spec.name in MOVED]
        if names != ["reshape", "transpose", "windows"]:
            return None
        windows = moves[-1]
        (transpose,) = (op for op in moves if op.spec.name == "transpose")
        axes = len(windows.values["sizes"])
        rank = len(shape_of(windows.results[0]))
        wanted = [0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)]
        if rank != 2 + 2 * axes or list(transpose.values["perm"]) != wanted:
            return None
        shape = shape_of(windows.results[0])
        outer, depth = shape_of(columns)[:-2], shape_of(columns)[-2]
        batch, channels, sizes = shape[0], shape[1], tuple(windows.values["sizes"])
        each, rest = divmod(depth, prod(sizes))
        if rest or each == 0 or channels % each or prod(outer) != batch * (channels // each):
            return None
        value, padding = windows.operands[0], ((0, 0),) * axes
        pad = value.owner
        if isinstance(pad, TensorOp) and _pads_places(pad):
            value, padding = pad.operands[0], tuple(map(tuple, pad.values["padding"][2:]))
        value = _narrow(value)
        return ImageOperand(
            value,
            batch,
            channels // each,
            each,
            tuple(shape_of(value)[2:]),
            padding,  # type: ignore
            tuple(shape[2 : 2 + axes]),
            sizes,
            tuple(windows.values["strides"]),
            tuple(windows.values["dilation"]),
        )

    def windows_of(self, b: Emitter, copy: SSAValue, each: int) -> SSAValue:
        """The windows of a copy, channels innermost: batch, groups, places, sizes, channels."""
        axes = len(self.sizes)
        image = b.reshape(copy, [self.batch, self.groups, *self.spatial, each])
        image = b.transpose(image, [0, 1, 2 + axes, *range(2, 2 + axes)])
        if any(side for pair in self.padding for side in pair):
            image = b.pad(image, [*[[0, 0]] * 3, *map(list, self.padding)], 0.0)
        found = b.windows(image, self.sizes, self.strides, self.dilation)
        return b.transpose(found, [0, 1, *range(3, 3 + 2 * axes), 2])


def _narrow(value: SSAValue) -> SSAValue:
    """Numbers of two bytes where a value is the same ones, widened."""
    op = value.owner
    widens = isinstance(op, TensorOp) and op.spec.name == "cast"
    return op.operands[0] if widens and element_of(op.operands[0].type).name in HALVES else value  # type: ignore


PASSED = ("reshape", "transpose", "cast", "round_tf32")
"""What may lie between windows and a product."""


def _pads_places(pad: Operation) -> bool:
    """Whether an operation surrounds the places of an image with zeros."""
    if not isinstance(pad, TensorOp) or pad.spec.name != "pad" or pad.values["value"] != 0:
        return False
    return not any(side for pair in pad.values["padding"][:2] for side in pair)
