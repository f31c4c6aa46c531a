"""Whether a kernel's product may run on the matrix unit, and at which rate.

In: a legal body, its leaves, a `Device`. Out: what the unit multiplies and operations per second,
or None where the operands are not rounded to that, or the device has no such unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType

from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel_forms import HELD_WHOLE
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import element_of
from mgn.passes.saturate.forms import BodyNode
from mgn.passes.saturate.view import Signature

COMPUTED = 0.06
"""The share of its rate that the unit reaches on operands that are computed before the product; of
norms, whose price says so, it is not.
"""

FEWEST_ROWS = 3
"""Products of fewer rows are bound by memory and run without the unit."""

ATTENDED, ATTENDED_ROWS = ("bf16", "f16", "tf32"), 8
"""What the unit may take attention's weights as, and from how many rows on it does."""

ROUNDINGS = frozenset({"round_tf32", "cast"})
"""Operations that the unit's kernels do on the way for nothing."""

_MOVED = frozenset({"reshape", "transpose", "slice", "broadcast_to"})
HALVES = ("bf16", "f16")


@dataclass(frozen=True)
class MatrixUse:
    """What a matrix unit multiplies operands as, at which rate; and whether they are computed
    before the product.
    """

    element: str
    rate: float
    computed: bool = False


def matrix_use(
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
    leaf_types: Mapping[int, TensorType],
    device: Device,
) -> MatrixUse | None:
    """How the one product, or attention, of a body uses the device's matrix unit."""
    if not device.matrix_rates:
        return None
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    for signature, operands in nodes.values():
        if signature.name in HELD_WHOLE["attention"]:
            return _attention_use(signature, operands[:3], nodes, leaf_types, device)
        if signature.kind is not Kind.CONTRACTION:
            continue
        if len(signature.shape) < 2 or signature.shape[-2] < FEWEST_ROWS:
            return None
        found = {_rounded(operand, nodes, leaf_types) for operand in operands}
        name = found.pop() if len(found) == 1 else None
        if name is None or name not in device.matrix_rates:
            return None
        computed = any(_is_computed(operand, nodes, leaf_types) for operand in operands)
        slowed = computed and not any(item.kind is Kind.REDUCTION for item, _ in nodes.values())
        rate = device.matrix_rates[name] * (COMPUTED if slowed else 1.0)
        return MatrixUse(name, rate, computed)
    return None


def _attention_use(
    signature: Signature,
    operands: Sequence[int],
    nodes: "_Nodes",
    leaf_types: Mapping[int, TensorType],
    device: Device,
) -> MatrixUse | None:
    """The same for an attention; None where its template does without the unit."""
    values = signature.values
    rows = signature.operand_shapes[0][-2] * values["heads"] // values["kv_heads"]
    names = {_rounded(operand, nodes, leaf_types) for operand in operands}
    name = names.pop() if len(names) == 1 else None
    if name is None or name not in ATTENDED or rows < ATTENDED_ROWS:
        return None
    if not all(_lies_ready(operand, name, nodes, leaf_types) for operand in operands[1:]):
        return None
    return MatrixUse(name, device.matrix_rates[name]) if name in device.matrix_rates else None


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


_Nodes = Mapping[int, tuple[Signature, tuple[int, ...]]]


def _rounded(name: int, nodes: _Nodes, leaf_types: Mapping[int, TensorType]) -> str | None:
    """What a value is known to be rounded to."""
    if name not in nodes:
        element = element_of(leaf_types[name]).name if name in leaf_types else ""
        return element if element in HALVES else None
    signature, operands = nodes[name]
    if signature.element in HALVES:
        return signature.element
    if signature.name == "round_tf32":
        return "tf32"
    if signature.name == "cast":
        source = element_of(signature.operand_types[0]).name
        return source if source in HALVES else None
    return _rounded(operands[0], nodes, leaf_types) if signature.name in _MOVED else None


def _lies_ready(name: int, unit: str, nodes: _Nodes, leaf_types: Mapping[int, TensorType]) -> bool:
    """Whether a rounded value lies in memory as the unit multiplies it, but for movement."""
    if _is_computed(name, nodes, leaf_types):
        return False
    while name in nodes:
        name = nodes[name][1][0]
    stored = "f32" if unit == "tf32" else unit
    return name in leaf_types and element_of(leaf_types[name]).name == stored


def _is_computed(name: int, nodes: _Nodes, leaf_types: Mapping[int, TensorType]) -> bool:
    """Whether a rounded value differs from what lies in memory by more than movement."""
    while name in nodes:
        signature, operands = nodes[name]
        narrows = signature.name == "cast" and signature.element in HALVES
        if narrows or signature.name not in _MOVED | ROUNDINGS:
            return True
        name = operands[0]
    return False
