"""Gradients where there is no derivative, or where a formula would form 0 · inf."""

import re
from typing import Any

import numpy as np
import pytest

from tests.gradients.programs import values_of

INF, NAN = float("inf"), float("nan")

CORNERS: dict[str, tuple[str, list[float], list[float]]] = {
    "relu gives 0 at 0": ("relu(x)", [-1, 0, 2, INF], [0, 0, 1, 1]),
    "abs gives 0 at 0": ("abs(x)", [-1, 0, 2], [-1, 0, 1]),
    "leaky_relu has its slope at 0": ("leaky_relu(x, slope = 0.2)", [-1, 0, 2], [0.2, 0.2, 1]),
    "elu does not overflow where it is linear": ("elu(x)", [-1, 2, 1e4], [np.exp(-1), 1, 1]),
    "softplus saturates": ("softplus(x)", [-1e4, 0, 1e4], [0, 0.5, 1]),
    "silu saturates": ("silu(x)", [-1e3, 0, 1e3], [0, 0.5, 1]),
    "gelu saturates": ("gelu(x)", [-1e2, 0, 1e2], [0, 0.5, 1]),
    "gelu by tanh saturates": ('gelu(x, approx = "tanh")', [-1e2, 0, 1e2], [0, 0.5, 1]),
    "clamp passes all at its bounds": (
        "clamp(x, min = -1.0, max = 1.0)",
        [-2, -1, 0, 1, 2],
        [0, 1, 1, 1, 0],
    ),
    "hard_sigmoid is flat at its ends": ("hard_sigmoid(x)", [-3, 0, 3], [0, 1 / 6, 0]),
    "hard_swish is flat up to -3": ("hard_swish(x)", [-3, 0, 3], [0, 0.5, 1]),
    "max shares at a tie": ("max(x, [0.0, 1.0, 3.0])", [-1, 1, 4], [0, 0.5, 1]),
    "min shares at a tie": ("min(x, [0.0, 1.0, 3.0])", [-1, 1, 4], [1, 0.5, 0]),
    "max_reduce shares evenly": ("max_reduce(x)", [3, 1, 3, 3], [1 / 3, 0, 1 / 3, 1 / 3]),
    "min_reduce shares evenly": ("min_reduce(x)", [1, 1, 3], [0.5, 0.5, 0]),
    "prod with one zero": ("prod(x)", [2, 0, 3], [0, 6, 0]),
    "prod with two zeros": ("prod(x)", [2, 0, 0], [0, 0, 0]),
    "cumprod with a zero": ("cumprod(x, axis = 0)", [2, 0, 3, 4], [1, 2 + 6 + 24, 0, 0]),
    "steps pass nothing": ("floor(x) + ceil(x) + round(x) + sign(x)", [0.3, 1], [0, 0]),
    "stop_gradient stops": ("x * stop_gradient(x)", [2, 3], [2, 3]),
    "pow of 0 by 2": ("x ** 2.0", [0, -2], [0, -4]),
    "pow by 0": ("x ** 0.0", [0, 2], [0, 0]),
    "pow by a value of 0": ("x ** [0.0, 2.0]", [0, 3], [0, 6]),
    "a nan that is not taken stays there": (
        "where(x > 0.0, sqrt(where(x > 0.0, x, 1.0)), 0.0)",
        [-1, 4],
        [0, 0.25],
    ),
    "the side not taken gets zeros, whatever it holds": (
        "where(x > 0.0, x, [nan, inf])",
        [-1, 4],
        [0, 1],
    ),
    "logsumexp of -inf gives zeros": ("logsumexp(x - [inf, inf])", [1, 2], [0, 0]),
    "huber does not overflow": ('huber(x, 0.0, reduction = "sum")', [0.5, -1e300], [0.5, -1]),
    "bce at 0 and 1": ('bce(x, [0.0, 1.0], reduction = "sum")', [0, 1], [0, 0]),
    "sort sends back in place": ("sort(x) * [1.0, 2.0, 3.0]", [5, 1, 3], [3, 1, 2]),
    "topk sends to the first of equals": ("topk(x, 1)[0]", [2, 7, 7], [0, 1, 0]),
    "nothing of an empty axis": ("sum(slice(x, [0], [0])) + sum(x)", [1, 2], [1, 1]),
}


@pytest.mark.parametrize("name", CORNERS)
def test_a_gradient_at_a_corner_is_pytorch_s(name: str) -> None:
    expression, at, wanted = CORNERS[name]
    inner = _with_constants(expression)
    text = f"graph g(x: f64[{len(at)}]) {{ return g = grad(sum({inner}), x) }}"
    found = values_of(text, {"x": np.array(at, np.float64)})["g"]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def _with_constants(expression: str) -> str:
    """Lists of numbers as constants in f64, but for those that are shapes or starts."""
    return re.sub(
        r"\[((?:[\d.]*\.\d|nan|inf|-inf)(?:, [\w.-]+)*)\]", r"constant([\1], T = f64)", expression
    )


def test_max_of_nan_passes_the_gradient_to_both() -> None:
    text = "graph g(x: f64[], y: f64[]) { gx, gy = grad(max(x, y), [x, y])\n return gx, gy }"
    found = values_of(text, {"x": NAN, "y": 1.0})
    assert (found["gx"], found["gy"]) == (1.0, 1.0)


def test_max_pool_sends_all_to_the_first_maximum() -> None:
    text = """graph g(x: f64[1, 1, 4, 4]) {
      y = max_pool2d(x, 3, stride = 1)
      return g = grad(sum(y * constant([[[[1.0, 10.0], [100.0, 1000.0]]]], T = f64)), x)
    }"""
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 1, 1] = x[0, 0, 2, 2] = 5.0
    wanted = np.zeros((1, 1, 4, 4))
    wanted[0, 0, 1, 1] = 1111.0
    np.testing.assert_array_equal(values_of(text, {"x": x})["g"], wanted)


def test_an_adaptive_maximum_is_shared_evenly_in_windows_of_any_length() -> None:
    text = """graph g(x: f64[1, 1, 5, 1]) {
      y = adaptive_max_pool2d(x, [3, 1])
      return g = grad(sum(y * constant([[[[6.0], [60.0], [600.0]]]], T = f64)), x)
    }"""
    found = values_of(text, {"x": np.zeros((1, 1, 5, 1))})["g"]
    np.testing.assert_allclose(found.reshape(-1), [3.0, 23.0, 20.0, 320.0, 300.0], rtol=1e-12)


def test_average_pooling_divides_by_the_count_of_the_forward() -> None:
    text = """graph g(x: f64[1, 1, 3]) {
      return g = grad(sum(avg_pool1d(x, 2, stride = 2, padding = 1, count_include_pad = COUNT)), x)
    }"""
    x = {"x": np.zeros((1, 1, 3))}
    with_padding = values_of(text.replace("COUNT", "true"), x)["g"].reshape(-1)
    without = values_of(text.replace("COUNT", "false"), x)["g"].reshape(-1)
    np.testing.assert_array_equal(with_padding, [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(without, [1.0, 0.5, 0.5])


@pytest.mark.parametrize("heads", [1, 2])
def test_what_hidden_keys_hold_has_no_part_in_gradients(heads: int) -> None:
    text = f"""graph g(q: f64[3, 4], k: f64[3, 4], v: f64[3, 4], bias: f64[1, 3]) {{
      y = attention(q, k, v, bias, heads = {heads})
      gq, gk, gv, gb = grad(sum(y * y), [q, k, v, bias])
      return gq, gk, gv, gb
    }}"""
    random = np.random.default_rng(3)
    arrays: dict[str, Any] = {name: random.normal(size=(3, 4)) for name in "qkv"}
    arrays["bias"] = np.array([[0.3, -0.2, -INF]])
    known = values_of(text, arrays)
    arrays["k"][2], arrays["v"][2] = NAN, INF
    found = values_of(text, arrays)
    for name in known:
        np.testing.assert_allclose(found[name], known[name], rtol=1e-12, atol=1e-15)
        assert np.abs(known[name]).max() > 0
    assert (known["gk"][2] == 0).all()
    assert (known["gv"][2] == 0).all()


def test_a_query_that_sees_no_key_sends_nothing() -> None:
    text = """graph g(q: f64[4, 2], k: f64[2, 2], v: f64[2, 2]) {
      gq, gv = grad(sum(attention(q, k, v, heads = 1, causal = true)), [q, v])
      return gq, gv
    }"""
    random = np.random.default_rng(4)
    shapes = {"q": (4, 2), "k": (2, 2), "v": (2, 2)}
    found = values_of(text, {name: random.normal(size=shape) for name, shape in shapes.items()})
    assert (found["gq"][:2] == 0).all()
    np.testing.assert_allclose(found["gv"].sum(), 4.0)


def test_what_an_ignored_row_holds_has_no_part_in_gradients() -> None:
    text = """graph g(x: f64[3, 2], labels: i32[3]) {
      return g = grad(cross_entropy(x, labels, ignore_index = -100), x)
    }"""
    x = np.array([[0.0, 0.0], [INF, NAN], [0.0, 0.0]])
    found = values_of(text, {"x": x, "labels": np.array([0, -100, 1], np.int32)})["g"]
    np.testing.assert_array_equal(found, [[-0.25, 0.25], [0, 0], [0.25, -0.25]])


def test_ids_that_meet_are_added_up() -> None:
    text = """graph g(ids: i32[4], table: f64[3, 2]) {
      y = embedding(ids, table)
      return g = grad(sum(y * y), table)
    }"""
    table = np.arange(6.0).reshape(3, 2)
    found = values_of(text, {"ids": np.array([1, 0, 1, 9], np.int32), "table": table})["g"]
    np.testing.assert_array_equal(found, 2 * table * [[1], [2], [1]])
