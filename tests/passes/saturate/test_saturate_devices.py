"""Whole models on devices as they are measured, which differ from the descriptions in `DEVICES`."""

import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.saturate import saturate_graph
from mgn.passes.simplify import simplify_graph
from tests.conftest import ROOT
from tests.passes.saturate.saturate_programs import CPU

MEASURED = {
    "two cores of a server": CPU.with_figures(
        bandwidth=1.8e10,
        launch_cost=5.33e-6,
        rates={"f32": 2.755e11, "f64": 1.38e11, "f16": 1.7e10, "bf16": 1.7e10},
        cache=16 << 20,
        cache_gain=2.59,
    ),
    "laptop": CPU.with_figures(
        compute_units=8,
        vector_bits=256,
        bandwidth=6e10,
        launch_cost=1e-5,
        rates={"f32": 9e11, "f64": 4.5e11, "f16": 1e11, "bf16": 1e11},
        cache_gain=3.2,
    ),
    "card without a matrix unit": DEVICES["nvidia-h200"].with_figures(
        compute_units=28,
        bandwidth=3.6e11,
        launch_cost=8e-6,
        rates={"f32": 1.2e13, "f64": 2e11, "f16": 1.2e13, "bf16": 1.2e13},
        matrix_rates={},
        matrix_unit="none",
    ),
}


@pytest.mark.parametrize("device", MEASURED.values(), ids=MEASURED)
@pytest.mark.parametrize("model", ["smollm2", "bert"])
def test_the_choice_for_a_model_is_close_to_its_bound(model: str, device: Device) -> None:
    """Within the time that is allowed if nobody says otherwise."""
    module = mgn.parse_file(ROOT / "examples" / f"{model}.mgn").lower()
    graph = next(graphs_of(module))
    simplify_graph(graph)
    report = saturate_graph(graph, device)
    assert report.saturated
    assert report.gap <= 0.01
