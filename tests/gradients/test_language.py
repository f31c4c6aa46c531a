"""`grad` in programs: through functions, loops, states and shared parameters; its errors."""

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.frontend.print_mgn import print_mgn
from tests.gradients.programs import values_of

X = np.array([0.5, -1.0, 2.0])


def test_gradients_go_through_functions_loops_and_scopes() -> None:
    text = """fn layer(x, i: int) {
      param w: f64[3] as "w{i}"
      return x * w + 1.0
    }
    graph g(x: f64[3]) {
      y = x
      for i in 0..3 { scope "net" { y = layer(y, i) } }
      param first: f64[3] as "net.w0"
      gx, gw = grad(sum(y), [x, first])
      return gx, gw
    }"""
    weights = {f"net.w{i}": np.array([1.0, 2.0, 3.0]) + i for i in range(3)}
    found = values_of(text, {"x": X}, weights)
    w0, w1, w2 = weights.values()
    np.testing.assert_allclose(found["gx"], w0 * w1 * w2)
    np.testing.assert_allclose(found["gw"], X * w1 * w2)


def test_all_reads_of_a_parameter_count() -> None:
    text = """graph g(x: f64[3]) {
      param first: f64[3] as "w"
      param second: f64[3] as "w"
      return g = grad(sum(x * first * second), second)
    }"""
    found = values_of(text, {"x": X}, {"w": np.array([1.0, 2.0, 3.0])})["g"]
    np.testing.assert_allclose(found, 2 * X * [1.0, 2.0, 3.0])


def test_a_state_passes_its_gradient_to_what_was_written() -> None:
    text = """state k: f64[3]
    graph g(x: f64[3]) {
      old = sum(k * x)
      by_old = grad(old, k)
      k <- x * x
      loss = sum(k * k)
      by_x = grad(loss, x)
      by_k = grad(loss, k)
      before = grad(old, k)
      return by_old, by_x, by_k, before
    }"""
    found = values_of(text, {"x": X}, states={"k": np.ones(3)})
    np.testing.assert_allclose(found["by_old"], X)
    np.testing.assert_allclose(found["by_x"], 4 * X**3)
    np.testing.assert_allclose(found["by_k"], 2 * X**2)
    np.testing.assert_allclose(found["before"], np.zeros(3))


def test_a_state_that_was_given_a_value_is_not_that_value() -> None:
    text = """state k: f64[3]
    graph g(x: f64[3]) {
      k <- x
      return g = grad(sum(k * x), k)
    }"""
    found = values_of(text, {"x": X}, states={"k": np.zeros(3)})["g"]
    np.testing.assert_allclose(found, X)


def test_a_gradient_by_a_value_between_includes_its_later_uses_alone() -> None:
    text = """graph g(x: f64[3]) {
      y = x * x
      loss = sum(y * x)
      gx, gy = grad(loss, [x, y])
      return gx, gy, own = grad(loss, loss), nothing = grad(sum(x), y)
    }"""
    found = values_of(text, {"x": X})
    np.testing.assert_allclose(found["gx"], 3 * X**2)
    np.testing.assert_allclose(found["gy"], X)
    assert found["own"] == 1
    np.testing.assert_array_equal(found["nothing"], np.zeros(3))


def test_gradients_nest() -> None:
    text = """graph g(x: f64[3]) {
      first = grad(sum(x ** 4.0), x)
      second = grad(sum(first), x)
      third = grad(sum(second), x)
      return first, second, third
    }"""
    found = values_of(text, {"x": X})
    np.testing.assert_allclose(found["first"], 4 * X**3)
    np.testing.assert_allclose(found["second"], 12 * X**2)
    np.testing.assert_allclose(found["third"], 24 * X)


def test_a_fn_may_be_called_grad() -> None:
    text = """fn grad(x, y) { return x + y }
    graph g(x: f64[3]) { return z = grad(x, x) }"""
    np.testing.assert_allclose(values_of(text, {"x": X})["z"], 2 * X)


def test_a_program_with_gradients_prints_as_text_that_is_the_same_program() -> None:
    text = """graph g(x: f32[3]) {
      param w: f32[3] = ones()
      loss = sum(x * w)
      gx, gw = grad(loss, [x, w])
      h = grad(sum(gx * gx), w)
      return gx, gw, h
    }"""
    printed = print_mgn(mgn.parse(text).lower())
    assert "gx, gw = grad(loss, [x, w])" in printed
    assert print_mgn(mgn.parse(printed).lower()) == printed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("grad(x, x)", ":2:14: error: grad: differentiates a scalar, not f32[3]; sum or mean it"),
        ("grad(sum(ids), x)", "grad: differentiates floats, not i32"),
        ("grad(sum(x), ids)", "grad: i32 values have no gradient"),
        ("grad(sum(x), 2.0)", "grad() takes tensors of the graph, not the number 2.0"),
        ("grad(sum(x), [])", "grad: names a value or more"),
        ("grad(sum(x))", "grad() takes a scalar, and a value or a list of values"),
        ("grad(sum(x), y = x)", "grad() has no argument 'y'"),
        ("grda(sum(x), x)", "unknown operation 'grda'; did you mean 'grad'?"),
    ],
)
def test_a_wrong_call_is_an_error_at_its_place(call: str, message: str) -> None:
    text = f"graph g(x: f32[3], ids: i32[3]) {{\n  return z = {call}\n}}"
    with pytest.raises(mgn.DiagnosticsError) as caught:
        mgn.parse(text).lower()
    assert message in str(caught.value)


def test_an_operation_without_a_gradient_is_an_error_at_its_own_place() -> None:
    text = """graph g(x: f32[4], z: f32[2]) {
  y = running_product_in_parts(x, z, axis = 0, part = 2)
  return g = grad(sum(y), x)
}"""
    with pytest.raises(mgn.DiagnosticsError) as caught:
        mgn.parse(text).lower()
    said = str(caught.value)
    assert ":2:7: error: running_product_in_parts has no gradient; use cumprod" in said
    assert ":3:14: note: its gradient is asked for here" in said


def test_an_operation_without_a_gradient_may_stand_beside() -> None:
    text = """graph g(x: f64[4], z: f64[2]) {
      y = running_product_in_parts(x, z, axis = 0, part = 2)
      return g = grad(sum(x * stop_gradient(y)), x)
    }"""
    found = values_of(text, {"x": np.ones(4), "z": np.ones(2)})["g"]
    np.testing.assert_allclose(found, 1.0)


def test_the_builder_has_grad() -> None:
    with mgn.graph("g") as g:
        x, y = g.input("x", "f32[3]"), g.input("y", "f32[3]")
        loss = ops.sum(ops.mul(x, y))
        gx, gy = ops.grad(loss, [x, y])
        g.output(gx=gx, gy=gy, one=ops.grad(ops.sum(ops.mul(gx, gx)), y))
    assert "mgn.grad" in str(g.module)
    with mgn.graph("h") as g:
        x = g.input("x", "f32[3]")
        with pytest.raises(mgn.DiagnosticsError, match="differentiates a scalar"):
            ops.grad(x, x)
        with pytest.raises(mgn.DiagnosticsError, match="values of one graph"):
            ops.grad(ops.sum(x), 1.0)
        g.output(x=x)


def test_half_precision_gradients_have_the_type_of_their_value() -> None:
    text = """graph g(x: f16[4, 8], w: bf16[8]) {
      y = layer_norm(x) * silu(x) + gelu(x)
      loss = sum(cast(y, f32) * cast(w, f32))
      gx, gw = grad(loss, [x, w])
      return gx, gw
    }"""
    module = mgn.parse(text).lower()
    module.verify()
    found = values_of(text, {"x": np.zeros((4, 8)), "w": np.ones(8)})
    np.testing.assert_allclose(found["gx"], 0.5)
