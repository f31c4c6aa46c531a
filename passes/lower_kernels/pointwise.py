"""The pointwise template: every element of the results on its own.

CPU: a work-item takes a contiguous chunk, a vector at a time, flat over all axes, or along the
innermost axis where a vector of the flat order would cross rows of what it reads, or in squares
(squares.py) or rows side by side (interleaved_rows.py) where an operand is transposed. GPU: a
work-item takes a few vectors of 16 bytes, a work-group apart, or a work-group takes a tile
(tiles.py) where an operand is transposed.
"""

from dataclasses import replace

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes
from mgn.passes.kernels.body import INPUT, Body, Node
from mgn.passes.kernels.index import Index, delinearised, lanes
from mgn.passes.lower_kernels.evaluate import Evaluator
from mgn.passes.lower_kernels.interleaved_rows import interleaved_axis, lower_interleaved
from mgn.passes.lower_kernels.ragged_tiles import RaggedTiles, has_vectors
from mgn.passes.lower_kernels.squares import lower_squares, row_axis
from mgn.passes.lower_kernels.template import Job, Launch
from mgn.passes.lower_kernels.tiles import Tiles, tile_plan


def lower_pointwise(job: Job) -> Launch:
    """Writes a pointwise kernel."""
    shape = job.body.written[0].shape
    most = job.number("lanes", 16)
    inner = shape[-1] if shape else 1
    in_place = in_place_pairs(job.body)
    if is_flat(job.body, shape):
        if job.is_gpu:
            most = dividing_lanes(job.body.written[0].count, most)
        return _flat(job, shape, most, in_place)
    plan = tile_plan(job.body, shape) if job.is_gpu else None
    if plan is not None:
        tiles = RaggedTiles if has_vectors(job, shape, plan) else Tiles
        return replace(tiles(job, shape, plan).lower(), in_place=in_place)
    axis = None if job.is_gpu else row_axis(job.body, shape, most)
    if axis is not None:
        launch = lower_squares(job, shape, axis, most)
        overlaps = inner % most or shape[axis] % most
        return launch if overlaps else replace(launch, in_place=in_place)
    fitting = dividing_lanes(inner, most)
    axis = None if job.is_gpu or 2 * fitting < most else interleaved_axis(job.body, shape)
    if axis is not None:
        return lower_interleaved(job, shape, axis, fitting)
    if job.is_gpu or 2 * fitting >= most or inner < most:
        return _flat(job, shape, fitting, in_place)
    return _rows(job, shape, most)


def is_flat(body: Body, shape: tuple[int, ...]) -> bool:
    """Whether every value has the results' elements in the results' order, or is one number."""
    count = body.written[0].count
    for node in body.nodes:
        if node.count != 1 and (node.count != count or not _keeps_order(node)):
            return False
    return True


def _keeps_order(node: Node) -> bool:
    return node.kind is Kind.ELEMENTWISE or node.name in (INPUT, "reshape", "full", "splat")


def in_place_pairs(body: Body) -> tuple[tuple[int, int], ...]:
    """Inputs read only at the element being written: (input, result) positions of arguments."""
    pairs: list[tuple[int, int]] = []
    moved = _read_elsewhere(body)
    for source in body.inputs:
        if source in moved or source not in body.nodes:
            continue
        for number, written in enumerate(body.written):
            if source.count == written.count and source.element.bytes == written.element.bytes:
                pairs.append((source.number, len(body.inputs) + number))
    return tuple(pairs)


def _read_elsewhere(body: Body) -> set[Node]:
    """Nodes evaluated at another element than the one written."""
    count = body.written[0].count
    moved: set[Node] = set()
    for node in reversed(body.nodes):
        keeps = node not in moved and node.count == count and _keeps_order(node)
        for operand in node.operands:
            if not keeps or operand.count != count:
                moved.add(operand)
    return moved


def _flat(
    job: Job, shape: tuple[int, ...], width: int, in_place: tuple[tuple[int, int], ...]
) -> Launch:
    count = job.body.written[0].count
    vectors, rest = divmod(count, width)
    if job.is_gpu:
        return _flat_gpu(job, shape, width, vectors, in_place)
    code = job.code
    chunk = max(1, min(job.number("chunk", 4096) // width, vectors or 1))
    items = max(ceil_div(vectors, chunk), 1)
    item = code.counter(kernel.GlobalIdOp, 0, items)
    wide, narrow = job.evaluator(width), job.evaluator(1)

    def write(evaluator: Evaluator, position: Index) -> None:
        index = delinearised(position, shape)
        job.write(evaluator, [(n, node, index) for n, node in enumerate(job.body.written)])

    def one_vector(step: Index) -> None:
        number = code.known(item * chunk + step, vectors)
        write(wide, number * width + lanes(width))

    if vectors:
        trips: Index | int = chunk
        if vectors % chunk:
            trips = (item * -chunk + vectors).clamp(0, chunk)
        code.each(0, trips, one_vector)
    if rest:
        last = code.is_below(item * -1 + (items - 1), 1, 1)
        code.when(
            last,
            lambda: code.each(count - rest, count, lambda i: write(narrow, i)),
        )
    return Launch((items,), (1,), in_place)


def _flat_gpu(
    job: Job,
    shape: tuple[int, ...],
    width: int,
    vectors: int,
    in_place: tuple[tuple[int, int], ...],
) -> Launch:
    code = job.code
    local = min(job.number("local", 256), _power_above(vectors))
    unroll = job.number("unroll", 1) if vectors >= local * 1024 else 1
    groups = ceil_div(vectors, local * unroll)
    group = code.counter(kernel.GroupIdOp, 0, groups)
    place = code.counter(kernel.LocalIdOp, 0, local)
    evaluator = job.evaluator(width)

    for step in range(unroll):
        vector = group * (local * unroll) + place + step * local

        def one_vector(vector: Index = vector) -> None:
            number = code.known(vector, vectors)
            index = delinearised(number * width + lanes(width), shape)
            job.write(evaluator, [(n, w, index) for n, w in enumerate(job.body.written)])

        code.when(code.is_below(vector, vectors, 1), one_vector)
    return Launch((groups * local,), (local,), in_place)


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def _rows(job: Job, shape: tuple[int, ...], width: int) -> Launch:
    """Along the innermost axis; the last vector of a row ends with the row, and so overlaps."""
    code = job.code
    inner = shape[-1]
    rows = job.body.written[0].count // inner
    vectors = ceil_div(inner, width)
    block = max(1, min(rows, job.number("chunk", 4096) // inner))
    items = ceil_div(rows, block)
    item = code.counter(kernel.GlobalIdOp, 0, items)
    evaluator = job.evaluator(width)

    def one_row(step: Index) -> None:
        row = code.known(item * block + step, rows)
        outer = delinearised(row, shape[:-1])

        def one_vector(vector: Index) -> None:
            start = (vector * width).clamp(0, inner - width)
            first = code.known(start, inner - width + 1)
            index = (*outer, first + lanes(width))
            job.write(evaluator, [(n, w, index) for n, w in enumerate(job.body.written)])

        code.each(0, vectors, one_vector)

    trips: Index | int = block
    if rows % block:
        trips = (item * -block + rows).clamp(0, block)
    code.each(0, trips, one_row)
    return Launch((items,))
