"""How calls of operations that move elements are drawn: movement, constants, reads at ids.

In: a `Draw`. Out: a step of the operation in it.
"""

import math
import random
from collections.abc import Callable
from functools import partial

import numpy as np

from mgn.dialects.mgn.operation import NUMERIC
from mgn.dialects.mgn.operations.rows.digits import shifts_of
from mgn.dialects.types import ELEMENT_TYPES, Family
from tests.fuzz.axes import axes_of, axis_of
from tests.fuzz.draw import FLOAT_ELEMENTS, INTEGER_ELEMENTS, Draw
from tests.fuzz.values import draw_shape

ANYTHING = frozenset({Family.FLOAT, Family.SIGNED, Family.UNSIGNED, Family.BOOL})


def factorised(rng: random.Random, count: int) -> list[int]:
    """Sizes whose product is a count, one of them perhaps -1."""
    if count == 0:
        return [0, rng.choice((1, 2, 3))]
    sizes: list[int] = []
    for _ in range(rng.randint(0, 3)):
        factors = [n for n in range(1, 65) if count % n == 0]
        sizes.append(rng.choice(factors))
        count //= sizes[-1]
    sizes.insert(rng.randint(0, len(sizes)), -1 if rng.random() < 0.3 else count)
    return sizes


def reshape(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    return draw.step("reshape", x, shape=factorised(draw.rng, math.prod(draw.shape(x))))


def transpose(draw: Draw) -> int:
    x = draw.among(ANYTHING, 2)
    perm = list(range(len(draw.shape(x))))
    draw.rng.shuffle(perm)
    return draw.step("transpose", x, perm=perm)


def broadcast_to(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    sizes = [draw.rng.choice((1, 2, 5)) if size == 1 else size for size in draw.shape(x)]
    front = [draw.rng.choice((1, 2, 3)) for _ in range(draw.rng.randint(0, 2))]
    return draw.step("broadcast_to", x, shape=[*front, *sizes])


def slice_(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    for size in draw.shape(x):
        start = draw.rng.randint(0, max(size - 1, 0)) if draw.rng.random() < 0.6 else 0
        stop = draw.rng.randint(start, size + 1) if draw.rng.random() < 0.5 else size
        stop = max(stop, min(start + 1, size))
        starts.append(start - size if draw.rng.random() < 0.2 and start < size else start)
        stops.append(stop)
        steps.append(draw.rng.choice((1, 1, 1, 2, 3)))
    given = {"steps": steps} if draw.rng.random() < 0.5 else {}
    return draw.step("slice", x, starts=starts, stops=stops, **given)


def joined(draw: Draw, name: str) -> int:
    x = draw.among(ANYTHING, 1 if name == "concat" else 0)
    element, shape = draw.element(x).name, draw.shape(x)
    rank = len(shape) + (name == "stack")
    axis = axis_of(draw.rng, rank)
    parts = [x]
    for _ in range(draw.rng.choice((0, 1, 1, 1, 2, 3))):
        sizes = list(shape)
        if name == "concat" and draw.rng.random() < 0.5:
            sizes[axis] = draw.rng.choice((1, 2, 3))
        parts.append(draw.value(element, tuple(sizes)))
    draw.rng.shuffle(parts)
    return draw.step(name, tuple(parts), axis=axis)


def split(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    axis = axis_of(draw.rng, len(draw.shape(x)))
    size = draw.shape(x)[axis]
    cuts = sorted(draw.rng.randint(0, size) for _ in range(draw.rng.randint(0, 3)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    return draw.steps_of("split", x, sizes=sizes, axis=axis)[0]


def pad(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    element = draw.element(x)
    sides = [[draw.rng.choice((0, 0, 1, 2)), draw.rng.choice((0, 0, 1, 3))] for _ in draw.shape(x)]
    value = draw.literal(element) if element.name != "bool" else draw.rng.choice((0.0, 1.0))
    if element.is_float and draw.rng.random() < 0.1:
        value = -math.inf
    return draw.step("pad", x, padding=sides, value=value)


def flip(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    return draw.step("flip", x, axis=axes_of(draw.rng, len(draw.shape(x))))


def expand_dims(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    rank = len(draw.shape(x))
    if draw.rng.random() < 0.5:
        return draw.step("expand_dims", x, axis=axis_of(draw.rng, rank + 1))
    return draw.step("expand_dims", x, axis=draw.rng.sample(range(rank + 2), 2))


def squeeze(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    ones = [n for n, size in enumerate(draw.shape(x)) if size == 1]
    if not ones or draw.rng.random() < 0.4:
        return draw.step("squeeze", x)
    return draw.step("squeeze", x, axis=draw.rng.sample(ones, draw.rng.randint(1, len(ones))))


def flatten(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    first, last = sorted(draw.rng.randrange(len(draw.shape(x))) for _ in range(2))
    return draw.step("flatten", x, start=first, end=last)


def tile(draw: Draw) -> int:
    x = draw.among(ANYTHING)
    count = max(1, len(draw.shape(x)) + draw.rng.choice((-1, 0, 0, 1)))
    return draw.step("tile", x, repeats=[draw.rng.choice((1, 1, 2, 3)) for _ in range(count)])


def repeat(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    given = {"axis": axis_of(draw.rng, len(draw.shape(x)))} if draw.rng.random() < 0.7 else {}
    return draw.step("repeat", x, repeats=draw.rng.choice((1, 2, 3)), **given)


def triangle(draw: Draw, name: str) -> int:
    return draw.step(name, draw.among(ANYTHING, 2), k=draw.rng.choice((0, 0, 1, -1, 3)))


def iota(draw: Draw) -> int:
    shape = draw_shape(draw.rng, draw.size) or (3,)
    element = draw.rng.choice((draw.float_element, *INTEGER_ELEMENTS))
    return draw.step("iota", shape=list(shape), axis=axis_of(draw.rng, len(shape)), T=element)


def full(draw: Draw) -> int:
    element = draw.element_name(NUMERIC)
    shape = list(draw_shape(draw.rng, draw.size))
    value = draw.literal(ELEMENT_TYPES[element])
    if draw.flavour == "special" and ELEMENT_TYPES[element].is_float and draw.rng.random() < 0.3:
        value = draw.rng.choice((math.inf, -math.inf, math.nan))
    return draw.step("full", shape=shape, value=value, T=element)


def one_hot(draw: Draw) -> int:
    classes = draw.rng.choice((1, 2, 5, 8))
    ids = draw.ids(draw_shape(draw.rng, 500), classes)
    names = (*FLOAT_ELEMENTS, "i32", "u8", "bool")
    return draw.step("one_hot", ids, classes=classes, T=draw.rng.choice(names))


# ---- indexing


def gather(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    axis = axis_of(draw.rng, len(draw.shape(x)))
    ids = draw.ids(draw.rng.choice(((), (1,), (3,), (2, 2), (9,))), draw.shape(x)[axis])
    return draw.step("gather", x, ids, axis=axis)


def embedding(draw: Draw) -> int:
    table = draw.value(draw.element_name(ANYTHING), (draw.rng.choice((1, 5, 33)), 8))
    ids = draw.ids(draw.rng.choice(((), (3,), (2, 5))), draw.shape(table)[0])
    return draw.step("embedding", ids, table)


def take_along_axis(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    shape = list(draw.shape(x))
    axis = axis_of(draw.rng, len(shape))
    size, shape[axis] = shape[axis], draw.rng.choice((1, 2, 5))
    return draw.step("take_along_axis", x, draw.ids(tuple(shape), size), axis=axis)


def dynamic_slice(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    sizes = [draw.rng.randint(min(1, size), size) for size in draw.shape(x)]
    starts = tuple(
        draw.given(draw.arrays.integers(-1, size + 1, ()).astype("int32")) for size in draw.shape(x)
    )
    return draw.step("dynamic_slice", x, starts, sizes=sizes)


def dynamic_update_slice(draw: Draw) -> int:
    x = draw.among(ANYTHING, 1)
    sizes = [draw.rng.randint(min(1, size), size) for size in draw.shape(x)]
    starts = tuple(
        draw.given(draw.arrays.integers(-1, size + 1, ()).astype("int32")) for size in draw.shape(x)
    )
    src = draw.value(draw.element(x).name, tuple(sizes))
    return draw.step("dynamic_update_slice", x, src, starts)


def scattering(draw: Draw, name: str) -> int:
    """A slice for each id, or an id for each element."""
    x = draw.among(ANYTHING if name == "scatter" else NUMERIC, 1)
    shape = draw.shape(x)
    axis = axis_of(draw.rng, len(shape))
    place = axis % len(shape)
    before, after = shape[:place], shape[place + 1 :]
    count = draw.rng.choice((1, 2, 5, 33))
    index = (*before, count, *after)
    if name != "scatter_along" and draw.rng.random() < 0.5:
        index = draw.rng.choice(((), (1,), (count,), (2, 2)))
        given = (*before, *index, *after)
    elif name == "scatter_along" and draw.rng.random() < 0.5:
        given, index = index, (*(1,) * place, count, *(1,) * len(after))
    else:
        given = index
    src = draw.value(draw.element(x).name, given)
    return draw.step(name, x, draw.ids(index, shape[axis]), src, axis=axis)


def run_bounds(draw: Draw) -> int:
    count, places = draw.rng.choice((0, 1, 5, 33)), draw.rng.choice((0, 1, 4, 40))
    shape = (draw.rng.choice((1, 3)), count)
    ids = np.sort(draw.arrays.integers(-1, places + 2, shape), -1).astype(np.int32)
    return draw.step("run_bounds", draw.given(ids), places=places, axis=-1)


def runs(draw: Draw, name: str) -> int:
    """What a scatter by ids in order reads, of ids that are all inside."""
    x = draw.among(NUMERIC, 1)
    shape = draw.shape(x)
    axis, count = axis_of(draw.rng, len(shape)) % len(shape), draw.rng.choice((1, 5, 33))
    ids = draw.arrays.integers(0, max(shape[axis], 1), count)
    line = [-1 if i == axis else 1 for i in range(len(shape))]
    order = np.argsort(ids, kind="stable").astype(np.int32).reshape(line)
    bounds = np.searchsorted(np.sort(ids), np.arange(shape[axis] + 1)).astype(np.int32)
    given = tuple(count if i == axis else size for i, size in enumerate(shape))
    src = draw.value(draw.element(x).name, given)
    operands = draw.given(bounds.reshape(line)), draw.given(order), src
    if name == "scatter_runs":
        return draw.step(name, x, *operands, axis=axis)
    part = draw.rng.choice((1, 2, 7))
    named = draw.given(np.sort(ids).astype(np.int32).reshape(line))
    if name == "part_totals":
        return draw.step("part_totals", named, *operands[1:], axis=axis, part=part)
    terms = in_full(draw, src)
    totals = draw.step("part_totals", named, operands[1], terms, axis=axis, part=part)
    return draw.step(name, x, *operands, totals, axis=axis, part=part)


def in_full(draw: Draw, x: int) -> int:
    """Numbers whose sums are kept as the compiler does: those of half precision may leave it."""
    is_half = draw.element(x).name in ("f16", "bf16")
    return draw.step("cast", x, T="f32") if is_half else x


def scatter_in_parts(draw: Draw) -> int:
    """A scatter by ids that rise, with what the whole parts of them come to."""
    x = draw.among(NUMERIC, 1)
    shape = draw.shape(x)
    axis = axis_of(draw.rng, len(shape)) % len(shape)
    count, part = draw.rng.choice((1, 5, 33)), draw.rng.choice((1, 2, 7, 16))
    given = tuple(count if i == axis else size for i, size in enumerate(shape))
    index = (
        given if draw.rng.random() < 0.7 else [n if i == axis else 1 for i, n in enumerate(given)]
    )
    ids = np.sort(draw.arrays.integers(-1, max(shape[axis], 1) + 1, index), axis).astype(np.int32)
    src = draw.value(draw.element(x).name, given)
    whole = count // part
    stops = [whole * part if i == axis else size for i, size in enumerate(given)]
    parts = draw.step("slice", in_full(draw, src), starts=[0] * len(stops), stops=stops)
    parts = draw.step("reshape", parts, shape=[*given[:axis], whole, part, *given[axis + 1 :]])
    totals = draw.step("sum", parts, axis=[axis + 1])
    name = "scatter_along_in_parts"
    return draw.step(name, x, draw.given(ids), src, totals, axis=axis, part=part)


def scatter_in_buckets(draw: Draw, name: str) -> int:
    """Ids in the order of their buckets, the totals of their parts, and the scatter by both."""
    x = draw.among(NUMERIC, 1)
    shape = draw.shape(x)
    axis = axis_of(draw.rng, len(shape)) % len(shape)
    count, part, bits = (draw.rng.choice(few) for few in ((1, 5, 33), (1, 2, 7), (1, 2, 5)))
    given = tuple(count if i == axis else size for i, size in enumerate(shape))
    ids = draw.arrays.integers(0, max(shape[axis], 1), given).astype(np.int32)
    order = np.argsort(ids >> bits, axis, kind="stable")
    ids = np.take_along_axis(ids, order, axis)
    src = draw.value(draw.element(x).name, given)
    values = {"axis": axis, "bits": bits, "part": part}
    named = draw.given(ids)
    totals = draw.step("bucket_totals", named, in_full(draw, src), **values)
    if name == "bucket_totals":
        return totals
    return draw.step(name, x, named, src, totals, **values)


def scan_in_parts(draw: Draw, name: str) -> int:
    x = draw.among(NUMERIC, 1)
    shape = list(draw.shape(x))
    axis, part = axis_of(draw.rng, len(shape)), draw.rng.choice((1, 2, 7, 64))
    shape[axis] = -(-shape[axis] // part)
    before = draw.value(draw.element(x).name, tuple(shape))
    totals = draw.rng.random() < 0.5
    return draw.step(name, x, before, axis=axis, part=part, totals=totals)


def ordering(draw: Draw, name: str) -> int:
    x = draw.among(ANYTHING, 1)
    axis = axis_of(draw.rng, len(draw.shape(x)))
    if name == "topk":
        size = draw.shape(x)[axis]
        results = draw.steps_of("topk", x, k=draw.rng.randint(min(1, size), size), axis=axis)
        return draw.rng.choice(results)
    descending = draw.rng.random() < 0.5
    if name != "sort_runs":
        return draw.step(name, x, axis=axis, descending=descending)
    payload = draw.value(draw.element_name(ANYTHING), draw.shape(x))
    run = draw.rng.choice((0, 1, 4, 16))
    return draw.step(name, x, payload, axis=axis, descending=descending, run=run)


def digits(draw: Draw, name: str) -> int:
    """A digit of keys: how often it occurs in parts of rows, or values in its order. Where it is
    told of falls, all rows have some: those without have no result that is defined.
    """
    x = draw.among(ANYTHING, 1)
    shape, element = draw.shape(x), draw.element(x)
    how = {
        "axis": axis_of(draw.rng, len(shape)),
        "descending": draw.rng.random() < 0.5,
        "shift": draw.rng.choice([0, *shifts_of(element)]),
        "bits": draw.rng.choice((1, 5, 8)),
    }
    if name == "sort_digits":
        payload = draw.value(draw.element_name(ANYTHING), shape)
        return draw.step(name, x, payload, **how)
    how["part"] = draw.rng.choice((1, 3, 64))
    rows = math.prod(size for n, size in enumerate(shape) if n != how["axis"] % len(shape))
    told = [draw.given(draw.arrays.integers(1, 9, rows).astype(np.int32))]
    told = told if draw.rng.random() < 0.5 else []
    if name == "digit_counts":
        return draw.step(name, x, *told, with_falls=draw.rng.random() < 0.5, **how)
    sums = draw.step("running_sum", draw.step("digit_counts", x, *told, **how), axis=2)
    payload = draw.value(draw.element_name(ANYTHING), shape)
    return draw.step(name, x, payload, sums, *told, **how)


MOVERS: dict[str, Callable[[Draw], int]] = {
    "slice": slice_, "concat": partial(joined, name="concat"),
    "stack": partial(joined, name="stack"), "tril": partial(triangle, name="tril"),
    "triu": partial(triangle, name="triu"), "reshape": reshape, "transpose": transpose,
    "broadcast_to": broadcast_to, "split": split, "pad": pad, "flip": flip, "squeeze": squeeze,
    "expand_dims": expand_dims, "flatten": flatten, "tile": tile, "repeat": repeat, "iota": iota,
    "full": full, "one_hot": one_hot, "gather": gather, "embedding": embedding,
    "take_along_axis": take_along_axis, "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice, "run_bounds": run_bounds,
    "scatter_along_in_parts": scatter_in_parts,
    **{
        n: partial(scatter_in_buckets, name=n) for n in ("bucket_totals", "scatter_in_buckets")
    },
    **{
        n: partial(runs, name=n) for n in ("scatter_runs", "part_totals", "scatter_runs_in_parts")
    },
    **{n: partial(scattering, name=n) for n in ("scatter", "scatter_add", "scatter_along")},
    **{
        n: partial(scan_in_parts, name=n)
        for n in ("running_sum_in_parts", "running_product_in_parts")
    },
    **{n: partial(ordering, name=n) for n in ("sort", "argsort", "topk", "sort_runs")},
    **{n: partial(digits, name=n) for n in ("sort_digits", "digit_counts", "place_digits")},
}  # fmt: skip
"""The maker of each operation that moves elements."""
