"""What candidates are priced by is the schedule that their kernels get."""

import pytest

from mgn.dialects.fusion import KernelKind, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device
from mgn.passes.saturate.arrange_kernels import template_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.saturate.prices.scheduled import schedule_of
from mgn.passes.schedules.choose import schedules_of
from tests.passes.schedules.test_schedules import CASES as KERNELS
from tests.support.lower_fixture import CPU

H200 = DEVICES["nvidia-h200"]
PRICED = (KernelKind.CONTRACTION, KernelKind.ATTENTION)


def kernels_of(*kinds: KernelKind) -> list[str]:
    return [name for name, (make, *_) in KERNELS.items() if make().kernel_kind in kinds]


@pytest.mark.parametrize("name", kernels_of(*PRICED))
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda device: device.name)
def test_a_candidate_has_the_schedule_of_its_kernel(name: str, device: Device) -> None:
    fused, signatures = KERNELS[name][0](), list[Signature]()
    template, values = template_of(fused, device, signatures)
    assert template is not None
    fused.arranged = ScheduleAttr.of(**dict(template.facts)) if template.facts else None
    types = {key: values.type_of(key) for key in template.reads}
    found = schedule_of(template.body, template.form, types, signatures, device, template.facts)
    assert found is not None and found == schedules_of(fused, device)[0]
    price = price_kernel(
        template.body, template.form, template.results, types, signatures, device, template.facts
    )
    assert price >= device.launch_cost + found.seconds + found.waits
