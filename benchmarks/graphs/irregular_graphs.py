"""Training steps whose layers differ, drawn at random: no two blocks need be equal.

In: a seed, the operations wanted. Out: `GraphOp`s: forward, backward and AdamW as plain operations,
of four kinds. `mixed` wires blocks of random widths to values up to 40 back, some with shared
weights; `resnet` has stages of residual blocks that normalise over the batch and gate channels;
`unet` halves rows on the way down and joins each level to the way up; `nas` has cells whose steps
add two operations on any two values before, as architecture search draws them.
"""

import random
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from benchmarks.graphs.egraph_graphs import Tape, adamw, read
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReturnOp
from mgn.dialects.types import tensor

ROWS = 64
BACK = 40
"""How far back a value may be that a block reads besides the last."""
SHARED = 0.15
"""The share of the weights that are those of an earlier block."""
STEP, UPDATE = 5, 24
"""Operations for each step of the forward pass, with its gradients, and for each parameter."""
ACTIVATIONS = ("tanh", "sigmoid", "relu", "square")


class Wiring(Tape):
    """Values drawn at random, their operations' gradients, and the parameters they read."""

    def __init__(self, b: Emitter, rng: random.Random, widths: Sequence[int]) -> None:
        super().__init__(b)
        self.rng, self.widths = rng, widths
        self.parameters: dict[str, SSAValue] = {}
        self.shaped: dict[tuple[int, ...], list[SSAValue]] = {}

    @property
    def emitted(self) -> int:
        """The operations that the steps so far come to, roughly: with gradients and updates."""
        return STEP * len(self.steps) + UPDATE * len(self.parameters)

    def parameter(self, *shape: int) -> SSAValue:
        """A weight of this shape: mostly a new one."""
        known = self.shaped.setdefault(shape, [])
        if known and len(shape) > 1 and self.rng.random() < SHARED:
            return self.rng.choice(known)
        name = f"w{len(self.parameters)}"
        self.parameters[name] = value = read(self.b, name, shape)
        known.append(value)
        return value

    def dense(self, x: SSAValue, width: int) -> SSAValue:
        """A linear layer to so many columns."""
        return self.linear(x, self.parameter(width, columns(x)), self.parameter(width))

    def as_wide(self, x: SSAValue, width: int) -> SSAValue:
        """The value itself, or projected where it has other columns."""
        return x if columns(x) == width else self.dense(x, width)

    def record(
        self, result: SSAValue, gradients: Callable[[SSAValue], Sequence[tuple[SSAValue, SSAValue]]]
    ) -> SSAValue:
        """Notes how operands' gradients follow from the result's."""

        def step() -> None:
            if result in self.gradients:
                for operand, gradient in gradients(self.gradients[result]):
                    self.add_gradient(operand, gradient)

        self.steps.append(step)
        return result

    def activated(self, x: SSAValue) -> SSAValue:
        """One of the activations."""
        b, kind = self.b, self.rng.choice(ACTIVATIONS)
        if kind == "tanh":
            y = b.tanh(x)
            return self.record(y, lambda g: [(x, b.mul(g, b.sub(1.0, b.mul(y, y))))])
        if kind == "sigmoid":
            return self.squashed(x)
        if kind == "relu":
            y = b.max(x, 0.0)
            return self.record(y, lambda g: [(x, b.where(b.gt(x, 0.0), g, 0.0))])
        return self.record(b.mul(x, x), lambda g: [(x, b.mul(g, b.mul(x, 2.0)))])

    def squashed(self, x: SSAValue) -> SSAValue:
        """The logistic function."""
        b = self.b
        y = b.recip(b.add(b.exp(b.neg(x)), 1.0))
        return self.record(y, lambda g: [(x, b.mul(g, b.mul(y, b.sub(1.0, y))))])

    def product(self, x: SSAValue, y: SSAValue) -> SSAValue:
        b = self.b
        return self.record(b.mul(x, y), lambda g: [(x, b.mul(g, y)), (y, b.mul(g, x))])

    def normed(self, x: SSAValue, axis: int = 1) -> SSAValue:
        """Deviations from the mean over their root mean square, scaled: of each row or column."""
        b, weight = self.b, self.parameter(columns(x))
        share = 1.0 / shape_of(x)[axis]
        centred = b.sub(x, b.mul(b.sum(x, axis=axis, keepdims=True), share))
        square = b.mul(b.sum(b.mul(centred, centred), axis=axis, keepdims=True), share)
        root = b.rsqrt(b.add(square, 1e-5))
        normal = b.mul(centred, root)

        def gradients(g: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
            inner = b.mul(g, weight)
            along = b.mul(b.sum(b.mul(inner, normal), axis=axis, keepdims=True), share)
            mean = b.mul(b.sum(inner, axis=axis, keepdims=True), share)
            back = b.mul(b.sub(b.sub(inner, mean), b.mul(normal, along)), root)
            return [(weight, b.sum(b.mul(g, normal), axis=0)), (x, back)]

        return self.record(b.mul(normal, weight), gradients)

    def shares(self, x: SSAValue) -> SSAValue:
        """A softmax of each row."""
        b = self.b
        shifted = b.exp(b.sub(x, b.max_reduce(x, axis=1, keepdims=True)))
        y = b.div(shifted, b.sum(shifted, axis=1, keepdims=True))
        return self.record(
            y, lambda g: [(x, b.mul(y, b.sub(g, b.sum(b.mul(g, y), axis=1, keepdims=True))))]
        )

    def gated_channels(self, x: SSAValue) -> SSAValue:
        """Each column times what the columns' means say (squeeze and excitation)."""
        b, (rows, width) = self.b, shape_of(x)
        means = b.mul(b.sum(x, axis=0, keepdims=True), 1.0 / rows)
        self.record(means, lambda g: [(x, b.broadcast_to(b.mul(g, 1.0 / rows), (rows, width)))])
        gate = self.squashed(self.dense(self.activated(self.dense(means, width // 2)), width))
        return self.record(
            b.mul(x, gate),
            lambda g: [(x, b.mul(g, gate)), (gate, b.sum(b.mul(g, x), axis=0, keepdims=True))],
        )

    def halved(self, x: SSAValue) -> SSAValue:
        """The mean of every two rows."""
        b, (rows, width) = self.b, shape_of(x)
        pairs = b.reshape(x, [rows // 2, 2, width])
        y = b.mul(b.sum(pairs, axis=1), 0.5)
        return self.record(y, lambda g: [(x, b.mul(self._doubled(g), 0.5))])

    def doubled(self, x: SSAValue) -> SSAValue:
        """Every row twice."""
        b, (rows, width) = self.b, shape_of(x)
        return self.record(
            self._doubled(x), lambda g: [(x, b.sum(b.reshape(g, [rows, 2, width]), axis=1))]
        )

    def _doubled(self, x: SSAValue) -> SSAValue:
        b, (rows, width) = self.b, shape_of(x)
        wide = b.broadcast_to(b.reshape(x, [rows, 1, width]), (rows, 2, width))
        return b.reshape(wide, [2 * rows, width])

    def beside(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Two values side by side."""
        b, left, rows = self.b, columns(x), shape_of(x)[0]
        both = left + columns(y)

        def gradients(g: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
            return [
                (x, b.slice(g, [0, 0], [rows, left])),
                (y, b.slice(g, [0, left], [rows, both])),
            ]

        return self.record(b.concat([x, y], axis=1), gradients)


def _mixed(tape: Wiring, x: SSAValue, most: int) -> SSAValue:
    rng, values = tape.rng, [x]
    while tape.emitted < most:
        x, width = values[-1], rng.choice(tape.widths)
        other = rng.choice(values[-BACK:])
        kind = rng.choice(("dense", "dense", "skip", "skip", "gate", "norm", "mix", "beside"))
        if kind == "dense":
            x = tape.activated(tape.dense(tape.normed(x) if rng.random() < 0.5 else x, width))
        elif kind == "skip":
            x = tape.sum(x, tape.as_wide(other, columns(x)))
        elif kind == "gate":
            x = tape.product(tape.squashed(tape.dense(x, width)), tape.as_wide(other, width))
        elif kind == "norm":
            x = tape.normed(tape.activated(x))
        elif kind == "mix":
            x = tape.product(tape.shares(x), tape.as_wide(other, columns(x)))
        else:
            x = tape.dense(tape.beside(x, other), width)
        values.append(x)
    return tape.normed(x)


def _resnet(tape: Wiring, x: SSAValue, most: int) -> SSAValue:
    rng = tape.rng
    while tape.emitted < most:
        width = rng.choice(tape.widths)
        x = tape.as_wide(x, width)
        for _ in range(rng.randint(1, 4)):
            h = x
            for _ in range(rng.randint(1, 3)):
                h = tape.normed(tape.dense(tape.activated(h), width), axis=0)
            if rng.random() < 0.5:
                h = tape.gated_channels(h)
            x = tape.sum(x, h)
    return x


def _unet(tape: Wiring, x: SSAValue, most: int) -> SSAValue:
    rng = tape.rng
    while tape.emitted < most:
        levels: list[SSAValue] = []
        for _ in range(rng.randint(2, 4)):
            for _ in range(rng.randint(1, 2)):
                x = tape.activated(tape.normed(tape.dense(x, rng.choice(tape.widths))))
            levels.append(x)
            x = tape.halved(x)
        x = tape.activated(tape.dense(x, rng.choice(tape.widths)))
        for level in reversed(levels):
            x = tape.beside(tape.doubled(x), level)
            x = tape.activated(tape.normed(tape.dense(x, columns(level))))
    return x


def _nas(tape: Wiring, x: SSAValue, most: int) -> SSAValue:
    rng, before = tape.rng, x
    while tape.emitted < most:
        width = rng.choice(tape.widths)
        values = [tape.as_wide(before, width), tape.as_wide(x, width)]
        read_by: set[SSAValue] = set()
        for _ in range(rng.randint(3, 6)):
            chosen = [rng.choice(values) for _ in range(2)]
            read_by.update(chosen)
            one, two = (_nas_step(tape, value) for value in chosen)
            values.append(tape.sum(one, two))
        loose = [value for value in values if value not in read_by]
        joined = loose[0]
        for value in loose[1:]:
            joined = tape.beside(joined, value)
        before, x = x, tape.as_wide(joined, width)
    return x


def _nas_step(tape: Wiring, x: SSAValue) -> SSAValue:
    kind = tape.rng.choice(("dense", "dense", "skip", "activation", "gate", "norm"))
    if kind == "dense":
        return tape.normed(tape.dense(tape.activated(x), columns(x)), axis=0)
    if kind == "activation":
        return tape.activated(x)
    if kind == "gate":
        return tape.product(x, tape.squashed(x))
    return tape.normed(x) if kind == "norm" else x


KINDS: dict[str, Callable[[Wiring, SSAValue, int], SSAValue]] = {
    "mixed": _mixed,
    "resnet": _resnet,
    "unet": _unet,
    "nas": _nas,
}


def irregular_graph(kind: str, seed: int, operations: int) -> GraphOp:
    """A training step of a kind, with roughly so many operations."""
    rng = random.Random(seed)
    widths = [8 * rng.randint(2, 40) for _ in range(max(4, operations // 400))]
    block = Block(arg_types=[tensor("f32", (ROWS, widths[0]))])
    b = Emitter(block.add_op)
    tape = Wiring(b, rng, widths)
    result = KINDS[kind](tape, block.args[0], operations)
    tape.add_gradient(result, b.mul(result, 2.0 / ROWS))
    tape.backward()
    parameters = [value for value in tape.parameters.values() if value in tape.gradients]
    block.add_op(ReturnOp([result, *adamw(b, parameters, tape.gradients)]))
    names = [f"y{index}" for index in range(1 + 3 * len(parameters))]
    return GraphOp("g", ["x"], names, Region(block))


def columns(value: SSAValue) -> int:
    """The columns of a matrix."""
    return shape_of(value)[1]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())
