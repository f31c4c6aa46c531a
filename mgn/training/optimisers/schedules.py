"""Learning rates that change from step to step, computed on the device.

In: figures. Out: a `Schedule`, which makes of the number of steps that were done (a scalar of a
graph that is built) the rate of the next one:

    rate = warmup(100, cosine(1e-3, steps=900))
    halved = rate * 0.5
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mgn import ops
from mgn.builder import Value
from mgn.diagnostics import MgnError

Rate = Callable[[Value], Value | float]
"""From the number of steps that were done, i32, to the rate of the next, f32."""


@dataclass(frozen=True)
class Schedule:
    """A rate by the count of steps; `text` says which one. Products with numbers and with other
    schedules are schedules.

    >>> Schedule("1 / (1 + t)", lambda done: 1.0 / (1.0 + ops.cast(done, "f32")))
    """

    text: str
    rate: Rate = field(repr=False, compare=False)

    def __call__(self, done: Value) -> Value | float:
        """The rate of the step behind `done` others."""
        return self.rate(done)

    def __mul__(self, other: "float | Schedule") -> "Schedule":
        factor = as_schedule(other)
        return Schedule(f"{self.text} * {factor.text}", lambda done: self(done) * factor(done))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return self.text


def as_schedule(rate: Any) -> Schedule:
    """A schedule as it is, a number as a constant one. MgnError for anything else."""
    if isinstance(rate, Schedule):
        return rate
    if not _is_finite(rate):
        raise MgnError(f"a learning rate is a finite number or a schedule, not {rate!r:.80}")
    return constant(rate)


def constant(rate: float) -> Schedule:
    """The same rate at every step."""
    _check(rate)
    return Schedule(f"{rate:g}", lambda done: float(rate))


def linear(start: float, end: float, steps: int) -> Schedule:
    """From `start` to `end` in so many steps, and `end` from then on."""
    _check(start, end, steps=steps)
    text = f"linear({start:g}, {end:g}, {steps})"
    return Schedule(text, lambda done: start + (end - start) * _share(done, steps))


def cosine(start: float, steps: int, end: float = 0.0) -> Schedule:
    """Half a cosine from `start` to `end` in so many steps, and `end` from then on (Loshchilov and
    Hutter: SGDR; 2017).
    """
    _check(start, end, steps=steps)

    def rate(done: Value) -> Value:
        return end + (start - end) * 0.5 * (1.0 + ops.cos(_share(done, steps) * math.pi))

    return Schedule(f"cosine({start:g}, {steps}, {end:g})", rate)


def step(start: float, every: int, factor: float = 0.1) -> Schedule:
    """`start`, times `factor` after each so many steps."""
    _check(start, factor, steps=every)
    if factor <= 0.0:
        raise MgnError(f"a schedule's factor is a number above 0, not {factor:g}")

    def rate(done: Value) -> Value:
        return start * ops.exp(ops.cast(done / every, "f32") * math.log(factor))

    return Schedule(f"step({start:g}, {every}, {factor:g})", rate)


def warmup(steps: int, then: float | Schedule) -> Schedule:
    """The first rate of `then`, reached in so many equal steps; behind them `then` begins."""
    _check(steps=steps)
    following = as_schedule(then)

    def rate(done: Value) -> Value:
        risen = ops.min(ops.cast(done + 1, "f32") / float(steps), 1.0)
        return risen * following(ops.max(done - steps, 0))

    return Schedule(f"warmup({steps}, {following.text})", rate)


def _share(done: Value, steps: int) -> Value:
    """Which part of the steps is done, from 0 to 1."""
    return ops.cast(ops.min(done, steps), "f32") / float(steps)


def _is_finite(rate: Any) -> bool:
    """Whether a value is a number that a float can be."""
    is_real = isinstance(rate, int | float) and not isinstance(rate, bool)
    return is_real and abs(rate) <= sys.float_info.max


def _check(*rates: Any, steps: Any = 1) -> None:
    """MgnError for what is no rate, or no count of steps."""
    for rate in rates:
        if not _is_finite(rate):
            raise MgnError(f"a schedule takes finite numbers, not {rate!r:.80}")
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 < steps < 1 << 31:
        raise MgnError(f"a schedule takes a count of steps of at least 1, not {steps!r:.80}")
