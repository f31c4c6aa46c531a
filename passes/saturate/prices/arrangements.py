"""In which arrangements a kernel may come: as several kernels that together do what it does.

In: a legal body, its leaves, a `Device`. Out: `Arrangement`s, and by how much a kernel that stays
one is slower for it: where units would be idle, or a matrix unit's operands pass through registers.

    reduction     few long rows: parts of them first (split_reductions.py)
    contraction   few tiles and a long shared axis: parts of it first (split_products.py); operands
                  copied as a matrix unit takes them (copied_operands.py); on a CPU the right
                  operand packed into panels (prepack_products.py)
    attention     on a GPU, few rows over many keys: parts of the keys first (split_attention.py)

They are what a device's templates can make use of; which one is taken is a matter of price.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import ATTENTION_PARTS, MOVED
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.shapes import element_count
from mgn.dialects.types import element_of
from mgn.passes.arrangements.copied_operands import FLAGS, CopiedOperands, chunk_of
from mgn.passes.arrangements.kernel_pieces import Arrangement
from mgn.passes.arrangements.prepack_products import choose_panels
from mgn.passes.arrangements.split_attention import SplitAttention
from mgn.passes.arrangements.split_products import SplitProduct, choose_parts
from mgn.passes.arrangements.split_reductions import (
    LEAST_ELEMENTS,
    Cut,
    SplitReduction,
    busy_from,
    choose_cut,
)
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import dividing_lanes
from mgn.passes.kernels.rows import RowSpace, columns_side_by_side
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.attention_price import keys_of_a_part
from mgn.passes.saturate.prices.forms import BodyNode, Facts, Form
from mgn.passes.saturate.prices.matrix_price import ROUNDINGS, unit_of
from mgn.passes.saturate.prices.product_price import FEW_ROWS, product_shape
from mgn.passes.schedules.figures import BLOCK_DEPTH, ROUNDED, tile_columns
from mgn.passes.schedules.matrix_tiles import CHUNK_BYTES

STAGED = {16: 1.4, 8: 1.5, 4: 3.0, 2: 5.0}
"""Bytes of an operand that lie together → the time of a product whose operands pass through
registers, in the time of one whose operands do not.
"""

Types = Mapping[int, TensorType]
Nodes = Mapping[int, tuple[Signature, tuple[int, ...]]]


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
    if form.kind is KernelKind.ATTENTION and not device.is_cpu:
        attention = next(signatures[node[1]] for node in body if node[0] == form.heavy)
        each = keys_of_a_part(attention, device) if attention.name != ATTENTION_PARTS else None
        return [] if each is None else [SplitAttention(each)]
    if form.kind is not KernelKind.CONTRACTION or form.reduced:
        return []
    number, operands = next(node[1:] for node in body if node[0] == form.heavy)
    product = signatures[number]
    if min(map(len, product.operand_shapes)) < 2:
        return []
    if device.is_cpu and form.halved:
        return []
    if device.is_cpu:
        return _packed(product, operands, body, signatures, types, device)
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    found: list[Arrangement] = []
    parts = product_parts(product, device)
    if parts > 1:
        found.append(SplitProduct(parts))
    unit = unit_of(facts)
    if unit is not None and device.matrix_unit == "wgmma":
        lying = _lying(product, operands, nodes, types, unit, facts)
        copied = tuple(number for number, item in lying.items() if not item.direct)
        if copied:
            found.append(CopiedOperands(copied, unit))
    return found


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
    inputs = [(element_count(t.get_shape()), element_of(t).bytes) for t in types.values()]
    columns = columns_side_by_side(space, inputs)
    return choose_cut(space, device, _stages(body, signatures), columns)


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
    workers, enough = busy_from(RowSpace(form.shape, form.axes), device)
    return LongRows(enough / max(workers, 1), _stages(body, signatures) + writes_all)


def _stages(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> int:
    """The longest chain of reductions, one from another."""
    level: dict[int, int] = {}
    for name, number, operands in body:
        below = max((level.get(operand, 0) for operand in operands), default=0)
        level[name] = below + (signatures[number].kind is Kind.REDUCTION)
    return max(level.values())


def product_parts(product: Signature, device: Device) -> int:
    """Into how many parts the shared axis of a product on a GPU may be cut; 1 for none."""
    if min(map(len, product.operand_shapes)) < 2:
        return 1
    return choose_parts(*product_shape(product), device)


def _packed(
    product: Signature,
    operands: tuple[int, ...],
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
    types: Types,
    device: Device,
) -> list[Arrangement]:
    """The right operand in panels: a matrix in memory, of a type whose sums are its own."""
    batches, rows, columns, depth = product_shape(product)
    if rows <= FEW_ROWS or operands[1] not in types:
        return []
    element = element_of(product.operand_types[1])
    if len(product.operand_shapes[1]) != 2 or accumulator(element) is not element:
        return []
    computed = [signatures[number] for number in {node[1] for node in body}]
    met = {type for item in computed for type in (item.type, *item.operand_types)}
    widest = max(4, *(element_of(type).bytes for type in met))
    across = tile_columns(widest, device)
    panels = choose_panels(rows * batches, columns, depth, BLOCK_DEPTH, across)
    return [] if panels is None else [panels]


@dataclass(frozen=True)
class _Lying:
    """How an operand lies: how many of its bytes lie together, and whether a matrix unit can have
    it past the registers.
    """

    together: int
    direct: bool


def staged_factor(
    product: Signature,
    operands: tuple[int, ...],
    nodes: Nodes,
    types: Types,
    unit: str,
    facts: Facts,
) -> float:
    """How much longer a product on a unit takes than one whose operands lie as it takes them."""
    lying = _lying(product, operands, nodes, types, unit, facts).values()
    return max((STAGED[item.together] for item in lying if not item.direct), default=1.0)


def _lying(
    product: Signature,
    operands: tuple[int, ...],
    nodes: Nodes,
    types: Types,
    unit: str,
    facts: Facts,
) -> dict[int, _Lying]:
    """How both operands lie; whole chunks of the shared axis are asked of each."""
    depth = product.operand_shapes[0][-2 if product.values[FLAGS[0]] else -1]
    whole = depth % chunk_of(unit) == 0
    found: dict[int, _Lying] = {}
    for number, name in enumerate(operands):
        read = _moved(name, nodes, ROUNDINGS)
        source = _moved(name, nodes, MOVED | ROUNDINGS)
        turned = bool(product.values[FLAGS[number]]) != (number == 1)
        if unit == "tf32":
            stored = (ROUNDED, 1) in facts and source in types and not turned
        else:
            stored = source in types and element_of(types[source]).name == unit
        together = CHUNK_BYTES
        if source == read:
            shape = types[read].get_shape() if read in types else nodes[read][0].shape
            numbers = dividing_lanes(shape[-1], chunk_of(unit)) if shape else 1
            together = CHUNK_BYTES // chunk_of(unit) * numbers
        found[number] = _Lying(together, whole and stored and together == CHUNK_BYTES)
    return found


def _moved(name: int, nodes: Nodes, names: frozenset[str]) -> int:
    """What a value was before operations of certain names."""
    while name in nodes and nodes[name][0].name in names:
        name = nodes[name][1][0]
    return name
