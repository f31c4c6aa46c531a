"""Cases of recurrences, their references as plain loops, and random calls.

In: a source of random arrays, or a generator of random numbers. Out: rows of `CASES`; `drawn`, a
name, the shapes of the operands and attributes.
"""

from random import Random
from typing import Any

import numpy as np

from tests.dialects.case import Array, Source, case

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
STATES = {"lstm": 2, "gru": 1, "rnn": 1}


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _step(name: str, given: Array, states: list[Array], r: Array, added: Array, how: Any) -> Any:
    """The states of one sample after a step, for rows of `r` that are those of each gate."""
    h, size = states[0], len(states[0])
    own = [r[k * size : (k + 1) * size] @ h for k in range(GATES[name])]
    bias, x = np.split(added, GATES[name]), np.split(given, GATES[name])
    if name == "rnn":
        total = x[0] + own[0] + bias[0]
        return [np.maximum(total, 0.0) if how.get("activation") == "relu" else np.tanh(total)]
    if name == "lstm":
        i, o, f = (_sigmoid(x[k] + own[k] + bias[k]) for k in range(3))
        c = f * states[1] + i * np.tanh(x[3] + own[3] + bias[3])
        return [o * np.tanh(c), c]
    z, reset = (_sigmoid(x[k] + own[k] + bias[k]) for k in range(2))
    if how.get("linear_before_reset", True):
        inner = reset * (own[2] + bias[2])
    else:
        inner = r[2 * size :] @ (reset * h) + bias[2]
    return [(1.0 - z) * np.tanh(x[2] + inner) + z * h]


def reference(name: str, *operands: Array, direction: str = "forward", **how: Any) -> Any:
    """The results of a recurrence by one sample, direction and step after the other."""
    x, w, r, *more = operands
    flat = w.ndim == 2
    lead = [] if flat else [w.shape[0]]
    many = w.shape[0] if not flat else 1
    rows, size = w.shape[-2], r.shape[-1]
    weights, recurrent = w.reshape(many, rows, -1), r.reshape(many, rows, size)
    bias = more[0].reshape(many, -1) if more else np.zeros((many, rows))
    own, apart = bias[:, :rows], np.zeros((many, rows))
    if bias.shape[1] > rows:
        apart = bias[:, rows:]
    count, samples = x.shape[:2]
    first = [item.reshape(many, samples, size) for item in more[1:]]
    first += [np.zeros((many, samples, size))] * (STATES[name] - len(first))
    y = np.zeros((count, many, samples, size))
    last = [np.array(item, np.float64) for item in first]
    for d in range(many):
        backwards = direction == "reverse" or d == 1
        for n in range(samples):
            for t in range(count)[:: -1 if backwards else 1]:
                given = weights[d] @ x[t, n] + own[d]
                states = [item[d, n] for item in last]
                found = _step(name, given, states, recurrent[d], apart[d], how)
                y[t, d, n] = found[0]
                for item, value in zip(last, found, strict=True):
                    item[d, n] = value
    shape = (*lead, samples, size)
    return (y.reshape(count, *shape), *(item.reshape(shape) for item in last))


def drawn(rng: Random, name: str = "") -> tuple[str, list[tuple[int, ...]], dict[str, Any]]:
    """A random call, of one name or any: name, shapes of its operands, attributes."""
    name = name or rng.choice(sorted(GATES))
    gates, attributes = GATES[name], dict[str, Any]()
    steps, samples = rng.choice((0, 1, 2, 3, 5)), rng.choice((1, 1, 2, 3, 0))
    inputs, size = rng.choice((1, 3, 4, 7)), rng.choice((1, 2, 5, 8))
    direction = rng.choice(("forward", "reverse", "bidirectional"))
    many = 2 if direction == "bidirectional" else 1
    lead = () if many == 1 and rng.random() < 0.5 else (many,)
    if direction != "forward" or rng.random() < 0.5:
        attributes["direction"] = direction
    if name == "gru" and rng.random() < 0.5:
        attributes["linear_before_reset"] = rng.random() < 0.4
    if name == "rnn" and rng.random() < 0.5:
        attributes["activation"] = rng.choice(("tanh", "relu"))
    rows, state = gates * size, (*lead, samples, size)
    optional = [(*lead, rows * rng.choice((1, 2))), *[state] * STATES[name]]
    shapes = [(steps, samples, inputs), (*lead, rows, inputs), (*lead, rows, size)]
    return name, [*shapes, *optional[: rng.randint(0, len(optional))]], attributes


def _arguments(name: str, many: int = 0, optional: int = 3, bias: int = 2) -> Any:
    gates, lead = GATES[name], (many,) if many else ()
    shapes = [(3, 2, 5), (*lead, gates * 4, 5), (*lead, gates * 4, 4)]
    shapes += [(*lead, bias * gates * 4), (*lead, 2, 4), (*lead, 2, 4)][:optional]

    def arguments(s: Source) -> tuple[Array, ...]:
        return tuple(s.f(*shape, low=-1.0, high=1.0) for shape in shapes)

    return arguments


def _case(name: str, many: int = 0, optional: int = 3, bias: int = 2, **keywords: Any) -> Any:
    def by_loops(*operands: Array, **how: Any) -> Any:
        return reference(name, *operands, **how)

    return case(name, _arguments(name, many, optional, bias), by_loops, **keywords)


def _loop(cell: str, name: str, direction: str, bias: bool = False, **how: Any) -> Any:
    """A case of the loop by itself: of a recurrence whose input is what it contributes."""
    many, gates = (2 if direction == "bidirectional" else 1), GATES[name]

    def arguments(s: Source) -> tuple[Any, ...]:
        wide = np.float32 if s.dtype.itemsize == 2 else s.dtype
        shapes = [(3, 2, many * gates * 4), (many, 4, gates * 4)]
        shapes += [(many, 2, 4)] * STATES[name] + [(many, gates * 4)] * bias
        given, r, *states = (s.f(*shape).astype(wide) for shape in shapes)
        return given, r, states, cell, direction

    def by_loops(given: Array, r: Array, states: list[Array], *_: Any) -> Array:
        w = np.eye(many * gates * 4).reshape(many, gates * 4, -1)
        own = np.zeros((many, gates * 4))
        both = np.concatenate([own, states[STATES[name]] if bias else own], -1)
        operands = given, w, np.swapaxes(r, 1, 2), both, *states[: STATES[name]]
        y, _, *c = reference(name, *operands, direction=direction, **how)
        return np.concatenate([y, *(item[None] for item in c)])

    return case("recurrence", arguments, by_loops)


RECURRENT = (
    _loop("lstm", "lstm", "bidirectional"),
    _loop("gru", "gru", "reverse", bias=True),
    _loop("gru_reset_first", "gru", "forward", linear_before_reset=False),
    _loop("rnn_relu", "rnn", "forward", activation="relu"),
    _case("lstm"),
    _case("lstm", many=1, optional=1, bias=1, direction="reverse"),
    _case("lstm", many=2, optional=3, direction="bidirectional"),
    _case("gru", optional=2),
    _case("gru", many=1, optional=2, linear_before_reset=False),
    _case("gru", many=2, optional=0, direction="bidirectional"),
    _case("rnn", optional=2),
    _case("rnn", many=2, optional=1, direction="bidirectional", activation="relu"),
)
"""A row for each operation and each of its forms."""
