"""Packing rows of windows whose channels are last into local memory, an element of a window at a
time: what no vector of it needs is worked out once for all of its channels.

In: a block of the shared axis, whole vectors, and the first row. Out: stores, as `pack_left_rows`
has them; what comes before the windows is evaluated on the way.
"""

from collections.abc import Callable
from math import prod

from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.channel_windows import ChannelWindows
from mgn.passes.kernels.index import ZERO, Index, delinearised, lanes
from mgn.passes.kernels.pooled_products import ProductPool
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.panels import LeftTile

FLOATS = ("f32", "f64")
"""Types whose sums are of their own type."""


def windows_in_vectors(product: Product, depth: int, width: int) -> ChannelWindows | None:
    """The windows that are a product's left operand, where blocks of so many steps are whole
    vectors of channels; else None.
    """
    left = product.node.operands[0]
    if product.batch or product.node.values["transpose_a"] or left.element.name not in FLOATS:
        return None
    found = ChannelWindows.of(left)
    whole = found is not None and found.channels % width == 0
    return found if whole and depth % width == 0 and product.depth % width == 0 else None


def pack_left_windows(
    job: Job,
    windows: ChannelWindows,
    pool: ProductPool | None,
    first: Index,
    depth: int,
    row: Index,
    tile: LeftTile,
) -> None:
    """The rows of a tile, so many steps of each or as many as are left, window after window; rows
    that are combined come group by group.
    """
    code, width, source = job.code, job.number("lanes", 16), windows.source
    channels, count = windows.channels, prod(windows.sizes)
    padding = code.constant(windows.value, memory_type(source.element), width)
    evaluator = job.evaluator(width)
    begin = first // channels
    end = ((first + (depth - 1)) // channels).clamp(0, count - 1) + 1

    def one_element(i: Index, window: Indices, number: Index) -> None:
        own = code.known(begin + number, count)
        inner = windows.element(window[1:], delinearised(own, windows.sizes))
        axes = list(zip(inner, source.shape[1:-1], strict=True))
        tests = [code.is_below(part * -1, 1, 1) for part, _ in axes]
        tests += [code.is_below(part, size, 1) for part, size in axes]
        start = (own * channels - first).clamp(0, depth - width)
        stop = ((own + 1) * channels - first).clamp(width, depth)
        channel = (first - own * channels).clamp(0, channels - width)
        vectors: Index | int = stop // width - start // width
        if depth % channels == 0:
            start, vectors, channel = number * channels, channels // width, ZERO

        def each(value: Callable[[Index], SSAValue]) -> None:
            def put(n: Index) -> None:
                place = tile.place(i, start + n * width)
                code.store(value(channel + n * width), tile.buffer, code.index(place))

            code.each(0, vectors, put)

        def copied() -> None:
            at = [code.known(part, size) for part, size in axes]

            def read(c: Index) -> SSAValue:
                lane = code.known(c, channels - width + 1) + lanes(width)
                return evaluator.lanes_at(source, (window[0], *at, lane))

            each(read)

        code.branch(code.all_of(tests), copied, lambda: each(lambda _: padding))

    def one_row(i: Index) -> None:
        shape = (windows.images, *windows.places)
        own = pool.place(row + i) if pool else row + i
        window = delinearised(code.known(own, prod(shape)), shape)
        code.each(0, end - begin, lambda number: one_element(i, window, number))

    code.each(0, tile.rows, one_row)
