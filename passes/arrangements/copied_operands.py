"""Large products on a matrix unit whose operands are copied first, as the unit takes them.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<4096x4096xf32>, %b = %w : …) -> (…) {
      %0 = mgn.round_tf32(%a) …   %1 = mgn.round_tf32(%b) …
      %2 = mgn.matmul(%0, %1) …
      fusion.return %2 : tensor<4096x4096xf32>
    }
After:
    %p = fusion.kernel pointwise (%a = %x : tensor<4096x4096xf32>) -> (…) { … mgn.round_tf32 … }
    %q = fusion.kernel pointwise (%b = %w : …) -> (…) { … mgn.round_tf32 … mgn.transpose … }
    %y = fusion.kernel contraction (%a = %p : …, %b = %q : …) -> (…) {
      … mgn.matmul … transpose_b = true …
    }

The copies are rounded, and run along the shared axis. Their lines begin at multiples of 16 bytes.
The unit then reads tiles by asynchronous copies alone. That pays for the copies where each number
is used by many operations.

An operand that would do but for its rounding is not copied as the product reads it: what it is
moved from is rounded, such as the image in the place of its windows. The kernel that writes the
image may do that, so that no copy is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import keeps_rounding
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made
from mgn.passes.schedules.core.figures import ROUNDED
from mgn.passes.schedules.product.matrix_tiles import CHUNK_BYTES

TILED, SCATTERED = "tiled", "scattered"
"""Facts of a copy: that it transposes its operand by tiles, and that it also pads its lines."""

FLAGS = ("transpose_a", "transpose_b")

SIDES = ("left", "right")

ROUNDING = "round_tf32"


def chunk_of(unit: str) -> int:
    """Numbers in what a work-item copies at once."""
    return CHUNK_BYTES // (4 if unit == "tf32" else 2)


def moves_of(operand: SSAValue) -> Sequence[TensorOp]:
    """What moves and rounds a value in memory to an operand, the first one first; none where there
    is anything else.
    """
    moves, op = list[TensorOp](), operand.owner
    while isinstance(op, TensorOp) and (
        op.spec.name == ROUNDING or keeps_rounding(op.spec.name, op.values)
    ):
        moves.append(op)
        if isinstance(op.operands[0], BlockArgument):
            return moves[::-1]
        op = op.operands[0].owner
    return ()


def _moved(b: Emitter, value: SSAValue, moves: Sequence[TensorOp]) -> SSAValue:
    """A rounded value, moved as another one was."""
    for op in moves:
        if op.spec.name != ROUNDING:
            moved = op.clone({op.operands[0]: value})
            b.insert(moved)
            value = moved.results[0]
    return value


@dataclass(frozen=True)
class CopiedOperands:
    """A product whose operands of the given positions are copied for a matrix unit; of those that
    are `rounded`, what they are moved from. Those that are `lying` in memory as they would be
    copied are taken from there.
    """

    operands: tuple[int, ...]
    unit: str
    rounded: tuple[int, ...] = ()
    lying: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        copied = " and ".join(SIDES[n] for n in self.operands if n not in self.rounded)
        rounded = " and ".join(SIDES[n] for n in (*self.rounded, *self.lying))
        said = [f"{copied} operand copied"] * bool(copied)
        return ", ".join([*said, *[f"{rounded} operand rounded before"] * bool(rounded)])

    def write(self, pieces: KernelPieces) -> None:
        product = pieces.product
        kept = [n for n in range(2) if n not in self.operands]
        found = {number: moves_of(product.operands[number]) for number in self.rounded}
        moves = {number: each for number, each in found.items() if each}
        copies = [
            self._rounded(pieces, moves[number])
            if number in moves
            else self._copy(pieces, product, number)
            for number in self.operands
        ]
        places = [*kept, *self.operands]

        def multiply(b: Emitter, values: list[SSAValue]) -> SSAValue:
            operands = dict(zip(places, values, strict=True))
            flags = {name: product.values[name] for name in FLAGS}
            element = ELEMENT_TYPES[element_of(product.operands[0].type).name]
            for number in (*self.operands, *self.lying):
                if self.unit == "tf32":
                    operands[number] = b.round_tf32(operands[number])
                elif element.name != self.unit:
                    operands[number] = b.cast(operands[number], element)
                if number in moves:
                    operands[number] = _moved(b, operands[number], moves[number])
                elif number in self.operands:
                    flags[FLAGS[number]] = number == 1
            return b.matmul(operands[0], operands[1], **flags)

        made = Made(product, copies, multiply, [product.operands[n] for n in kept])
        facts = {ROUNDED: 1} if self.unit == "tf32" and {*kept} <= {*self.lying} else None
        pieces.finish(KernelKind.CONTRACTION, [made], facts)

    def _rounded(self, pieces: KernelPieces, moves: Sequence[TensorOp]) -> SSAValue:
        """What an operand is moved from, rounded."""
        first = moves[0]
        if first.spec.name == ROUNDING:
            (copy,) = pieces.add(KernelKind.POINTWISE, [first.results[0]])
            return copy

        def arranged(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            return [b.round_tf32(values[0])]

        (copy,) = pieces.add(KernelKind.POINTWISE, [first.operands[0]], finish=arranged)
        return copy

    def _copy(self, pieces: KernelPieces, product: TensorOp, number: int) -> SSAValue:
        """The operand in the unit's type, along the shared axis, in whole chunks."""
        shape = shape_of(product.operands[number])
        transposed = bool(product.values[FLAGS[number]]) != (number == 1)
        depth = shape[-2] if transposed else shape[-1]
        missing = -depth % chunk_of(self.unit)

        def arranged(b: Emitter, values: list[SSAValue]) -> list[SSAValue]:
            value, rank = values[0], len(shape)
            if self.unit != "tf32" and element_of(value.type).name != self.unit:
                value = b.cast(value, ELEMENT_TYPES[self.unit])
            if transposed:
                value = b.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
            if missing:
                value = b.pad(value, [[0, 0]] * (rank - 1) + [[0, missing]], 0.0)
            return [value]

        facts = {SCATTERED if missing else TILED: 1} if transposed else None
        wanted = [product.operands[number]]
        (copy,) = pieces.add(KernelKind.POINTWISE, wanted, finish=arranged, facts=facts)
        return copy
