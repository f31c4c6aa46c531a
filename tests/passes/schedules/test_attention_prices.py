"""What attention's tilings on a matrix unit are priced at, beside what was measured of them."""

from typing import Any

import pytest

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.passes.schedules.choose import schedules_of
from tests.support.lower_fixture import fused_kernel, scheduled

H200 = DEVICES["nvidia-h200"]

MEASURED = {(4, False): 328.0, (8, False): 298.0, (12, False): 335.0, (8, True): 482.0}
"""TFLOP/s of causal attention on an NVIDIA H200, 32 heads on 8, 4096 x 128, in bf16: by the
sub-groups of a group, and whether weights are rounded.
"""


def attention(
    width: int, rounded: bool, queries: int = 4096, heads: tuple[int, int] = (32, 8)
) -> FusedKernelOp:
    how = {"heads": heads[0], "kv_heads": heads[1], "causal": True, "rounded_weights": rounded}
    shapes = [(queries, count * width) for count in (heads[0], heads[1], heads[1])]
    kernel = fused_kernel(
        "attention", [("bf16", shape) for shape in shapes], lambda b, *x: b.attention(*x, **how)
    )
    assert scheduled(kernel, H200)["matrix"] == "bf16"
    return kernel


def seconds_by_groups(width: int, rounded: bool, *sizes: Any) -> dict[int, float]:
    """Seconds of each number of sub-groups that multiply together, the quickest first."""
    found = schedules_of(attention(width, rounded, *sizes), H200)
    return {x.numbers["tile_down"]: x.seconds for x in found if x.numbers["groups"]}


def test_groups_are_priced_in_proportion_to_what_was_measured() -> None:
    flops = 4 * 4096 * 4096 * 128 * 32 / 2
    shares = [
        flops / seconds_by_groups(128, rounded)[warps] / 1e12 / measured
        for (warps, rounded), measured in MEASURED.items()
    ]
    assert shares == pytest.approx([1.0] * 4, rel=0.03)


def test_groups_of_12_are_for_heads_that_leave_registers_for_one_group_of_8() -> None:
    assert list(seconds_by_groups(128, rounded=False)) == [12, 4, 8]
    for width, rounded in ((128, True), (64, False), (64, True), (256, False)):
        assert 12 not in seconds_by_groups(width, rounded)
    (fixed, *_) = schedules_of(attention(64, rounded=False), H200, tile_down=12)
    assert fixed.numbers["tile_down"] == 12


@pytest.mark.parametrize(
    ("queries", "heads", "ratio"), [(1024, (32, 8), 1.13), (2048, (8, 8), 1.20)]
)
def test_small_attention_is_quicker_by_groups_of_4(
    queries: int, heads: tuple[int, int], ratio: float
) -> None:
    """By so much, as measured, than by groups of 8, of which a unit's registers hold one."""
    seconds = seconds_by_groups(128, False, queries, heads)
    assert seconds[8] / seconds[4] == pytest.approx(ratio, rel=0.05)
