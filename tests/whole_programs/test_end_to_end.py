"""Whole programs on the device against the interpreter: random graphs, fused or not, and models.

The device and the oracle differ by rounding alone, which an ill-conditioned graph may enlarge: the
bound is what NumPy's own f32 loses on the same graph, scaled to the element type's epsilon, with a
factor for other orders of summation.
"""

import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate import SaturateOptions
from tests.conftest import ROOT
from tests.passes.saturate.saturate_programs import random_graph, random_inputs

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}
ORDERS = 64.0
"""How many times the loss of one order of evaluation another order may lose."""


def bound_of(graph: GraphOp, inputs: dict[str, np.ndarray], element: str) -> dict[str, float]:
    """The largest error each result may have, from what evaluation in f32 loses."""
    wide = Interpreter(wide=True).run(graph, inputs)
    narrow = Interpreter().run(graph, inputs)
    bounds: dict[str, float] = {}
    for name, exact in wide.items():
        scale = float(np.max(np.abs(exact), initial=1.0))
        lost = float(np.max(np.abs(narrow[name] - exact), initial=0.0)) / EPSILON["f32"]
        bounds[name] = ORDERS * max(lost, scale) * EPSILON[element]
    return bounds


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 30),
    operations=st.integers(1, 18),
    element=st.sampled_from(["f32", "f64"]),
    fuse=st.booleans(),
)
def test_a_random_graph_computes_on_the_device_what_the_interpreter_does(
    seed: int, operations: int, element: str, fuse: bool
) -> None:
    narrow = random_graph(seed, operations, "f32")
    bounds = bound_of(narrow, random_inputs(narrow, seed & 0xFFFF), element)
    graph = random_graph(seed, operations, element)
    inputs = random_inputs(graph, seed & 0xFFFF)
    wanted = Interpreter(wide=True).run(graph, inputs)
    module = ModuleOp([graph.clone()])
    exe = mgn.compile(module, device=DEVICE, saturation=SaturateOptions(fuse=fuse))
    found = exe(**inputs)
    for name, exact in wanted.items():
        assert found[name].shape == exact.shape
        error = float(np.max(np.abs(found[name] - exact), initial=0.0))
        assert error <= bounds[name], f"{name}: error {error:.3g}, bound {bounds[name]:.3g}"


EXAMPLES = {"smollm2": {"LAYERS": 30, "VOCAB": 49152}, "bert": {"LAYERS": 6, "VOCAB": 30522}}
"""Models among the examples, and what is smaller here: layers and words are all of a kind."""

LAYERS, WORDS = 3, 4000


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_model_agrees_with_the_interpreter_fused_or_not(name: str) -> None:
    """To a few times the largest error of NumPy's f32, for sixteen tokens."""
    text = (ROOT / "examples" / f"{name}.mgn").read_text()
    for (constant, value), smaller in zip(EXAMPLES[name].items(), (LAYERS, WORDS), strict=True):
        assert text.count(f"{constant} = {value}") == 1
        text = text.replace(f"{constant} = {value}", f"{constant} = {smaller}")
    module = mgn.parse(text)
    tokens = np.random.default_rng(0).integers(0, WORDS, (1, 16), np.int32)
    fused, apart = (
        mgn.compile(
            module, dims={"S": 16}, device=DEVICE, saturation=SaturateOptions(fuse=together)
        )
        for together in (True, False)
    )
    parameters = {key: np.asarray(fused.params[key]) for key in fused.params}
    for parameter, value in parameters.items():
        apart.params[parameter] = value
    graph = next(graphs_of(module.lower(dims={"S": 16})))
    ((result, exact),) = Interpreter(parameters, wide=True).run(graph, {"tokens": tokens}).items()
    narrow = Interpreter(parameters).run(graph, {"tokens": tokens})[result]
    lost = float(np.max(np.abs(narrow - exact)))
    for exe in (fused, apart):
        found = exe(tokens=tokens)[result]
        assert 0 < float(np.max(np.abs(found - exact))) <= 4 * lost


QKV = {"q": (4, 8), "k": (6, 8), "v": (6, 8)}
EDGES: dict[str, tuple[dict[str, tuple[int, ...]], str, Callable[..., np.ndarray]]] = {
    # shapes of the inputs, what is computed, and what comes of it in f64
    "a product over no terms": (
        {"a": (70, 0), "b": (0, 70)},
        "relu(a @ b)",
        lambda a, b: np.zeros((70, 70)),
    ),
    "scores over no terms": (
        {"q": (4, 0), "k": (6, 0), "v": (6, 8)},
        "softmax(q @ k.T) @ v",
        lambda q, k, v: np.broadcast_to(v.mean(axis=0), (4, 8)),
    ),
    "a scale that is no number of f32": (
        QKV,
        "attention(q, k, v, heads = 1, scale = 1e39)",
        lambda q, k, v: np.full((4, 8), np.nan),
    ),
    "a scale that leaves f32 in two steps": (
        QKV,
        "softmax(((q * 1e38) * 1e3) @ k.T) @ v",
        lambda q, k, v: np.full((4, 8), np.nan),
    ),
    "rows less what is infinite": (
        {"x": (5, 7), "m": (5, 1)},
        "softmax(x - m / 0.0)",
        lambda x, m: np.full((5, 7), np.nan),
    ),
    "rows less their largest element": (
        {"x": (5, 7)},
        "softmax(x - max_reduce(x, axis = -1, keepdims = true))",
        lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_program_at_the_edge_of_numbers_is_computed_as_written(name: str) -> None:
    shapes, expression, wanted = EDGES[name]
    given = ", ".join(f"{key}: f32{list(shape)}" for key, shape in shapes.items())
    exe = mgn.compile(mgn.parse(f"graph g({given}) {{ return y = {expression} }}"), device=DEVICE)
    rng = np.random.default_rng(0)
    arrays = {key: rng.standard_normal(shape, np.float32) for key, shape in shapes.items()}
    expected = wanted(*(array.astype(np.float64) for array in arrays.values()))
    np.testing.assert_allclose(exe(**arrays)["y"], expected, rtol=1e-5, atol=1e-6)
