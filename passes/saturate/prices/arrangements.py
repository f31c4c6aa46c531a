"""In which arrangements a kernel may come: as several kernels that together do what it does.

In: a legal body, its leaves, a `Device`. Out: `Arrangement`s, and by how much a kernel that stays
one is slower for it: where units would be idle.

    reduction     few long rows: parts of them first (split_reductions.py)
    contraction   few tiles and a long shared axis: parts of it first (split_products.py); operands
                  copied as a matrix unit takes them (copied_operands.py); on a CPU the right
                  operand packed into panels (prepack_products.py), filters transformed
                  (transformed_filters.py), and windows of few channels that are added up, in parts
                  of their images
    attention     on a GPU, few rows over many keys: parts of the keys first (split_attention.py)

They are what a device's templates can make use of; which one is taken is a matter of price.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.rows.order import RUN
from mgn.dialects.shapes import element_count
from mgn.dialects.types import element_of
from mgn.passes.arrangements.atomic_scatters import AtomicScatter
from mgn.passes.arrangements.channels_last import PASSED, ChannelsLast
from mgn.passes.arrangements.copied_operands import CopiedOperands
from mgn.passes.arrangements.kernel_pieces import Arrangement
from mgn.passes.arrangements.prepack_products import choose_panels
from mgn.passes.arrangements.prepack_weights import PackedWeights
from mgn.passes.arrangements.sorted_scatters import LEAST_IDS, SortedScatter
from mgn.passes.arrangements.split_attention import SplitAttention, choose_keys
from mgn.passes.arrangements.split_digits import SplitDigits, choose_digit_part
from mgn.passes.arrangements.split_products import SplitProduct, choose_parts
from mgn.passes.arrangements.split_reductions import (
    KEPT_ROWS,
    LEAST_ELEMENTS,
    Cut,
    SplitReduction,
    busy_from,
    choose_cut,
)
from mgn.passes.arrangements.split_scans import SplitScan, choose_part
from mgn.passes.arrangements.split_scatters import SplitScatter, choose_scatter_part
from mgn.passes.arrangements.transformed_filters import TransformedFilters
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.attention import AttentionSizes
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.rows import RowSpace, columns_side_by_side
from mgn.passes.kernels.summed_windows import summed_windows
from mgn.passes.kernels.window_planes import planes_of_columns
from mgn.passes.kernels.winograd import TiledImage
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import Facts, Form
from mgn.passes.saturate.prices.matrix_price import lying_rounded, unit_of
from mgn.passes.saturate.prices.scheduled import once_cut_alike, request_of
from mgn.passes.schedules.core.figures import BLOCK_DEPTH
from mgn.passes.schedules.core.packed_blocking import may_lie_in_panels
from mgn.passes.schedules.core.schedule import Request
from mgn.passes.schedules.product.operand_copies import ready_once_rounded, staged_operands
from mgn.passes.schedules.product.pixel_products import VECTORS, pixel_blocking
from mgn.passes.schedules.product.seconds import is_turned
from mgn.passes.schedules.product.winograd_products import tile_blocking
from mgn.passes.schedules.scatter import may_combine_in_place, run_part, sorted_part
from mgn.passes.schedules.scatter_buckets import adds_in_buckets, bucket_bits, bucket_part

Types = Mapping[int, TensorType]

ALONE = 3.4
"""How fast a group of a GPU reads long rows by itself, in the bandwidth that each compute unit has
where all read. Measured on an NVIDIA H200, two rows of three million.
"""

SHARES = 4
"""Work-items that each unit of a CPU should have of a product that adds windows up."""


ARRANGED = (
    KernelKind.REDUCTION,
    KernelKind.SCAN,
    KernelKind.SCATTER,
    KernelKind.ORDER,
    KernelKind.ATTENTION,
    KernelKind.CONTRACTION,
)
"""Kinds of kernels that may have arrangements."""


def arrangements_of(
    body: Sequence[BodyNode],
    form: Form,
    types: Types,
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts,
) -> list[Arrangement]:
    """The arrangements that a kernel of this body may have, besides being one kernel; `facts` are
    what it says as one.
    """
    if form.kind is KernelKind.REDUCTION:
        cut = reduction_cut(body, form, types, signatures, device)
        return [] if cut is None else [SplitReduction(form.shape, form.axes, cut)]
    if form.kind is KernelKind.SCAN:
        scan = next(signatures[node[1]] for node in body if node[0] == form.heavy)
        axis = scan.values["axis"]
        part = choose_part(scan.name, form.shape, axis, device)
        by_groups = not device.is_cpu and prod(form.shape[axis + 1 :]) == 1
        return [] if part is None else [SplitScan(part, by_groups)]
    if form.kind is KernelKind.SCATTER:
        scatter = next(signatures[node[1]] for node in body if node[0] == form.heavy)
        ids = scatter.operand_shapes[1][scatter.values["axis"]]
        sorts = scatter.name == "scatter_along" and ids >= LEAST_IDS and scatter.size > 0
        sorts = sorts and not scatter.values["sorted"]
        part = choose_digit_part(scatter.operand_shapes[1], scatter.values["axis"], device)
        if not sorts:
            return []
        alike = scatter.operand_shapes[1] == scatter.operand_shapes[2]
        carries = alike and not device.is_cpu and ids > RUN
        runs = None if device.is_cpu else sorted_part(ids) if carries else run_part(ids)
        found: list[Arrangement] = [SortedScatter(part, carries, runs)]
        src = element_of(scatter.operand_types[2])
        if carries and adds_in_buckets(src, scatter.values["combine"], device):
            bits = bucket_bits(scatter.shape[scatter.values["axis"]], ids, device)
            if bits is not None:
                found.append(SortedScatter(part, carries, bucket_part(ids), bits))
        if not device.is_cpu:
            axis, (_, given, src) = scatter.values["axis"], scatter.operand_types
            cut = choose_scatter_part(scatter.shape, axis, given.get_shape(), src, device)
            found += [] if cut is None else [SplitScatter(cut)]
            how = element_of(src), scatter.values["combine"], scatter.size
            if body[-1][0] == form.heavy and may_combine_in_place(*how):
                found.append(AtomicScatter())
        return found
    if form.kind is KernelKind.ORDER:
        order = next(signatures[node[1]] for node in body if node[0] == form.heavy)
        if order.name != "sort_digits":
            return []
        part = choose_digit_part(order.shape, order.values["axis"], device)
        return [] if part is None else [SplitDigits(part)]
    if form.kind is KernelKind.ATTENTION and not device.is_cpu:
        sizes = AttentionSizes.of_body(
            request_of(body, form, types, signatures, device, facts).body
        )
        each = None if sizes.in_parts else choose_keys(sizes, device)
        return [] if each is None else [SplitAttention(each)]
    if form.kind is not KernelKind.CONTRACTION or form.reduced:
        return []
    number, operands = next(node[1:] for node in body if node[0] == form.heavy)
    product = signatures[number]
    if min(map(len, product.operand_shapes)) < 2 or 0 in product.operand_sizes:
        return []
    if device.is_cpu and form.halved:
        return []
    if device.is_cpu:
        left, right = (
            operand in types or _views(operand, body, types, signatures) for operand in operands
        )
        sums = product.values["transpose_b"] and _has_windows(body, signatures)

        def arranged(request: Request) -> list[Arrangement]:
            sizes = Product.of_body(request.body)
            found = _parts(sizes, request) if sums and not sizes.pool else []
            if right:
                found += [*_packed(sizes, request), *_transformed(sizes, request)]
            return found + (_packed_weights(sizes, request) if left else [])

        if not left and not right and not sums:
            return []
        return once_cut_alike("arranged", arranged, body, form, types, signatures, device, facts)
    request = request_of(body, form, types, signatures, device, facts)
    sizes = Product.of_body(request.body).grouped
    found, unit = list[Arrangement](), unit_of(facts)
    parts = 1
    if not form.pooled:
        parts = once_cut_alike("parts", choose_parts, body, form, types, signatures, device, facts)
    if parts > 1:
        found.append(SplitProduct(parts))
    if _reads_windows(body, form, signatures) and not form.pooled:
        if unit is None or device.matrix_unit == "wgmma":
            found.append(ChannelsLast(unit))
        return found
    if unit is not None and device.matrix_unit == "wgmma":
        ready = ready_once_rounded(sizes, unit)
        lying = tuple(n for n in ready if n in lying_rounded(body, form, signatures))
        copied = tuple(n for n in staged_operands(request, sizes, unit) if n not in lying)
        if copied or lying:
            rounded = tuple(n for n in ready if n not in lying)
            found.append(CopiedOperands(copied, unit, rounded, lying))
    return found


def _has_windows(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> bool:
    return any(signatures[number].name == "windows" for _, number, _ in body)


def _parts(product: Product, request: Request) -> list[Arrangement]:
    """A product that adds windows up over all places, in parts of its images: where it has fewer
    channels than would give each unit work.
    """
    windows = summed_windows(product)
    if windows is None or product.batch:
        return []
    own = ceil_div(product.rows, request.number("lanes", 16)) * windows.channels
    wanted = ceil_div(SHARES * request.device.compute_units, own)
    parts = next(n for n in range(1, windows.images + 1)
                 if windows.images % n == 0 and n >= min(wanted, windows.images))  # fmt: skip
    return [SplitProduct(parts)] if parts > 1 else []


def _reads_windows(body: Sequence[BodyNode], form: Form, signatures: Sequence[Signature]) -> bool:
    """Whether the right operand of a product is windows of an image."""
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    assert form.heavy is not None
    product, operands = nodes[form.heavy]
    if product.values["transpose_a"] or product.values["transpose_b"]:
        return False
    name = operands[1]
    while name in nodes and nodes[name][0].name in PASSED:
        name = nodes[name][1][0]
    return name in nodes and nodes[name][0].name == "windows"


def reduction_cut(
    body: Sequence[BodyNode],
    form: Form,
    types: Types,
    signatures: Sequence[Signature],
    device: Device,
) -> Cut | None:
    """How the rows of a reduction may be cut; the parts of a scaled product have no type."""
    if prod(form.shape) < LEAST_ELEMENTS:
        return None
    for _, number, _ in body:
        if signatures[number].name == "prod" and element_of(signatures[number].type).is_float:
            return None
    space = RowSpace(form.shape, form.axes)
    workers, enough = busy_from(space, device)
    if workers >= enough:
        return None
    return choose_cut(space, device, _stages(body, signatures), _columns(types, space))


def _columns(types: Types, space: RowSpace) -> int:
    """How few columns a group of a GPU may have."""
    inputs = [(element_count(t.get_shape()), element_of(t).bytes) for t in types.values()]
    return columns_side_by_side(space, inputs)


@dataclass(frozen=True)
class LongRows:
    """What few long rows cost a reduction that stays one kernel: how much longer it takes than with
    rows enough for the device, and how often it reads them.
    """

    idle: float
    passes: int


def long_rows(
    body: Sequence[BodyNode],
    form: Form,
    types: Types,
    signatures: Sequence[Signature],
    device: Device,
    writes_all: bool,
) -> LongRows | None:
    """What it costs a reduction not to be cut, where it may be; `writes_all` says that it writes a
    value for each element.
    """
    if reduction_cut(body, form, types, signatures, device) is None:
        return None
    space, passes = RowSpace(form.shape, form.axes), _stages(body, signatures) + writes_all
    if device.is_cpu:
        workers, units = max(busy_from(space, device)[0], 1), device.compute_units
        return LongRows(-(-workers // units) * units / workers, passes)
    rows = _columns(types, space) if space.innermost_is_kept else 1
    return LongRows(max(device.compute_units * rows / (ALONE * space.rows), 1.0), passes)


def walks_columns_again(form: Form, device: Device) -> bool:
    """Whether a reduction down columns walks these once more for what it writes of each element, as
    it keeps nothing of them, or they are longer than what a GPU's group keeps.
    """
    space = RowSpace(form.shape, form.axes)
    return space.innermost_is_kept and (device.is_cpu or space.length > KEPT_ROWS)


def _stages(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> int:
    """The longest chain of reductions, one from another."""
    level: dict[int, int] = {}
    for name, number, operands in body:
        below = max([level.get(operand, 0) for operand in operands], default=0)
        level[name] = below + (signatures[number].kind is Kind.REDUCTION)
    return max(level.values())


def _packed(product: Product, request: Request) -> list[Arrangement]:
    """The right operand in panels: a matrix in memory, of a type whose sums are its own."""
    right = product.node.operands[1]
    if not may_lie_in_panels(right):
        return []
    across = request.number("tile_vectors", 1) * request.number("lanes", 1)
    rows = product.rows * prod(product.batch)
    panels = choose_panels(rows, product.columns, product.depth, BLOCK_DEPTH, across)
    return [] if panels is None else [panels]


def _transformed(product: Product, request: Request) -> list[Arrangement]:
    """The right operand transformed: filters, whose windows slide over images that lie with their
    channels last.
    """
    image = None if product.pool else TiledImage.of(product)
    if image is None or is_turned(image.source) or len(product.node.operands[1].shape) != 2:
        return []
    found = tile_blocking(request, product, image)
    return [] if found is None else [TransformedFilters(found[0].columns)]


def _views(
    name: int, body: Sequence[BodyNode], types: Types, signatures: Sequence[Signature]
) -> bool:
    """Whether a value of a body is what lies in memory, in another shape."""
    return any(
        item == name and signatures[number].name == "reshape" and operands[0] in types
        for item, number, operands in body
    )


def _packed_weights(product: Product, request: Request) -> list[Arrangement]:
    """The left operand in panels: a matrix in memory, whose panels are read for a few places at
    a time.
    """
    left, across = product.node.operands[0], VECTORS * request.number("lanes", 1)
    planes = planes_of_columns(product)
    if planes is None or len(left.shape) != 2 or product.rows % across:
        return []
    return [] if pixel_blocking(request, product, planes) is None else [PackedWeights(across)]
