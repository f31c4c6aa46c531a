"""Recurrent operators: the language's own, or step by step where that has not what is asked for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.core.recurrence import (
    Cell,
    Product,
    activations_of,
    float_product,
    run_steps,
    zeros_like_states,
)
from mgn.frontend.onnx.operators.products import centred
from mgn.frontend.onnx.operators.quantised import dynamically_quantised

USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BACKWARDS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


def _turned(c: Call, *values: SSAValue | None) -> list[SSAValue | None]:
    """Inputs whose first two axes are the other way round with layout 1."""
    if c.attribute("layout", 0) != 1:
        return list(values)
    return [item if item is None else c.b.transpose(item, perm=[1, 0, 2]) for item in values]


def _results(c: Call, y: SSAValue, *last: SSAValue) -> Any:
    """ONNX has y as [steps, directions, samples, units]; with layout 1 the samples come first."""
    if c.attribute("layout", 0) != 1:
        return y, *last
    turned = [c.b.transpose(item, perm=[1, 0, 2]) for item in last]
    return c.b.transpose(y, perm=[2, 0, 1, 3]), *turned


def _layer(c: Call, name: str, **kinds: Any) -> Any:
    """The language's own operation, or its steps."""
    states = 2 if name == "LSTM" else 1
    x, *first = _turned(c, c[0], *(c.get(number) for number in (5, 6)[:states]))
    assert x is not None
    if _is_usual(c, name, x):
        operands = _filled(c, x, [c.get(3), *first], GATES[name])
        direction = c.attribute("direction", "forward")
        found = getattr(c.b, name.lower())(*operands, direction=direction, **kinds)
        return _results(c, *found)
    products = [float_product(c, _of_direction(c, c[2], place)) for place in range(_many(c))]
    weights = [_of_direction(c, c[1], place) for place in range(_many(c))]
    given = [c.b.matmul(x, item, transpose_b=True) for item in weights]
    return _in_steps(c, name, shape(c[2])[2], given, products, first)


def _many(c: Call) -> int:
    direction = c.attribute("direction", "forward")
    if direction not in BACKWARDS:
        c.fail(f"there is no direction {direction!r:.40}, but {', '.join(BACKWARDS)}")
    return len(BACKWARDS[direction])


def _is_usual(c: Call, name: str, x: SSAValue) -> bool:
    """Whether the language's own operation computes this layer."""
    if c.get(7) is not None or c.attribute("clip", 0) or c.attribute("input_forget", 0):
        return False
    if c.get(4) is not None and not (c.is_known(4) and np.all(c.known(4) == shape(x)[0])):
        return False
    names = [item.lower() for item in c.attribute("activations") or []]
    usual = [item.lower() for item in USUAL[name]] * _many(c)
    return not names or names == usual or (name == "RNN" and names == ["relu"] * _many(c))


def _in_steps(
    c: Call,
    name: str,
    hidden: int,
    given: Sequence[SSAValue],
    products: Sequence[Product],
    first: Sequence[SSAValue | None],
) -> Any:
    """A layer step by step; `given` is what x gives to the gates of each direction."""
    b, many = c.b, _many(c)
    activations = activations_of(c, USUAL[name], many)
    states = [len(given), shape(given[0])[1], hidden]
    steps: list[Any] = []
    for place, (x, product) in enumerate(zip(given, products, strict=True)):
        bias = None
        if c.get(3) is not None:
            own = _of_direction(c, c[3], place)
            x_bias, bias = b.split(own, sizes=[GATES[name] * hidden] * 2, axis=0)
            x = b.add(x, x_bias)
        peepholes: Sequence[SSAValue] = ()
        if c.get(7) is not None:
            peepholes = b.split(_of_direction(c, c[7], place), sizes=[hidden] * 3, axis=0)
        cell = Cell(c, product, activations[place], hidden, bias, peepholes)
        steps.append((getattr(cell, name.lower()), x))
    begun = [zeros_like_states(c, given[0], states) if item is None else item for item in first]
    direction = c.attribute("direction", "forward")
    return _results(c, *run_steps(c, steps, begun, c.get(4), BACKWARDS[direction]))


def _of_direction(c: Call, value: SSAValue, place: int) -> SSAValue:
    """What one direction has of an input."""
    _, *rest = shape(value)
    found = c.b.slice(value, starts=[place, *[0] * len(rest)], stops=[place + 1, *rest])
    return c.b.squeeze(found, axis=0)


def _filled(c: Call, x: SSAValue, rest: Sequence[SSAValue | None], gates: int) -> list[SSAValue]:
    """Operands with zeros in the place of those that are left out before one that is given."""
    many, hidden = shape(c[2])[0], shape(c[2])[2]
    sizes = [[many, 2 * gates * hidden], *[[many, shape(x)[1], hidden]] * (len(rest) - 1)]
    last = max((place for place, item in enumerate(rest) if item is not None), default=-1)
    filled = [
        zeros_like_states(c, x, size) if item is None else item
        for item, size in zip(rest[: last + 1], sizes, strict=False)
    ]
    return [x, c[1], c[2], *filled]


@define("LSTM")
def lstm(c: Call) -> Any:
    """`lstm`; step by step with peepholes, lengths, clipped values or other activations"""
    return _layer(c, "LSTM")


@define("GRU")
def gru(c: Call) -> Any:
    """`gru`; step by step with lengths, clipped values or other activations"""
    return _layer(c, "GRU", linear_before_reset=bool(c.attribute("linear_before_reset", 0)))


@define("RNN")
def rnn(c: Call) -> Any:
    """`rnn`; step by step with lengths, clipped values or other activations"""
    names = [item.lower() for item in c.attribute("activations") or ["tanh"]]
    return _layer(c, "RNN", activation="relu" if names[0] == "relu" else "tanh")


@define("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamically_quantised_lstm(c: Call) -> Any:
    """an LSTM step by step, x and each state quantised by their ranges, products in i32"""
    if c.attribute("layout", 0):
        c.fail("layout 1 is not supported")
    for number in (0, 1, 2, 8, 9, 10, 11):
        wanted = (3,) if number < 3 else (1, 2)
        if len(shape(c[number])) not in wanted:
            c.fail(f"input {number} has the shape {list(shape(c[number]))}")
    x, hidden = c[0], shape(c[2])[1]
    if c.get(4) is not None:  # no more counts for the range than the longest sample
        most = c.b.max_reduce(c[4])
        places = c.b.reshape(c.b.iota([shape(x)[0]], axis=0, T=element(c[4]).name), [-1, 1, 1])
        x = c.b.where(c.b.lt(places, most), x, c.like(0, x))
    given = [_quantised_product(c, 1, place)(x) for place in range(_many(c))]
    products = [_quantised_product(c, 2, place) for place in range(_many(c))]
    return _in_steps(c, "LSTM", hidden, given, products, [c.get(5), c.get(6)])


def _quantised_product(c: Call, number: int, place: int) -> Product:
    """By quantised weights [columns, gates]; scale and zero point are of all or of each gate."""
    b, at = c.b, 6 + 2 * number
    weights = _of_direction(c, c[number], place)
    scale, zero = (_of_direction(c, c[at + more], place) for more in (0, 1))
    scale, zero = (b.reshape(item, [1, -1]) for item in (scale, zero))
    centre = b.sub(b.cast(weights, "i32"), b.cast(zero, "i32"))

    def product(value: SSAValue) -> SSAValue:
        codes, own, middle = dynamically_quantised(c, value)
        total = b.matmul(centred(c, codes, middle, axis=-1), centre)
        return b.mul(b.cast(total, "f32"), b.mul(own, scale))

    return product
