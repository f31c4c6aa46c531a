"""What a kernel's schedule depends on besides its body: the device's figures, its arrangement.

In: a fused kernel, a device. Out: entries by name, which choosers read: how much a group or a
work-item may take, and what operands are arranged for.
"""

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.fusion.forms import COMBINED
from mgn.dialects.kernel import Device
from mgn.dialects.stabilising_maximum import MAXIMUM
from mgn.dialects.types import element_of
from mgn.passes.kernels.arithmetic import power_below
from mgn.passes.liveness import tensor_bytes
from mgn.passes.schedules.core.schedule import Entries

LEFT, RIGHT, ROUNDED, MATRIX = "left", "right", "rounded", "matrix"
"""What `arranged` says that a template has to know: how operands lie, and as what a matrix unit is
to multiply them.
"""

SMALL_CHUNK, LARGE_CHUNK = 512, 8192

BLOCK_DEPTH = 512
"""Steps of the shared axis that a CPU multiplies at a time; half where it packs both operands."""

BLOCK_SHARE, BLOCK_BYTES = 2, (256, 4096)
"""A work-item's block of the right operand of a product on a CPU takes this part of a core's second
cache; the least and the most bytes of its rows.
"""

ROW_SHARE = 4
"""The part of that cache that a row may take which is fetched ahead."""

USUAL_CACHE = 1 << 20
"""A core's second cache, where the device does not tell."""

TILE_VECTORS = 2
"""Vectors across a register tile on a CPU."""

TILE_ROWS = {16: 6, 32: 13}
"""Rows of a register tile, by the vector registers of a CPU: its sums leave room for operands."""

REDUCTION_ITEMS, POINTWISE_ITEMS = 1024, 256
"""The most work-items of a group on a GPU."""

ENLARGED_MEMORY = 227 * 1024
"""Bytes of local memory of NVIDIA's Hopper."""

MET_BYTES = 2048
"""Of these, what a reduction needs for the shares of its rows."""

TILE_ITEMS = 512
"""The same where a group takes a tile of a transpose."""


def figures_of(fused: FusedKernelOp, device: Device) -> dict[str, int | str]:
    """The entries of a kernel on a device."""
    held = [value.type for value in (*fused.block.args, *fused.outputs)]
    sizes = [prod(type.get_shape()) for type in held if isinstance(type, TensorType)]
    moved = sum(map(tensor_bytes, (*fused.operands, *fused.outputs)))
    traits = Traits(fused.kernel_kind, widest_bytes(fused), max(sizes), moved)
    return figures_for(traits, arranged_facts(fused), device)


TOLD = (LEFT, RIGHT, ROUNDED, MAXIMUM, COMBINED)
"""What a kernel is arranged for that its schedule has to know."""

ATTENTIONS = (KernelKind.ATTENTION, KernelKind.ATTENTION_GRADIENT)
"""Kinds of kernels whose groups may have all the local memory that there is."""


WALKING_ROWS = (KernelKind.REDUCTION, KernelKind.ROW_BLOCKS)
"""Kinds of kernels that walk rows."""


@dataclass(frozen=True)
class Traits:
    """What figures depend on of a kernel: its kind, the bytes of the widest value computed, the
    elements of the largest one in memory, and the bytes that are read and written.
    """

    kind: KernelKind
    widest: int
    elements: int
    moved: int


def figures_for(traits: Traits, arranged: Entries, device: Device) -> dict[str, int | str]:
    """The entries of a kernel that is arranged for something, on a device."""
    if device.is_cpu:
        entries = _cpu_figures(traits, device)
    else:
        entries = _gpu_figures(traits, arranged, device)
    return entries | {name: arranged[name] for name in TOLD if name in arranged}


def arranged_facts(fused: FusedKernelOp) -> Entries:
    """What a kernel is arranged for."""
    return fused.arranged.values if fused.arranged is not None else {}


def widest_bytes(fused: FusedKernelOp) -> int:
    """The bytes of the widest value computed; half precision is computed in f32."""
    types = [value.type for op in fused.block.ops for value in op.results]
    types += [value.type for value in fused.block.args]
    return max(4, *(element_of(type).bytes for type in types))


def _block_bytes(device: Device) -> int:
    """Bytes of a row of a work-item's block of a product on a CPU, a power of two."""
    least, most = BLOCK_BYTES
    share = (device.l2_cache or USUAL_CACHE) // (BLOCK_SHARE * BLOCK_DEPTH)
    return min(max(power_below(share), least), most)


def tile_columns(widest: int, device: Device) -> int:
    """Columns of a register tile on a CPU, by the bytes of the widest value."""
    return TILE_VECTORS * min(16, device.lanes(widest))


def product_figures(widest: int, device: Device) -> dict[str, int | str]:
    """What bounds how a product is cut on a CPU, by the bytes of the widest value."""
    return {
        "lanes": min(16, device.lanes(widest)),
        "units": device.compute_units,
        "tile_rows": TILE_ROWS[device.vector_registers],
        "tile_vectors": TILE_VECTORS,
        "block_rows": 256,
        "block_columns": _block_bytes(device) // widest,
        "block_depth": BLOCK_DEPTH,
        "local_memory": device.local_memory,
    }


def _cpu_figures(traits: Traits, device: Device) -> dict[str, int | str]:
    share = traits.elements // (4 * device.compute_units)
    chunk = max(SMALL_CHUNK, min(LARGE_CHUNK, share))
    entries: dict[str, int | str] = {
        "form": "cpu",
        "lanes": min(16, device.lanes(traits.widest)),
        "chunk": chunk,
        "units": device.compute_units,
    }
    if traits.kind in WALKING_ROWS and traits.moved > device.cache:
        entries["ahead"] = (device.l2_cache or USUAL_CACHE) // ROW_SHARE
    if traits.kind is KernelKind.CONTRACTION:
        entries |= product_figures(traits.widest, device)
    if traits.kind is KernelKind.ATTENTION_GRADIENT:
        entries |= {"local_memory": device.local_memory}
    if traits.kind is KernelKind.ATTENTION:
        entries |= {"tile_rows": 8, "tile_vectors": 2, "local_memory": device.local_memory}
        entries |= {"block_rows": 64, "block_keys": 128}
    return entries


def large_local_memory(device: Device) -> int:
    """Local memory that a group may have, by way of its program's PTX where that goes further."""
    return ENLARGED_MEMORY if device.matrix_unit == "wgmma" else device.local_memory


def _gpu_figures(traits: Traits, arranged: Entries, device: Device) -> dict[str, int | str]:
    kind = traits.kind
    lanes = max(1, min(16, device.lanes(traits.widest)))
    most = REDUCTION_ITEMS if kind in WALKING_ROWS else POINTWISE_ITEMS
    group = power_below(device.max_work_group_size)
    entries: dict[str, int | str] = {
        "form": "gpu",
        "lanes": lanes,
        "local": min(most, group),
        "units": device.compute_units,
    }
    if kind in (KernelKind.POINTWISE, KernelKind.GATHER):
        entries["tile_items"] = min(TILE_ITEMS, group)
    if kind is KernelKind.REDUCTION and device.matrix_unit != "none":
        entries["stash_memory"] = max(large_local_memory(device) - MET_BYTES, 0)
    if device.vendor == "nvidia":
        entries["sub_group"] = device.sub_group_size
    multiplies = kind is KernelKind.CONTRACTION or kind in ATTENTIONS
    if multiplies or kind is KernelKind.ORDER:
        usual = kind is KernelKind.CONTRACTION
        room = device.local_memory if usual else large_local_memory(device)
        entries |= {"local_memory": room, "largest_group": group}
    if multiplies:
        unit = str(arranged.get(MATRIX))
        if unit in device.matrix_rates:
            entries |= {MATRIX: unit, "matrix_unit": device.matrix_unit}
    return entries
