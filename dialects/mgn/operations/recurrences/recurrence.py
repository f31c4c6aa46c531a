"""The time loop of `lstm`, `gru` and `rnn`: each step is made of the state before it.

In: what the input contributes to the gates of all steps, recurrent weights, first states. Out: the
states of all steps in one tensor. A template computes it as it stands, in one kernel; its
decomposition is unrolled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, shape_of
from mgn.dialects.mgn.operation import FLOATS, AttributeSpec, OperandSpec
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, tensor

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
DIRECTIONS = {FORWARD: (False,), REVERSE: (True,), BIDIRECTIONAL: (False, True)}
"""For each direction that an operation walks, whether it begins with the last step."""

DIRECTION = AttributeSpec("direction", STRING, FORWARD)

Values = Sequence[SSAValue]
Step = Callable[[Emitter, Values, Values, Values], Values]
"""The states after a step: of what the input contributes to each gate, what the state before does,
and the states before.
"""


@dataclass(frozen=True)
class Cell:
    """A kind of recurrence: its gates, its states, the step. `resets_first`: its last gate sees the
    state times its second gate, and so waits for that.
    """

    gates: int
    states: int
    step: Step
    resets_first: bool = False


def _lstm(b: Emitter, given: Values, own: Values, states: Values) -> Values:
    enter, leave, keep, fresh = (b.add(x, h) for x, h in zip(given, own, strict=True))
    kept = b.add(b.mul(b.sigmoid(keep), states[1]), b.mul(b.sigmoid(enter), b.tanh(fresh)))
    return b.mul(b.sigmoid(leave), b.tanh(kept)), kept


def _between(b: Emitter, update: SSAValue, fresh: SSAValue, state: SSAValue) -> SSAValue:
    return b.add(b.mul(b.sub(1.0, update), fresh), b.mul(update, state))


def _gru(b: Emitter, given: Values, own: Values, states: Values) -> Values:
    update, reset = (b.sigmoid(b.add(given[i], own[i])) for i in range(2))
    fresh = b.tanh(b.add(given[2], b.mul(reset, own[2])))
    return (_between(b, update, fresh, states[0]),)


def _gru_reset_first(b: Emitter, given: Values, own: Values, states: Values) -> Values:
    update = b.sigmoid(b.add(given[0], own[0]))
    return (_between(b, update, b.tanh(b.add(given[2], own[2])), states[0]),)


def _rnn(b: Emitter, given: Values, own: Values, states: Values) -> Values:
    return (b.tanh(b.add(given[0], own[0])),)


def _rnn_relu(b: Emitter, given: Values, own: Values, states: Values) -> Values:
    return (b.relu(b.add(given[0], own[0])),)


CELLS: Mapping[str, Cell] = {
    "lstm": Cell(4, 2, _lstm),
    "gru": Cell(3, 1, _gru),
    "gru_reset_first": Cell(3, 1, _gru_reset_first, resets_first=True),
    "rnn": Cell(1, 1, _rnn),
    "rnn_relu": Cell(1, 1, _rnn_relu),
}


def _infer(
    given: TensorType, r: TensorType, states: Sequence[TensorType], cell: str, direction: str
) -> TensorType:
    if cell not in CELLS or direction not in DIRECTIONS:
        raise ShapeError(f"there is no cell '{cell}' with direction '{direction}'")
    kind, many = CELLS[cell], len(DIRECTIONS[direction])
    shape, weights = given.get_shape(), r.get_shape()
    if element_of(given).bits < 32:
        raise ShapeError(f"recurrence is computed in f32 or f64, not {element_of(given).name}")
    if len(shape) != 3 or len(weights) != 3 or not shape[0]:
        raise ShapeError("given must be [steps, samples, D·G·H] with a step, r [D, H, G·H]")
    size = weights[1]
    if weights != (many, size, kind.gates * size) or shape[2] != many * weights[2]:
        raise ShapeError(f"given {list(shape)} and r {list(weights)} do not fit {cell}")
    state, bias = (many, shape[1], size), (many, weights[2])
    wanted = [state] * kind.states
    found = [type.get_shape() for type in states]
    if found not in (wanted, [*wanted, bias]):
        raise ShapeError(f"states must be {list(state)} each, then a bias {list(bias)} or none")
    return tensor(element_of(given), (shape[0] + kind.states - 1, *state))


def _gates(b: Emitter, x: SSAValue, first: int, last: int, size: int) -> list[SSAValue]:
    """The columns of some gates, each by itself."""
    rows = shape_of(x)[0]
    return [b.slice(x, [0, i * size], [rows, (i + 1) * size]) for i in range(first, last)]


def row_of(b: Emitter, x: SSAValue, number: int) -> SSAValue:
    """One place along the first axis, which goes."""
    shape = shape_of(x)
    piece = b.slice(x, [number, *(0 for _ in shape[1:])], [number + 1, *shape[1:]])
    return b.reshape(piece, shape[1:])


@composite(
    "recurrence",
    (
        OperandSpec("given", FLOATS),
        OperandSpec("r", FLOATS),
        OperandSpec("states", FLOATS, variadic=True),
        AttributeSpec("cell", STRING),
        DIRECTION,
    ),
    _infer,
)
def recurrence(
    b: Emitter, given: SSAValue, r: SSAValue, states: Values, cell: str, direction: str
) -> SSAValue:
    """`y = recurrence(given, r, [h0, c0], cell = "lstm")`: the time loop of a recurrence, whose
    input contributes `given[S, N, D·G·H]` to the gates.

    r is `[D, H, G·H]`, states are `[D, N, H]` each. A bias `[D, G·H]` may follow them: it is added
    to what the state contributes. The cell is "lstm", "gru", "gru_reset_first", "rnn" or
    "rnn_relu". Shape: `[S, D, N, H]`, the state of each step; for lstm `[S + 1, D, N, H]`, of which
    the last is c after all steps. Errors: shapes that do not fit, no step, half precision.
    """
    kind, backwards = CELLS[cell], DIRECTIONS[direction]
    (count, samples, _), size = shape_of(given), shape_of(r)[1]
    rows = kind.gates * size
    first, bias = states[: kind.states], states[kind.states :]
    lines: list[list[SSAValue]] = []
    last: list[SSAValue] = []
    for number, turned in enumerate(backwards):
        weights = row_of(b, r, number)
        now: Values = [row_of(b, item, number) for item in first]
        added = row_of(b, bias[0], number) if bias else None
        line: list[SSAValue] = []
        for time in reversed(range(count)) if turned else range(count):
            piece = b.slice(
                given, [time, 0, number * rows], [time + 1, samples, (number + 1) * rows]
            )
            own = _own_gates(b, kind, now[0], weights, added, piece)
            now = kind.step(
                b, _gates(b, b.reshape(piece, (samples, rows)), 0, kind.gates, size), own, now
            )
            line.append(now[0])
        lines.append(line[::-1] if turned else line)
        last += now[1:]
    found = [b.stack([line[time] for line in lines], axis=0) for time in range(count)]
    return b.stack([*found, b.stack(last, axis=0)] if last else found, axis=0)


def _own_gates(
    b: Emitter, kind: Cell, h: SSAValue, r: SSAValue, bias: SSAValue | None, given: SSAValue
) -> list[SSAValue]:
    """What the state contributes to each gate."""
    rows, size = shape_of(h)[0], shape_of(h)[1]

    def product(state: SSAValue, first: int, last: int) -> list[SSAValue]:
        whole = first == 0 and last == kind.gates
        ends = [size, last * size]
        own = b.matmul(state, r if whole else b.slice(r, [0, first * size], ends))
        if bias is not None:
            added = bias if whole else b.slice(bias, [first * size], [last * size])
            own = b.add(own, added)
        return _gates(b, own, 0, last - first, size)

    if not kind.resets_first:
        return product(h, 0, kind.gates)
    early = product(h, 0, 2)
    piece = b.reshape(given, (rows, kind.gates * size))
    reset = b.sigmoid(b.add(_gates(b, piece, 1, 2, size)[0], early[1]))
    return [*early, *product(b.mul(reset, h), 2, 3)]
