"""The interpreter on whole graphs: precision, fused programs, freed values, and its errors."""

import time

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.steps import ReadyGraph, Steps
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from tests.support.programs import parse

MLP = """
mgn.param @"w" : tensor<3x4xf32>
mgn.graph @mlp("x" = %x : tensor<2x3xf32>) -> ("y" : tensor<2x4xf32>, "best" : tensor<2xi32>) {
  %w = mgn.read @"w" : tensor<3x4xf32>
  %0 = mgn.matmul(%x, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = mgn.relu(%0) : tensor<2x4xf32>
  %2 = mgn.argmax(%1) axis = [1] : (tensor<2x4xf32>) -> tensor<2xi32>
  mgn.return %1, %2 : tensor<2x4xf32>, tensor<2xi32>
}
"""

FUSED = """
mgn.graph @g("x" = %x : tensor<2x3xf32>) -> ("y" : tensor<2x3xf32>, "m" : tensor<2x1xf32>) {
  %y, %m = fusion.kernel reduction (%a = %x : tensor<2x3xf32>)
      -> (tensor<2x3xf32>, tensor<2x1xf32>) {
    %0 = mgn.max_reduce(%a) axis = [1], keepdims = true : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %1 = mgn.sub(%a, %0) : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
    fusion.return %1, %0 : tensor<2x3xf32>, tensor<2x1xf32>
  }
  mgn.return %y, %m : tensor<2x3xf32>, tensor<2x1xf32>
}
"""


def graph_of(module: ModuleOp) -> GraphOp:
    return next(graphs_of(module))


def arrays(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_graph_gives_its_results_by_name_in_their_types() -> None:
    x, w = arrays(2, 3), arrays(3, 4)
    out = Interpreter({"w": w}).run(graph_of(parse(MLP)), {"x": x})
    expected = np.maximum(x @ w, 0)
    np.testing.assert_allclose(out["y"], expected, rtol=1e-6)
    np.testing.assert_array_equal(out["best"], expected.argmax(1))
    assert (out["y"].dtype, out["best"].dtype) == (np.float32, np.int32)


def test_wide_runs_compute_every_float_in_f64() -> None:
    x, w = arrays(2, 3), arrays(3, 4)
    out = Interpreter({"w": w}, wide=True).run(graph_of(parse(MLP)), {"x": x})
    np.testing.assert_allclose(out["y"], np.maximum(np.float64(x) @ np.float64(w), 0), rtol=1e-14)
    assert (out["y"].dtype, out["best"].dtype) == (np.float64, np.int32)


def test_a_fused_program_is_computed_through_its_kernels() -> None:
    x = arrays(2, 3)
    out = Interpreter().run(graph_of(parse(FUSED)), {"x": x})
    np.testing.assert_array_equal(out["m"], x.max(1, keepdims=True))
    np.testing.assert_array_equal(out["y"], x - x.max(1, keepdims=True))


def test_values_are_forgotten_after_their_last_use_and_results_are_kept() -> None:
    graph = graph_of(parse(MLP))
    _, product, relu, _, end = graph.block.ops
    steps = Steps(graph.block)
    values = list(steps.places)
    ended = {step.op: [values[place] for place in ended] for step, *_, ended in steps.steps}
    assert {op: found for op, found in ended.items() if found} == {
        product: [*product.operands],
        relu: [*product.results],
    }
    assert [values[place] for place in steps.returned] == [*end.operands]


def test_a_graph_that_was_made_ready_runs_again_and_again() -> None:
    graph, w = graph_of(parse(MLP)), arrays(3, 4)
    ready = ReadyGraph(graph)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)
        for wide in (False, True):
            once, again = (Interpreter({"w": w}, wide).run(one, {"x": x}) for one in (graph, ready))
            for name, array in once.items():
                assert again[name].dtype == array.dtype
                np.testing.assert_array_equal(again[name], array)


@pytest.mark.parametrize(
    ("inputs", "parameters", "message"),
    [
        ({}, {"w": arrays(3, 4)}, "input 'x' is missing"),
        ({"x": arrays(2, 3)}, {}, "parameter 'w' is missing"),
        ({"x": arrays(2, 3), "z": arrays(1)}, {}, "graph 'mlp' has no input 'z'"),
        ({"x": arrays(3, 2)}, {}, r"input 'x' has shape \[3, 2\], expected f32\[2, 3\]"),
        ({"x": arrays(2, 3)}, {"w": arrays(4)}, r"parameter 'w' has shape \[4\], expected f32"),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    inputs: dict[str, np.ndarray], parameters: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InterpretationError, match=message):
        Interpreter(parameters).run(graph_of(parse(MLP)), inputs)


def test_a_float_is_not_silently_made_an_integer() -> None:
    text = """
      mgn.graph @g("i" = %i : tensor<2xi32>) -> ("y" : tensor<2xi32>) {
        mgn.return %i : tensor<2xi32>
      }
    """
    with pytest.raises(InterpretationError, match=r"input 'i' is float64, expected i32\[2\]"):
        Interpreter().run(graph_of(parse(text)), {"i": np.array([0.5, 1])})
    out = Interpreter().run(graph_of(parse(text)), {"i": np.array([3, 4])})
    np.testing.assert_array_equal(out["y"], np.array([3, 4], np.int32))


def test_ten_thousand_small_operations_take_seconds_at_most() -> None:
    lines = "\n".join(
        f"%{i + 1} = mgn.add(%{i}, %{i}) : tensor<4xi32>" for i in range(1, 10_000)
    ).replace("(%1, %1)", "(%x, %x)")
    text = f"""
      mgn.graph @g("x" = %x : tensor<4xi32>) -> ("y" : tensor<4xi32>) {{
        {lines}
        mgn.return %10000 : tensor<4xi32>
      }}
    """
    graph = graph_of(parse(text))
    start = time.process_time()
    out = Interpreter().run(graph, {"x": np.zeros(4, np.int32)})
    assert time.process_time() - start < 10
    np.testing.assert_array_equal(out["y"], np.zeros(4, np.int32))
