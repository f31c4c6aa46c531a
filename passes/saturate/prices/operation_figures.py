"""What an operation takes of a device in any kernel.

In: a `Signature`, a `Device`. Out: its `Figures`, worked out once for each device: seconds for an
element, how often each operand is asked for one, and how badly it is read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import HALVES
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.element_cost import BY_TANH, ELEMENT_COST, FUNCTION
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.windows import window_weight

STRIDED_READ = 2.0
CPU_STRIDED_READ, CPU_RUN = 4.0, 32.0
"""How much more an element costs that is read alone, away from its neighbours; on a CPU where it is
not packed with others for a product, and how many in a row are read half as badly.
"""

TILED_READ = 1.1
"""The same in a pointwise kernel of a GPU, whose groups turn tiles in local memory."""

BISECTED = 8.0
"""Simple operations that a turn of a bisection takes."""

COMPARED, COMPARING = frozenset({"max_reduce", "min_reduce", "argmax", "argmin"}), 6.0
"""Reductions that look for the largest, and the multiply-adds in whose time a CPU does so with an
element: NaN is the largest. Measured on an AMD EPYC (AVX-512), rows of 64 to 768.
"""

WIDENED_ALONE = 4.0
"""The same for a number of two bytes that is read by itself on a CPU, for all lanes of a vector."""

WIDENED_BYTE = 2.0
"""Simple operations that it takes to make an integer of a byte a float: it is widened, then
converted.
"""

APART = ("concat", "pad", PICK)
"""Operations that ask some operands for fewer elements than others."""

INDEX = 1e-3
"""What an index counts that movement computes for an element, in simple operations: less than any
price is sure to, so that it decides where nothing else does.
"""


@dataclass(frozen=True)
class Figures:
    """What an operation takes of a device in any kernel.

    `element` is seconds for an element, `function` whether the next ones wait for it; `steps` is
    seconds for all of a reduction. `demands` is how often each operand is asked for an element,
    where the kernel does not matter; `alike` says whether all are asked as often as the operation
    itself. `operands` has elements and bytes of an element of each; `strided` is how badly they are
    read by a pointwise kernel, by one of rows, and beside a heavy operation; `slides` says that it
    is `windows`.
    """

    device: Device
    element: float
    function: bool
    steps: float | None
    demands: Sequence[float] | None
    alike: bool
    scatters: bool
    operands: Sequence[tuple[int, int]]
    strided: tuple[float, float, float]
    slides: bool


def figures_of(signature: Signature, device: Device) -> Figures:
    """The figures of an operation, worked out once for a device; they hold it, so that its id, by
    which they are found, is no other's.
    """
    known: Figures | None = signature.figures.get(id(device))
    if known is None:
        known = signature.figures[id(device)] = _new_figures(signature, device)
    return known


def _new_figures(signature: Signature, device: Device) -> Figures:
    steps, demands, kind = None, None, signature.kind
    if kind is Kind.REDUCTION or signature.heavy is KernelKind.ROW_BLOCKS:
        weight = COMPARING if device.is_cpu and signature.name in COMPARED else 1.0
        steps = 2.0 * weight * signature.operand_sizes[0] / device.rate(signature.element)
        demands = [float(signature.operand_sizes[0])]
    alike = min(signature.operand_sizes, default=2) > 1 and signature.name not in APART
    element_bytes = [element_of(type).bytes for type in signature.operand_types]
    return Figures(
        device,
        _element_seconds(signature, device),
        device.is_cpu and operation_weight(signature, device) >= FUNCTION,
        steps,
        demands,
        alike,
        kind is Kind.INDEXING,
        list(zip(signature.operand_sizes, element_bytes, strict=True)),
        _strided_reads(signature, device),
        signature.name == "windows",
    )


def operation_weight(signature: Signature, device: Device) -> float:
    """Simple operations that one element takes."""
    if signature.name in ("windows", "slice"):
        return window_weight(signature, device)
    if signature.kind in (Kind.MOVEMENT, Kind.CONSTANT):
        return INDEX if signature.kind is Kind.MOVEMENT else 0.0
    if widens_half(signature):
        return WIDENED_ALONE if device.is_cpu and signature.shape[-1:] == (1,) else 1.0
    if widens_byte(signature):
        return WIDENED_BYTE
    if signature.name == "run_bounds":
        return BISECTED * math.log2(2 + signature.operand_shapes[0][signature.values["axis"]])
    by_tanh = signature.name in BY_TANH and signature.values["approx"] == "tanh"
    cost = (BY_TANH if by_tanh else ELEMENT_COST).get(signature.name)
    if cost is None:
        return 1.0
    if not device.is_cpu:
        return cost.gpu
    return min(cost.cpu, 1.0 + (cost.cpu - 1.0) * device.function_share)


def widens_half(signature: Signature) -> bool:
    """Whether an operation makes numbers of two bytes those of four."""
    if signature.name != "cast" or element_of(signature.type).name != "f32":
        return False
    return element_of(signature.operand_types[0]).name in HALVES


def widens_byte(signature: Signature) -> bool:
    """Whether an operation makes integers of a byte floats."""
    if signature.name != "cast" or element_of(signature.type).name != "f32":
        return False
    return element_of(signature.operand_types[0]).name in ("i8", "u8")


def _element_seconds(signature: Signature, device: Device) -> float:
    """Seconds for one element: half precision is computed wide, and rounded once."""
    weight, rate = operation_weight(signature, device), device.rate(signature.element)
    wide = device.rate("f32") if signature.element in HALVES else rate
    return 2.0 * (min(weight, 1.0) / rate + max(weight - 1.0, 0.0) / wide)


def _strided_reads(signature: Signature, device: Device) -> tuple[float, float, float]:
    """How much longer it takes to read what a transpose turns than what lies side by side: in a
    pointwise kernel, in one of rows, and beside a heavy operation.
    """
    rows, heavy = (_strided_read(signature, device, item) for item in (False, True))
    return rows if device.is_cpu else min(rows, TILED_READ), rows, heavy


def _strided_read(signature: Signature, device: Device, heavy: bool) -> float:
    """The same in a kernel with a heavy operation, or one of rows."""
    if signature.name != "transpose":
        return 1.0
    perm, shape = signature.values["perm"], signature.shape
    run, axis = 1, len(perm) - 1
    while axis >= 0 and perm[axis] == axis:
        run *= shape[axis]
        axis -= 1
    if axis < 0 or signature.size == run:
        return 1.0
    if device.is_cpu and not heavy:
        return 1.0 + (CPU_STRIDED_READ - 1.0) / (1.0 + run / CPU_RUN)
    return STRIDED_READ if run == 1 and shape[-1] > 1 else 1.0
