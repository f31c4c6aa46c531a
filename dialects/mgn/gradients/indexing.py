"""Gradients of what is read or written at indices that are values.

A read becomes a scatter that adds, in the order of the ids, so that the same bits come on every
run. A write becomes a read.
"""

from typing import cast

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.rules import WITHOUT, Gradients, Site, gradient, zeros_like
from mgn.dialects.mgn.operations.places.scatter import ADD

WITHOUT.update(
    {
        "bucket_totals": "use scatter_add",
        "part_totals": "use scatter_add",
        "scatter_in_buckets": "use scatter_add",
        "scatter_along_in_parts": "use scatter_add",
        "scatter_runs": "use scatter_add",
        "scatter_runs_in_parts": "use scatter_add",
    }
)


@gradient("gather")
def gather(b: Emitter, at: Site) -> Gradients:
    """Added at the ids that were read."""
    x, ids = at.operands
    return [b.scatter_add(zeros_like(b, x), ids, at.g, axis=at.values["axis"]), None]


@gradient("embedding")
def embedding(b: Emitter, at: Site) -> Gradients:
    """Added to the rows that were read."""
    ids, table = at.operands
    return [None, b.scatter_add(zeros_like(b, table), ids, at.g, axis=0)]


@gradient("take_along_axis")
def take_along_axis(b: Emitter, at: Site) -> Gradients:
    """Each at its own id along the axis."""
    x, ids = at.operands
    return [b.scatter_add(zeros_like(b, x), ids, at.g, axis=at.values["axis"]), None]


@gradient("scatter_along")
def scatter_along(b: Emitter, at: Site) -> Gradients:
    """All of it to what was added to; to what was added, what is now at its id. Where the largest
    stays, evenly to the elements that are it.
    """
    x, ids, src = at.operands
    axis = at.values["axis"]
    own = b.broadcast_to(ids, shape_of(src))
    if at.values["combine"] == ADD:
        return [at.g, None, b.take_along_axis(at.g, own, axis=axis)]
    before = b.eq(x, at.y)
    scattered = b.eq(src, b.take_along_axis(at.y, own, axis=axis))
    one, number = b.cast(before, element_type_of(x)), b.cast(scattered, element_type_of(x))
    share = b.div(at.g, b.scatter_add(one, own, number, axis=axis))
    taken = b.take_along_axis(share, own, axis=axis)
    return [b.where(before, share, 0.0), None, b.where(scattered, taken, 0.0)]


@gradient("scatter_add")
def scatter_add(b: Emitter, at: Site) -> Gradients:
    """As of `scatter_along`, where src has a slice for each id too."""
    x, ids, src = at.operands
    axis = at.values["axis"]
    shape, given = shape_of(x), shape_of(src)
    if 0 in given:
        return [at.g, None, zeros_like(b, src)]
    if given == (*shape[:axis], *shape_of(ids), *shape[axis + 1 :]):
        return [at.g, None, b.gather(at.g, ids, axis=axis)]
    stops = [n if i == axis else m for i, (n, m) in enumerate(zip(shape, given, strict=True))]
    part = b.slice(at.g, (0,) * len(shape), stops)
    return [at.g, None, b.take_along_axis(part, ids, axis=axis)]


@gradient("dynamic_slice")
def dynamic_slice(b: Emitter, at: Site) -> Gradients:
    """In its place among zeros."""
    x, starts = at.operands
    if not shape_of(x):
        return [at.g, [None] * len(starts)]
    whole = b.dynamic_update_slice(zeros_like(b, x), at.g, starts)
    return [whole, [None] * len(starts)]


@gradient("dynamic_update_slice")
def dynamic_update_slice(b: Emitter, at: Site) -> Gradients:
    """Zeros where the part was written, and the part of what came back."""
    x, src, starts = at.operands
    around = b.dynamic_update_slice(at.g, zeros_like(b, src), starts)
    part = b.dynamic_slice(at.g, starts, shape_of(src))
    assert shape_of(x) == shape_of(around)
    return [around, part, [None] * len(starts)]


@gradient("sort_runs")
def sort_runs(b: Emitter, at: Site) -> Gradients:
    """Back to where each element was: the positions, sorted by the same keys."""
    keys, payload = at.operands
    return [None, _put_back(b, payload, b.sort_runs(keys, _line(b, payload, at), **at.values), at)]


@gradient("sort_digits", "place_digits")
def sort_digits(b: Emitter, at: Site) -> Gradients:
    """The same by a digit of the keys; integers count the digits."""
    keys, payload, *sums = at.operands
    values = {name: value for name, value in at.values.items() if name != "part"}
    positions = b.sort_digits(keys, _line(b, payload, at), **values)
    return [None, _put_back(b, payload, positions, at), *(None for _ in sums)]


@gradient("sort")
def sort(b: Emitter, at: Site) -> Gradients:
    """Back to where each element was."""
    return [_put_back(b, at.x, b.argsort(at.x, **at.values), at)]


@gradient("topk")
def topk(b: Emitter, at: Site) -> Gradients:
    """To the elements that were chosen."""
    return [_put_back(b, at.x, at.results[1], at)]


def _line(b: Emitter, x: SSAValue, at: Site) -> SSAValue:
    shape, axis = shape_of(x), at.values["axis"]
    line = [n if i == axis else 1 for i, n in enumerate(shape)]
    return cast(SSAValue, b.broadcast_to(b.iota(line, axis=axis, T="i32"), shape))


def _put_back(b: Emitter, x: SSAValue, positions: SSAValue, at: Site) -> SSAValue:
    """What came back, at the positions that its elements had along an axis."""
    assert element_type_of(at.g) == element_type_of(x)
    return cast(SSAValue, b.scatter_add(zeros_like(b, x), positions, at.g, axis=at.values["axis"]))
