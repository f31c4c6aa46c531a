"""The schedules of a product: which variant of the contraction template writes it, and its tiles.

CPU: large products go through packed panels; products of a few rows read both operands where they
lie, with vectors along the columns, or along the shared axis where both lie so. GPU: tiles in local
memory, or on its matrix unit; few rows read the right operand where it lies, and a single column
makes sums.
"""

from dataclasses import replace
from enum import StrEnum
from math import prod

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import INPUT
from mgn.passes.kernels.operand_places import DEPTH, right_axis
from mgn.passes.kernels.product import Product, lies_in_memory
from mgn.passes.kernels.product_as_sum import product_as_sum
from mgn.passes.kernels.summed_windows import summed_windows
from mgn.passes.kernels.window_planes import PooledPlaces, planes_of_columns, planes_of_product
from mgn.passes.kernels.winograd import SIDE, TiledImage
from mgn.passes.schedules.core.figures import LEFT, RIGHT
from mgn.passes.schedules.core.packed_blocking import PANELS, TRANSFORMED, packed_blocking
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules
from mgn.passes.schedules.product.few_rows import (
    FEW_FOR_UNIT,
    FEW_ROWS,
    FewRowsTiling,
    few_rows_tiling,
    functions_before,
    right_bytes,
    suits_few_rows,
)
from mgn.passes.schedules.product.local_tiles import Tiling, local_tilings, vector_width
from mgn.passes.schedules.product.matrix_tiles import (
    BY_GROUPS,
    COPIED,
    DEEP,
    IN_PIECES,
    KEPT,
    LINED,
    SUB_GROUP,
    WIDE,
    TensorTiling,
    copying_seconds,
    held_element,
    matrix_tilings,
)
from mgn.passes.schedules.product.operand_copies import (
    by_groups,
    computes_windows,
    copied_in_lines,
    copied_whole,
    fills_stages,
    has_rows_in_order,
    has_whole_lines,
    in_pieces,
    is_computed,
    may_keep_rows,
    staged_factor,
    suits_unit,
)
from mgn.passes.schedules.product.pixel_products import EVALUATION, pixel_blocking
from mgn.passes.schedules.product.seconds import (
    COMPUTED,
    FUNCTION_WAIT,
    NUMBER_WRITTEN,
    READ_LATENCY,
    ROW_WAIT,
    STEP_LATENCY,
    TILE_LATENCY,
    gathered_seconds,
    packed_seconds,
    plain_rate,
    shared_seconds,
    tile_passes,
    useful_seconds,
    waits_in_place,
    windows_seconds,
)
from mgn.passes.schedules.product.summed_windows import summed_blocking
from mgn.passes.schedules.product.window_products import window_blocking
from mgn.passes.schedules.product.winograd_products import tile_blocking
from mgn.passes.schedules.reduction.reduction import reduction_schedules

STRIP = 8
"""Up to how many tiles below one another come before the next ones beside them: they share what
the device's cache holds."""

STAGED_BLOCKS, STAGING = 4, 8.0
"""Work-items for each unit of a CPU that compute a left operand, each for itself; and how often it
might be gone over instead, since nothing is read meanwhile.
"""

MOST_EXCHANGED = 8
"""Rows of a matrix unit's results that the work-items of a sub-group have in order."""

FACTS, UNIT_FACTS = ("form", "lanes", "matrix"), ("sub_group", "rounded")
"""What templates read of a request, and besides where tiles lie in local memory."""


class ProductVariant(StrEnum):
    """A variant of the contraction template."""

    SUMS = "sums"
    FEW_ROWS = "few rows"
    DOTS = "dots"
    MATRIX = "matrix tiles"
    TILES = "tiles"
    PACKED = "packed panels"
    DIRECT = "in place"
    WINDOWS = "windows"
    PLACES = "places"
    SUMMED = "summed windows"
    WINOGRAD = "transformed tiles"


def scheduled_product(request: Request) -> Product:
    """The product of a body as its template sees it on a device."""
    product = Product.of_body(request.body)
    if not request.is_gpu or product.halves == 1:
        return product
    if right_axis(product) != DEPTH:
        what = "columns that meet are apart in memory, or computed"
        raise VerifyException(f"fusion.kernel contraction: {what}")
    return product.interleaved


def product_schedules(request: Request) -> Schedules:
    """The admissible schedules of a contraction, the preferred one first."""
    product = scheduled_product(request)
    if product.pool is not None:
        return _pooled_schedules(request, product)
    if request.is_gpu:
        return _gpu_schedules(request, product)
    return _cpu_schedules(request, product)


def _pooled_schedules(request: Request, product: Product) -> Schedules:
    """The schedules of a product whose kernel combines neighbouring results: those of which a
    work-item has all members of a group.
    """
    if request.is_gpu:
        unit = request.word("matrix")
        found = _pooled_units(request, product, unit) if unit else _pooled_tiles(request, product)
    elif request.word(RIGHT) == TRANSFORMED:
        found = []
    else:
        found = _pooled_rows(request, product) or _windows(request, product)
    if not found:
        raise VerifyException("fusion.kernel contraction: no tile has all neighbours it combines")
    return found


def _pooled_tiles(request: Request, product: Product) -> Schedules:
    """The schedules of tiles, of which a work-item has vectors of rows and of columns that are
    whole groups. There are none for windows that are computed on their way: an NVIDIA H200 takes 38
    µs to round those of 64 channels of 56 × 56 places so, and 21 to copy them.
    """
    pool, width = product.pool, vector_width(accumulator(product.element))
    if not pool or width % pool.members or not _has_operands(product):
        return []
    if any(map(computes_windows, product.node.operands)):
        return []
    grouped = product.grouped
    return [
        _tiles(request, grouped, ProductVariant.TILES, tiling, TILE_LATENCY + seconds)
        for seconds, tiling in local_tilings(request, grouped)
    ]


def _pooled_units(request: Request, product: Product, unit: str) -> Schedules:
    """The schedules of a matrix unit, of whose results the work-items of a sub-group exchange rows:
    where all of them have sums of all steps, in pairs of columns.
    """
    pool, grouped = product.pool, product.grouped
    if not pool or not pool.combines_rows or MOST_EXCHANGED % pool.members or grouped.columns % 2:
        return []
    if not _has_operands(product) or request.number("sub_group", 1) != SUB_GROUP:
        return []
    if not has_rows_in_order(grouped, unit) or not suits_unit(request, grouped, unit):
        return []
    found = _matrix_schedules(request, grouped, unit)
    return [item for item in found if item.numbers.get("slices", 1) == 1]


def _pooled_rows(request: Request, product: Product) -> list[Schedule]:
    """The schedule of packed panels, whose register tiles have whole groups of rows."""
    pool, most = product.pool, request.number("tile_rows", 8)
    if not pool or not pool.combines_rows or pool.members > min(most, pool.groups * pool.members):
        return []
    return [_packed(request, product.grouped)]


def _gpu_schedules(request: Request, product: Product) -> Schedules:
    if _makes_sums(product):
        seconds = useful_seconds(product, plain_rate(product, request.device))
        sums = replace(request, body=product_as_sum(request.body, product))
        (rows,) = reduction_schedules(sums)
        return [replace(rows, variant=ProductVariant.SUMS, seconds=seconds, passes=(1.0, 1.0))]
    axis = right_axis(product) if suits_few_rows(request, product) else None
    if axis is not None:
        tiling = few_rows_tiling(request, product, axis == DEPTH)
        return [_few_rows(request, product, tiling)]
    if tiled := tiled_schedules(request, product):
        return tiled
    _refuse_statistics(request)
    _refuse_halves(product)
    return [_direct(request, product)]


def tiled_schedules(request: Request, product: Product) -> Schedules:
    """The schedules by which a GPU's groups compute tiles of a product, the quickest first: on the
    matrix unit where one is asked for and takes the operands. None where there are too few rows.
    """
    unit = request.word("matrix")
    if not _has_operands(product) or product.rows <= (FEW_FOR_UNIT if unit else FEW_ROWS):
        return []
    if unit and suits_unit(request, product, unit):
        return _matrix_schedules(request, product, unit)
    return [
        _tiles(request, product, ProductVariant.TILES, tiling, TILE_LATENCY + seconds)
        for seconds, tiling in local_tilings(request, product)
    ]


def _cpu_schedules(request: Request, product: Product) -> Schedules:
    _refuse_statistics(request)
    if product.rows <= FEW_ROWS:
        _refuse_halves(product)
    right = product.node.operands[1]
    along_k = product.depth >= request.number("lanes", 16)
    if along_k and product.right_runs_along_depth and product.rows <= FEW_ROWS:
        return [_dots(request, product, product.rows, min(8 // product.rows, product.columns))]
    if along_k and product.left_runs_along_depth and product.columns == 1 and lies_in_memory(right):
        return [_dots(request, product, min(8, product.rows), 1)]
    if request.word(RIGHT) == TRANSFORMED:
        return [_transformed(request, product)]
    found, beside = _windows(request, product), 0.0
    many = product.rows > FEW_ROWS or request.word(RIGHT) == PANELS
    if many and _has_operands(product):
        packed = _packed(request, product)
        if any(item.variant == ProductVariant.WINDOWS for item in found):
            beside = windows_seconds(product, request.device) * packed.passes[1]
        found.append(packed)

    def seconds_of(item: Schedule) -> float:
        return item.seconds + (beside if item.variant == ProductVariant.PACKED else 0.0)

    return sorted(found, key=seconds_of) or [_direct(request, product)]


def _packed(request: Request, product: Product) -> Schedule:
    """The schedule of packed panels."""
    sizes, facts = packed_blocking(request, product), request.facts(*FACTS, "right")
    seconds, passes = packed_seconds(request, product, sizes)
    return Schedule(ProductVariant.PACKED, sizes.entries, facts, seconds, passes)


def _windows(request: Request, product: Product) -> list[Schedule]:
    """The schedule of a product with windows that slide over planes, of one that adds them up, or
    of one whose weights lie in panels, if one fits.
    """
    if not _has_operands(product):
        return []
    rate, facts = plain_rate(product, request.device), request.facts(*FACTS, "lanes", LEFT)
    if request.word(LEFT) == PANELS:
        planes = planes_of_columns(product)
        found = planes and pixel_blocking(request, product, planes)
        if not found:
            raise VerifyException("fusion.kernel contraction: no tile reads panels of weights")
        places, steps = found
        numbers, passes = places.entries, (1.0, 1.0)
        seconds = steps / rate
        return [Schedule(ProductVariant.PLACES, numbers, facts, seconds, passes, EVALUATION)]
    windows = None if product.pool else summed_windows(product)
    summed = windows and summed_blocking(request, product, windows)
    if summed:
        sizes, steps = summed
        variant, passes = ProductVariant.SUMMED, (1.0, 1.0)
        return [Schedule(variant, sizes.entries, facts, steps / rate, passes)]
    planes = planes_of_product(product)
    cut = planes and window_blocking(request, product, planes)
    if not planes or not cut:
        return []
    blocking, steps = cut
    pooled = PooledPlaces.of(product, planes)
    assert pooled is not None, "places that are cut are combined so"
    numbers, evaluation = blocking.entries, blocking.evaluation(pooled)
    return [Schedule(ProductVariant.WINDOWS, numbers, facts, steps / rate, (1.0, 1.0), evaluation)]


def _transformed(request: Request, product: Product) -> Schedule:
    """The schedule of a convolution whose filters lie transformed."""
    image = TiledImage.of(product)
    found = image and tile_blocking(request, product, image)
    if not image or not found:
        raise VerifyException("fusion.kernel contraction: no tile reads transformed filters")
    blocking, steps = found
    facts = request.facts(*FACTS, "lanes", RIGHT)
    seconds = steps / plain_rate(product, request.device)
    passes = (float(blocking.items(image, product.columns)[1] * SIDE), 1.0)
    return Schedule(ProductVariant.WINOGRAD, blocking.entries, facts, seconds, passes)


def _is_row_by_row(product: Product) -> bool:
    """Whether a row of a narrow right operand, which is short, is best walked alone: a processor
    fetches few short rows ahead at once.
    """
    right = product.node.operands[1]
    narrow = right.element.bytes < 4 or right.name != INPUT
    return narrow and product.rows == 1


def _has_operands(product: Product) -> bool:
    return all(operand.count for operand in product.node.operands)


def _refuse_statistics(request: Request) -> None:
    if request.body.of_kind(Kind.REDUCTION):
        raise VerifyException("fusion.kernel contraction: rows are reduced for it on a GPU only")


def _refuse_halves(product: Product) -> None:
    if product.halves > 1:
        raise VerifyException("fusion.kernel contraction: halves of so few rows meet nowhere")


def _makes_sums(product: Product) -> bool:
    """Whether a GPU adds up the products of each row, for a single column."""
    few = product.rows <= FEW_ROWS and product.right_runs_along_depth
    few = product.columns == 1 and (few or product.left_runs_along_depth)
    return few and product.depth > 1


def _matrix_schedules(request: Request, product: Product, unit: str) -> Schedules:
    pieces = in_pieces(product, unit)
    deep = pieces and fills_stages(product, unit)
    ways = (
        (IN_PIECES, pieces),
        (DEEP, deep),
        (WIDE, deep and held_element(unit).bytes == 2),
        (BY_GROUPS, by_groups(request)),
        (COPIED, by_groups(request) and copied_whole(request, product, unit)),
        (KEPT, pieces and may_keep_rows(request, product, unit)),
        (LINED, by_groups(request) and copied_in_lines(request, product, unit)),
    )
    tables = tuple([name for name, possible in ways if possible])
    device = request.device
    rows_reduced = product.pool is None and bool(request.body.of_kind(Kind.REDUCTION))
    computed = is_computed(product, unit) and not rows_reduced
    staged = staged_factor(request, product, unit) - 1.0
    found: list[Schedule] = []
    for seconds, tiling, resident in matrix_tilings(request, product, unit, tables):
        if not has_whole_lines(product, unit, tiling):
            continue
        tile = (tiling.tile_rows, tiling.tile_columns)
        waits = staged * seconds if staged * seconds > device.launch_cost else 0.0
        if computed:
            groups = prod(tile_passes(product, tile)) * prod(product.batch)
            rate = COMPUTED * device.matrix_rates[unit] / device.compute_units
            slow = 2.0 * prod(tile) * product.depth / rate
            waits = max(ceil_div(int(groups), device.compute_units) * slow - seconds, 0.0)
        copying = copying_seconds(request, product, tiling, resident, COPIED not in tables)
        latency = TILE_LATENCY + prod(tile) * NUMBER_WRITTEN
        seconds = latency + max(seconds + waits, copying)
        found.append(_tiles(request, product, ProductVariant.MATRIX, tiling, seconds))
    return sorted(found, key=lambda item: item.seconds)


def _tiles(
    request: Request,
    product: Product,
    variant: ProductVariant,
    tiling: Tiling | TensorTiling,
    seconds: float,
) -> Schedule:
    """A schedule of tiles, in strips of as many as divide those below one another."""
    down = ceil_div(product.rows, tiling.tile_rows)
    most = request.number("strip", STRIP)
    strip = max(count for count in range(1, most + 1) if down % count == 0)
    numbers = {**tiling.entries, "strip": strip}
    passes = tile_passes(product, (tiling.tile_rows, tiling.tile_columns))
    return Schedule(variant, numbers, request.facts(*FACTS, *UNIT_FACTS), seconds, passes)


def _few_rows(request: Request, product: Product, tiling: FewRowsTiling) -> Schedule:
    """Groups of which each has some columns, and all of the rows. A group waits for what it has
    asked memory for, before it asks for more. What is computed before the product is so for each
    column of a group, or vector of them.
    """
    across = ceil_div(product.columns, tiling.columns)
    groups, units = across * prod(product.batch), request.number("units", 1)
    idle = max(units / groups, 1.0)
    seconds = idle * useful_seconds(product, plain_rate(product, request.device))
    seconds = max(seconds, shared_seconds(product, request.device))
    waits = tiling.steps(product.depth) * (product.rows - 1) * ROW_WAIT * min(units / groups, 1.0)
    elements = product.rows * ceil_div(product.depth, tiling.shares)
    waits += functions_before(product) * elements * FUNCTION_WAIT
    reading = right_bytes(product) * READ_LATENCY / (tiling.bytes_at_once * groups)
    waits += max(reading - right_bytes(product) / request.device.bandwidth, 0.0)
    passes, facts = (float(across), 1.0), request.facts(*FACTS, "sub_group")
    each = float(tiling.own)
    return Schedule(
        ProductVariant.FEW_ROWS, tiling.entries, facts, seconds, passes, each, waits=waits
    )


def _dots(request: Request, product: Product, down: int, across: int) -> Schedule:
    """Tiles of dot products on a CPU, a power of two of them in all."""
    while across & (across - 1):
        across -= 1
    while down & (down - 1) and across == 1:
        down -= 1
    tiles = ceil_div(product.rows, down) * ceil_div(product.columns, across)
    tiles *= prod(product.batch)
    units = request.number("units", 2)
    staged = across > 1 and _is_left_staged(request, product)
    one_by_one = (
        across > 1 and _is_row_by_row(product) and (staged or product.left_runs_along_depth)
    )
    block = tiles // (STAGED_BLOCKS * units) if staged else min(8, tiles // (8 * units))
    numbers = {"tile_rows": down, "tile_columns": across, "block": max(1, block)}
    numbers |= {"one_by_one": 1} if one_by_one else {}
    numbers |= {"staged": 1} if staged else {}
    seconds = useful_seconds(product, plain_rate(product, request.device))
    seconds += shared_seconds(product, request.device)
    waits = waits_in_place(product, request.device)
    passes, facts = tile_passes(product, (product.rows, across)), request.facts(*FACTS)
    if staged:
        passes = (STAGING * ceil_div(tiles, max(1, block)), passes[1])
    return Schedule(ProductVariant.DOTS, numbers, facts, seconds, passes, waits=waits)


def _is_left_staged(request: Request, product: Product) -> bool:
    """Whether the rows of a left operand that is computed on the way are kept in local memory."""
    left = product.node.operands[0]
    if product.left_runs_along_depth or left.name == INPUT or prod(product.batch) > 1:
        return False
    along = not product.node.values["transpose_a"] or product.rows == 1
    whole = along and product.depth % request.number("lanes", 16) == 0
    return whole and left.count * left.element.bytes <= request.device.local_memory // 2


def _direct(request: Request, product: Product) -> Schedule:
    """Register tiles whose operands are read where they lie."""
    width = request.number("lanes", 16)
    while width > product.columns:
        width //= 2
    down = min(request.number("tile_rows", 8), product.rows)
    across = max(1, min(16 // down, product.columns // width))
    while across > 1 and product.columns < 4 * request.number("units", 2) * across * width:
        across //= 2
    numbers = {"width": width, "tile_rows": down, "tile_vectors": across}
    rate = plain_rate(product, request.device)
    seconds = useful_seconds(product, rate)
    if request.is_gpu:
        seconds = max(4.0 * seconds, product.depth * STEP_LATENCY)
    elif _has_operands(product):
        seconds += shared_seconds(product, request.device)
        if right_axis(product) == DEPTH:
            seconds += gathered_seconds(product, request.device)
    waits = waits_in_place(product, request.device)
    passes, facts = tile_passes(product, (down, across * width)), request.facts(*FACTS, "local")
    return Schedule(ProductVariant.DIRECT, numbers, facts, seconds, passes, waits=waits)
