"""What other systems got wrong, each as a test."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType

import mgn
from mgn.dialects.mgn.gradients.reverse import differentiate_block
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp
from tests.gradients.programs import graph_of, values_of

RANDOM = np.random.default_rng(11)

CLASSIFIER = """graph step(ids: i32[3, 5], labels: i32[3, 5], table: f32[700, 8]) {
  logits = softmax(embedding(ids, table) @ table.T)
  loss = cross_entropy(logits, labels)
  return g = grad(loss, table)
}"""


def differentiated(text: str) -> GraphOp:
    """A program whose gradients are operations."""
    graph = graph_of(text)
    differentiate_block(graph.block)
    return graph


def test_a_gradient_is_multiplied_by_what_comes_back() -> None:
    names = ("exp", "tanh", "softmax", "relu", "sort", "silu", "gelu", "cumsum", "log_softmax")
    for name in names:
        text = f"""graph g(x: f64[5]) {{
          y = {name}(x)
          return one = grad(sum(y * y), x), seven = grad(7.0 * sum(y * y), x)
        }}"""
        found = values_of(text, {"x": RANDOM.normal(size=5)})
        np.testing.assert_allclose(found["seven"], 7 * found["one"], rtol=1e-12, atol=1e-14)


def test_the_forms_of_gelu_have_derivatives_of_their_own() -> None:
    text = """graph g(x: f64[1]) {
      return e = grad(sum(gelu(x)), x), t = grad(sum(gelu(x, approx = "tanh")), x)
    }"""
    found = values_of(text, {"x": [2.0]})
    np.testing.assert_allclose(found["e"], [1.0852318010781968], rtol=1e-12)
    np.testing.assert_allclose(found["t"], [1.0860992566235862], rtol=1e-9)


def test_rope_turns_back_by_its_offset() -> None:
    text = """graph g(x: f64[3, 8], position: i32[]) {
      y = rope(x, head_dim = 4, offset = position)
      return g = grad(sum(y * stop_gradient(y)), x)
    }"""
    x = RANDOM.normal(size=(3, 8))
    for position in (0, 1000):
        found = values_of(text, {"x": x, "position": np.int32(position)})["g"]
        np.testing.assert_allclose(found, x, rtol=1e-9)


def test_all_parts_of_a_concatenated_weight_are_trained() -> None:
    text = """graph g(x: f64[2, 3], a: f64[3, 2], c: f64[3, 4]) {
      y = x @ concat([a, c], axis = 1)
      ga, gc = grad(sum(y), [a, c])
      return ga, gc
    }"""
    x = RANDOM.normal(size=(2, 3))
    found = values_of(text, {"x": x, "a": np.zeros((3, 2)), "c": np.zeros((3, 4))})
    np.testing.assert_allclose(found["ga"], np.repeat(x.sum(0)[:, None], 2, 1))
    np.testing.assert_allclose(found["gc"], np.repeat(x.sum(0)[:, None], 4, 1))


def test_all_rows_have_a_part_in_a_mean_loss() -> None:
    text = """graph g(x: f64[4, 3], labels: i32[4]) {
      return g = grad(cross_entropy(x, labels), x)
    }"""
    x, labels = RANDOM.normal(size=(4, 3)), np.array([0, 2, 1, 2], np.int32)
    found = values_of(text, {"x": x, "labels": labels})["g"]
    chances = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(found, (chances - np.eye(3)[labels]) / 4, rtol=1e-10, atol=1e-15)


def test_no_value_is_larger_than_rows_by_classes() -> None:
    graph = differentiated(CLASSIFIER)
    sizes: list[int] = []
    for op in graph.block.ops:
        for result in op.results:
            assert isinstance(result.type, TensorType)
            sizes.append(prod(result.type.get_shape()))
    assert max(sizes) <= 15 * 700


def test_no_constant_is_as_large_as_a_value() -> None:
    for text in (CLASSIFIER, "graph g(x: f32[64, 64]) { return g = grad(sum(x), x) }"):
        graph = differentiated(text)
        sizes = [op.array.size for op in graph.block.ops if isinstance(op, ConstantOp)]
        assert max(sizes) == 1


def test_a_value_that_is_used_twice_by_one_operation_gets_both_gradients() -> None:
    for expression, slope in (("x * x", 2.0), ("x + x", 2.0), ("x / x", 0.0), ("max(x, x)", 1.0)):
        text = f"graph g(x: f64[3]) {{ return g = grad(sum({expression}), x) }}"
        found = values_of(text, {"x": [1.0, 1.0, 1.0]})["g"]
        np.testing.assert_allclose(found, [slope] * 3, atol=1e-15)


def test_an_attention_of_a_value_with_itself_gets_all_three_gradients() -> None:
    text = """graph g(x: f64[3, 4], y: f64[3, 4], z: f64[3, 4]) {
      one = grad(sum(attention(x, x, x, heads = 2) * x), x)
      a, b, c = grad(sum(attention(x, y, z, heads = 2) * x), [x, y, z])
      return one, three = a + b + c
    }"""
    x = RANDOM.normal(size=(3, 4))
    found = values_of(text, {"x": x, "y": x, "z": x})
    np.testing.assert_allclose(found["one"], found["three"], rtol=1e-10)


def test_labels_that_do_not_add_up_to_1_count_with_their_sum() -> None:
    text = """graph g(x: f64[2, 3], labels: f64[2, 3]) {
      gx, gl = grad(cross_entropy(x, labels, reduction = "sum"), [x, labels])
      return gx, gl
    }"""
    x, labels = RANDOM.normal(size=(2, 3)), RANDOM.uniform(size=(2, 3))
    found = values_of(text, {"x": x, "labels": labels})
    total = np.log(np.exp(x).sum(1, keepdims=True))
    chances = np.exp(x - total)
    wanted = chances * labels.sum(1, keepdims=True) - labels
    np.testing.assert_allclose(found["gx"], wanted, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(found["gl"], total - x, rtol=1e-10)


def test_composites_of_the_forward_pass_stay_whole() -> None:
    text = """graph g(x: f32[4, 6], w: f32[6]) {
      return g = grad(sum(silu(rms_norm(x, w))), w)
    }"""
    names = [op.spec.name for op in differentiated(text).block.ops if isinstance(op, TensorOp)]
    assert names[:3] == ["rms_norm", "silu", "sum"]


def test_a_dead_branch_costs_nothing() -> None:
    """The gradient of an input that nobody asks for is not computed."""
    text = """graph g(x: f32[4, 6], w: f32[5, 6]) {
      return g = grad(sum(exp(x @ w.T)), w)
    }"""
    products = [
        op
        for op in differentiated(text).block.ops
        if isinstance(op, TensorOp)
        if op.spec.name == "matmul"
    ]
    assert len(products) == 2


def test_the_language_is_asked_for_a_scalar() -> None:
    text = "graph g(x: f32[4]) { return g = grad(x * x, x) }"
    try:
        mgn.parse(text).lower()
    except mgn.DiagnosticsError as error:
        assert "differentiates a scalar, not f32[4]" in str(error)
    else:
        raise AssertionError("a row is no scalar")


def test_the_gradient_of_a_weight_that_is_read_transposed_is_not_transposed_again() -> None:
    for shape in ("1, 64, 96", "2, 32, 96", "64, 96"):
        text = f"""param w: f32[80, 96]
        graph g(x: f32[{shape}]) {{ y = silu(x @ w.T)
          return g = grad(sum(y * y), w)
        }}"""
        report = mgn.optimize(mgn.parse(text), device="nvidia-h200").report
        assert [kernel.kind for kernel in report.kernels] == ["contraction"] * 2
