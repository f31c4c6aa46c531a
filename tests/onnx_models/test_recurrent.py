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
    "no steps": ("LSTM", {"direction": "bidirectional"}, False, [2, 0, 1]),
    "no steps of gru": ("GRU", {"direction": "reverse"}, False, [3, 2, 0]),
    "no steps of rnn": ("RNN", {}, False, [0, 4, 3]),
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


def quantised_layer(
    given: dict[str, np.ndarray | None], *, by_gate: bool, signed: bool, direction: str
) -> tuple[Any, dict[str, Any]]:
    """A model of one quantised layer, and its inputs; of weights of at most 64 steps, two of whose
    products with eight bits processors can add in sixteen.
    """
    many, columns = (2 if direction == "bidirectional" else 1), 4 * HIDDEN
    scales = (many, columns) if by_gate else (many,)
    kind, low = (np.int8, -64) if signed else (np.uint8, 0)
    weights: dict[str, np.ndarray] = {
        "W": RNG.integers(low, 64, (many, INPUTS, columns)).astype(kind),
        "R": RNG.integers(low, 64, (many, HIDDEN, columns)).astype(kind),
    }
    for name in ("w", "r"):
        weights[f"{name}s"] = RNG.uniform(0.005, 0.01, scales).astype(np.float32)
        zero = 0 if signed else 31
        weights[f"{name}z"] = np.full(scales, zero, kind)
    named = given | weights
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    order += ["ws", "wz", "rs", "rz"]
    one = onnx.helper.make_node(
        "DynamicQuantizeLSTM",
        [name if named[name] is not None else "" for name in order],
        ["y", "h", "c"],
        domain="com.microsoft",
        hidden_size=HIDDEN,
        direction=direction,
    )
    inputs = {name: array for name, array in given.items() if array is not None}
    inputs = {name: array for name, array in inputs.items() if name not in weights}
    whole = model([one], inputs, ["y", "h", "c"], weights=weights, domains={"com.microsoft": 1})
    for item in whole.graph.output:
        item.ClearField("type")
    return whole, inputs


@pytest.mark.parametrize("lengths", [None, [4, 4, 4], [2, 4, 1], [2, 3, 1], [0, 3, 2]], ids=str)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("weights", ["one scale", "a scale for each gate", "unsigned"])
def test_a_quantised_layer_computes_what_onnx_runtime_computes(
    weights: str, direction: str, lengths: list[int] | None
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several threads quantise parts of a batch, each by its own
    given = layer("LSTM", 2 if direction == "bidirectional" else 1, peepholes=lengths is None)
    if lengths is not None:
        given["sequence_lens"] = np.array(lengths, np.int32)
    how = {"by_gate": weights == "a scale for each gate", "signed": weights != "unsigned"}
    whole, inputs = quantised_layer(given, **how, direction=direction)
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options)
    for found, wanted in zip(interpreted(whole, inputs), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_an_activation_that_there_is_not_is_an_error() -> None:
    import mgn

    whole, _ = made("RNN", layer("RNN"), activations=["Swish"])
    with pytest.raises(mgn.MgnError, match="the activation 'Swish' is not supported"):
        mgn.from_onnx(whole).lower()
