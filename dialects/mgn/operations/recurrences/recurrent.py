"""Recurrences over time: `lstm`, `gru` and `rnn`, in one direction or both.

In: x `[S, N, I]`, S steps of N samples. Weights are ONNX's, whose first axis is the direction:
w `[D, G·H, I]` and r `[D, G·H, H]` for the G gates of a cell. The bias is `[D, 2·G·H]`, that of w
and then that of r, or `[D, G·H]`. First states are `[D, N, H]`, zeros where they are left out.

Out: the states of all steps `[S, D, N, H]`, and those after the last step `[D, N, H]`. Where w has
no axis of directions, no other value has one: y is `[S, N, H]`.

One product gives what x contributes to all gates of all steps and directions; `recurrence` is the
loop over the steps. Half precision is computed in f32, and rounded where it leaves.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL, STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, Neutral, OperandSpec
from mgn.dialects.mgn.operations.recurrences.recurrence import DIRECTION, DIRECTIONS
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor

ACTIVATIONS = ("tanh", "relu")

X = OperandSpec("x", FLOATS)
WEIGHTS = (OperandSpec("w", FLOATS), OperandSpec("r", FLOATS))
BIAS = OperandSpec("b", FLOATS, optional=True, neutral=Neutral(0.0, "w", is_a_line_of_it=True))
FIRST = OperandSpec("h0", FLOATS, optional=True, neutral=Neutral(0.0, "c0"))
CELL = OperandSpec("c0", FLOATS, optional=True)

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


def _with_cell(
    b: Emitter,
    cell: str,
    direction: str,
    operands: Sequence[SSAValue | None],
    is_apart: bool,
) -> Values:
    """The results of an operation whose time loop has a cell. `is_apart`: the bias of r is not
    added to what x contributes.
    """
    x, w, r, bias, *first = operands
    assert x is not None and w is not None and r is not None
    element, shape, lead = element_type_of(x), shape_of(x), shape_of(w)[:-2]
    wide = "f32" if element.bits == 16 else element.name
    (count, samples, inputs), many = shape, len(DIRECTIONS[direction])
    size, rows = shape_of(r)[-1], shape_of(w)[-2]
    state = (many, samples, size)
    own, recurrent = _biases(
        b, None if bias is None else _cast(b, bias, wide), many, rows, is_apart
    )
    states: list[SSAValue] = [
        b.full(state, 0.0, T=wide) if value is None else b.reshape(_cast(b, value, wide), state)
        for value in first
    ]
    if count:
        flat = b.reshape(_cast(b, x, wide), (count * samples, inputs))
        weights = b.reshape(_cast(b, w, wide), (many * rows, inputs))
        product: SSAValue = b.matmul(flat, weights, transpose_b=True)
        product = product if own is None else b.add(product, own)
        turned = b.transpose(b.reshape(_cast(b, r, wide), (many, rows, size)), perm=(0, 2, 1))
        more = [*states, *([] if recurrent is None else [recurrent])]
        given = b.reshape(product, (count, samples, many * rows))
        found = b.recurrence(given, turned, more, cell=cell, direction=direction)
        whole = [0, 0, 0, 0]
        y = b.slice(found, whole, [count, *state]) if len(states) > 1 else found
        ends = [0 if turned else count - 1 for turned in DIRECTIONS[direction]]
        last = [
            b.slice(found, [end, d, 0, 0], [end + 1, d + 1, samples, size])
            for d, end in enumerate(ends)
        ]
        states[0] = b.concat(last, axis=1) if len(last) > 1 else last[0]
        if len(states) > 1:
            states[1] = b.slice(found, [count, 0, 0, 0], [count + 1, *state])
    else:
        y = b.full((0, *state), 0.0, T=wide)
    results = [b.reshape(y, (count, *lead, samples, size))]
    results += [b.reshape(item, (*lead, samples, size)) for item in states]
    return tuple(_cast(b, value, element.name) for value in results)


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

    Gates are in ONNX's order, i o f c: `c' = σ(f)·c + σ(i)·tanh(g)`, `h' = σ(o)·tanh(c')`. The
    weights are w `[D, 4H, I]`, r `[D, 4H, H]`, and b `[D, 8H]` or `[D, 4H]`. First states h0 and c0
    are `[D, N, H]` or left out. The direction is "forward", "reverse" or "bidirectional". Shape: y
    `[S, D, N, H]`, h and c `[D, N, H]`; without D where w has none. Errors: shapes that do not fit,
    an unknown direction. Hochreiter, Schmidhuber 1997.
    """
    return _with_cell(b, "lstm", direction, operands, is_apart=False)


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

    Gates are in ONNX's order, z r h: `h' = (1 - σ(z))·tanh(n) + σ(z)·h`. The new part n has
    `σ(r)·(h·Rᵀ + b)`, as in PyTorch, or `(σ(r)·h)·Rᵀ + b` where `linear_before_reset = false`,
    ONNX's default. The weights are w `[D, 3H, I]`, r `[D, 3H, H]`, and b `[D, 6H]` or `[D, 3H]`.
    The first state h0 is `[D, N, H]` or left out. The direction is as for lstm. Shape: y `[S, D, N,
    H]`, h `[D, N, H]`; without D where w has none. Errors: as lstm. Cho et al. 2014
    (arXiv:1406.1078).
    """
    cell = "gru" if linear_before_reset else "gru_reset_first"
    return _with_cell(b, cell, direction, operands, is_apart=linear_before_reset)


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

    The weights are w `[D, H, I]`, r `[D, H, H]`, and b `[D, 2H]` or `[D, H]`. The first state h0 is
    `[D, N, H]` or left out. The direction is as for lstm, the activation "tanh" or "relu". Shape: y
    `[S, D, N, H]`, h `[D, N, H]`; without D where w has none. Errors: as lstm, an unknown
    activation. Elman 1990.
    """
    cell = "rnn_relu" if activation == "relu" else "rnn"
    return _with_cell(b, cell, direction, operands, is_apart=False)
