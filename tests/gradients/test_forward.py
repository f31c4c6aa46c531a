"""`jvp`: how a value changes along directions, beside differences."""

import numpy as np
import pytest

import mgn
from mgn import ops
from tests.gradients.programs import values_of

STEP = 1e-5

PROGRAMS = {
    "elementwise": ("x: f64[3, 4]", "y = exp(x) * sin(x) + tanh(x) / (1.0 + x * x)"),
    "norm": (
        "x: f64[3, 4]",
        "y = softmax(x * x) - x / sqrt(mean(x * x, axis = -1, keepdims = true) + 1.0)",
    ),
    "product": ("x: f64[3, 4]", "y = (x @ x.T) @ relu(x)"),
    "movement": ("x: f64[3, 4]", "y = concat([x.T, reshape(x, [4, 3]) * 2.0], axis = 0)[1:6]"),
    "reduction": ("x: f64[3, 4]", "y = max_reduce(x, axis = 0) + cumsum(x, axis = 1)"),
    "attention": ("x: f64[3, 4]", "y = attention(x, x * 2.0, sin(x), heads = 2, causal = true)"),
    "convolution": ("x: f64[1, 2, 5, 5]", "y = conv2d(gelu(x), x[:, :, 1:3, 1:3], stride = 2)"),
    "scalar": ("x: f64[3, 4]", "y = sum(x * x)"),
    "empty": ("x: f64[0, 4]", "y = exp(x)"),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_change_along_a_direction_is_that_of_differences(name: str) -> None:
    given, body = PROGRAMS[name]
    shape = tuple(int(size) for size in given[given.index("[") + 1 : -1].split(","))
    rng = np.random.default_rng(3)
    x, v = rng.normal(size=shape), rng.normal(size=shape)
    text = f"graph g({given}, v{given[1:]}) {{\n  {body}\n  t = jvp(y, x, v)\n  return y, t\n}}"
    near = {n: values_of(text, {"x": x + n * STEP * v, "v": v}) for n in (-1, 0, 1)}
    wanted = (near[1]["y"] - near[-1]["y"]) / (2 * STEP)
    assert near[0]["t"].shape == near[0]["y"].shape
    np.testing.assert_allclose(near[0]["t"], wanted, rtol=1e-6, atol=1e-8)


def test_values_of_a_list_go_in_a_direction_each() -> None:
    text = """graph g(x: f64[3], v: f64[3]) {
      param w: f64[3] as "w"
      y = x * x * w
      return both = jvp(y, [x, w], [v, x]), second = jvp(jvp(y, x, v), x, v)
    }"""
    x, v, w = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -3.0]), np.array([4.0, 5.0, 6.0])
    found = values_of(text, {"x": x, "v": v}, {"w": w})
    np.testing.assert_allclose(found["both"], 2 * x * w * v + x**3)
    np.testing.assert_allclose(found["second"], 2 * w * v * v)


def test_only_what_the_result_needs_is_computed() -> None:
    text = "graph g(x: f32[64], v: f32[64]) {\n  t = jvp(exp(x), x, v)\n  return t\n}"
    optimised = mgn.optimize(mgn.parse(text))
    assert len(optimised.report.kernels) == 1
    assert {op.name for op in optimised.module.walk()} & {"mgn.sum", "mgn.grad"} == set()


def test_graphs_built_in_python_have_it() -> None:
    with mgn.graph("g") as g:
        x, v = g.input("x", "f32[4]"), g.input("v", "f32[4]")
        g.output(t=ops.jvp(x * x, x, v))
    x, v = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    found = mgn.compile(g.module, device="cpu")(x=x, v=v)["t"]
    np.testing.assert_array_equal(found, 2 * x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("jvp(x, x)", r"jvp\(\) takes a value, a value or a list of values, and as many direc"),
        ("jvp(x, x, v, v)", r"jvp\(\) takes a value"),
        ("jvp(x, x, w = v)", r"jvp\(\) has no argument 'w'"),
        ("jvp(x, [x, v], [v])", "jvp: 2 values, and 1 directions"),
        ("jvp(x, x, sum(v))", r"a direction has the type of its value, f32\[4\], not f32\[\]"),
        ("jvp(x, x, 1.0)", r"jvp\(\) takes tensors of the graph, not the number 1.0"),
        ("jvp(i, x, v)", "differentiates floats, not i32"),
        ("jvp([x], x, v)", r"jvp\(\) takes a value"),
        ("jvp(x, [], [])", "names a value or more"),
        ("jvpp(x, x, v)", "did you mean 'jvp'"),
    ],
)
def test_what_it_cannot_do_is_said_at_its_place(call: str, message: str) -> None:
    text = f"graph g(x: f32[4], v: f32[4], i: i32[4]) {{\n  t = {call}\n  return t\n}}"
    with pytest.raises(mgn.MgnError, match=message) as caught:
        mgn.parse(text)
    assert "2:7" in str(caught.value)
