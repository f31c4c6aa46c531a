"""Gradients of whole models on the CPU, against the interpreter in f64."""

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of

MLP = """graph mlp(x: f32[13, 20], labels: i32[13]) {
  param w1: f32[33, 20] = normal(std = 0.3)
  param b1: f32[33] = normal(std = 0.1)
  param w2: f32[10, 33] = normal(std = 0.3)
  param b2: f32[10] = zeros()
  loss = cross_entropy(linear(relu(linear(x, w1, b1)), w2, b2), labels)
  g1, c1, g2, c2 = grad(loss, [w1, b1, w2, b2])
  step = w1 - 0.1 * g1
  return loss, g1, c1, g2, c2, step
}"""

DECODER = """const D = 24, H = 4, KV = 2, HD = 6, FF = 40, V = 31, S = 7, B = 2
fn proj(x, name: str, i: int, o: int) {
  param w: f32[o, i] as "{name}" = normal(std = 0.2)
  return x @ w.T
}
graph decoder(tokens: i32[B, S], labels: i32[B, S]) {
  param embed: f32[V, D] = normal(std = 0.5)
  param g1: f32[D] = normal(mean = 1.0, std = 0.1)
  param g2: f32[D] = normal(mean = 1.0, std = 0.1)
  x = embedding(tokens, embed)
  h = rms_norm(x, g1)
  q = rope(proj(h, "q", D, H * HD), head_dim = HD)
  k = rope(proj(h, "k", D, KV * HD), head_dim = HD)
  v = proj(h, "v", D, KV * HD)
  x = x + proj(attention(q, k, v, heads = H, kv_heads = KV, causal = true), "o", H * HD, D)
  h = rms_norm(x, g2)
  x = x + proj(swiglu(proj(h, "gate", D, FF), proj(h, "up", D, FF)), "down", FF, D)
  loss = cross_entropy(x @ embed.T, labels)
  param wq: f32[H * HD, D] as "q"
  param wk: f32[KV * HD, D] as "k"
  param wv: f32[KV * HD, D] as "v"
  param wd: f32[D, FF] as "down"
  de, d1, d2, dq, dk, dv, dd = grad(loss, [embed, g1, g2, wq, wk, wv, wd])
  return loss, de, d1, d2, dq, dk, dv, dd
}"""

CONVOLUTIONS = """graph cnn(x: f32[3, 1, 12, 12], labels: i32[3]) {
  param w1: f32[6, 1, 3, 3] = normal(std = 0.3)
  param b1: f32[6] = normal(std = 0.1)
  param w2: f32[8, 6, 3, 3] = normal(std = 0.2)
  param g: f32[8] = ones()
  param c: f32[8] = zeros()
  param w3: f32[10, 72] = normal(std = 0.2)
  h = max_pool2d(relu(conv2d(x, w1, b1, padding = 1)), 2)
  h = group_norm(conv2d(h, w2, padding = 1), g, c, groups = 2)
  h = flatten(avg_pool2d(gelu(h), 2), start = 1)
  loss = cross_entropy(h @ w3.T, labels)
  dx, d1, e1, d2, dg, dc, d3 = grad(loss, [x, w1, b1, w2, g, c, w3])
  return loss, dx, d1, e1, d2, dg, dc, d3
}"""

SECOND = """graph second(x: f32[5, 8], t: f32[5, 3]) {
  param w: f32[3, 8] = normal(std = 0.5)
  loss = mse(tanh(x @ w.T), t)
  gx, gw = grad(loss, [x, w])
  return gx, h = grad(sum(gx * gx), w)
}"""

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (MLP, {"x": RANDOM.normal(size=(13, 20)), "labels": RANDOM.integers(0, 10, 13)}),
        (
            DECODER,
            {name: RANDOM.integers(0, 31, (2, 7)) for name in ("tokens", "labels")},
        ),
        (
            CONVOLUTIONS,
            {"x": RANDOM.normal(size=(3, 1, 12, 12)), "labels": RANDOM.integers(0, 10, 3)},
        ),
        (SECOND, {"x": RANDOM.normal(size=(5, 8)), "t": RANDOM.normal(size=(5, 3))}),
    ],
    ids=["mlp", "decoder", "cnn", "second order"],
)
def test_a_step_on_the_device_agrees_with_the_interpreter(
    text: str, inputs: dict[str, np.ndarray]
) -> None:
    given = {
        name: array.astype(np.float32 if array.dtype == np.float64 else np.int32)
        for name, array in inputs.items()
    }
    module = mgn.parse(text)
    executable = mgn.compile(module)
    found = executable(**given)
    parameters = {name: np.asarray(executable.params[name]) for name in executable.params}
    (graph,) = graphs_of(module.lower())
    expected = Interpreter(parameters, wide=True).run(graph, given)
    for name, wanted in expected.items():
        bound = 2e-5 * max(float(np.abs(wanted).max()), 1e-3)
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=bound, err_msg=name)


def test_more_equals_than_half_precision_counts_share_a_gradient() -> None:
    text = "graph g(x: f16[70000]) { return g = grad(max_reduce(x), x) }"
    found = mgn.compile(mgn.parse(text))(x=np.zeros(70000, np.float16))["g"]
    np.testing.assert_array_equal(found, np.full(70000, 1 / 70000, np.float16))
