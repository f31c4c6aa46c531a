"""`price-kernels`: what each kernel costs, as a note in its schedule.

Before:
    %y = fusion.kernel pointwise (…) -> (…) schedule {variant = "flat", …} { … }
After:
    %y = fusion.kernel pointwise (…) -> (…) schedule {…, picoseconds = 2500000 : i64} { … }

The price is that by which extraction chooses kernels. `plan-memory` reads it, where a budget of
memory has kernels computed twice; without a budget the pass does not run.
"""

from collections.abc import Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.passes.kernels.structure import structure
from mgn.passes.rematerialise.prices import PICOSECONDS
from mgn.passes.saturate.arrange_kernels import template_of


class PriceKernels(ModulePass):
    """Notes the price of every fusion.kernel that has a schedule, and whose form prices know."""

    name = "price-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = Device.of(op)
        known: dict[Hashable, ScheduleAttr | None] = {}
        for fused in op.walk():
            if not isinstance(fused, FusedKernelOp) or fused.schedule is None:
                continue
            key = structure(fused)
            if key not in known:
                known[key] = _priced(fused, device)
            fused.schedule = known[key]


def _priced(fused: FusedKernelOp, device: Device) -> ScheduleAttr | None:
    """A kernel's schedule with its price."""
    assert fused.schedule is not None
    template, _ = template_of(fused, device, [])
    if template is None:
        return fused.schedule
    price = IntegerAttr(round(template.price * 1e12), i64)
    return ScheduleAttr(DictionaryAttr({**fused.schedule.entries.data, PICOSECONDS: price}))
