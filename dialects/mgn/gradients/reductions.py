"""Gradients of reductions and of scans.

`max_reduce` and `min_reduce` share evenly between the elements that are extreme, as PyTorch's
`amax`. `prod` multiplies the others, so that zeros need no case of their own.
"""

import math

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.rules import (
    FLAT,
    WITHOUT,
    Gradients,
    Site,
    gradient,
    in_full,
    spread,
)

FLAT.update({"argmax", "argmin"})
WITHOUT.update(
    {
        "running_sum_in_parts": "use cumsum",
        "running_product_in_parts": "use cumprod",
    }
)


@gradient("sum")
def sum_of(b: Emitter, at: Site) -> Gradients:
    """The same for each element."""
    return [spread(b, at.g, at.values["axis"], shape_of(at.x))]


@gradient("mean")
@in_full
def mean(b: Emitter, at: Site) -> Gradients:
    """A share for each element."""
    shape, axis = shape_of(at.x), at.values["axis"]
    count = math.prod(shape[i] for i in axis)
    return [spread(b, b.div(at.g, float(count)), axis, shape)]


@gradient("var")
@in_full
def var(b: Emitter, at: Site) -> Gradients:
    """2 (x - mean) / N."""
    shape, axis = shape_of(at.x), at.values["axis"]
    count = math.prod(shape[i] for i in axis)
    centred = b.sub(at.x, b.mean(at.x, axis=axis, keepdims=True))
    return [b.mul(centred, spread(b, b.mul(at.g, 2.0 / max(count, 1)), axis, shape))]


@gradient("logsumexp")
@in_full
def logsumexp(b: Emitter, at: Site) -> Gradients:
    """The softmax; zeros for a row of -inf."""
    shape, axis = shape_of(at.x), at.values["axis"]
    total = b.where(b.eq(at.y, -math.inf), 0.0, at.y)
    return [b.mul(spread(b, at.g, axis, shape), b.exp(b.sub(at.x, spread(b, total, axis, shape))))]


@gradient("max_reduce", "min_reduce")
@in_full
def extreme(b: Emitter, at: Site) -> Gradients:
    """Evenly to the elements that are the extreme one."""
    shape, axis = shape_of(at.x), at.values["axis"]
    taken = b.eq(at.x, spread(b, at.y, axis, shape))
    number = b.sum(b.cast(taken, element_type_of(at.x)), axis=axis, keepdims=at.values["keepdims"])
    return [b.where(taken, spread(b, b.div(at.g, number), axis, shape), 0.0)]


@gradient("prod")
@in_full
def prod(b: Emitter, at: Site) -> Gradients:
    """The product of the others: of those before, times those behind."""
    shape, axis = shape_of(at.x), at.values["axis"]
    kept = [i for i in range(len(shape)) if i not in axis]
    order = (*kept, *axis)
    count = math.prod(shape[i] for i in axis)
    front = [shape[i] for i in kept]
    rows = b.reshape(b.transpose(at.x, order), (*front, count))
    before = _before(b, rows, len(front))
    behind = b.flip(_before(b, b.flip(rows, axis=-1), len(front)), axis=-1)
    others = b.reshape(b.mul(before, behind), [shape[i] for i in order])
    back = [order.index(i) for i in range(len(shape))]
    return [b.mul(spread(b, at.g, axis, shape), b.transpose(others, back))]


def _shifted(b: Emitter, x: SSAValue, axis: int, by: int, value: float) -> SSAValue:
    """x moved to later places (by > 0) or earlier ones along an axis, which a value follows."""
    shape = shape_of(x)
    axis %= len(shape)
    far = min(abs(by), shape[axis])
    starts = [far if by < 0 and i == axis else 0 for i in range(len(shape))]
    stops = [n - far if by > 0 and i == axis else n for i, n in enumerate(shape)]
    sides = [([far, 0] if by > 0 else [0, far]) if i == axis else [0, 0] for i in range(len(shape))]
    return b.pad(b.slice(x, starts, stops), sides, value)


@gradient("running_sum")
def running_sum(b: Emitter, at: Site) -> Gradients:
    """The sums from the other end."""
    axis = at.values["axis"]
    return [b.flip(b.running_sum(b.flip(at.g, axis=axis), axis=axis), axis=axis)]


@gradient("running_product")
@in_full
def running_product(b: Emitter, at: Site) -> Gradients:
    """The product before each element, times what later results have of the elements behind it.

    The latter is r[i] = g[i] + x[i + 1] r[i + 1], found by doubling: in as many steps as the axis
    has binary digits, and right where an x is 0.
    """
    axis = at.values["axis"]
    size = shape_of(at.x)[axis]
    total, factor = at.g, _shifted(b, at.x, axis, -1, 0.0)
    step = 1
    while step < size:
        total = b.add(total, b.mul(factor, _shifted(b, total, axis, -step, 0.0)))
        factor = b.mul(factor, _shifted(b, factor, axis, -step, 0.0))
        step *= 2
    return [b.mul(total, _before(b, at.x, axis))]


def _before(b: Emitter, x: SSAValue, axis: int) -> SSAValue:
    """The products of what is before each element of an axis."""
    return b.running_product(_shifted(b, x, axis, 1, 1.0), axis=axis)
