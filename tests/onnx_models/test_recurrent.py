"""Recurrent layers that the language's own operations do not compute: step by step."""

from typing import Any

import numpy as np
import pytest

from tests.onnx_models.models import interpreted, model, node, onnx

RNG = np.random.default_rng(5)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, SAMPLES, INPUTS, HIDDEN = 4, 3, 5, 6
OTHERS = {"LSTM": ["HardSigmoid", "Softsign", "Relu"], "GRU": ["Elu", "ScaledTanh"]}


def f(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    return RNG.standard_normal(shape).astype(np.float32)


def layer(kind: str, many: int = 1, *, peepholes: bool = False) -> dict[str, np.ndarray | None]:
    """Weights, a bias and first states, by the names that ONNX has for them."""
    rows = GATES[kind] * HIDDEN
    given: dict[str, np.ndarray | None] = {
        "X": f(STEPS, SAMPLES, INPUTS),
        "W": f(many, rows, INPUTS),
        "R": f(many, rows, HIDDEN),
        "B": f(many, 2 * rows),
        "sequence_lens": None,
        "initial_h": f(many, SAMPLES, HIDDEN),
    }
    if kind == "LSTM":
        given["initial_c"] = f(many, SAMPLES, HIDDEN)
        given["P"] = f(many, 3 * HIDDEN) if peepholes else None
    return given


def made(kind: str, given: dict[str, np.ndarray | None], **attributes: Any) -> Any:
    """A model of one layer."""
    inputs = {name: array for name, array in given.items() if array is not None}
    names = [name if array is not None else "" for name, array in given.items()]
    outputs = ["y", "h", "c"][: 3 if kind == "LSTM" else 2]
    one = node(kind, names, outputs, hidden_size=HIDDEN, **attributes)
    return model([one], inputs, outputs), inputs


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_steps_are_what_the_operation_computes(kind: str, direction: str) -> None:
    given = layer(kind, 2 if direction == "bidirectional" else 1)
    whole, inputs = made(kind, given, direction=direction)
    by_steps, _ = made(kind, given, direction=direction, clip=1e6)
    for one, other in zip(interpreted(by_steps, inputs), interpreted(whole, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


CASES: dict[str, tuple[str, dict[str, Any], bool, list[int] | None]] = {
    "peepholes": ("LSTM", {"direction": "bidirectional"}, True, None),
    "peepholes, bounded, one gate for two": ("LSTM", {"clip": 0.7, "input_forget": 1}, True, None),
    "lengths": ("LSTM", {"direction": "bidirectional"}, False, [2, 4, 1]),
    "lengths of gru": ("GRU", {"direction": "reverse"}, False, [2, 4, 1]),
    "lengths of rnn": ("RNN", {}, False, [1, 4, 3]),
    "other activations": (
        "LSTM",
        {"activations": OTHERS["LSTM"], "activation_alpha": [0.3], "activation_beta": [0.4]},
        False,
        None,
    ),
    "other activations of gru": (
        "GRU",
        {"activations": OTHERS["GRU"], "activation_alpha": [0.5, 1.5], "activation_beta": [0.7]},
        False,
        None,
    ),
    "reset first": ("GRU", {"clip": 0.5, "linear_before_reset": 0}, False, None),
    "reset last": ("GRU", {"clip": 0.5, "linear_before_reset": 1}, False, None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_computes_what_onnx_runtime_computes(case: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    kind, attributes, peepholes, lengths = CASES[case]
    many = 2 if attributes.get("direction") == "bidirectional" else 1
    given = layer(kind, many, peepholes=peepholes)
    if lengths is not None:
        given["sequence_lens"] = np.array(lengths, np.int32)
    whole, inputs = made(kind, given, **attributes)
    wanted = onnxruntime.InferenceSession(whole.SerializeToString()).run(None, inputs)
    for one, other in zip(interpreted(whole, inputs), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize("by_gate", [False, True])
def test_a_quantised_layer_computes_what_onnx_runtime_computes(by_gate: bool) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    # ONNX Runtime may quantise the states of several samples one by one, and older processors add
    # two products of eight bits in sixteen
    many, columns = 2, 4 * HIDDEN
    scales = (many, columns) if by_gate else (many,)
    given = {
        "X": f(STEPS, 1, INPUTS),
        "W": RNG.integers(-64, 64, (many, INPUTS, columns)).astype(np.int8),
        "R": RNG.integers(-64, 64, (many, HIDDEN, columns)).astype(np.int8),
        "B": f(many, 2 * columns),
        "sequence_lens": None,
        "initial_h": f(many, 1, HIDDEN),
        "initial_c": f(many, 1, HIDDEN),
        "P": None,
        "ws": RNG.uniform(0.005, 0.01, scales).astype(np.float32),
        "wz": np.zeros(scales, np.int8),
        "rs": RNG.uniform(0.005, 0.01, scales).astype(np.float32),
        "rz": np.zeros(scales, np.int8),
    }
    weights = {name: given[name] for name in ("W", "R", "ws", "wz", "rs", "rz")}
    inputs = {"X": given["X"], "B": given["B"]}
    inputs |= {name: given[name] for name in ("initial_h", "initial_c")}
    one = onnx.helper.make_node(
        "DynamicQuantizeLSTM",
        [name if array is not None else "" for name, array in given.items()],
        ["y", "h", "c"],
        domain="com.microsoft",
        hidden_size=HIDDEN,
        direction="bidirectional",
    )
    whole = model([one], inputs, ["y", "h", "c"], weights=weights, domains={"com.microsoft": 1})
    for item in whole.graph.output:
        item.ClearField("type")
    wanted = onnxruntime.InferenceSession(whole.SerializeToString()).run(None, inputs)
    for found, other in zip(interpreted(whole, inputs), wanted, strict=True):
        np.testing.assert_allclose(
            found, other, atol=2e-3
        )  # a state may be rounded to another code


def test_an_activation_that_there_is_not_is_an_error() -> None:
    import mgn

    whole, _ = made("RNN", layer("RNN"), activations=["Swish"])
    with pytest.raises(mgn.MgnError, match="the activation 'Swish' is not supported"):
        mgn.from_onnx(whole).lower()
