"""Operators of com.microsoft compute what ONNX Runtime computes, where that is installed."""

from typing import Any

import numpy as np
import pytest

import mgn
from tests.onnx_models.models import interpreted, model, node

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(11)


def f(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    """Bytes."""
    return RNG.integers(0, 256, shape).astype(np.uint8)


S1, S2, S3 = (np.array(value, np.float32) for value in (0.02, 0.03, 0.05))
Z1, Z2 = np.array(120, np.uint8), np.array(131, np.uint8)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
COS, SIN = np.cos(f(9, 2)), np.sin(f(9, 2))
QKV = (f(2, 5, 8), f(8, 24), f(24))
PAIRS = (np.cos(f(9, 8)), np.sin(f(9, 8)))
PAST = (f(2, 2, 6, 16), f(2, 2, 6, 16))


def i32(*values: int) -> np.ndarray:
    """Integers."""
    return np.array(values, np.int32)


def grouped(steps: int) -> list[np.ndarray]:
    """Queries of four heads, keys and values of two."""
    return [f(2, steps, 64), f(2, steps, 32), f(2, steps, 32)]


CASES: dict[str, tuple[str, list[np.ndarray | None], dict[str, Any], int]] = {
    "gelu": ("Gelu", [f(3, 4)], {}, 1),
    "gelu with a bias": ("BiasGelu", [f(3, 4), f(4)], {}, 1),
    "fast gelu": ("FastGelu", [f(3, 4), f(4)], {}, 1),
    "quick gelu": ("QuickGelu", [f(3, 4)], {"alpha": 1.5}, 1),
    "layer norm of a sum": (
        "SkipLayerNormalization",
        [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)],
        {"epsilon": 1e-5},
        1,
    ),
    "rms norm of a sum": (
        "SkipSimplifiedLayerNormalization",
        [f(2, 3, 8), f(2, 3, 8), f(8)],
        {"epsilon": 1e-5},
        1,
    ),
    "matmul": (
        "FusedMatMul",
        [f(2, 4, 3), f(2, 5, 4)],
        {"transA": 1, "transB": 1, "alpha": 0.5},
        1,
    ),
    "conv": (
        "FusedConv",
        [f(1, 2, 5, 5), f(3, 2, 3, 3), f(3)],
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        1,
    ),
    "gemm": ("FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "Relu", "alpha": 2.0}, 1),
    "embeddings": (
        "EmbedLayerNormalization",
        [MASK, MASK, f(4, 8), f(6, 8), f(2, 8), f(8), f(8), MASK],
        {"epsilon": 1e-5},
        2,
    ),
    "rope": ("RotaryEmbedding", [f(2, 3, 8), u8(2, 3).astype(np.int64) % 9, COS, SIN], {}, 1),
    "interleaved rope of heads": (
        "RotaryEmbedding",
        [f(2, 2, 3, 4), np.array([4]), COS, SIN],
        {"interleaved": 1},
        1,
    ),
    "attention": ("Attention", [*QKV], {"num_heads": 2}, 1),
    "attention with a mask": ("Attention", [*QKV, MASK], {"num_heads": 2}, 1),
    "attention with lengths": (
        "Attention",
        [*QKV, np.array([3, 5], np.int32)],
        {"num_heads": 4, "scale": 0.4},
        1,
    ),
    "causal attention": ("Attention", [*QKV], {"num_heads": 2, "unidirectional": 1}, 1),
    "attention of q, k and v": (
        "MultiHeadAttention",
        [f(2, 5, 8), f(2, 6, 8), f(2, 6, 8), f(24), None, f(1, 2, 5, 6)],
        {"num_heads": 2},
        1,
    ),
    "attention after a cache": (
        "MultiHeadAttention",
        [*(f(2, 3, 8) for _ in range(3)), f(24), None, None, f(2, 2, 6, 4), f(2, 2, 6, 4)],
        {"num_heads": 2, "unidirectional": 1},
        3,
    ),
    "packed attention after a cache": (
        "Attention",
        [*QKV, None, f(2, 2, 2, 4, 4)],
        {"num_heads": 2, "unidirectional": 1},
        2,
    ),
    "grouped attention of a prompt": (
        "GroupQueryAttention",
        [*grouped(5), None, None, i32(4, 4), np.array(5, np.int32)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    "packed grouped attention at positions, in a window": (
        "GroupQueryAttention",
        [f(2, 5, 128), None, None, None, None, i32(4, 4), np.array(5, np.int32), *PAIRS],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 3, "softcap": 2.0},
        3,
    ),
    "grouped attention after a cache": (
        "GroupQueryAttention",
        [*grouped(1), *PAST, i32(6, 6), np.array(7, np.int32), *PAIRS],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1},
        3,
    ),
    "grouped attention after caches of two lengths": (
        "GroupQueryAttention",
        [*grouped(1), *PAST, i32(6, 3), np.array(7, np.int32), *PAIRS],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "scale": 0.5, "local_window_size": 4},
        1,
    ),
    "quantised sum": ("QLinearAdd", [u8(3, 4), S1, Z1, u8(3, 4), S2, Z2, S3, Z1], {}, 1),
    "quantised product": ("QLinearMul", [u8(3, 4), S1, Z1, u8(3, 4), S2, Z2, S3, Z1], {}, 1),
    "quantised sigmoid": ("QLinearSigmoid", [u8(3, 4), S1, Z1, S3, Z1], {}, 1),
    "quantised leaky relu": (
        "QLinearLeakyRelu",
        [u8(3, 4), S1, Z1, S3, Z1],
        {"alpha": 0.1},
        1,
    ),
    "quantised means": (
        "QLinearGlobalAveragePool",
        [u8(2, 3, 4, 4), S1, Z1, S3, Z1],
        {},
        1,
    ),
    "quantised concat": (
        "QLinearConcat",
        [S3, Z1, u8(2, 3), S1, Z1, u8(2, 4), S2, Z2],
        {"axis": 1},
        1,
    ),
    "quantised means of windows": (
        "QLinearAveragePool",
        [u8(1, 2, 5, 6), S1, Z1, S3, Z1],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": 1},
        1,
    ),
    "quantised softmax": (
        "QLinearSoftmax",
        [u8(2, 3, 4), S1, Z1, np.array(0.01, np.float32), np.array(0, np.uint8)],
        {"axis": -1, "opset": 13},
        1,
    ),
    "quantised softmax of all axes": (
        "QLinearSoftmax",
        [u8(2, 3, 4), S1, Z1, np.array(0.01, np.float32), np.array(0, np.uint8)],
        {"axis": 1, "opset": 11},
        1,
    ),
    "quantised choice": (
        "QLinearWhere",
        [u8(3, 4) > 100, u8(3, 4), S1, Z1, u8(4), S2, Z2, S3, Z1],
        {},
        1,
    ),
    "quantised attention": (
        "QAttention",
        [u8(2, 5, 8), u8(8, 24), f(24), S1, S2, MASK, Z1, Z2],
        {"num_heads": 2},
        1,
    ),
    "integers to floats": (
        "MatMulIntegerToFloat",
        [u8(3, 4), u8(4, 5), S1, S2, Z1, Z2, f(5)],
        {},
        1,
    ),
    "dynamically quantised": ("DynamicQuantizeMatMul", [f(3, 4), u8(4, 5), S1, Z1, f(5)], {}, 1),
    "quantised gemm": (
        "QGemm",
        [u8(3, 4), S1, Z1, u8(5, 4), S2, Z2, np.arange(5, dtype=np.int32), S3, Z1],
        {"transB": 1},
        1,
    ),
}

ALL_OUTPUTS = {"GroupQueryAttention"}
"""Operators that ONNX Runtime computes rightly only where all outputs are asked for."""


@pytest.mark.parametrize("case", CASES)
def test_an_operator_computes_what_onnx_runtime_computes(case: str) -> None:
    import onnxruntime

    operator, arrays, attributes, count = CASES[case]
    names = ["" if array is None else f"x{place}" for place, array in enumerate(arrays)]
    inputs = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    outputs = [f"y{place}" for place in range(count)]
    given = outputs if operator not in ALL_OUTPUTS else ["y0", "y1", "y2"]
    made = model(
        [node(operator, names, given, domain="com.microsoft", **attributes)],
        inputs,
        outputs,
        domains={"com.microsoft": 1},
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for item in made.graph.output:
        item.ClearField("type")
    wanted = onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, inputs)
    for found, other in zip(interpreted(made, inputs), wanted, strict=True):
        assert (found.dtype, found.shape) == (other.dtype, other.shape)
        exact = 1 if found.dtype == np.uint8 else 0  # one of two neighbours, of a value between
        wide = found.astype(np.float64), other.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=1e-4, atol=exact or 1e-5)


@pytest.mark.parametrize("zeros", [False, True], ids=["", "zeros"])
@pytest.mark.parametrize(
    ("bits", "block", "columns", "scale"),
    [(4, 32, 64, 0.25), (4, 64, 128, 0.25), (4, 32, 64, 0.3), (8, 16, 48, 0.1), (4, 16, 40, 0.1)],
)
def test_weights_in_blocks_are_those_of_onnx_runtime(
    bits: int, block: int, columns: int, scale: float, zeros: bool
) -> None:
    import onnxruntime

    rows, count = 5, -(-columns // block)
    x = f(3, columns)
    weights = {
        "q": u8(rows, count, block * bits // 8),
        "s": (scale * (1 + np.arange(rows * count) % 3)).astype(np.float32),
    }
    if zeros:
        weights["z"] = u8(rows * -(-count * bits // 8))
    one = node(
        "MatMulNBits",
        ["x", *weights],
        ["y"],
        domain="com.microsoft",
        K=columns,
        N=rows,
        bits=bits,
        block_size=block,
    )
    made = model([one], {"x": x}, weights=weights, domains={"com.microsoft": 1})
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(interpreted(made, {"x": x})[0], wanted, rtol=1e-4, atol=1e-4)
    is_packed = "q4_1" in str(mgn.from_onnx(made))
    assert is_packed == (scale == 0.25)
    if is_packed:
        found = mgn.compile(mgn.from_onnx(made), device="cpu")(x=x)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [True, False], ids=["known", "not known"])
def test_steps_one_by_one_give_what_a_prompt_gives(known: bool) -> None:
    attributes = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    whole, steps = grouped(6), 6

    def run(arrays: list[np.ndarray | None], total: int) -> list[np.ndarray]:
        arrays = [*arrays, i32(total - 1, total - 1), np.array(total, np.int32), *PAIRS]
        names = ["" if array is None else f"x{place}" for place, array in enumerate(arrays)]
        given = {name: array for name, array in zip(names, arrays, strict=True) if name}
        outputs = ["y", "k", "v"]
        made = node("GroupQueryAttention", names, outputs, domain="com.microsoft", **attributes)
        lengths = {name: given[name] for name in ("x5", "x6")} if known else {}
        inputs = {name: array for name, array in given.items() if array is not None}
        made = model([made], inputs, outputs, domains={"com.microsoft": 1})
        return interpreted(made, inputs, constants=lengths)

    wanted = run([*whole, None, None], steps)
    cache: list[np.ndarray] = [np.zeros((2, 2, 0, 16), np.float32)] * 2
    found = []
    for step in range(steps):
        y, *cache = run([*(array[:, step : step + 1] for array in whole), *cache], step + 1)
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found, axis=1), wanted[0], rtol=1e-5, atol=1e-6)
    for one, other in zip(cache, wanted[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("together", ["qkv", "kv"])
def test_packed_attention_is_that_of_its_parts(together: str) -> None:
    packed = f(2, 5, 2, 3, 4)
    parts = {name: packed[:, :, :, place].reshape(2, 5, 8) for place, name in enumerate("qkv")}
    whole = {"qkv": packed} if together == "qkv" else {"q": parts["q"], "kv": packed[:, :, :, 1:]}

    def attention(inputs: dict[str, np.ndarray]) -> np.ndarray:
        made = node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", num_heads=2)
        return interpreted(model([made], inputs, domains={"com.microsoft": 1}), inputs)[0]

    np.testing.assert_array_equal(attention(whole), attention(parts))
