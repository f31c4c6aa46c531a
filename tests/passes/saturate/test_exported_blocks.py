"""Transformer blocks from exported parts come to the kernels of the same blocks of composites."""

from collections import Counter

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, ReadOp, graphs_of
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.exported_blocks import BLOCKS, COMPOSITE, NORMS
from tests.passes.saturate.saturate_programs import CPU, kernels_of, random_inputs


def _kernels(text: str, device: Device) -> tuple[GraphOp, GraphOp, SaturateReport]:
    """A block before and after saturation."""
    graph = next(graphs_of(mgn.parse(text).lower()))
    before = graph.clone()
    simplify_graph(graph)
    return before, graph, saturate_graph(graph, device, SaturateOptions(time_budget=60.0))


def _heavy(graph: GraphOp) -> Counter[str]:
    """How many kernels there are of each kind that does more than move elements."""
    kinds = Counter(kernel.kind.data for kernel in kernels_of(graph))
    del kinds["pointwise"]
    return kinds


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=lambda item: item.name)
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_parts_has_the_kernels_and_the_price_of_one_of_composites(
    name: str, device: Device
) -> None:
    parts, whole = BLOCKS[name]
    _, graph, report = _kernels(parts, device)
    _, wanted, wanted_report = _kernels(whole, device)
    assert report.saturated
    assert _heavy(graph) == _heavy(wanted)
    assert report.cost_after == pytest.approx(wanted_report.cost_after, rel=0.01)


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=lambda item: item.name)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_costs_a_block_the_same_however_it_is_spelled(name: str, device: Device) -> None:
    text = BLOCKS["bert"][1]
    assert COMPOSITE in text
    _, graph, report = _kernels(text.replace(COMPOSITE, NORMS[name]), device)
    _, wanted, wanted_report = _kernels(text, device)
    assert _heavy(graph) == _heavy(wanted)
    assert report.cost_after == pytest.approx(wanted_report.cost_after, rel=1e-3)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_parts_computes_the_same_after_saturation(name: str) -> None:
    before, after, _ = _kernels(BLOCKS[name][0], CPU)
    rng = np.random.default_rng(0)
    weights = {
        op.parameter_name: rng.normal(0.0, 0.2, op.result.type.get_shape())  # pyright: ignore
        for op in before.walk()
        if isinstance(op, ReadOp)
    }
    inputs = random_inputs(before)
    expected = Interpreter(weights, wide=True).run(before, inputs)
    found = Interpreter(weights, wide=True).run(after, inputs)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)
