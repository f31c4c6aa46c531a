"""What a kernel costs on a device: a roofline over what it reads, writes and computes.

In: a legal body, its leaves and results, a `Device`. Out: seconds:

    launch_cost + max(bytes / bandwidth, Σ weighted operations / rate)

Each leaf is read once, at most as many elements as are asked for. A value is computed as often as
the template evaluates it: once an element of the space, once a row in row space, and again for each
tile that reads it before a matmul.

A kernel that runs only when parameters are set is paid for over many runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.shapes import element_count
from mgn.dialects.types import element_of
from mgn.passes.saturate.attention_price import attention_demands, attention_seconds
from mgn.passes.saturate.forms import BodyNode, Form, Place
from mgn.passes.saturate.matrix_price import ROUNDINGS, matrix_rate
from mgn.passes.saturate.view import Signature

GPU_SPECIAL = frozenset({"exp", "log", "rsqrt", "recip", "sqrt", "div", "sigmoid", "silu"})
GPU_SPECIAL_WEIGHT = 4.0
STRIDED_READ = 2.0
GATHER_READ = 1.25

PREPARED_RUNS = 100
"""Over how many runs the making of what parameters alone decide is spread. It is a figure for the
memory that such a value holds: it pays if a run saves a hundredth of the time to write it.
"""


@dataclass(frozen=True)
class Tiles:
    """The contraction template's tile: rows and columns of the result that one pass computes."""

    rows: int
    columns: int


def tiles_of(device: Device) -> Tiles:
    """The tile a contraction is priced with."""
    return Tiles(8, 32) if device.is_cpu else Tiles(64, 64)


@dataclass(frozen=True)
class Work:
    """What a kernel has to do: bytes moved, seconds of computing."""

    bytes: float
    seconds: float


def operation_weight(signature: Signature, device: Device) -> float:
    """Simple operations that one element takes."""
    if signature.kind in (Kind.MOVEMENT, Kind.CONSTANT):
        return 0.0
    if not device.is_cpu and signature.name in GPU_SPECIAL:
        return GPU_SPECIAL_WEIGHT
    return ELEMENT_COST.get(signature.name, 1.0)


def kernel_seconds(work: Work, device: Device) -> float:
    """The price of a kernel."""
    return device.launch_cost + max(work.bytes / device.bandwidth, work.seconds)


def tensor_bytes(type: TensorType) -> int:
    """Size of a tensor in memory."""
    return element_count(type.get_shape()) * element_of(type).bytes


def price_kernel(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> float:
    """Seconds for a kernel that writes `results`, values of its body."""
    return kernel_seconds(
        measure_kernel(body, form, results, leaf_types, signatures, device), device
    )


def price_per_run(price: float, prepared: bool) -> float:
    """What a kernel of that price costs each run."""
    return price / PREPARED_RUNS if prepared else price


def measure_kernel(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> Work:
    """Bytes and seconds of computing for a kernel that writes `results`."""
    by_name = {name: signatures[number] for name, number, _ in body}
    times = {name: float(_space(by_name[name], form.places[name], form)) for name in results}
    reads: dict[int, float] = {}
    strided: set[int] = set()
    scattered: set[int] = set()
    seconds = 0.0
    on_unit = matrix_rate(body, signatures, leaf_types, device)
    for name, number, operands in reversed(body):
        signature = signatures[number]
        evaluations = times.get(name, 0.0)
        if on_unit is None or signature.name not in ROUNDINGS:
            seconds += _compute_seconds(signature, evaluations, device, on_unit)
        demands = _demands(signature, evaluations, form, device)
        turns = signature.name == "transpose" and _moves_last_axis(signature)
        for position, operand in enumerate(operands):
            demand = demands[position]
            place = form.places.get(operand)
            if place in (Place.KEPT, Place.DROPPED):
                demand = min(demand, float(form.rows))
            times[operand] = max(times.get(operand, 0.0), demand)
            if turns or name in strided:
                strided.add(operand)
            if signature.kind is Kind.INDEXING and position == 0:
                scattered.add(operand)
            if operand in leaf_types:
                reads[operand] = max(reads.get(operand, 0.0), demand)
    moved = float(sum(by_name[name].result_bytes for name in results))
    for leaf, demand in reads.items():
        type = leaf_types[leaf]
        count = element_count(type.get_shape())
        factor = STRIDED_READ if leaf in strided else GATHER_READ if leaf in scattered else 1.0
        moved += min(demand, count) * element_of(type).bytes * (factor if count > 1 else 1.0)
    return Work(moved, seconds)


def _space(signature: Signature, place: Place, form: Form) -> int:
    if form.kind is KernelKind.REDUCTION and place in (Place.KEPT, Place.DROPPED):
        return form.rows
    return signature.size


def _compute_seconds(
    signature: Signature, evaluations: float, device: Device, on_unit: float | None
) -> float:
    rate = device.rate(signature.element)
    if signature.kind is Kind.CONTRACTION:
        return _matmul_seconds(signature, device, on_unit or rate)
    if signature.name == "attention":
        return attention_seconds(signature, device, on_unit)
    if signature.kind in (Kind.REDUCTION, Kind.SCAN):
        slow = 4.0 if signature.kind is Kind.SCAN else 1.0
        return 2.0 * slow * signature.operand_sizes[0] / rate
    return 2.0 * operation_weight(signature, device) * evaluations / rate


def _matmul_shape(signature: Signature) -> tuple[int, int, int, int]:
    """Batches, rows, columns and the inner size of a matrix product."""
    left, right = map(list, signature.operand_shapes)
    inner = left[-2] if signature.values["transpose_a"] and len(left) > 1 else left[-1]
    vector_a, vector_b = len(left) == 1, len(right) == 1
    columns = 1 if vector_b else signature.shape[-1]
    rows = 1 if vector_a else signature.shape[-1 if vector_b else -2]
    batches = signature.size // max(rows * columns, 1)
    return batches, rows, columns, inner


def _matmul_seconds(signature: Signature, device: Device, rate: float) -> float:
    batches, rows, columns, inner = _matmul_shape(signature)
    tiles = tiles_of(device)
    down, across = math.ceil(rows / tiles.rows), math.ceil(columns / tiles.columns)
    count = max(batches * down * across, 1)
    waves = math.ceil(count / device.compute_units)
    flops_a_tile = 2.0 * tiles.rows * tiles.columns * inner
    useful = 2.0 * batches * rows * columns * inner / rate
    padded = waves * flops_a_tile / (rate / device.compute_units)
    return max(useful, min(padded, 4.0 * useful) if rows * columns else 0.0)


def _demands(signature: Signature, evaluations: float, form: Form, device: Device) -> list[float]:
    """How many times each operand is asked for an element."""
    sizes = signature.operand_sizes
    if signature.kind is Kind.CONTRACTION:
        _, rows, columns, _ = _matmul_shape(signature)
        tiles = tiles_of(device)
        passes_a = math.ceil(columns / tiles.columns)
        passes_b = math.ceil(rows / tiles.rows)
        return [float(sizes[0] * passes_a), float(sizes[1] * passes_b)]
    if signature.name == "attention":
        return attention_demands(signature, device)
    if signature.kind in (Kind.REDUCTION, Kind.SCAN):
        return [float(sizes[0])]
    if signature.name in ("concat", "pad"):
        return [min(evaluations, float(size)) for size in sizes]
    if form.kind is KernelKind.REDUCTION and signature.kind is Kind.ELEMENTWISE:
        return [evaluations if size > 1 else 1.0 for size in sizes]
    return [evaluations if size > 1 else min(evaluations, 1.0) for size in sizes]


def _moves_last_axis(signature: Signature) -> bool:
    perm = signature.values["perm"]
    return bool(perm) and perm[-1] != len(perm) - 1 and signature.shape[-1] > 1
