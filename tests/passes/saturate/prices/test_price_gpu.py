"""What the terms of a GPU's prices are for: kernels that were measured on an NVIDIA H200, each of
which one of the terms decides.
"""

import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.passes.saturate.extraction.report import SaturateReport

H200 = DEVICES["nvidia-h200"]

SHORTEST = 3.3
"""Microseconds of the device's clock that the shortest kernel took."""

NEAR = 1.2
"""How far, as a factor, the model may be from a time, with its launch."""

KERNELS = {
    # two long rows: a group alone reads faster than its share
    ("f32", "(x: f32[2, 3000000]) { return y = max_reduce(x, axis = 1) }"): 117.0,
    # a group alone waits for the left operand of several rows at each step
    ("f32", "(x: f32[4, 4096], w: f32[4096, 4096]) { return y = x @ w }"): 26.8,
    # each work-item computes the functions of the left operand for its own columns
    ("f32", "(x: f32[1, 14336], w: f32[4096, 14336]) { return y = silu(x) @ w.T }"): 72.9,
    # few groups have asked memory for little at a time
    ("f32", "(x: f32[1, 14336], w: bf16[14336, 4096]) { return y = x @ cast(w, f32) }"): 64.6,
}
"""Precision and program → microseconds as one kernel."""


def microseconds(program: str, device: Device, precision: str = "f32") -> float:
    """The price of a program that is one kernel."""
    graph = mgn.parse("graph g" + program)
    report = mgn.optimize(graph, device=device, precision=precision).report
    assert len(report.kernels) == 1 and isinstance(report.saturation, SaturateReport)
    return 1e6 * report.saturation.cost_after


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_a_kernel_is_priced_near_what_it_took(case: tuple[str, str]) -> None:
    precision, program = case
    dear = H200.with_figures(launch_cost=1.0)
    found = microseconds(program, dear, precision) - 1e6 * (1.0 - H200.launch_cost)
    took = KERNELS[case] - SHORTEST + 1e6 * H200.launch_cost
    assert 1 / NEAR < found / took < NEAR


def test_a_transpose_passes_through_local_memory_in_a_pointwise_kernel() -> None:
    straight = microseconds("(x: f32[4096, 4096]) { return y = exp(x) }", H200)
    turned = microseconds("(x: f32[4096, 4096]) { return y = exp(x).T }", H200)
    assert straight < turned < 1.1 * straight


def test_what_is_picked_as_a_rule_is_priced_alone() -> None:
    """A choice reads both values, and a pick the one."""
    one = microseconds("(x: f32[4194304]) { return y = abs(x) }", H200)
    inputs = "(c: bool[1], x: f32[4194304], y: f32[4194304])"
    picked = microseconds(inputs + " { return z = pick(c, x, y) }", H200)
    chosen = microseconds(inputs + " { return z = where(c, x, y) }", H200)
    assert one <= picked < 1.05 * one < chosen
