"""Codes, scales and zero points are those of ONNX Runtime, for drawn shapes and values of all signs
and sizes.
"""

from typing import Any

import numpy as np
import pytest

from tests.onnx_models.models import interpreted, model, node

pytest.importorskip("onnxruntime")
DRAWS = 12

VALUES = {
    "of both signs": lambda x: x,
    "positive": np.abs,
    "negative": lambda x: -np.abs(x),
    "zeros": np.zeros_like,
    "one value": lambda x: np.full_like(x, -3.5),
    "halves of a step": lambda x: np.append(np.abs(np.rint(x * 8)).reshape(-1)[1:] / 4, 127.5),
    "tiny": lambda x: x * 1e-38,
    "huge": lambda x: x * 1e30,
}


def of_onnx_runtime(made: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, as the graph stands."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    for item in made.graph.output:
        item.ClearField("type")
    return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, inputs)


@pytest.mark.parametrize("values", VALUES)
def test_values_are_quantised_as_onnx_runtime_does(values: str) -> None:
    rng = np.random.default_rng(list(VALUES).index(values))
    for _ in range(DRAWS):
        shape = rng.integers(1, 6, rng.integers(1, 4))
        x = np.asarray(VALUES[values](rng.standard_normal(shape).astype(np.float32)), np.float32)
        x = x.reshape(shape)
        made = model([node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])], {"x": x}, "qsz")
        pairs = zip(interpreted(made, {"x": x}), of_onnx_runtime(made, {"x": x}), strict=True)
        for found, wanted in pairs:
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("by_column", [False, True], ids=["one scale", "a scale for each column"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("operator", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_quantised_products_are_those_of_onnx_runtime(
    operator: str, kind: type[np.integer], by_column: bool
) -> None:
    rng = np.random.default_rng(3)
    for _ in range(DRAWS):
        inner, columns = rng.integers(1, 40), rng.integers(1, 9)
        lead, scales = rng.integers(1, 4, rng.integers(1, 3)), (columns,) if by_column else ()
        x = rng.standard_normal((*lead, inner)).astype(np.float32)
        low, high = (-64, 64) if kind is np.int8 else (0, 64)
        weights = {
            "w": rng.integers(low, high, (inner, columns)).astype(kind),
            "s": rng.uniform(0.01, 0.1, scales).astype(np.float32),
            "z": rng.integers(low, high, scales).astype(kind),
            "b": rng.standard_normal(columns).astype(np.float32),
        }
        names = ["x", "w", "s", "z", "b"]
        if operator == "MatMulIntegerToFloat":
            x = rng.integers(0, 256, x.shape).astype(np.uint8)
            weights |= {"t": np.float32(0.03), "y": np.uint8(117)}
            names = ["x", "w", "t", "s", "y", "z", "b"]
        for name in set(names) & {"z", "b", "y"}:
            if rng.random() < 0.3:
                names[names.index(name)] = ""
        own = {name: np.asarray(item) for name, item in weights.items() if name in names}
        one = node(operator, names, ["out"], domain="com.microsoft")
        domains = {"com.microsoft": 1}
        made = model([one], {"x": x}, ["out"], weights=own, domains=domains)
        (found,), (wanted,) = interpreted(made, {"x": x}), of_onnx_runtime(made, {"x": x})
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
