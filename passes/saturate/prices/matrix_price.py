"""Whether a kernel's product is to run on the matrix unit.

In: a legal body, its leaves, a `Device`. Out: what a kernel of it says of the unit, nothing where
the operands are not rounded to what the device's unit multiplies. What it says is part of the
candidate and of the kernel that is made of it: the price and the schedule know it from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import HALVES, MOVED, keeps_rounding, rounded_by
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import Facts, Form
from mgn.passes.schedules.attention.gradient_matrix import UNITS as GRADIENT_UNITS
from mgn.passes.schedules.attention.matrix import least_room
from mgn.passes.schedules.core.figures import MATRIX, large_local_memory

FEWEST_ROWS = 3
"""Products of fewer rows are bound by memory and run without the unit."""

ATTENDED_ROWS = 8
"""From how many rows on an attention is worth the unit's while, which multiplies 16."""

COMPUTED_KEYS = 256
"""Up to how many keys an attention on the unit may compute for each tile of rows: its sub-groups
share a tile of all of them.
"""

GRADIENT_OPERANDS = {2: 2, 6: 4}
"""The operands of an operation of attention's gradient without a bias → how many are multiplied."""

ROUNDINGS = frozenset({"round_tf32", "cast"})
"""Operations that the unit's kernels do on the way for nothing."""

_Nodes = Mapping[int, tuple[Signature, tuple[int, ...]]]
_Types = Mapping[int, TensorType]


@dataclass(frozen=True)
class MatrixUse:
    """What a matrix unit multiplies operands as, and whether they are computed on the way."""

    element: str
    computed: bool


def unit_of(facts: Facts) -> str | None:
    """What a kernel says that a matrix unit multiplies; None where it does without."""
    return next((str(value) for name, value in facts if name == MATRIX), None)


def unit_facts(
    body: Sequence[BodyNode],
    form: Form,
    leaf_types: _Types,
    signatures: Sequence[Signature],
    device: Device,
) -> Facts:
    """What a kernel of a body says of the device's matrix unit: the type to which the operands of
    its product or attention are rounded. Nothing where they are not rounded, where heads are too
    large for the unit, or where it would not pay.
    """
    if form.heavy is None or not device.matrix_rates:
        return ()
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    signature, operands = nodes[form.heavy]
    if form.kind is KernelKind.ATTENTION:
        name = _attended(signature, operands[:3], nodes, leaf_types, device)
    elif form.kind is KernelKind.CONTRACTION:
        name = _multiplied(signature, operands, nodes, leaf_types, device)
    elif form.kind is KernelKind.ATTENTION_GRADIENT:
        name = _attended_back(signature, operands, nodes, leaf_types, device)
    else:
        return ()
    return ((MATRIX, name),) if name in device.matrix_rates else ()


def _multiplied(
    signature: Signature,
    operands: Sequence[int],
    nodes: _Nodes,
    leaf_types: _Types,
    device: Device,
) -> str | None:
    """What both operands of a product of rows enough are rounded to; None where a unit without
    groups would have to take numbers of two bytes one by one.
    """
    if len(signature.shape) < 2 or signature.shape[-2] < FEWEST_ROWS:
        return None
    name = _rounded_alike(signature, operands, nodes, leaf_types)
    if name in HALVES and device.matrix_unit != "wgmma":
        return None if any(shape[-1] % 2 for shape in signature.operand_shapes) else name
    return name


def _rounded_alike(
    signature: Signature, operands: Sequence[int], nodes: _Nodes, leaf_types: _Types
) -> str | None:
    """What all those of an operation's first operands are rounded to; None where that differs."""
    names = {
        _rounded(operand, nodes, leaf_types) or ("tf32" if place in signature.rounded else None)
        for place, operand in enumerate(operands)
    }
    return names.pop() if len(names) == 1 else None


def _attended(
    signature: Signature,
    operands: Sequence[int],
    nodes: _Nodes,
    leaf_types: _Types,
    device: Device,
) -> str | None:
    """The same of an attention; None where its template would do without the unit."""
    values = signature.values
    rows = signature.operand_shapes[0][-2] * values["heads"] // values["kv_heads"]
    name = _rounded_alike(signature, operands, nodes, leaf_types)
    if name is None or rows < ATTENDED_ROWS:
        return None
    depth = signature.operand_shapes[0][-1] // values["heads"]
    width = signature.operand_shapes[2][-1] // values["kv_heads"]
    if least_room(depth, width, name) > large_local_memory(device):
        return None
    few = signature.operand_shapes[1][-2] <= COMPUTED_KEYS
    ready = all(_lies_ready(operand, name, nodes, leaf_types) for operand in operands[1:])
    return name if few or ready else None


def _attended_back(
    signature: Signature,
    operands: Sequence[int],
    nodes: _Nodes,
    leaf_types: _Types,
    device: Device,
) -> str | None:
    """The same of a gradient of queries, or of keys and values."""
    count = GRADIENT_OPERANDS.get(len(operands))
    if count is None or signature.operand_shapes[0][-2] < ATTENDED_ROWS:
        return None
    multiplied = operands[:count]
    name = _rounded_alike(signature, multiplied, nodes, leaf_types)
    if name not in GRADIENT_UNITS:
        return None
    values = signature.values
    depth = signature.operand_shapes[0][-1] // values["heads"]
    width = signature.operand_shapes[count // 2][-1] // values["kv_heads"]
    if least_room(depth, width, name) > large_local_memory(device):
        return None
    ready = all(_lies_ready(operand, name, nodes, leaf_types) for operand in multiplied)
    return name if ready else None


def lying_rounded(
    body: Sequence[BodyNode], form: Form, signatures: Sequence[Signature]
) -> list[int]:
    """The operands of a heavy operation that are known to be rounded to tf32 where they lie in
    memory.
    """
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    assert form.heavy is not None
    heavy, operands = nodes[form.heavy]
    found = list[int]()
    for place in heavy.rounded:
        name = operands[place]
        while name in nodes and keeps_rounding(nodes[name][0].name, nodes[name][0].values):
            name = nodes[name][1][0]
        if name not in nodes:
            found.append(place)
    return found


def matrix_use(
    facts: Facts,
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
    leaf_types: _Types,
) -> MatrixUse | None:
    """How a kernel that names a matrix unit uses it; None where it names none."""
    unit = unit_of(facts)
    if unit is None:
        return None
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    multiplied = [node[1] for node in nodes.values() if node[0].kind is Kind.CONTRACTION]
    computed = any(_is_computed(item, nodes, leaf_types) for pair in multiplied for item in pair)
    return MatrixUse(unit, computed)


def unit_reads(signature: Signature, device: Device) -> bool:
    """Whether an operation widens what the device's matrix unit multiplies as it is."""
    if signature.name != "cast" or not device.matrix_rates:
        return False
    return element_of(signature.operand_types[0]).name in device.matrix_rates


def shows_rounding(signature: Signature, device: Device) -> bool:
    """Whether an operation tells the device's matrix unit that its operand is rounded."""
    if signature.name == "round_tf32":
        return "tf32" in device.matrix_rates
    return unit_reads(signature, device)


def _rounded(name: int, nodes: _Nodes, leaf_types: _Types) -> str | None:
    """What a value is known to be rounded to."""
    if name not in nodes:
        element = element_of(leaf_types[name]).name if name in leaf_types else ""
        return element if element in HALVES else None
    signature, operands = nodes[name]
    source = element_of(signature.operand_types[0]).name if operands else ""
    rounded = rounded_by(signature.name, signature.element, source)
    if rounded is None and keeps_rounding(signature.name, signature.values):
        return _rounded(operands[0], nodes, leaf_types)
    return rounded


def _lies_ready(name: int, unit: str, nodes: _Nodes, leaf_types: _Types) -> bool:
    """Whether a rounded value lies in memory as the unit multiplies it, but for movement."""
    if _is_computed(name, nodes, leaf_types):
        return False
    while name in nodes:
        name = nodes[name][1][0]
    stored = "f32" if unit == "tf32" else unit
    return name in leaf_types and element_of(leaf_types[name]).name == stored


def _is_computed(name: int, nodes: _Nodes, leaf_types: _Types) -> bool:
    """Whether a rounded value differs from what lies in memory by more than movement."""
    while name in nodes:
        signature, operands = nodes[name]
        narrows = signature.name == "cast" and signature.element in HALVES
        if narrows or signature.name not in MOVED | ROUNDINGS:
            return True
        name = operands[0]
    return False
