"""`store-activations`: which values are stored in half precision, and which never are."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import STORED, graphs_of, parameters_of
from mgn.dialects.types import element_of
from mgn.driver.precision import PRECISIONS, check_precision, precision_options
from mgn.passes.convert_precision import is_rounded
from mgn.passes.simplify import SimplifyPass
from mgn.passes.store_activations import StoreActivations
from tests.support.programs import context

ROUNDING = 2.0**-9
"""How far the nearest number of bf16 is at most, by the number."""

DECODER = """
fn proj(x, name: str, n_in: int, n_out: int) {
  param w: f32[n_out, n_in] as "{name}" = normal(std = 0.2)
  return x @ w.T
}
fn block(x, i: int) {
  param g: f32[32] as "g{i}" = ones()
  h = rms_norm(x, g)
  q = rope(proj(h, "q{i}", 32, 32), head_dim = 16)
  k = rope(proj(h, "k{i}", 32, 16), head_dim = 16)
  v = proj(h, "v{i}", 32, 16)
  x = x + proj(attention(q, k, v, heads = 2, kv_heads = 1, causal = true), "o{i}", 32, 32)
  h = rms_norm(x, g)
  return x + proj(silu(proj(h, "gate{i}", 32, 48)) * proj(h, "up{i}", 32, 48), "down{i}", 48, 32)
}
graph decoder(x: f32[2, 6, 32]) {
  param g: f32[32] = ones()
  for i in 0..2 { x = block(x, i) }
  return y = rms_norm(x, g)
}
"""


def passed(text: str, precision: str = "bf16") -> ModuleOp:
    """A program's one graph, simplified, behind the pass."""
    module = mgn.parse(text).lower()
    for item in (SimplifyPass(), StoreActivations(precision)):
        item.apply(context(), module)
    return module


def operations(module: ModuleOp) -> list[TensorOp]:
    (graph,) = graphs_of(module)
    return [op for op in graph.block.ops if isinstance(op, TensorOp)]


def half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def values_of(module: ModuleOp, **shapes: tuple[int, ...]) -> tuple[Any, dict[str, np.ndarray]]:
    """What the interpreter makes of a module, and the data that it drew, in f64."""
    random = np.random.default_rng(5)
    data = {name: random.standard_normal(size).astype(np.float32) for name, size in shapes.items()}
    (graph,) = graphs_of(module)
    inputs = {name: data[name] for name in graph.input_names}
    rest = {name: value for name, value in data.items() if name not in inputs}
    found = Interpreter(rest).run(graph, inputs)
    return found, {name: value.astype(np.float64) for name, value in data.items()}


def test_products_and_the_sums_of_a_residual_stream_are_stored_in_half_precision() -> None:
    text = """
    graph net(x: f32[6, 32]) {
      param g: f32[32]
      param w: f32[48, 32]
      param b: f32[48]
      param v: f32[32, 48]
      r = x + silu(linear(rms_norm(x, g), w, b)) @ v.T
      return s = r * 0.5, y = rms_norm(r, g)
    }"""
    sizes = {"x": (6, 32), "g": (32,), "w": (48, 32), "b": (48,), "v": (32, 48)}
    found, data = values_of(passed(text), **sizes)
    x, g, w, b, v = data.values()

    def norm(value: np.ndarray) -> np.ndarray:
        return value / np.sqrt((value**2).mean(-1, keepdims=True) + 1e-5) * g

    h = half(half(norm(x)) @ w.T + b)
    r = half(x + half(half(h / (1 + np.exp(-h))) @ v.T))
    assert np.mean(np.isclose(found["s"], r * 0.5, rtol=1e-6, atol=1e-6)) > 0.98
    np.testing.assert_allclose(found["s"], r * 0.5, rtol=2 * ROUNDING, atol=4 * ROUNDING)
    np.testing.assert_allclose(found["y"], norm(r), rtol=2 * ROUNDING, atol=4 * ROUNDING)


@pytest.mark.parametrize("precision", ["bf16", "f32", "tf32", "f16"])
def test_attention_multiplies_by_rounded_weights_in_bf16_alone(precision: str) -> None:
    attention = [op for op in operations(passed(DECODER, precision)) if op.spec.name == "attention"]
    assert len(attention) == 2
    assert all(op.values["rounded_weights"] == (precision == "bf16") for op in attention)


def test_no_operation_but_cast_has_half_precision_and_results_stay_as_they_are() -> None:
    module = passed(DECODER)
    (graph,) = graphs_of(module)
    for op in operations(module):
        elements = [element_of(value.type).bits for value in (*op.operands, *op.results)]
        assert op.spec.name == "cast" or 16 not in elements
    for value in graph.return_op.operands:
        assert element_of(value.type).name == "f32" and not is_rounded(value, "bf16")


def test_a_decoder_errs_by_no_more_than_its_roundings_add_up_to() -> None:
    """Each stored value is off by at most half a unit; norms keep what follows at its size."""
    plain, stored = passed(DECODER, "f32"), passed(DECODER)
    (graph,) = graphs_of(plain)
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 6, 32)).astype(np.float32)
    params = {
        name: (0.2 * random.standard_normal(op.type.get_shape())).astype(np.float32)
        for name, op in parameters_of(plain).items()
    }
    wide = {name: value.astype(np.float64) for name, value in params.items()}
    expected = Interpreter(wide).run(graph, {"x": x})["y"]
    (graph,) = graphs_of(stored)
    found = Interpreter(params).run(graph, {"x": x})["y"]
    casts = sum(element_of(op.results[0].type).name == "bf16" for op in operations(stored))
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 2.0**-14 < error < casts * ROUNDING


@pytest.mark.parametrize(
    ("after", "name"),
    [
        ("argmax(x @ w, axis = -1)", "logits before the largest is found"),
        ("topk(x @ w * 0.5, k = 2)[0]", "what is put in order"),
        ("softmax(x @ w)", "scores"),
        (
            "exp(x @ w - max_reduce(x @ w, axis = -1, keepdims = true))",
            "scores of a softmax as written",
        ),
    ],
)
def test_what_is_compared_is_not_rounded(after: str, name: str) -> None:
    module = passed(f"graph g(x: f32[4, 8]) {{ param w: f32[8, 8]\n return y = {after} }}")
    casts = [op for op in operations(module) if op.spec.name == "cast" and op.operands]
    sources = {getattr(op.operands[0].owner, "name", "input") for op in casts}
    assert "mgn.matmul" not in sources, name


def test_parameters_states_and_inputs_keep_their_type_and_value() -> None:
    text = """
    graph g(x: f32[4, 8]) {
      param w: f32[8, 8]
      state s: f32[4, 8]
      s <- s + x @ w
      return y = (x + s) * 2.0
    }"""
    module = passed(text)
    (matmul,) = [op for op in operations(module) if op.spec.name == "matmul"]
    assert is_rounded(matmul.operands[0], "bf16") and not is_rounded(matmul.operands[1], "bf16")
    (sum_,) = [op for op in operations(module) if op.spec.name == "add"][-1:]
    assert not any(is_rounded(item, "bf16") for item in sum_.operands)


@pytest.mark.parametrize("precision", ["f32", "tf32"])
def test_precisions_without_a_type_of_two_bytes_change_nothing(precision: str) -> None:
    module = passed(DECODER, precision)
    assert STORED not in module.attributes
    assert not any(op.spec.name == "cast" for op in operations(module))


def test_a_precision_says_what_passes_are_told_and_which_are_for_training() -> None:
    assert precision_options("bf16-stored") == {
        "convert-precision": {"precision": "bf16"},
        "store-activations": {"precision": "bf16"},
    }
    assert precision_options("bf16") == {"convert-precision": {"precision": "bf16"}}
    for precision in PRECISIONS:
        check_precision(precision)
    with pytest.raises(MgnError, match="is for inference; in training 'bf16' already"):
        check_precision("bf16-stored", trains=True)
    with pytest.raises(MgnError, match="there are f32, tf32, bf16, f16, bf16-stored"):
        mgn.compile(mgn.parse(DECODER), precision="f16-stored")
    with pytest.raises(MgnError, match="is for inference"):
        mgn.compile(mgn.parse(DECODER), precision="bf16-stored", mode="training")


def test_a_device_gives_what_the_interpreter_gives_but_for_ties_that_its_sums_turn_over() -> None:
    """Sums in another order may round to the next number of bf16, which is a unit off."""
    text = """
    graph net(x: f32[5, 24]) {
      param w: f32[40, 24] = normal(std = 0.3)
      param v: f32[24, 40] = normal(std = 0.3)
      r = x + silu(x @ w.T) @ v.T
      return y = r * mean(r * r, axis = -1, keepdims = true)
    }"""
    exe = mgn.compile(mgn.parse(text), device="cpu", precision="bf16-stored")
    x = np.random.default_rng(4).standard_normal((5, 24)).astype(np.float32)
    (graph,) = graphs_of(passed(text))
    expected = Interpreter({name: exe.params[name] for name in exe.params}).run(graph, {"x": x})
    found, size = exe(x=x)["y"], np.abs(expected["y"]).max()
    assert np.abs(found - expected["y"]).max() <= 8 * ROUNDING * size
    assert "kernels hand over" in str(exe.report) and "of bf16" in str(exe.report)
    assert exe.report.to_dict()["handed_over"][0]["element"] == "bf16"
