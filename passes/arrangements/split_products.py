"""Products whose tiles leave a device idle, cut along the shared axis so that all of it has work.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<64x20000xf32>, %b = %w : …) -> (…) {
      %0 = mgn.matmul(%a, %b) : (…) -> tensor<64x1000xf32>
      %1 = mgn.relu(%0) …
      fusion.return %1 : tensor<64x1000xf32>
    }
After:
    %p = fusion.kernel contraction (…) -> (tensor<40x64x1000xf32>) {
      … mgn.matmul of tensor<40x64x500xf32> and tensor<40x500x1000xf32> …
    }
    %y = fusion.kernel reduction (%a = %p : tensor<40x64x1000xf32>) -> (tensor<64x1000xf32>) {
      … mgn.sum(%a) axis = [0] … mgn.relu …
    }

The parts of the shared axis become a batch of products. The second kernel adds up their results,
which have the type of the accumulator.
"""

from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.types import element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.core.schedule import Request
from mgn.passes.schedules.product.product import scheduled_product, tiled_schedules
from mgn.passes.schedules.product.seconds import plain_rate, useful_seconds

NARROW_TILE = 32
"""Columns of a group that has all of the few rows."""

GROUPS = 2
"""How many groups of few rows a compute unit should have."""

LEAST = ((1024, 4), (256, 2))
"""The least length of a part of the shared axis of few rows, and how many parts are worth a second
launch: long parts where there are so many, and else short ones. Measured on an NVIDIA H200.
"""

MOST, SHORTEST = 64, 128
"""The most parts of a product in tiles, and the least length of one."""

CHUNK_BYTES = 16
"""Operands are copied in chunks of so many bytes; rows of whole chunks stay so in parts."""

WHOLE = 16
"""The length of a part of few rows is a multiple of this where it can be."""


def choose_parts(request: Request) -> int:
    """Into how many parts a GPU may cut the shared axis; 1 where that would not pay.

    Of a product in tiles they are those that take the least by the seconds of its tiles and of
    adding the parts up: compute units then have as many groups as another, and their last ones are
    shorter. Few rows have too few groups else.
    """
    product = scheduled_product(request)
    tiled = tiled_schedules(request, product)
    if not tiled:
        return _parts_of_few_rows(product, request.device)
    rate = request.device.matrix_rates.get(request.word("matrix")) or plain_rate(
        product, request.device
    )
    best, found = tiled[0].seconds, 1
    for parts in _dividing(product):
        adding = _adding_seconds(product, parts, request.device)
        if useful_seconds(product, rate) + adding >= best:
            break
        cut = replace(product, batch=(parts, *product.batch), depth=product.depth // parts)
        seconds = tiled_schedules(request, cut)[0].seconds + adding
        if seconds < best:
            best, found = seconds, parts
    return found


def _dividing(product: Product) -> list[int]:
    """Into how many equal parts a shared axis may be cut: of whole chunks, if it is so itself."""
    depth, chunk = product.depth, CHUNK_BYTES // product.element.bytes
    whole = chunk if depth % chunk == 0 else 1
    most = min(MOST, depth // SHORTEST)
    return [parts for parts in range(2, most + 1) if depth % (parts * whole) == 0]


def _adding_seconds(product: Product, parts: int, device: Device) -> float:
    """What a second kernel takes that adds up parts of a product, written and read once."""
    sums = prod(product.batch) * product.rows * product.columns * parts
    written = sums * accumulator(product.element).bytes
    return device.launch_cost + device.seconds_to_move(2 * written)


def _parts_of_few_rows(product: Product, device: Device) -> int:
    tiles = ceil_div(product.columns, NARROW_TILE) * prod(product.batch)
    most = GROUPS * device.compute_units // max(tiles, 1)
    for least, fewest in LEAST:
        wanted = min(most, product.depth // least)
        if wanted >= fewest:
            return _nearest(product.depth, wanted, fewest)
    return 1


def _nearest(depth: int, wanted: int, fewest: int) -> int:
    """A number of parts near the wanted one that divides the shared axis; 1 where there is none."""
    for whole in (WHOLE, 1):
        near = range(fewest, 2 * wanted)
        fitting = [count for count in near if depth % (count * whole) == 0]
        if fitting:
            return min(fitting, key=lambda count: abs(count - wanted))
    return 1


@dataclass(frozen=True)
class SplitProduct:
    """A product whose shared axis is cut into parts."""

    parts: int

    @property
    def text(self) -> str:
        return f"the shared axis in {self.parts} parts"

    def write(self, pieces: KernelPieces) -> None:
        product, given = pieces.product, self._given(pieces.product)
        transposed_a, transposed_b = product.values["transpose_a"], product.values["transpose_b"]

        def partial(b: Emitter, operands: list[SSAValue]) -> list[SSAValue]:
            element = accumulator(element_of(product.results[0].type))
            left, right = (as_element(b, value, element) for value in operands)
            rank = max(len(shape_of(left)), len(shape_of(right)))
            left = self._cut(b, left, len(shape_of(left)) - (2 if transposed_a else 1), rank)
            right = self._cut(b, right, len(shape_of(right)) - (1 if transposed_b else 2), rank)
            sums = b.matmul(left, right, transpose_a=transposed_a, transpose_b=transposed_b)
            if given is not product:
                sums = b.reshape(sums, [self.parts, *shape_of(given.results[0])])
            return [sums]

        def total(b: Emitter, sums: list[SSAValue]) -> SSAValue:
            return as_element(b, b.sum(sums[0], axis=[0]), element_of(product.results[0].type))

        sums = pieces.add(KernelKind.CONTRACTION, list(product.operands), finish=partial)
        pieces.finish(KernelKind.REDUCTION, [Made(given, sums, total)])

    @staticmethod
    def _given(product: TensorOp) -> TensorOp:
        """The operation that gives the product as all else reads it: itself, or its last reshape. A
        sum is not reshaped after it: its parts are before.
        """
        given = product
        while len(uses := list(given.results[0].uses)) == 1:
            (use,) = uses
            if not isinstance(use.operation, TensorOp) or use.operation.spec.name != "reshape":
                break
            given = use.operation
        return given

    def _cut(self, b: Emitter, value: SSAValue, axis: int, rank: int) -> SSAValue:
        """An operand whose first axis is the parts of one axis; axes of 1 follow, up to a batch's
        rank.
        """
        shape, parts = shape_of(value), self.parts
        value = b.reshape(value, [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]])
        value = b.transpose(value, [axis, *(n for n in range(len(shape) + 1) if n != axis)])
        inner = shape_of(value)[1:]
        return b.reshape(value, [parts, *[1] * (rank - len(inner)), *inner])
