"""What a kernel costs on a device: a roofline over what it reads, writes and computes.

In: a legal body, its leaves and results, a `Device`. Out: seconds:

    launch_cost + max(bytes / bandwidth, Σ weighted operations / rate)

On a CPU a part of the shorter of both is added, so that a write has a price even where computing
takes longer. Bytes that fit into its cache move faster. A function is dearer where other functions
wait for its value. A value of which each row has one takes the time of a vector. On a GPU a part of
the time is added in which a product's operands are read, or its result is written.

Each leaf is read once, and at most as many of its elements as operations ask for. A value is
computed as often as the template evaluates it:

- once for each element of the space, or for each row in row space;
- again for each tile that reads it before a matmul;
- in a GPU's products of a few rows, once for each block whose elements share it.

The price of a kernel that runs only when parameters are set is divided among many runs.

Of two kernels with equal costs, the cheaper one computes fewer indices: movement counts a little
(`INDEX`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType

from mgn.dialects.block_formats import BLOCK
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.dialects.types import element_of
from mgn.passes.arrangements.copied_operands import SCATTERED, TILED
from mgn.passes.arrangements.prepack_products import TO_PANELS
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.arrangements import LongRows, long_rows, walks_columns_again
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import IN_ROW_SPACE, ONE_A_ROW, Facts, Form, Place
from mgn.passes.saturate.prices.matrix_price import ROUNDINGS, matrix_use
from mgn.passes.saturate.prices.operation_figures import Figures, figures_of
from mgn.passes.saturate.prices.plain_work import (
    PLAIN,
    WAITING,
    BodyWork,
    RowWork,
    bytes_read,
    demands_of,
    plain_work,
    seconds_to_read_again,
    space_of,
)
from mgn.passes.saturate.prices.scheduled import schedule_of
from mgn.passes.saturate.prices.windows import (
    APART,
    AS_THEY_STAND,
    BELOW,
    IN_PLANES,
    outer_weight,
    read_apart,
    recovered_values,
    windows_in_planes,
)
from mgn.passes.schedules.product.product import ProductVariant

ARRANGING = {TILED: 1.0, SCATTERED: 5.0, TO_PANELS: 1.0}
"""How much longer a copy for a product takes than one that leaves everything in its order."""

SEEN = 0.2
"""The share of moving, or of computing, that a CPU does not do during the other."""

GPU_SEEN = 0.7
"""The share of the moving that a GPU does not do while it multiplies. Without a matrix unit this is
a share of reading. With one it is a share of writing, because operands arrive during the products.
Measured on an NVIDIA H200, on batches of products with a shared axis of 64 to 4096 elements and as
few columns.
"""

COPYING = (ProductVariant.WINDOWS, ProductVariant.PLACES, ProductVariant.SUMMED)
TILED_WINDOWS = (*COPYING, ProductVariant.WINOGRAD)
"""Variants of products that read windows from copies of planes. The second tuple adds the variant
that reads windows without such copies.
"""

SCHEDULED = (
    KernelKind.CONTRACTION,
    KernelKind.ATTENTION,
    KernelKind.SCAN,
    KernelKind.SCATTER,
    KernelKind.ORDER,
    KernelKind.UPDATE,
    KernelKind.RECURRENCE,
    KernelKind.ATTENTION_GRADIENT,
    KernelKind.ROW_BLOCKS,
)
"""Kinds of kernels whose schedule says what their heavy operation takes."""

NORMED_COLUMNS = 64
"""Columns of a GPU's usual tile, which norms its rows once. Groups of narrower tiles, side by side,
find the rows in a cache.
"""

NORMED, REREAD = 1.6, 0.55
"""The time of a norm before a matrix unit, and the time to read its rows again for another tile.
Both are in units of the time that moving the rows takes. Measured on an NVIDIA H200, on products of
128 rows of 576 elements with 960 and 3072 columns.
"""

ROWS_LATENCY = 1.5e-6
"""Seconds in which a group reduces a few rows, however short the rows are. The group waits for its
loads and for its work-items. It waits again for the work-items that read the totals.
"""

GROUP_ROWS, GROUP_SHARE = 32, 2.4
"""Rows of a group of a small product, and how fast the group reads them from the cache. The speed
is a multiple of a compute unit's share of the bandwidth. Measured on an NVIDIA H200, on 128 rows of
576 elements.
"""

PREPARED_RUNS = 100
"""The number of runs that share the price of a value that depends on parameters alone. The number
stands for the memory that such a value holds. The value pays if it saves each run a hundredth of
the time to write it.
"""


@dataclass(frozen=True)
class Work:
    """What a kernel has to do: bytes moved, seconds of computing, and seconds beside both. Where
    the kernel has a heavy operation, `gone_over` is the work of its body.
    """

    bytes: float
    seconds: float
    beside: float = 0.0
    gone_over: BodyWork | None = field(default=None, compare=False)


def least_seconds(signature: Signature, device: Device) -> float:
    """The least seconds of computing that all elements of an elementwise operation take in a kernel
    without a heavy operation; 0 for other operations.
    """
    if signature.kind is not Kind.ELEMENTWISE or signature.name in ROUNDINGS:
        return 0.0
    return signature.size * figures_of(signature, device).element


def kernel_seconds(work: Work, device: Device) -> float:
    """The price of a kernel."""
    return seconds_of(work.bytes, work.seconds, device, work.beside)


def seconds_of(moved: float, seconds: float, device: Device, beside: float = 0.0) -> float:
    """The price of a kernel that moves so many bytes. On a CPU the shorter of moving and computing
    is not wholly hidden.
    """
    moving = device.seconds_to_move(moved)
    longer, shorter = (moving, seconds) if moving > seconds else (seconds, moving)
    hidden = longer + SEEN * shorter if device.kind == "cpu" else longer
    return device.launch_cost + hidden + beside


def price_kernel(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    facts: Facts = (),
) -> float:
    """Seconds for a kernel that writes `results`, values of its body, by itself."""
    work = measure_kernel(body, form, results, leaf_types, signatures, device, facts)
    return kernel_seconds(work, device)


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
    facts: Facts = (),
) -> Work:
    """Bytes and seconds of computing for a kernel that writes `results`."""
    if form.is_open:
        return Work(0.0, math.inf)
    if is_plain(form, facts):
        plain = plain_work(body, form, results, leaf_types, signatures, device)
        if plain is not None:
            return work_of(plain, body, form, results, leaf_types, signatures, device)
    known, own = {name: signatures[number] for name, number, _ in body}, id(device)
    times = {name: float(space_of(known[name], form.places[name], form)) for name in results}
    leaves: dict[int, tuple[int, int]] = {}
    strided: dict[int, float] = {}
    scattered: set[int] = set()
    below: set[int] = set()
    readers: dict[int, Signature] = {}
    seconds = beside = 0.0
    schedule, passes, evaluation = None, (1.0, 1.0), 1.0
    if form.kind in SCHEDULED:
        schedule = schedule_of(body, form, leaf_types, signatures, device, facts)
        if schedule is None:
            return Work(0.0, math.inf)
        seconds, evaluation = schedule.seconds, schedule.evaluation
        passes, beside = schedule.passes or passes, schedule.waits
    across = math.ceil(form.shape[-1] / NORMED_COLUMNS) if form.reduced else passes[0]
    again = 1.0 + REREAD * (across - 1.0)
    reduces = form.kind in IN_ROW_SPACE
    rows, places, heavy = float(form.rows) if reduces else math.inf, form.places, form.heavy
    if form.reduced:
        rows = float(across * math.prod(form.reduced[:-1]))
    use = matrix_use(facts, body, signatures, leaf_types)
    if schedule is not None and schedule.variant in TILED_WINDOWS:
        names = (item[0] for item in body if signatures[item[1]].name == "windows")
        copied = next((name for name in names if form.places[name] is Place.BEFORE), None)
    else:
        copied = windows_in_planes(body, form, results, leaf_types, signatures, device)
    if copied is not None and device.is_cpu and (schedule is None or schedule.variant in COPYING):
        seconds += read_apart(body, copied, signatures) * APART * 2.0 / device.rate("f32")
    few = schedule is not None and schedule.variant == ProductVariant.FEW_ROWS
    recovered = recovered_values(body, form, facts)
    passing = recovered | {name for name, place in places.items() if place is Place.APART}
    arranging = next((ARRANGING[name] for name, _ in facts if name in ARRANGING), None)
    walk = RowWork.of(form, device)
    written_so = frozenset(results) if device.is_cpu else frozenset[int]()
    waiting: dict[int, int] = {}
    longest = max(1.0 / device.function_share, 1.0)
    for name, number, operands in reversed(body):
        signature = signatures[number]
        evaluations = times.get(name, 0.0)
        figures: Figures = signature.figures.get(own) or figures_of(signature, device)
        if name == heavy and schedule is not None:
            if form.reduced and use is not None and use.computed:
                beside += NORMED * again * _first_seconds(signature, device)
        elif form.reduced and signature.kind is Kind.REDUCTION:
            alone = ROWS_LATENCY if few else _alone(signature, device)
            beside += max(again * _first_seconds(signature, device), alone)
        elif name not in passing and (use is None or signature.name not in ROUNDINGS):
            steps = figures.steps
            own_seconds = evaluations * figures.element * evaluation
            if name == copied:
                own_seconds = evaluations * IN_PLANES * 2.0 / device.rate(signature.element)
                own_seconds = own_seconds if schedule is None else 0.0
            elif signature.name == "windows" and name in readers:
                packed = schedule is not None and schedule.variant == ProductVariant.PACKED
                outer = outer_weight(
                    body, name, readers[name], leaf_types, signatures, device, packed
                )
                if outer is not None:
                    own_seconds = evaluations * outer * 2.0 / device.rate("f32")
            if name in waiting:
                own_seconds *= min(1.0 + WAITING * waiting[name], longest)
            if signature.name == "windows" and name in written_so:
                own_seconds = max(
                    own_seconds, evaluations * AS_THEY_STAND * 2.0 / device.rate("f32")
                )
            if walk.along and places[name] in ONE_A_ROW and name != copied:
                own_seconds *= walk.lanes
            seconds += own_seconds if steps is None else steps + walk.ends
            if steps is None and (figures.function or name in waiting):
                behind = waiting.get(name, 0) + figures.function
                for operand in operands:
                    waiting[operand] = max(behind, waiting.get(operand, 0))
            if (signature.name == "windows" and name != copied) or name in below:
                below.update(operands)
            if name in below and signature.kind is Kind.ELEMENTWISE:
                seconds += (BELOW - 1.0) * own_seconds
        if signature.name == "transpose":
            readers[operands[0]] = signature
        lies_ready = arranging or name in passing
        factor = 1.0 if lies_ready else figures.strided[2 if heavy is not None else reduces]
        if strided:
            factor = max(factor, strided.get(name, 1.0))
        if figures.scatters:
            scattered.add(operands[0])
        demands = figures.demands
        if name == heavy and schedule is not None:
            gone_over = schedule.passes or (1.0,) * len(operands)
            sizes = zip(signature.operand_sizes, gone_over, strict=True)
            demands = [float(size * count) for size, count in sizes]
        if name == copied or name in recovered:
            often = passes[0] if recovered and name == copied else 1.0
            demands = [size * often for size in signature.operand_sizes]
            factor = factor if device.is_cpu else 1.0
        if demands is None:
            alike = (evaluations,) * len(operands) if figures.alike else None
            demands = alike or demands_of(signature, evaluations, form)
        for operand, demand, size in zip(operands, demands, figures.operands, strict=True):
            if few and name != heavy and 1 < size[0] * BLOCK <= signature.size:
                demand *= size[0] / signature.size
            if demand > rows and places.get(operand) in ONE_A_ROW:
                demand = rows
            if demand > times.get(operand, -1.0):
                times[operand] = demand
            if factor > 1.0:
                strided[operand] = max(factor, strided.get(operand, 1.0))
            if operand in leaf_types:
                leaves[operand] = size
    written = float(sum([known[name].result_bytes for name in results]))
    if form.kind is KernelKind.UPDATE and heavy is not None:
        written = _part_bytes(known[heavy])
    read = bytes_read(leaves, times, strided, scattered)
    if form.kind is KernelKind.REDUCTION:
        slides = any(figures_of(signatures[number], device).slides for _, number, _ in body)
        if not device.is_cpu and not slides:
            seconds = max(seconds, seconds_to_read_again(leaves, times, device))
        full = any(known[name].shape == form.shape for name in results)
        long = long_rows(body, form, leaf_types, signatures, device, full)
        if long is not None:
            return _of_long_rows(read, written, seconds, long)
        if full and walks_columns_again(form, device):
            read, seconds = 2.0 * read, 2.0 * seconds
    if form.kind is KernelKind.CONTRACTION and heavy is not None and not device.is_cpu:
        batches = math.prod(known[heavy].shape[:-2])
        if math.prod(passes) * batches >= device.compute_units:
            moving = (written if use is not None else read) / device.bandwidth
            beside += GPU_SEEN * min(moving, seconds)
    gone_over = BodyWork(read, seconds, times, beside)
    return Work((read + written) * (arranging or 1.0), seconds, beside, gone_over)


def is_plain(form: Form, facts: Facts) -> bool:
    """Whether a kernel has no heavy operation, and no value in a layout for one."""
    return form.kind in PLAIN and all(name == MAXIMUM for name, _ in facts)


def work_of(
    gone_over: BodyWork,
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> Work:
    """The work of a kernel that writes `results`, from that of its body. Nothing of the kernel is
    arranged. On a GPU it has no heavy operation.
    """
    read, seconds = gone_over.read, gone_over.seconds
    known = {name: signatures[number] for name, number, _ in body if name in results}
    written = float(sum([known[name].result_bytes for name in results]))
    if form.kind is KernelKind.REDUCTION:
        full = any(item.shape == form.shape for item in known.values())
        long = long_rows(body, form, leaf_types, signatures, device, full)
        if long is not None:
            return _of_long_rows(read, written, seconds, long)
        if full and walks_columns_again(form, device):
            return Work(2.0 * read + written, 2.0 * seconds)
    return Work(read + written, seconds, gone_over.beside)


def _of_long_rows(read: float, written: float, seconds: float, long: LongRows) -> Work:
    """The work of a reduction of few long rows."""
    return Work((read * long.passes + written) * long.idle, seconds * long.idle)


def _part_bytes(update: Signature) -> float:
    """The bytes that an update writes."""
    return float(update.operand_sizes[1] * element_of(update.type).bytes)


def _first_seconds(signature: Signature, device: Device) -> float:
    """The seconds to move the rows that are an operation's first operand. Each of the groups side
    by side reads these rows to reduce them before its product, or to compute them for a matrix
    unit.
    """
    bytes = signature.operand_sizes[0] * element_of(signature.operand_types[0]).bytes
    return bytes / device.bandwidth


def _alone(signature: Signature, device: Device) -> float:
    """How long a group takes to read its own rows before its product, alone on a compute unit."""
    rows, element_bytes = GROUP_ROWS, element_of(signature.operand_types[0]).bytes
    share = GROUP_SHARE * device.bandwidth / device.compute_units
    return rows * signature.operand_shapes[0][-1] * element_bytes / share
