"""Whole training graphs: they reach the fixpoint, keep their values, and take little time."""

import time

import numpy as np
import pytest

from benchmarks.graphs import egraph_graphs
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, ReadOp
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.memo import forget_choices
from tests.passes.saturate.saturate_programs import CPU, kernels_of, random_inputs


@pytest.mark.parametrize("kind", ["training_graph", "inference_graph"])
def test_a_layer_of_a_decoder_computes_the_same_after_saturation(kind: str) -> None:
    before = getattr(egraph_graphs, kind)(1)
    before.verify()
    after = before.clone()
    report = saturate_graph(after, CPU)
    after.verify()
    assert report.saturated
    rng = np.random.default_rng(0)
    weights = {
        op.parameter_name: rng.uniform(0.05, 0.2, op.result.type.get_shape())  # pyright: ignore
        for op in before.walk()
        if isinstance(op, ReadOp)
    }
    inputs = random_inputs(before)
    expected = Interpreter(weights, wide=True).run(before, inputs)
    found = Interpreter(weights, wide=True).run(after, inputs)
    for name, array in expected.items():
        scale = np.abs(array).max()
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-9 * scale, err_msg=name)


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=["cpu", "gpu"])
@pytest.mark.parametrize(("layers", "gap"), [(1, 1e-4), (2, 1e-4), (4, 1e-4), (8, 1e-3)])
def test_the_choice_for_a_training_graph_is_close_to_its_bound(
    layers: int, gap: float, device: Device
) -> None:
    report = saturate_graph(
        egraph_graphs.training_graph(layers), device, SaturateOptions(extract_budget=30.0)
    )
    assert report.gap <= gap


@pytest.mark.usefixtures("without_old_objects")
@pytest.mark.long
def test_a_training_step_of_ten_thousand_operations_is_saturated_and_extracted() -> None:
    """In time that grows no faster than the layers, and again in a fraction of it."""
    few, graph = egraph_graphs.training_graph(6), egraph_graphs.training_graph(24)
    again = graph.clone()
    forget_choices()
    _, short = timed(few)
    forget_choices()
    report, cold = timed(graph)
    known, warm = timed(again)
    forget_choices()
    assert report.operations >= 10_000
    assert report.saturated
    assert report.gap < 0.01
    assert report.cost_after < 0.3 * report.cost_before
    assert len(kernels_of(graph)) < 0.2 * report.operations
    assert known.remembered
    assert cold < 8 * short
    assert warm < cold / 4


def timed(graph: GraphOp) -> tuple[SaturateReport, float]:
    """What saturation says of a graph, and the processor's seconds."""
    start = time.process_time()
    return saturate_graph(graph, CPU), time.process_time() - start
