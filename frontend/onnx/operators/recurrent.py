"""Recurrent operators: the language's own, with ONNX's layouts."""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.operator import define

USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _operands(c: Call) -> tuple[list[SSAValue | None], dict[str, Any]]:
    """x, w, r, the bias and the first state; the direction. Errors for what is not supported."""
    b, name = c.b, c.node.operator
    direction = c.attribute("direction", "forward")
    activations = [item.capitalize() for item in c.attribute("activations") or []]
    many = 2 if direction == "bidirectional" else 1
    usual = USUAL[name] * many
    kinds = {"activation": "tanh"} if name == "RNN" else {}
    activations = [{"Relu": "Relu"}.get(item, item) for item in activations]
    if name == "RNN" and activations == ["Relu"] * many:
        kinds["activation"] = "relu"
    elif activations and activations != usual:
        c.fail(f"activations {activations} are not supported; only {usual} are")
    for attribute in ("clip", "input_forget"):
        if c.attribute(attribute, 0):
            c.fail(f"'{attribute}' is not supported")
    turned = c.attribute("layout", 0) == 1
    x = b.transpose(c[0], perm=[1, 0, 2]) if turned else c[0]
    if c.get(4) is not None and np.any(c.known(4) != shape(x)[0]):
        c.fail("sequence_lens that differ from the number of steps are not supported")
    first = [c.get(number) for number in (5, 6)[: 2 if name == "LSTM" else 1]]
    first = [b.transpose(item, perm=[1, 0, 2]) if turned and item else item for item in first]
    return [x, c[1], c[2], c.get(3), *first], {"direction": direction, **kinds}


def _results(c: Call, y: SSAValue, *last: SSAValue) -> Any:
    """ONNX has y as [steps, directions, samples, units]; with layout 1 the samples come first."""
    if c.attribute("layout", 0) != 1:
        return y, *last
    turned = [c.b.transpose(item, perm=[1, 0, 2]) for item in last]
    return c.b.transpose(y, perm=[2, 0, 1, 3]), *turned


def _filled(c: Call, operands: list[SSAValue | None], gates: int) -> list[SSAValue]:
    """Operands with zeros in the place of those that are left out before one that is given."""
    b, (x, w, r, *rest) = c.b, operands
    assert x is not None and w is not None and r is not None
    many, hidden = shape(r)[0], shape(r)[2]
    sizes = [[many, 2 * gates * hidden], *[[many, shape(x)[1], hidden]] * (len(rest) - 1)]
    last = max((place for place, item in enumerate(rest) if item is not None), default=-1)
    kind = element(x).name
    filled = [
        b.full(size, 0.0, T=kind) if item is None else item
        for item, size in zip(rest[: last + 1], sizes, strict=False)
    ]
    return [x, w, r, *filled]


@define("LSTM")
def lstm(c: Call) -> Any:
    """`lstm`"""
    if c.get(7) is not None:
        c.fail("peepholes are not supported")
    operands, options = _operands(c)
    return _results(c, *c.b.lstm(*_filled(c, operands, 4), **options))


@define("GRU")
def gru(c: Call) -> Any:
    """`gru`"""
    operands, options = _operands(c)
    before = bool(c.attribute("linear_before_reset", 0))
    return _results(c, *c.b.gru(*_filled(c, operands, 3), linear_before_reset=before, **options))


@define("RNN")
def rnn(c: Call) -> Any:
    """`rnn`"""
    operands, options = _operands(c)
    return _results(c, *c.b.rnn(*_filled(c, operands, 1), **options))
