"""`mixed-precision`: which values are of half precision, forward and backward, and which never."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import element_of
from mgn.passes.convert_precision import ConvertPrecision, is_rounded
from mgn.passes.differentiate import Differentiate
from mgn.passes.mixed_precision import MixedPrecision
from tests.support.programs import context
from tests.training.networks import batch, mlp

TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}

TRANSFORMER = """
graph net(x: f32[2, 6, 16], t: i32[12]) {
  param g: f32[16] = ones()
  param b: f32[16] = zeros()
  param wq: f32[48, 16] = normal(std = 0.3)
  param wo: f32[16, 16] = normal(std = 0.3)
  param bo: f32[16] = zeros()
  param head: f32[5, 16] = normal(std = 0.3)
  h = layer_norm(x, g, b)
  qkv = linear(h, wq)
  a = attention(qkv[:, :, 0:16], qkv[:, :, 16:32], qkv[:, :, 32:48], heads = 2, causal = true)
  z = x + linear(a, wo, bo)
  logits = reshape(z, [12, 16]) @ head.T
  loss = cross_entropy(logits, t)
  d = grad(loss, [g, b, wq, wo, bo, head])
  return loss, dg = d[0], db = d[1], dq = d[2], do = d[3], dbo = d[4], dh = d[5]
}
"""


def passed(text: str, precision: str, *more: Any) -> ModuleOp:
    """A program's one graph behind the pass and others."""
    module = mgn.parse(text).lower()
    for item in (MixedPrecision(precision), *more):
        item.apply(context(), module)
    return module


def operations(module: ModuleOp) -> Iterator[TensorOp]:
    (graph,) = graphs_of(module)
    return (op for op in graph.block.ops if isinstance(op, TensorOp))


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_half_precision_is_how_values_are_kept_and_never_how_they_are_computed(
    precision: str,
) -> None:
    """Statistics of norms, sums of softmaxes, losses and gradients of parameters are f32."""
    stages = (Differentiate(), ConvertPrecision(precision))
    module = passed(TRANSFORMER, precision, *stages)
    kept = 0
    for op in operations(module):
        elements = [element_of(value.type) for value in (*op.operands, *op.results)]
        if any(element.bits == 16 for element in elements):
            assert op.spec.name == "cast"
            kept += 1
    assert kept > 20
    (graph,) = graphs_of(module)
    for name, value in zip(graph.result_names, graph.return_op.operands, strict=True):
        assert element_of(value.type).name == "f32"
        assert not is_rounded(value, precision), name


def half(array: np.ndarray, precision: str) -> np.ndarray:
    """The nearest numbers of half precision."""
    return array.astype(np.float32).astype(TYPES[precision]).astype(np.float64)


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_what_products_read_and_give_is_rounded_forward_and_backward(precision: str) -> None:
    text = """
    graph net(x: f32[6, 40], r: f32[6, 24]) {
      param w: f32[24, 40]
      param b: f32[24]
      param v: f32[5, 24]
      y = linear(x, w, b)
      z = tanh(y) + r
      loss = sum(z @ v.T)
      d = grad(loss, [x, w, b, v, r])
      return loss, y, dx = d[0], dw = d[1], db = d[2], dv = d[3], dr = d[4]
    }"""
    module = passed(text, precision, Differentiate(), ConvertPrecision(precision))
    random = np.random.default_rng(3)
    shapes = {"x": (6, 40), "r": (6, 24), "w": (24, 40), "b": (24,), "v": (5, 24)}
    data = {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    (graph,) = graphs_of(module)
    inputs = {name: data.pop(name) for name in ("x", "r")}
    found = Interpreter(data).run(graph, inputs)
    x, r, w, b, v = [{**inputs, **data}[name].astype(np.float64) for name in shapes]
    y = half(half(x, precision) @ half(w, precision).T + b, precision)
    z = half(np.tanh(y) + r, precision)
    gz = half(np.ones((6, 5)) @ half(v, precision), precision)
    gy = half(gz * (1 - np.tanh(y) ** 2), precision)
    expected = {
        "loss": half(z @ half(v, precision).T, precision).sum(),
        "y": y,
        "dx": half(gy @ half(w, precision), precision),
        "dw": gy.T @ half(x, precision),
        "db": gy.sum(axis=0),
        "dv": np.ones((5, 6)) @ z,
        "dr": gz,
    }
    for name, value in expected.items():
        same = np.isclose(found[name], value, rtol=2e-6, atol=2e-6)
        assert np.mean(same) > 0.99, name  # a sum's order may have one in many rounded otherwise


def test_scores_stay_as_they_are() -> None:
    text = """
    graph g(q: f32[4, 8], k: f32[4, 8], v: f32[4, 8]) {
      scores = where(tril(full([4, 4], 1.0)) > 0.0, (q @ k.T) / 2.0, -inf)
      return y = softmax(scores, axis = 1) @ v
    }"""
    module = passed(text, "bf16")
    casts = [op for op in operations(module) if op.spec.name == "cast"]
    assert {element_of(op.operands[0].type).name for op in casts} == {"f32", "bf16"}
    assert all(shape_of(op.results[0]) == (4, 8) for op in casts)
    products = [op for op in operations(module) if op.spec.name == "matmul"]
    assert [is_rounded(item, "bf16") for item in products[1].operands] == [False, True]


@pytest.mark.parametrize(
    ("body", "casts"),
    [
        ("linear(x, w)", 4),
        ("linear(linear(x, w), w)", 6),
        ("linear(x, w) + linear(x, w)", 6),
        ("linear(x, w + w)", 6),
        ("linear(x, transpose(w, perm = [1, 0]))", 4),
        ("linear(cast(cast(x, 'bf16'), 'f32'), w)", 4),
        ("x * w", 0),
        ('einsum("ij,ij->ij", x, w)', 0),
        ('einsum("ij,kj->ik", x, w)', 4),
    ],
)
def test_values_are_rounded_once_and_parameters_by_no_one(body: str, casts: int) -> None:
    body = body.replace("'", '"')
    text = f"graph g(x: f32[4, 4]) {{ param w: f32[4, 4] = ones()\n return y = {body} }}"
    found = [op for op in operations(passed(text, "bf16")) if op.spec.name == "cast"]
    assert len(found) == casts
    if "cast" not in body:
        assert "cast" not in [op.spec.name for op in operations(passed(text, "tf32"))]


def test_other_types_stay() -> None:
    text = "graph g(x: f64[4, 4], h: bf16[4, 4]) { return y = x @ x, z = h @ h }"
    assert [op.spec.name for op in operations(passed(text, "bf16"))] == ["matmul", "matmul"]


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_gradients_are_those_of_f32_but_for_rounding(precision: str) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 6, 16)).astype(np.float32)
    inputs = {"x": x, "t": random.integers(0, 5, 12).astype(np.int32)}
    sizes = {"g": (16,), "b": (16,), "wq": (48, 16), "wo": (16, 16), "bo": (16,), "head": (5, 16)}
    values = {n: 0.3 * random.standard_normal(s).astype(np.float32) for n, s in sizes.items()}
    found: list[dict[str, np.ndarray]] = []
    for name in ("f32", precision):
        module = passed(TRANSFORMER, name, Differentiate(), ConvertPrecision(name))
        (graph,) = graphs_of(module)
        found.append(Interpreter(values).run(graph, inputs))
    unit = {"bf16": 2.0**-8, "f16": 2.0**-11}[precision]
    for name, exact in found[0].items():
        error = np.linalg.norm(found[1][name] - exact) / np.linalg.norm(exact)
        assert 0 < error < 6 * unit, name


def test_a_network_learns_in_half_precision() -> None:
    trainer = mgn.Trainer(mlp(), optimizer=mgn.AdamW(lr=0.02), seed=3, precision="bf16")
    outputs = [trainer.step(batch(number % 8)) for number in range(80)]
    assert outputs[-1]["loss"] < 0.3 * outputs[0]["loss"]
    assert not np.any(outputs[0]["logits"].view(np.uint32) & 0xFFFF)
    assert all(value.dtype == np.float32 for value in trainer.state().values() if value.ndim)
