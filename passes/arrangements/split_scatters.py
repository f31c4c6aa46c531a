"""Scatters of many ids to few places on a GPU, cut so that the whole device has work: each part of
the ids has results of its own first.

Before:
    %y = fusion.kernel scatter (%a = %x : tensor<1000xf32>, …) -> (tensor<1000xf32>) {
      %0 = mgn.scatter_along(%a, %b, %c) axis = 0 : …
      fusion.return %0 : tensor<1000xf32>
    }
After:
    %p = fusion.kernel scatter (…) -> (tensor<128x1000xf32>) { … mgn.scatter_along … axis = 1 … }
    %y = fusion.kernel reduction (…) -> (tensor<1000xf32>) { … mgn.sum … mgn.add … }

Results of parts are combined in the order of the parts. Those of half precision are kept in f32.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.places.scatter import ADD
from mgn.dialects.types import ElementType, element_of
from mgn.passes.arrangements.kernel_pieces import KernelPieces, Made, as_element
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.schedules.scatter import CHUNK, each_seconds, no_change, table_places, table_seconds

PARTS_A_UNIT = 4
"""The most parts for each compute unit."""

ADDED_UP = 6e-9
"""Seconds of adding up a result of one more part, which a work-item waits for."""


def choose_scatter_part(
    shape: tuple[int, ...], axis: int, ids: tuple[int, ...], src: TensorType, device: Device
) -> int | None:
    """How many ids a part should have; None where one kernel takes less."""
    element = element_of(src)
    places, size, count = shape[axis], prod(shape), ids[axis]
    groups = size // places * ceil_div(places, table_places(device, element, places))
    written = size * accumulator(element).bytes

    def seconds(length: int) -> float:
        parts = ceil_div(count, length)
        own = each_seconds(device, element, size * parts, length)
        if ids == tuple(src.get_shape()):
            own = min(own, table_seconds(device, groups * parts, length))
        if parts == 1:
            return own
        moved = 2 * parts * written / device.bandwidth
        return own + moved + parts * ADDED_UP + device.launch_cost

    most, lengths = PARTS_A_UNIT * device.compute_units, [count]
    while (length := CHUNK * ceil_div(lengths[-1], 2 * CHUNK)) < lengths[-1]:
        if ceil_div(count, length) > most:
            break
        lengths.append(length)
    best = min(lengths, key=seconds)
    return best if best < count else None


@dataclass(frozen=True)
class SplitScatter:
    """A scatter whose ids are cut into parts of so many."""

    part: int

    @property
    def text(self) -> str:
        return f"ids in parts of {self.part}"

    def write(self, pieces: KernelPieces) -> None:
        scatter = pieces.only(Kind.SCATTER)
        x, *scattered = scatter.operands
        found = pieces.add(
            KernelKind.SCATTER,
            scattered,
            finish=lambda b, given: [self._of_parts(b, scatter, *given)],
        )

        def whole(b: Emitter, given: list[SSAValue]) -> SSAValue:
            return _combined(b, scatter, *given)

        pieces.finish(KernelKind.REDUCTION, [Made(scatter, found, whole, [x])])

    def _of_parts(self, b: Emitter, scatter: TensorOp, ids: SSAValue, src: SSAValue) -> SSAValue:
        """What each part's ids come to, where there was nothing before."""
        how, element = scatter.values, accumulator(element_of(src.type))
        axis, places = how["axis"], shape_of(scatter.results[0])[how["axis"]]
        padding = no_change(how["combine"], element)
        ids = self._cut(b, ids, axis, 0)
        src = self._cut(b, as_element(b, src, element), axis, padding)
        shape = [*shape_of(src)]
        shape[axis + 1] = places
        before = _everywhere(b, padding, shape, axis + 1, element)
        return b.scatter_along(before, ids, src, axis=axis + 1, combine=how["combine"])

    def _cut(self, b: Emitter, value: SSAValue, axis: int, padding: float | int) -> SSAValue:
        """A value whose axis is two: the parts, and what is in each."""
        shape = shape_of(value)
        parts = ceil_div(shape[axis], self.part)
        missing = parts * self.part - shape[axis]
        if missing:
            sides = [[0, missing if i == axis else 0] for i in range(len(shape))]
            value = b.pad(value, sides, padding)
        return b.reshape(value, [*shape[:axis], parts, self.part, *shape[axis + 1 :]])


def _everywhere(
    b: Emitter, number: float | int, shape: list[int], axis: int, element: ElementType
) -> SSAValue:
    """A number in all places, by operations alone: a piece of an arrangement has no constants."""
    places = b.cast(b.iota(shape, axis=axis, T="i32"), element.name)
    bound = float(abs(number) if number == 0 else number)
    found = b.clamp(places, min=bound, max=bound)
    return b.neg(found) if number == 0 and element.is_float else found


def _combined(b: Emitter, scatter: TensorOp, x: SSAValue, parts: SSAValue) -> SSAValue:
    """What was there before with what all parts come to."""
    axis, element = scatter.values["axis"], element_of(parts.type)
    before = as_element(b, x, element)
    if scatter.values["combine"] != ADD:
        result = b.max(before, b.max_reduce(parts, axis=[axis]))
    else:
        total = b.sum(parts, axis=[axis])
        result = b.add(before, total)
        if element.is_float:  # a zero keeps its sign where nothing is added to it, or zeros are
            result = b.where(b.cast(total, "bool"), result, before)
    return as_element(b, result, element_of(x.type))
