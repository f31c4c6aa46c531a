"""The schedules of a kernel on a device, and the one that is chosen.

In: a fused kernel, a device, entries that are fixed. Out: the admissible schedules in order of
preference; the first of them as `ScheduleAttr`. Templates, prices and tuning ask here.
"""

from collections.abc import Callable, Mapping

from mgn.dialects.fusion import FusedKernelOp, KernelKind, ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.guided_products import guided_products
from mgn.passes.schedules.attention.attention import attention_schedules
from mgn.passes.schedules.attention.gradient import attention_gradient_schedules
from mgn.passes.schedules.core.figures import figures_of
from mgn.passes.schedules.core.schedule import VARIANT, Request, Schedule, Schedules
from mgn.passes.schedules.order import order_schedules
from mgn.passes.schedules.pointwise import pointwise_schedules
from mgn.passes.schedules.product.product import product_schedules
from mgn.passes.schedules.recurrence import recurrence_schedules
from mgn.passes.schedules.reduction.reduction import reduction_schedules
from mgn.passes.schedules.reduction.row_blocks import row_block_schedules
from mgn.passes.schedules.scan import scan_schedules
from mgn.passes.schedules.scatter import scatter_schedules
from mgn.passes.schedules.update import update_schedules

ENUMERATED: Mapping[KernelKind, Callable[[Request], Schedules]] = {
    KernelKind.CONTRACTION: product_schedules,
    KernelKind.ATTENTION: attention_schedules,
    KernelKind.ATTENTION_GRADIENT: attention_gradient_schedules,
    KernelKind.REDUCTION: reduction_schedules,
    KernelKind.POINTWISE: pointwise_schedules,
    KernelKind.GATHER: pointwise_schedules,
    KernelKind.SCAN: scan_schedules,
    KernelKind.SCATTER: scatter_schedules,
    KernelKind.ORDER: order_schedules,
    KernelKind.UPDATE: update_schedules,
    KernelKind.RECURRENCE: recurrence_schedules,
    KernelKind.ROW_BLOCKS: row_block_schedules,
}
"""What enumerates the schedules of a kind of kernel."""


NOTHING = "nothing"
"""The variant of a kernel that writes no element."""


def schedules_of(fused: FusedKernelOp, device: Device, **fixed: int | str) -> Schedules:
    """The admissible schedules of a kernel, the preferred one first."""
    body = guided_products(read_body(fused))
    return enumerated_schedules(
        fused.kernel_kind, Request(body, {**figures_of(fused, device), **fixed}, device)
    )


def enumerated_schedules(kind: KernelKind, request: Request) -> Schedules:
    """The admissible schedules of a body as a kernel of a kind, the preferred one first; where a
    variant is fixed, those of it are.
    """
    if not any(node.count for node in request.body.written):
        return [Schedule(NOTHING, {}, request.facts("form"))]
    found = ENUMERATED[kind](request)
    assert found, "no tiling fits the device's local memory"
    fixed = request.word(VARIANT)
    return sorted(found, key=lambda schedule: schedule.variant != fixed) if fixed else found


def schedule_for(fused: FusedKernelOp, device: Device, **fixed: int | str) -> ScheduleAttr:
    """The chosen schedule of a kernel."""
    return schedules_of(fused, device, **fixed)[0].attribute


def is_whole(schedule: ScheduleAttr) -> bool:
    """Whether a schedule names its variant; one written by hand may only fix some entries."""
    return VARIANT in schedule.values
