"""Nodes drawn at random, most of them wrong: an error of mgn, and nothing else is raised."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.frontend.onnx.core.operator import OPERATORS
from mgn.frontend.onnx.operators import load_operators
from tests.onnx_models.models import model, node, onnx

SIZES, CHANCES = [0, 1, 2, 3, 4, 5], [0.04, 0.26, 0.3, 0.2, 0.1, 0.1]
VERSIONS = [1, 6, 9, 10, 11, 13, 17, 18, 21, 23]
INTEGERS = [0, 1, 2, 3, -1, -2, 7, 100, 1 << 40, -(1 << 40)]
FLOATS = [0.0, 0.5, -1.0, 1e30, float("nan"), float("inf"), 2.0]
TEXTS = ["", "SAME_UPPER", "VALID", "linear", "max", "add", "reflect", "bidirectional", "other"]
DRAWS = 250


def value(rng: np.random.Generator) -> np.ndarray:
    """An array of few elements, of any type that is common."""
    shape = tuple(rng.choice(SIZES, p=CHANCES, size=rng.integers(0, 5)))
    numbers = rng.standard_normal(shape) * 3
    kinds = [np.float32, np.float32, np.float32, np.int64, np.int32, np.uint8, np.bool_]
    return np.asarray(np.abs(numbers) if rng.random() < 0.5 else numbers).astype(
        kinds[rng.integers(len(kinds))]
    )


def attribute(rng: np.random.Generator, kind: Any) -> Any:
    """The value of an attribute; None for one of a kind that is not drawn."""
    kinds = onnx.defs.OpSchema.AttrType
    count = int(rng.integers(1, 5))
    makers = {
        kinds.INT: lambda: int(rng.choice(INTEGERS)),
        kinds.INTS: lambda: [int(item) for item in rng.choice(INTEGERS, count)],
        kinds.FLOAT: lambda: float(rng.choice(FLOATS)),
        kinds.FLOATS: lambda: [float(item) for item in rng.choice(FLOATS, count)],
        kinds.STRING: lambda: str(rng.choice(TEXTS)),
        kinds.STRINGS: lambda: ["Relu"] * count,
        kinds.TENSOR: lambda: onnx.numpy_helper.from_array(value(rng)),
    }
    return makers[kind]() if kind in makers else None


def drawn(rng: np.random.Generator) -> Any:
    """A model of one node, whose inputs may be known, missing, too few or too many."""
    load_operators()
    rows = sorted(OPERATORS)
    domain, name = rows[rng.integers(len(rows))]
    version = int(rng.choice(VERSIONS))
    least, most, attributes = 1, 8, {}
    if onnx.defs.has(name, domain):
        schema = onnx.defs.get_schema(name, domain)
        least, most = schema.min_input, max(schema.min_input, min(schema.max_input, 8))
        for key, item in schema.attributes.items():
            found = attribute(rng, item.type) if item.required or rng.random() < 0.4 else None
            attributes |= {} if found is None else {key: found}
    count = int(rng.integers(0, 9) if rng.random() < 0.1 else rng.integers(least, most + 1))
    arrays = {f"x{place}": value(rng) for place in range(count)}
    names = [key if rng.random() < 0.93 else "" for key in arrays]
    known = {key for key in names if key and rng.random() < 0.45}
    outputs = [f"y{place}" for place in range(int(rng.integers(1, 4)))]
    return model(
        [node(name, names, outputs, domain=domain, **attributes)],
        {key: arrays[key] for key in names if key and key not in known},
        outputs,
        {key: arrays[key] for key in known},
        opset=version,
        domains={domain: 5 if domain == "ai.onnx.ml" else 1} if domain else None,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_malformed_node_is_an_error_of_mgn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = 0
    for _ in range(DRAWS):
        try:
            mgn.from_onnx(drawn(rng)).lower()
            made += 1
        except mgn.MgnError as error:
            assert "internal error" not in str(error)
    assert made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (("Slice", [[0], [5], [1], [0]], {}), "Slice: ONNX refuses it: .*step"),
        (("LSTM", [np.ones((8, 4), np.float32)] * 2, {"hidden_size": 3}), "LSTM: ONNX refuses it"),
        (("Pad", [[1, 1, 1, 1]], {"mode": "other"}), "Pad: there is no mode 'other', but"),
        (("Resize", [[], [1, 2]], {"mode": "other"}), "Resize: there is no mode 'other', but"),
        (("MaxPool", [], {"kernel_shape": [1], "auto_pad": "other"}), "MaxPool: .*'other', but"),
        (("TopK", [np.zeros(0, np.int64)], {}), "TopK: input 1 is one number, not"),
        (("DepthToSpace", [], {"blocksize": 2}), "DepthToSpace: ONNX refuses it: .*4-dim"),
    ],
)
def test_what_onnx_says_against_a_node_is_said_at_its_line(
    made: tuple[str, list[Any], dict[str, Any]], message: str
) -> None:
    operator, operands, attributes = made
    kinds = [np.float32, np.float32] if operator == "Resize" else [None] * 9
    weights = {
        f"w{place}": np.asarray(item, kind)
        for place, (item, kind) in enumerate(zip(operands, kinds, strict=False))
    }
    one = node(operator, ["x", *weights], ["y"], **attributes)
    whole = model([one], {"x": np.ones((2, 8), np.float32)}, weights=weights)
    with pytest.raises(mgn.DiagnosticsError, match=f"(?s)<model>:2:3: error: {message}"):
        mgn.from_onnx(whole).lower()


@pytest.mark.parametrize("version", [0, -5])
def test_a_version_that_is_none_is_an_error(version: int) -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": np.ones(3, np.float32)}, opset=version)
    with pytest.raises(mgn.MgnError, match=f"version {version} of its operators is none"):
        mgn.from_onnx(made)


def test_a_type_that_there_is_not_is_an_error() -> None:
    x = np.ones(3, np.float32)
    made = model([node("Add", ["x", "w"], ["y"])], {"x": x}, weights={"w": x})
    made.graph.initializer[0].data_type = 77
    with pytest.raises(mgn.MgnError, match="tensor 'w' is damaged: there is no type 77"):
        mgn.from_onnx(made)
