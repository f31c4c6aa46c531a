"""What it takes to read through windows that slide along axes, and through slices with steps.

In: the signature of a `windows` or a `slice`, a device. Out: multiply-adds in whose time an element
is found.

A vector of a CPU reads neighbours where the windows have enough places along the innermost axis.
Where it goes on in the next row, each lane reads for itself. The shorter rows are, the more often
it does so. Both were measured on an AMD EPYC (AVX-512), 3 × 3 windows in padding.
"""

from collections.abc import Mapping, Sequence
from math import gcd, prod

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import element_of
from mgn.passes.kernels.rows import row_space
from mgn.passes.kernels.sliding_windows import sliding_windows
from mgn.passes.kernels.window_planes import planes_of_reduction
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import Facts, Form
from mgn.passes.saturate.prices.scheduled import body_of
from mgn.passes.schedules.core.figures import RIGHT
from mgn.passes.schedules.core.packed_blocking import TRANSFORMED

IN_LINE, BEYOND, STRIDED = 24.0, 160.0, 96.0
"""Of an element of a vector in one row, of one that goes on in the next, and of one in a row whose
neighbours are apart.
"""

OUTER, OUTER_PACKED = 24.0, 1.0
"""Of an element in a vector of channels, of an image that has them last; and of one that a product
packs, besides that.
"""

OUTER_APART, OUTER_IN_ONE_SET = 80.0, 400.0
"""The first number is for an element in a vector of channels whose image has channels first in
memory, so that each element is found by itself. The second is for channels whose planes begin whole
pages of 4 KiB apart: the first cache has one set for all of them. Measured on an AMD EPYC
(AVX-512), 3 × 3 windows, 32 to 128 channels of 127 × 127 to 256 × 256.
"""

PAGE = 4096

AS_THEY_STAND = 600.0
"""Of an element of windows that a CPU writes with the axes of their elements innermost: each is
found by itself.
"""

APART = 40.0
"""Of an element of a vector that a slice, or a copy of a plane, takes from elements that are not
neighbours.
"""

ON_GPU = 4.0
"""The same for a work-item of a GPU, whose whole numbers are for the most part computed once."""

BELOW = 12.0
"""How much longer it takes to compute what windows read than to compute it by itself: in the middle
of tests, for parts of vectors.
"""


IN_PLANES = 0.6
"""Of an element of a window that is read from a copy of its plane, or from a register."""


def windows_in_planes(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> int | None:
    """The windows of a reduction that a CPU's template reads from copies of planes, or a GPU's
    keeps in registers, if any.
    """
    if form.kind is not KernelKind.REDUCTION:
        return None
    names = [name for name, number, _ in body if signatures[number].name == "windows"]
    if len(names) != 1:
        return None
    met = {item for _, _, operands in body for item in operands}
    read = {name: type for name, type in leaf_types.items() if name in met}
    found = body_of(body, results, read, signatures)
    walk = planes_of_reduction if device.is_cpu else sliding_windows
    return names[0] if walk(found, row_space(found)) is not None else None


def read_apart(body: Sequence[BodyNode], windows: int, signatures: Sequence[Signature]) -> int:
    """The elements below windows that are copied with their planes and lie apart in memory: those
    of a transpose that has other neighbours.
    """
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    found, pending, seen = 0, list(nodes[windows][1]), set[int]()
    while pending:
        name = pending.pop()
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        signature, operands = nodes[name]
        pending.extend(operands)
        if signature.name == "transpose":
            last = signature.values["perm"][-1]
            apart = last != len(signature.shape) - 1 and signature.shape[-1] > 1
            found += signature.size if apart else 0
    return found


def recovered_values(body: Sequence[BodyNode], form: Form, facts: Facts) -> set[int]:
    """The values that a body finds again in transformed filters, which its template reads as they
    lie.
    """
    if (RIGHT, TRANSFORMED) not in facts:
        return set()
    nodes = {name: operands for name, _, operands in body}
    assert form.heavy is not None
    found, pending = set[int](), [nodes[form.heavy][1]]
    while pending:
        name = pending.pop()
        if name in nodes and name not in found:
            found.add(name)
            pending.extend(nodes[name])
    return found


def window_weight(signature: Signature, device: Device) -> float:
    """The weight of a `windows`, or of a `slice`, as that of an elementwise operation."""
    if signature.name == "slice":
        apart = device.is_cpu and max(signature.values["steps"][-1:], default=1) > 1
        return APART if apart else 0.0
    if not device.is_cpu:
        return ON_GPU
    axes = len(signature.values["sizes"])
    rows = signature.shape[-axes - 1]
    line = IN_LINE if signature.values["strides"][-1] == 1 else STRIDED
    lanes = max(device.vector_bits // 32, 1)
    if rows < lanes:
        return BEYOND
    crossing = min((lanes - gcd(rows, lanes)) / rows, 1.0)
    return line + (BEYOND - line) * crossing


def outer_weight(
    body: Sequence[BodyNode],
    windows: int,
    reader: Signature,
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    packed: bool,
) -> float | None:
    """The weight of `windows` that a transpose reads in whole vectors along an axis of neither
    places nor elements, on a CPU, to be packed or not; None for other readers.
    """
    if reader.name != "transpose" or not device.is_cpu:
        return None
    nodes = {name: (signatures[number], operands) for name, number, operands in body}
    found, _ = nodes[windows]
    axis = reader.values["perm"][-1]
    outer = len(found.shape) - 2 * len(found.values["sizes"])
    if axis >= outer or found.shape[axis] % device.lanes(4):
        return None
    apart = _bytes_apart(nodes, windows, axis, leaf_types)
    if apart is None:
        return OUTER_PACKED if packed else OUTER
    return OUTER_APART if apart % PAGE else OUTER_IN_ONE_SET


def _bytes_apart(
    nodes: Mapping[int, tuple[Signature, Sequence[int]]],
    name: int,
    axis: int,
    leaf_types: Mapping[int, TensorType],
) -> int | None:
    """How far neighbours along an axis are from each other in the memory that a value is read from;
    None where they lie side by side, or where that is not known.
    """
    while name in nodes:
        signature, operands = nodes[name]
        if signature.name == "transpose":
            axis = signature.values["perm"][axis]
        elif signature.name not in ("windows", "pad") and signature.kind is not Kind.ELEMENTWISE:
            return None
        largest = max(range(len(operands)), key=signature.operand_sizes.__getitem__)
        name = operands[largest]
    type = leaf_types[name]
    step = prod(type.get_shape()[axis + 1 :])
    return step * element_of(type).bytes if step > 1 else None
