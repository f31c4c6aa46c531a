"""`convert-precision` rounds the operands of f32 products, each once, and nothing else."""

import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import element_of
from mgn.driver.precision import OPERANDS
from mgn.passes.convert_precision import PRECISIONS as ROUNDINGS
from mgn.passes.convert_precision import ConvertPrecision
from mgn.runtime.errors import DeviceError
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.programs import context

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

PROGRAM = """
graph g(x: f32[6, 40], w: f32[24, 40], u: f32[24, 6], e: f32[40, 8]) {
  y = linear(x, w)
  z = matmul(x, transpose(w, perm = [1, 0]))
  v = einsum("ik,kj->ij", x, e)
  return y = y, z = z @ u, v = v
}
"""


def rounded(array: np.ndarray, precision: str) -> np.ndarray:
    """The nearest numbers that a matrix unit multiplies, in f64."""
    if precision == "tf32":
        mantissa, exponent = np.frexp(array.astype(np.float64))
        return np.ldexp(np.round(mantissa * 2**11), exponent - 11)
    types: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
    return array.astype(types[precision]).astype(np.float64)


def lowered(text: str = PROGRAM) -> ModuleOp:
    return mgn.parse(text).lower("g", {})


def names(module: ModuleOp) -> list[str]:
    (graph,) = graphs_of(module)
    return [op.spec.name for op in graph.block.ops if isinstance(op, TensorOp)]


def draw(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_the_pass_and_the_commands_know_the_same_words() -> None:
    assert tuple(ROUNDINGS) == OPERANDS


def test_f32_changes_nothing() -> None:
    module = lowered()
    before = str(module)
    ConvertPrecision("f32").apply(context(), module)
    assert str(module) == before


def test_each_operand_is_rounded_once_and_under_its_transposes() -> None:
    module = lowered()
    ConvertPrecision("tf32").apply(context(), module)
    module.verify()
    # x, w, u, e and the product z: x and w serve two products and more.
    assert names(module).count("round_tf32") == 5
    for op in module.walk():
        if isinstance(op, TensorOp) and op.spec.name == "round_tf32":
            owner = op.operands[0].owner
            assert not (isinstance(owner, TensorOp) and owner.spec.name == "transpose")


@pytest.mark.parametrize("precision", ["tf32", "bf16", "f16"])
def test_products_are_those_of_rounded_operands(precision: str) -> None:
    module = lowered()
    ConvertPrecision(precision).apply(context(), module)
    x, w, u, e = draw((6, 40), (24, 40), (24, 6), (40, 8))
    (graph,) = graphs_of(module)
    got = Interpreter().run(graph, {"x": x, "w": w, "u": u, "e": e})
    a, b, c, d = (rounded(array, precision) for array in (x, w, u, e))
    sums = 40 * 2.0**-23
    assert np.all(np.abs(got["y"] - a @ b.T) <= sums * (np.abs(a) @ np.abs(b.T)))
    assert np.all(np.abs(got["v"] - a @ d) <= sums * (np.abs(a) @ np.abs(d)))
    # The second product rounds what the first one gave, so that its own value is the reference.
    inner = rounded(got["y"], precision)
    assert np.all(np.abs(got["z"] - inner @ c) <= sums * (np.abs(inner) @ np.abs(c)))


def test_attention_stays_whole_and_what_it_multiplies_is_rounded() -> None:
    text = """
    graph g(q: f32[4, 16], k: f32[4, 16], b: f32[4, 4]) {
      return a = attention(q, k, k, b, heads = 2)
    }
    """
    module = lowered(text)
    ConvertPrecision("tf32").apply(context(), module)
    module.verify()
    assert names(module) == ["round_tf32", "round_tf32", "attention"]
    (attention,) = [op for op in module.walk() if isinstance(op, TensorOp) and op.operands[1:]]
    assert attention.operands[1] is attention.operands[2]


def test_other_element_types_stay() -> None:
    text = """
    graph g(q: bf16[4, 16], h: f16[4, 8], k: f16[8, 4]) {
      return a = attention(q, q, q, heads = 2, kv_heads = 2), b = h @ k
    }
    """
    module = lowered(text)
    ConvertPrecision("bf16").apply(context(), module)
    assert names(module) == ["attention", "matmul"]


def test_an_unknown_precision_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="there are f32, tf32, bf16, f16"):
        ConvertPrecision("f8")
    with pytest.raises(mgn.MgnError, match="unknown precision 'f8'"):
        mgn.optimize(mgn.parse(PROGRAM), precision="f8")
    with pytest.raises(mgn.MgnError, match="unknown precision 'f8'"):
        mgn.compile(mgn.parse(PROGRAM), precision="f8")


@pytest.mark.parametrize("target", ["opencl", "spirv"])
@pytest.mark.parametrize("precision", ["tf32", "bf16", "f16"])
def test_a_device_computes_the_rounded_products(precision: str, target: str) -> None:
    try:
        exe = mgn.compile(mgn.parse(PROGRAM), device=DEVICE, precision=precision, target=target)
    except (mgn.MgnError, DeviceError) as error:
        pytest.skip(str(error))
    x, w, u, e = draw((6, 40), (24, 40), (24, 6), (40, 8))
    got = exe(x=x, w=w, u=u, e=e)
    a, b, d = (rounded(array, precision) for array in (x, w, e))
    sums = 40 * 2.0**-23
    assert np.all(np.abs(got["y"] - a @ b.T) <= sums * (np.abs(a) @ np.abs(b.T)))
    assert np.all(np.abs(got["v"] - a @ d) <= sums * (np.abs(a) @ np.abs(d)))
    assert f"products in {precision}" in str(exe.report)


@pytest.mark.parametrize(("precision", "rounding"), [("tf32", "round_tf32"), ("bf16", "cast")])
def test_a_matrix_unit_sees_that_a_parameter_is_rounded(precision: str, rounding: str) -> None:
    text = """
    param w: f32[2048, 1024]
    graph g(x: f32[2048, 1024]) { return y = gelu(linear(x, w)) }
    """
    report = mgn.optimize(mgn.parse(text), device="nvidia-h200", precision=precision).report
    (product,) = [kernel for kernel in report.kernels if kernel.kind == "contraction"]
    assert product.operations.count(rounding) == 2


@pytest.mark.parametrize("precision", ["tf32", "bf16", "f16"])
@pytest.mark.parametrize("kind", ["f64", "f16"])
def test_what_a_program_rounds_itself_beside_no_f32_product_stays_rounded(
    kind: str, precision: str
) -> None:
    text = f"""
    graph g(x: {kind}[4, 3], y: {kind}[3, 5]) {{
      return y = matmul(round_tf32(softmax(x, axis = 1)), y)
    }}
    """
    module = mgn.optimize(mgn.parse(text), precision=precision).module
    assert "round_tf32" in str(module)


@pytest.mark.parametrize("rounding", ["round_tf32(x)", "cast(cast(x, T = bf16), T = f64)"])
def test_a_matrix_unit_takes_no_product_of_f64(rounding: str) -> None:
    text = f"graph g(x: f64[64, 128]) {{ v = {rounding}\nreturn y = v @ v.T }}"
    module = mgn.optimize(mgn.parse(text), device="nvidia-h200").module
    assert "arranged {matrix" not in str(module)


def test_a_value_of_the_type_is_not_rounded_again_and_one_of_another_type_is() -> None:
    text = """
    graph g(a: bf16[4, 4], b: f16[4, 4]) {
      return y = cast(a, "f32") @ cast(b, "f32")
    }"""
    for precision, other in (("bf16", "f16"), ("f16", "bf16")):
        module = lowered(text)
        ConvertPrecision(precision).apply(context(), module)
        (graph,) = graphs_of(module)
        casts = [op for op in graph.block.ops if isinstance(op, TensorOp) if op.spec.name == "cast"]
        assert len(casts) == 4
        narrowed = [op for op in casts if element_of(op.results[0].type).name == precision]
        assert [element_of(op.operands[0].type).name for op in narrowed] == ["f32"]
        source = narrowed[0].operands[0].owner
        assert isinstance(source, TensorOp)
        assert element_of(source.operands[0].type).name == other


SCORES = """
graph g(q: f32[2, 3, 5, 8], k: f32[2, 3, 8, 7]) {
  keys = transpose(reshape(k, [2, 3, 8, 7]) * 0.5946, [0, 1, 3, 2])
  return s = matmul(q * 0.5, keys, transpose_b = true)
}
"""


def operands_of_product(module: ModuleOp) -> list[str]:
    """What the operands of the one product are computed by, but for movement and rounding."""
    (graph,) = graphs_of(module)
    (product,) = (
        op for op in graph.block.ops if isinstance(op, TensorOp) and op.spec.name == "matmul"
    )
    found: list[str] = []
    for value in product.operands:
        while isinstance(value.owner, TensorOp) and value.owner.spec.name != "mul":
            value = value.owner.operands[0]
        found.append("mul" if isinstance(value.owner, TensorOp) else "input")
    return found


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_scores_are_scaled_behind_their_product(precision: str) -> None:
    module = lowered(SCORES)
    ConvertPrecision(precision).apply(context(), module)
    module.verify()
    assert operands_of_product(module) == ["input", "input"]
    assert names(module)[-1] == "mul"
    (graph,) = graphs_of(module)
    q, k = draw((2, 3, 5, 8), (2, 3, 8, 7))
    (got,) = Interpreter({}).run(graph, {"q": q, "k": k}).values()
    want = rounded(q, precision) @ rounded(k, precision) * (0.5 * float(np.float32(0.5946)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "precision"),
    [
        ("0.5", "0.5", "f16"),  # without the scale, a number may be too large for the type
        ("0.5", "0.05", "bf16"),
        ("0.5", "-0.5", "bf16"),
        ("0.5", "1.5", "bf16"),
    ],
)
def test_other_scales_and_types_are_rounded_with_what_they_scale(
    old: str, new: str, precision: str
) -> None:
    module = lowered(SCORES.replace(f"{old}946", f"{new}946").replace(f"* {old},", f"* {new},"))
    ConvertPrecision(precision).apply(context(), module)
    assert operands_of_product(module) == ["mul", "mul"]


def test_products_with_a_matrix_keep_scaled_operands() -> None:
    text = "graph g(x: f32[2, 5, 8], w: f32[8, 7]) { return y = (x * 0.5) @ (w * 0.5) }"
    module = lowered(text)
    ConvertPrecision("bf16").apply(context(), module)
    assert operands_of_product(module) == ["mul", "mul"]


def test_what_is_repeated_is_rounded_before() -> None:
    text = """graph g(x: f32[2, 1, 5, 8], y: f32[2, 3, 8, 7]) {
  return z = broadcast_to(x, [2, 3, 5, 8]) @ y
}"""
    module = lowered(text)
    ConvertPrecision("tf32").apply(context(), module)
    assert names(module) == ["round_tf32", "round_tf32", "broadcast_to", "matmul"]
