"""Recurrent layers step by step: for peepholes, other activations, bounds and lengths, which
the language's own `lstm`, `gru` and `rnn` do not have.

In: x `[S, N, I]`, and for each direction what x gives to the gates and what multiplies the state.
Out: the states of all steps `[S, D, N, H]`, and the last ones `[D, N, H]`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, shape

MOST_STEPS = 4096
"""As many as a Loop may have turns."""

Activation = Callable[[SSAValue], SSAValue]
Product = Callable[[SSAValue], SSAValue]
"""What a state gives to the gates, or to one of them."""

State = tuple[SSAValue, ...]
Step = Callable[[SSAValue, State], State]
"""The next state, from what x gives and the one before. The first part is what a layer gives."""


@dataclass(frozen=True)
class Cell:
    """What the cell of one direction knows: how the state is multiplied, its bias by gates, the
    activations, peepholes, what is held in bounds.
    """

    call: Call
    product: Product
    activations: Sequence[Activation]
    hidden: int
    bias: SSAValue | None = None
    peepholes: Sequence[SSAValue] = ()

    def gates(self, value: SSAValue, count: int) -> tuple[SSAValue, ...]:
        """`[N, G·H]` as G of `[N, H]`."""
        return self.call.b.split(value, sizes=[self.hidden] * count, axis=1)

    def active(self, number: int, value: SSAValue) -> SSAValue:
        """An activation of what is held within the bounds of `clip`."""
        bound = self.call.attribute("clip", 0.0)
        if bound:
            value = self.call.b.clamp(value, min=-bound, max=bound)
        return self.activations[number](value)

    def plus(self, value: SSAValue) -> SSAValue:
        """With the bias of the state's product."""
        return value if self.bias is None else self.call.b.add(value, self.bias)

    def lstm(self, given: SSAValue, state: State) -> State:
        """Gates i o f c, which see the cell through peepholes i o f."""
        b, (h, cell) = self.call.b, state
        i, o, f, new = self.gates(b.add(given, self.plus(self.product(h))), 4)
        if self.peepholes:
            i = b.add(i, b.mul(self.peepholes[0], cell))
            f = b.add(f, b.mul(self.peepholes[2], cell))
        i = self.active(0, i)
        together = self.call.attribute("input_forget", 0)
        f = b.sub(self.call.like(1, i), i) if together else self.active(0, f)
        cell = b.add(b.mul(f, cell), b.mul(i, self.active(1, new)))
        if self.peepholes:
            o = b.add(o, b.mul(self.peepholes[1], cell))
        return b.mul(self.active(0, o), self.activations[2](cell)), cell

    def gru(self, given: SSAValue, state: State) -> State:
        """Gates z r h."""
        b, (h,) = self.call.b, state
        z, r, new = self.gates(given, 3)
        from_z, from_r, from_new = self.gates(self.plus(self.product(h)), 3)
        z, r = self.active(0, b.add(z, from_z)), self.active(0, b.add(r, from_r))
        if self.call.attribute("linear_before_reset", 0):
            new = b.add(new, b.mul(r, from_new))
        else:
            new = b.add(new, self.gates(self.plus(self.product(b.mul(r, h))), 3)[2])
        rest = b.sub(self.call.like(1, z), z)
        return (b.add(b.mul(rest, self.active(1, new)), b.mul(z, h)),)

    def rnn(self, given: SSAValue, state: State) -> State:
        """One gate."""
        return (self.active(0, self.call.b.add(given, self.plus(self.product(state[0])))),)


def run_steps(
    c: Call,
    steps: Sequence[tuple[Step, SSAValue]],
    first: Sequence[SSAValue],
    lengths: SSAValue | None,
    backwards: Sequence[bool],
) -> list[SSAValue]:
    """The results of all directions: each has its step and what x gives it `[S, N, G·H]`. First
    states are `[D, N, H]`. Behind the length of a sample, what it gives is 0; its last states are
    those of its last step, and 0 where it has none. As in ONNX Runtime, which quantises the states
    of a batch together, samples begin at once in each direction, and those that have ended have 0.
    """
    b = c.b
    count = shape(steps[0][1])[0]
    if count > MOST_STEPS:
        c.fail(f"{count} steps are more than {MOST_STEPS}, which is the most that are unrolled")
    all_given: list[SSAValue] = []
    last: list[State] = []
    for number, ((step, x), turned) in enumerate(zip(steps, backwards, strict=True)):
        state: State = tuple(_row(c, value, number) for value in first)
        ends = state
        if lengths is not None:
            x = turned_within(c, x, lengths) if turned else x
            ends = tuple(c.like(0, item) for item in state)
        places = range(count)
        given: dict[int, SSAValue] = {}
        for place in reversed(places) if turned and lengths is None else places:
            state = step(_row(c, x, place), state)
            if lengths is None:
                ends = state
            else:
                late = b.expand_dims(b.le(lengths, c.like(place, lengths)), 1)
                ends = tuple(b.where(late, *pair) for pair in zip(ends, state, strict=True))
                state = (b.where(late, c.like(0, state[0]), state[0]), *state[1:])
            given[place] = state[0]
        stacked = b.stack([given[place] for place in places], axis=0)
        all_given.append(
            turned_within(c, stacked, lengths) if turned and lengths is not None else stacked
        )
        last.append(ends)
    stacks = [b.stack(list(parts), axis=0) for parts in zip(*last, strict=True)]
    return [b.stack(all_given, axis=1), *stacks]


def turned_within(
    c: Call, x: SSAValue, lengths: SSAValue, batch: int = 1, time: int = 0
) -> SSAValue:
    """The places along an axis in reverse order up to the length of each sample; those behind it
    stay.
    """
    b = c.b
    sizes = list(shape(x))
    lengths = b.cast(lengths, "i64") if element(lengths).name != "i64" else lengths
    lengths = b.reshape(lengths, [size if axis == batch else 1 for axis, size in enumerate(sizes)])
    places = b.iota(sizes, axis=time, T="i64")
    turned = b.sub(b.sub(lengths, 1), places)
    return b.take_along_axis(x, b.where(b.lt(places, lengths), turned, places), axis=time)


def _row(c: Call, value: SSAValue, place: int) -> SSAValue:
    """One place along the first axis."""
    _, *rest = shape(value)
    found = c.b.slice(value, starts=[place, *[0] * len(rest)], stops=[place + 1, *rest])
    return c.b.squeeze(found, axis=0)


def activations_of(c: Call, usual: Sequence[str], many: int) -> list[list[Activation]]:
    """The activations of each direction, by the attributes."""
    names = list(c.attribute("activations") or [*usual] * many)
    if len(names) != len(usual) * many:
        c.fail(f"{len(names)} activations are given, and {len(usual) * many} are wanted")
    alphas, betas = (iter(c.attribute(f"activation_{key}") or ()) for key in ("alpha", "beta"))
    made = [_activation(c, name, alphas, betas) for name in names]
    return [made[place : place + len(usual)] for place in range(0, len(made), len(usual))]


DEFAULTS: dict[str, tuple[float, ...]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (1.0,),
}
"""Activations of recurrent layers, and their alpha and beta where these are not given."""


def _activation(c: Call, name: str, *given: Iterator[float]) -> Activation:
    """The activation of a name, which ONNX writes in any case."""
    if name.lower() not in DEFAULTS:
        c.fail(f"the activation '{name}' is not supported")
    usual = DEFAULTS[name.lower()]
    numbers = [next(values, other) for values, other in zip(given, usual, strict=False)]
    return lambda x: _activated(c, name.lower(), x, numbers)


def _activated(c: Call, name: str, x: SSAValue, numbers: Sequence[float]) -> SSAValue:
    b = c.b
    alpha, beta = [*(c.like(value, x) for value in numbers), None, None][:2]
    makers: dict[str, Callable[[], Any]] = {
        "affine": lambda: b.add(b.mul(x, alpha), beta),
        "elu": lambda: b.elu(x, alpha=numbers[0]),
        "hardsigmoid": lambda: b.clamp(b.add(b.mul(x, alpha), beta), min=0.0, max=1.0),
        "leakyrelu": lambda: b.leaky_relu(x, slope=numbers[0]),
        "relu": lambda: b.relu(x),
        "scaledtanh": lambda: b.mul(b.tanh(b.mul(x, beta)), alpha),
        "sigmoid": lambda: b.sigmoid(x),
        "softplus": lambda: b.softplus(x),
        "softsign": lambda: b.div(x, b.add(b.abs(x), c.like(1, x))),
        "tanh": lambda: b.tanh(x),
        "thresholdedrelu": lambda: b.where(b.gt(x, alpha), x, c.like(0, x)),
    }
    return makers[name]()


def float_product(c: Call, weights: SSAValue) -> Product:
    """By rows of weights `[G·H, H]`."""
    return lambda h: c.b.matmul(h, weights, transpose_b=True)


def zeros_like_states(c: Call, x: SSAValue, sizes: Sequence[int]) -> SSAValue:
    """The first state where none is given."""
    return c.constant(np.zeros(tuple(sizes)), element(x).dtype)
