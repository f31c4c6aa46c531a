"""Random typed graphs: the fused program computes what the program computed, fused or not."""

from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import ConstantOp, ReadOp, ReturnOp
from mgn.passes.saturate import RuleClass, SaturateOptions, saturate_graph
from mgn.testing.values import same_bits
from tests.passes.saturate.saturate_programs import (
    check_same,
    kernels_of,
    random_graph,
    random_inputs,
)


@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    seed=st.integers(0, 1 << 30),
    operations=st.integers(1, 30),
    device=st.sampled_from(sorted(DEVICES)),
    fuse=st.booleans(),
)
def test_a_random_graph_computes_the_same_after_saturation(
    seed: int, operations: int, device: str, fuse: bool
) -> None:
    before = random_graph(seed, operations)
    before.verify()
    after = before.clone()
    report = saturate_graph(after, DEVICES[device], SaturateOptions(fuse=fuse))
    after.verify()
    check_same(before, after, seed & 0xFFFF)
    assert report.saturated
    assert report.bound <= report.cost_after * (1 + 1e-9)
    assert report.kernel_count == len(kernels_of(after))
    allowed = (ReadOp, ConstantOp, ReturnOp)
    others = [op for op in after.block.ops if not isinstance(op, allowed)]
    assert others == kernels_of(after)


@pytest.mark.parametrize("seed", [59, *range(100, 160)])
def test_the_default_rules_keep_the_value_over_the_reals(seed: int) -> None:
    before = random_graph(seed, 20)
    after = before.clone()
    saturate_graph(after, DEVICES["cpu"])
    check_same(before, after, seed)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("seed", range(20))
def test_exact_rules_keep_every_bit(seed: int, element: str) -> None:
    before = random_graph(seed, 25, element)
    after = before.clone()
    report = saturate_graph(
        after, DEVICES["cpu"], SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    )
    assert report.saturated
    inputs = random_inputs(before, seed)
    expected, found = Interpreter().run(before, inputs), Interpreter().run(after, inputs)
    for name, array in expected.items():
        assert same_bits(found[name], array), name


def test_the_exact_rules_still_act() -> None:
    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    fired = sum(
        (saturate_graph(random_graph(seed, 25), DEVICES["cpu"], exact).fired for seed in range(20)),
        Counter[str](),
    )
    assert {"identity", "div-power-of-two", "mul-one"} <= set(fired)


@pytest.mark.parametrize("seed", range(12))
def test_fusing_is_modelled_as_cheaper_than_not_fusing(seed: int) -> None:
    fused, separate = random_graph(seed, 25), random_graph(seed, 25)
    device = DEVICES["cpu"]
    together = saturate_graph(fused, device)
    apart = saturate_graph(separate, device, SaturateOptions(fuse=False))
    assert together.cost_after <= apart.cost_after * (1 + 1e-9)
    assert len(kernels_of(fused)) <= len(kernels_of(separate))
