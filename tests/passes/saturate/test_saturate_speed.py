"""SmolLM2's thirty layers: fused as expected, and once."""

from collections import Counter

import pytest
from xdsl.ir import Operation

import mgn
from mgn.dialects.mgn.structure import GraphOp, ReadOp, graphs_of
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.simplify import simplify_graph
from tests.conftest import ROOT
from tests.passes.saturate.saturate_programs import CPU, body_names, kernels_of, matrices_of

LAYERS = 30
PATIENT = SaturateOptions(time_budget=60.0, extract_budget=30.0)
"""Limits that do not fire on a busy machine."""


@pytest.fixture(scope="module")
def smollm() -> tuple[GraphOp, SaturateReport]:
    """The graph after saturation, and the report of the second run."""
    module = mgn.parse_file(ROOT / "examples" / "smollm2.mgn").lower()
    graph = next(graphs_of(module))
    simplify_graph(graph)
    saturate_graph(graph.clone(), CPU, PATIENT)
    report = saturate_graph(graph, CPU, PATIENT)
    module.verify()
    return graph, report


def test_the_decoder_saturates_and_is_extracted_to_proven_optimality(
    smollm: tuple[GraphOp, SaturateReport],
) -> None:
    _, report = smollm
    assert report.saturated
    assert report.gap < 0.001
    assert report.fired["swiglu"] == LAYERS
    wide = 2 * LAYERS
    assert report.fired["matmul-transposed-b"] == 7 * LAYERS + wide + 1


def test_every_matrix_product_is_computed_once_with_its_epilogue(
    smollm: tuple[GraphOp, SaturateReport],
) -> None:
    """Queries, keys and values are one wide product, gate and values of the gated layer another;
    both of attention's are in its kernel.
    """
    graph, report = smollm
    assert len(matrices_of(graph)) == 4 * LAYERS + 1
    assert report.kernels["contraction"] == 4 * LAYERS + 1
    assert report.kernels["attention"] == LAYERS
    bodies = Counter(tuple(body_names(kernel)) for kernel in kernels_of(graph))
    gated = sum(n for body, n in bodies.items() if body == ("slice", "slice", "swiglu"))
    residual = sum(n for body, n in bodies.items() if "matmul" in body and body[-1] == "add")
    assert gated == LAYERS
    assert residual == 2 * LAYERS
    norms = sum(n for body, n in bodies.items() if "rsqrt" in body)
    assert norms == 2 * LAYERS + 1


def test_no_kernel_only_moves_elements_but_of_parameters(
    smollm: tuple[GraphOp, SaturateReport],
) -> None:
    graph, _ = smollm
    movement = {"reshape", "transpose", "slice", "concat", "broadcast_to", "pad"}
    moving = [kernel for kernel in kernels_of(graph) if set(body_names(kernel)) <= movement]
    assert moving and all(map(_is_of_parameters, moving))


def _is_of_parameters(operation: Operation) -> bool:
    """Whether parameters alone decide what an operation gives."""
    if isinstance(operation, ReadOp):
        return True
    owners = [item.owner for item in operation.operands]
    return all(isinstance(owner, Operation) and _is_of_parameters(owner) for owner in owners)


def test_an_equal_graph_is_not_saturated_again(smollm: tuple[GraphOp, SaturateReport]) -> None:
    _, report = smollm
    assert report.remembered
