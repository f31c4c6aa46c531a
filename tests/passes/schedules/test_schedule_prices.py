"""What candidates are priced by is the schedule that their kernels get."""

from dataclasses import replace

import pytest

import mgn
from mgn.dialects.fusion import KernelKind, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate.arrange_kernels import template_of
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.saturate.prices.scheduled import request_of, schedule_of
from mgn.passes.saturate.saturate import saturated_view
from mgn.passes.schedules.choose import enumerated_schedules, schedules_of
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


ALIKE = """
graph g(x: f32[768, 480], y: f32[768, 480], z: bf16[768, 480], t: f32[480, 768], v: f32[2, 480],
        r: f32[384, 960], k: i32[768, 480], u: f32[800, 480], b: f32[768, 800],
        n: f32[480, 16]) {
  param w: f32[480, 800]
  return p0 = x @ w, p1 = tanh(x) @ w, p2 = (x * y + 1.0) @ w, p3 = cast(z, f32) @ w,
    p4 = tanh(cast(z, f32)) @ w, p5 = transpose(t, [1, 0]) @ w, p6 = exp(transpose(t, [1, 0])) @ w,
    p7 = reshape(r, [768, 480]) @ w, p8 = (y * reshape(r, [768, 480])) @ w,
    p9 = where(x > y, x, 0.0) @ w, p10 = cast(k, f32) @ w, p11 = (x * cast(k, f32)) @ w,
    q0 = x @ exp(w), q1 = x @ transpose(u, [1, 0]), q2 = x @ exp(transpose(u, [1, 0])),
    q3 = tanh(x) @ exp(w), q4 = x @ (1.0 + transpose(exp(u), [1, 0])),
    q5 = v @ transpose(exp(u), [1, 0]), q6 = v @ transpose(round_tf32(u), [1, 0]),
    q7 = concat([x, y], 1) @ concat([w, w], 0), q8 = exp(slice(r, [0, 0], [384, 480])) @ w,
    q9 = reshape(exp(r), [768, 480]) @ w, q10 = concat([transpose(t, [1, 0]), x], 0) @ w,
    q11 = x @ concat([w, exp(w)], 1), q12 = x @ reshape(transpose(u, [1, 0]), [480, 800]),
    n0 = tanh(x) @ n, n1 = cast(z, f32) @ n, n2 = x @ n,
    s0 = (x @ w) + b, s1 = tanh((x @ w) * b + 1.0) * exp(b), s2 = gelu(x @ w),
    s3 = (x @ w) * sigmoid(exp(b) + tanh(b)), s4 = gelu(exp(x) @ w + b), s5 = swiglu(b, x @ w),
    s6 = cast(gelu((x @ w) * b), bf16), s7 = cast(x @ w, bf16)
}
"""


@pytest.mark.parametrize("device", [CPU, replace(CPU, local_memory=20_000), H200])
def test_products_that_are_cut_alike_have_the_schedules_of_their_own_kernels(
    device: Device,
) -> None:
    """Operands that are computed in many ways, and what follows: each is found once for all."""
    view = saturated_view(next(graphs_of(mgn.parse(ALIKE).lower())))
    found = find_candidates(view, device, Reach(view))
    products = [item for item in found.candidates if item.kind is KernelKind.CONTRACTION]
    assert len(products) > 60
    for item in products:
        template = item.template
        types = {name: view.classes[item.classes[name]].type for name in template.reads}
        own = template.body, template.form, types, view.signatures, device, template.facts
        request = request_of(*own)
        assert schedule_of(*own) == enumerated_schedules(item.kind, request)[0], template.body
