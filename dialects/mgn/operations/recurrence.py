"""Recurrences over time: `lstm`, `gru` and `rnn`, in one direction or both.

In: x `[S, N, I]`, S steps of N samples. Weights are ONNX's, whose first axis is the direction:
w `[D, G·H, I]` and r `[D, G·H, H]` for the G gates of a cell, the bias `[D, 2·G·H]` that of w and
then that of r, or `[D, G·H]`, first states `[D, N, H]`, zeros where they are left out. Out: the
states of all steps `[S, D, N, H]`, and those after the last step `[D, N, H]`. Where w has no axis
of directions, nothing else has one: y is `[S, N, H]`.

One product gives what x contributes to all gates of all steps and directions. The steps follow one
by one, each with one product of the state before it. Half precision is computed in f32, and rounded
where it leaves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
DIRECTIONS = {FORWARD: (False,), REVERSE: (True,), BIDIRECTIONAL: (False, True)}
"""For each direction that an operation walks, whether it begins with the last step."""

ACTIVATIONS = ("tanh", "relu")

X = OperandSpec("x", FLOATS)
WEIGHTS = (OperandSpec("w", FLOATS), OperandSpec("r", FLOATS))
BIAS = OperandSpec("b", FLOATS, optional=True)
FIRST = OperandSpec("h0", FLOATS, optional=True)
CELL = OperandSpec("c0", FLOATS, optional=True)
DIRECTION = AttributeSpec("direction", STRING, FORWARD)

Values = tuple[SSAValue, ...]


def _infer(
    gates: int,
    direction: str,
    x: TensorType,
    w: TensorType,
    r: TensorType,
    bias: TensorType | None,
    *first: TensorType | None,
) -> tuple[TensorType, ...]:
    """The types of y and of the last states. ShapeError where shapes do not fit each other."""
    if direction not in DIRECTIONS:
        known = ", ".join(f"'{item}'" for item in DIRECTIONS)
        raise ShapeError(f"direction must be one of {known}, not '{direction}'")
    many, shape, weights = len(DIRECTIONS[direction]), x.get_shape(), w.get_shape()
    if len(shape) != 3:
        raise ShapeError(f"x must be [steps, samples, inputs], not {list(shape)}")
    lead = weights[:-2]
    if len(weights) not in (2, 3) or lead not in ((many,), () if many == 1 else (many,)):
        also = f" or [{gates}·H, {shape[2]}]" if many == 1 else ""
        wanted = f"[{many}, {gates}·H, {shape[2]}]{also}"
        raise ShapeError(f"w must be {wanted}, not {list(weights)}")
    if weights[-1] != shape[2] or weights[-2] % gates:
        whole = f"{gates} gates of H rows and {shape[2]} columns"
        raise ShapeError(f"w must have {whole}, not {list(weights[-2:])}")
    hidden = weights[-2] // gates
    if r.get_shape() != (*lead, gates * hidden, hidden):
        raise ShapeError(f"r must be {[*lead, gates * hidden, hidden]}, not {list(r.get_shape())}")
    sizes = [(*lead, count * gates * hidden) for count in (2, 1)]
    if bias is not None and bias.get_shape() not in sizes:
        both, one = map(list, sizes)
        raise ShapeError(f"b must be {both} or {one}, not {list(bias.get_shape())}")
    state = (*lead, shape[1], hidden)
    for label, type in zip(("h0", "c0"), first, strict=False):
        if type is not None and type.get_shape() != state:
            raise ShapeError(f"{label} must be {list(state)}, not {list(type.get_shape())}")
    element = element_of(x)
    y = tensor(element, (shape[0], *state))
    return (y, *(tensor(element, state) for _ in first))


@dataclass(frozen=True)
class _Part:
    """One direction: its recurrent weights, transposed, and their bias, where it is apart."""

    weights: SSAValue
    bias: SSAValue | None


Step = Callable[[SSAValue, Values, _Part], Values]
"""The states after a step, h first: of what x contributes, and the states before."""


def _unrolled(
    b: Emitter,
    gates: int,
    direction: str,
    step: Step,
    operands: Sequence[SSAValue | None],
    is_apart: bool,
) -> Values:
    """The results of an operation whose cell does `step`. `is_apart`: the bias of r is not added to
    what x contributes.
    """
    element = element_type_of(operands[0])  # pyright: ignore[reportArgumentType]
    wide = "f32" if element.bits == 16 else element.name
    given = [None if value is None else _cast(b, value, wide) for value in operands]
    x, w, r, bias, *first = given
    assert x is not None and w is not None and r is not None
    (count, samples, inputs), many = shape_of(x), len(DIRECTIONS[direction])
    hidden = shape_of(r)[-1]
    rows = gates * hidden
    weights = b.reshape(w, (many * rows, inputs))
    product: SSAValue = b.matmul(b.reshape(x, (count * samples, inputs)), weights, transpose_b=True)
    own, recurrent = _biases(b, bias, many, rows, is_apart)
    if own is not None:
        product = b.add(product, own)
    given_all = b.reshape(product, (count, samples, many * rows))
    found: list[tuple[list[SSAValue], Values]] = []
    for number, backwards in enumerate(DIRECTIONS[direction]):
        part = _Part(
            b.transpose(_row(b, b.reshape(r, (many, rows, hidden)), number), perm=(1, 0)),
            None if recurrent is None else _row(b, recurrent, number),
        )
        at = (number * rows, (number + 1) * rows)
        states: Values = tuple(
            b.full((samples, hidden), 0.0, T=wide)
            if value is None
            else _row(b, b.reshape(value, (many, samples, hidden)), number)
            for value in first
        )
        line: list[SSAValue] = []
        for time in reversed(range(count)) if backwards else range(count):
            piece = b.slice(given_all, [time, 0, at[0]], [time + 1, samples, at[1]])
            states = step(b.reshape(piece, (samples, rows)), states, part)
            line.append(states[0])
        found.append((line[::-1] if backwards else line, states))
    lead = shape_of(w)[:-2]
    y_shape = (count, *lead, samples, hidden)
    steps = [b.stack([line[time] for line, _ in found], axis=0) for time in range(count)]
    y = b.stack(steps, axis=0) if steps else b.full(y_shape, 0.0, T=wide)
    last = [b.stack([states[i] for _, states in found], axis=0) for i in range(len(first))]
    shaped = [b.reshape(y, y_shape), *(b.reshape(v, (*lead, samples, hidden)) for v in last)]
    return tuple(_cast(b, value, element.name) for value in shaped)


def _biases(
    b: Emitter, bias: SSAValue | None, many: int, rows: int, is_apart: bool
) -> tuple[SSAValue | None, SSAValue | None]:
    """What is added for x to the gates of all directions, and for the state `[D, rows]`."""
    if bias is None:
        return None, None
    count = shape_of(bias)[-1]
    lines = b.reshape(bias, (many, count))
    if count == rows:
        return b.reshape(lines, (many * rows,)), None
    own = b.slice(lines, [0, 0], [many, rows])
    recurrent = b.slice(lines, [0, rows], [many, 2 * rows])
    if is_apart:
        return b.reshape(own, (many * rows,)), recurrent
    return b.reshape(b.add(own, recurrent), (many * rows,)), None


def _cast(b: Emitter, value: SSAValue, name: str) -> SSAValue:
    return value if element_type_of(value).name == name else b.cast(value, name)


def _row(b: Emitter, x: SSAValue, number: int) -> SSAValue:
    shape = shape_of(x)
    ends = [number + 1, *shape[1:]]
    return b.reshape(b.slice(x, [number, *(0 for _ in shape[1:])], ends), shape[1:])


def _gate(b: Emitter, x: SSAValue, number: int, hidden: int, until: int | None = None) -> SSAValue:
    """The columns of one gate, or of those from it until another."""
    stop = number + 1 if until is None else until
    return b.slice(x, [0, number * hidden], [shape_of(x)[0], stop * hidden])


def _infer_lstm(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None,
    h0: TensorType | None,
    c0: TensorType | None,
    direction: str,
) -> Sequence[TensorType]:
    return _infer(4, direction, x, w, r, b, h0, c0)


@composite("lstm", (X, *WEIGHTS, BIAS, FIRST, CELL, DIRECTION), _infer_lstm, several_results=True)
def lstm(b: Emitter, *operands: SSAValue | None, direction: str) -> Values:
    """`y, h, c = lstm(x, w, r, b, h0, c0, direction = "forward")`: long short-term memory, over the
    steps of `x[S, N, I]`.

    Gates are in ONNX's order, i o f c: `c' = σ(f)·c + σ(i)·tanh(g)`, `h' = σ(o)·tanh(c')`. w is
    `[D, 4H, I]`, r `[D, 4H, H]`, b `[D, 8H]` or `[D, 4H]`, h0 and c0 `[D, N, H]` or left out;
    direction is "forward", "reverse" or "bidirectional". Shape: y `[S, D, N, H]`, h and c
    `[D, N, H]`; without D where w has none. Errors: shapes that do not fit, an unknown direction.
    Hochreiter, Schmidhuber 1997.
    """

    def step(given: SSAValue, states: Values, part: _Part) -> Values:
        h, c = states
        size = shape_of(h)[1]
        gates = b.add(given, b.matmul(h, part.weights))
        enter, leave, keep = (b.sigmoid(_gate(b, gates, i, size)) for i in range(3))
        kept = b.add(b.mul(keep, c), b.mul(enter, b.tanh(_gate(b, gates, 3, size))))
        return b.mul(leave, b.tanh(kept)), kept

    return _unrolled(b, 4, direction, step, operands, is_apart=False)


def _infer_gru(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None,
    h0: TensorType | None,
    direction: str,
    linear_before_reset: bool,
) -> Sequence[TensorType]:
    return _infer(3, direction, x, w, r, b, h0)


@composite(
    "gru",
    (X, *WEIGHTS, BIAS, FIRST, DIRECTION, AttributeSpec("linear_before_reset", BOOL, True)),
    _infer_gru,
    several_results=True,
)
def gru(
    b: Emitter, *operands: SSAValue | None, direction: str, linear_before_reset: bool
) -> Values:
    """`y, h = gru(x, w, r, b, h0, direction = "forward")`: gated recurrent units, over the steps of
    `x[S, N, I]`.

    Gates are in ONNX's order, z r h: `h' = (1 - σ(z))·tanh(n) + σ(z)·h`. n has `σ(r)·(h·Rᵀ + b)`,
    as in PyTorch, or `(σ(r)·h)·Rᵀ + b` where `linear_before_reset = false`, ONNX's default. w is
    `[D, 3H, I]`, r `[D, 3H, H]`, b `[D, 6H]` or `[D, 3H]`, h0 `[D, N, H]` or left out; direction as
    for lstm. Shape: y `[S, D, N, H]`, h `[D, N, H]`; without D where w has none. Errors: as lstm.
    Cho et al. 2014 (arXiv:1406.1078).
    """

    def step(given: SSAValue, states: Values, part: _Part) -> Values:
        (h,) = states
        size = shape_of(h)[1]
        if linear_before_reset:
            own = b.matmul(h, part.weights)
            own = own if part.bias is None else b.add(own, part.bias)
            both = b.add(_gate(b, given, 0, size, 2), _gate(b, own, 0, size, 2))
        else:
            weights = part.weights
            own = b.matmul(h, _gate(b, weights, 0, size, 2))
            both = b.add(_gate(b, given, 0, size, 2), own)
        update, reset = (b.sigmoid(_gate(b, both, i, size)) for i in range(2))
        if linear_before_reset:
            own = b.mul(reset, _gate(b, own, 2, size))
        else:
            own = b.matmul(b.mul(reset, h), _gate(b, part.weights, 2, size))
        fresh = b.tanh(b.add(_gate(b, given, 2, size), own))
        return (b.add(b.mul(b.sub(1.0, update), fresh), b.mul(update, h)),)

    return _unrolled(b, 3, direction, step, operands, is_apart=linear_before_reset)


def _infer_rnn(
    x: TensorType,
    w: TensorType,
    r: TensorType,
    b: TensorType | None,
    h0: TensorType | None,
    direction: str,
    activation: str,
) -> Sequence[TensorType]:
    if activation not in ACTIVATIONS:
        raise ShapeError(f"activation must be 'tanh' or 'relu', not '{activation}'")
    return _infer(1, direction, x, w, r, b, h0)


@composite(
    "rnn",
    (X, *WEIGHTS, BIAS, FIRST, DIRECTION, AttributeSpec("activation", STRING, "tanh")),
    _infer_rnn,
    several_results=True,
)
def rnn(b: Emitter, *operands: SSAValue | None, direction: str, activation: str) -> Values:
    """`y, h = rnn(x, w, r, b, h0, direction = "forward", activation = "tanh")`: a plain recurrence,
    `h' = tanh(x·wᵀ + h·rᵀ + b)`, over the steps of `x[S, N, I]`.

    w is `[D, H, I]`, r `[D, H, H]`, b `[D, 2H]` or `[D, H]`, h0 `[D, N, H]` or left out; direction
    as for lstm; activation is "tanh" or "relu". Shape: y `[S, D, N, H]`, h `[D, N, H]`; without D
    where w has none. Errors: as lstm, an unknown activation. Elman 1990.
    """

    def step(given: SSAValue, states: Values, part: _Part) -> Values:
        gate = b.add(given, b.matmul(states[0], part.weights))
        return (b.relu(gate) if activation == "relu" else b.tanh(gate),)

    return _unrolled(b, 1, direction, step, operands, is_apart=False)
