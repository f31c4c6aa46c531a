"""Operators that make tensors of numbers, ranges and masks.

In: sizes and numbers. Out: constants, `full` and `iota`.
"""

from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.frontend.torch.elementwise import in_element
from mgn.frontend.torch.table import Call, Operand, Unsupported, as_element, aten, broadcasted

I64 = ELEMENT_TYPES["i64"]


def filled(b: Emitter, call: Call, value: Operand) -> SSAValue:
    """One value in all of the result."""
    if isinstance(value, SSAValue):
        return broadcasted(b, as_element(b, value, call.element), call.shape)
    return b.full(call.shape, in_element(b, value, call.element), T=call.element)


@aten("full", "full_like", "new_full", "fill.Scalar", "fill.Tensor")
def full(b: Emitter, call: Call, like: Any, *values: Any, fill_value: Any = None) -> SSAValue:
    """One value everywhere."""
    return filled(b, call, values[-1] if values else fill_value)


@aten("scalar_tensor")
def scalar_tensor(b: Emitter, call: Call, value: Operand) -> SSAValue:
    """A number as a tensor."""
    return filled(b, call, value)


@aten("zeros", "zeros_like", "new_zeros", "new_empty_strided")
def zeros(b: Emitter, call: Call, *like: Any, **named: Any) -> SSAValue:
    """Zeros; also for memory that is not set and may hold anything."""
    return filled(b, call, 0)


@aten("ones", "ones_like", "new_ones")
def ones(b: Emitter, call: Call, *like: Any, **named: Any) -> SSAValue:
    """Ones."""
    return filled(b, call, 1)


@aten("arange", "arange.start", "arange.start_step")
def arange(
    b: Emitter, call: Call, first: float, end: float | None = None, step: float = 1
) -> SSAValue:
    """Numbers at equal distances: from 0 where only the end is given."""
    start = 0 if end is None else first
    element = call.element if call.element.is_float else I64
    line = b.iota(call.shape, axis=0, T=I64)
    return _placed(b, as_element(b, line, element), start, step, element)


def _placed(
    b: Emitter, line: SSAValue, start: float, step: float, element: ElementType
) -> SSAValue:
    if step != 1:
        line = b.mul(line, in_element(b, step, element))
    return line if start == 0 else b.add(line, in_element(b, start, element))


@aten("linspace")
def linspace(b: Emitter, call: Call, start: float, end: float, steps: int) -> SSAValue:
    """So many numbers at equal distances, both ends among them: the second half is counted from the
    end, as in PyTorch.
    """
    if not call.element.is_float:
        raise Unsupported("a linspace of integers")
    step = (end - start) / max(steps - 1, 1)
    line = b.iota((steps,), axis=0, T=I64)
    up = _placed(b, b.cast(line, call.element), float(start), float(step), call.element)
    rest = b.cast(b.sub(steps - 1, line), call.element)
    down = b.sub(float(end), b.mul(rest, float(step)))
    return b.where(b.lt(line, steps // 2 if steps > 1 else 1), up, down)


@aten("eye", "eye.m")
def eye(b: Emitter, call: Call, *sizes: int) -> SSAValue:
    """Ones on the diagonal."""
    rows, columns = (b.iota(call.shape, axis=axis, T="i32") for axis in (0, 1))
    return b.eq(rows, columns)
