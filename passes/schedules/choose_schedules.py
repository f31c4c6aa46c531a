"""`choose-schedules`: which variant of its template writes each kernel, and its tiles.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<512x512xf32>, %b = %w : tensor<512x512xf32>)
        -> (tensor<512x512xf32>) { … }
After:
    %y = fusion.kernel contraction (%a = %x : tensor<512x512xf32>, %b = %w : tensor<512x512xf32>)
        -> (tensor<512x512xf32>) schedule {variant = "tiles", tile_down = 8 : i64, … } { … }

Extraction knew what is chosen here, because `arranged` says what a kernel's price assumed: operands
in panels or rounded, the type of its product on the matrix unit, and whether maxima of rows only
stabilise exponentials. A schedule without a variant, as one written by hand, fixes the entries that
it has. The pass chooses the others.
"""

from collections.abc import Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.passes.kernels.structure import structure
from mgn.passes.schedules.choose import is_whole, schedule_for


class ChooseSchedules(ModulePass):
    """Gives every fusion.kernel a schedule for the module's device."""

    name = "choose-schedules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = Device.of(op)
        known: dict[Hashable, ScheduleAttr] = {}
        for fused in op.walk():
            if isinstance(fused, FusedKernelOp) and not (
                fused.schedule is not None and is_whole(fused.schedule)
            ):
                key = structure(fused)
                if key not in known:
                    fixed = fused.schedule.values if fused.schedule is not None else {}
                    known[key] = schedule_for(fused, device, **fixed)
                fused.schedule = known[key]
