"""Optimisers: how a parameter's next value follows from its gradient, in the language's terms.

In: an `Update`, which holds a parameter's value, its gradient, the rate, the count of steps, and
states. Out: the next value. One of one's own is a subclass:

    @dataclass(frozen=True)
    class Momentum(mgn.Optimizer):
        momentum: float = 0.9

        def update(self, at: mgn.Update) -> Value:
            velocity = at.state("velocity")
            velocity.write(velocity.value * self.momentum + at.gradient)
            return at.value - at.lr * velocity.value
"""

import math
import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_origin

from mgn import ops
from mgn.builder import GraphBuilder, State, Value
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.initialiser import InitialiserAttr
from mgn.training.optimisers.schedules import Schedule, as_schedule

Limits = Mapping[str, float]
"""In the metadata of a setting: its numbers are `at least`, `at most`, `above`, `below`."""

SHARE: Limits = {"at least": 0.0, "below": 1.0}
NOT_NEGATIVE: Limits = {"at least": 0.0}

PREFIX = "optimizer"
"""Before the names of states that training adds."""

_LIMITS: Mapping[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}
_NOUNS: Mapping[Any, str] = {float: "a number", int: "a whole number", bool: "True or False"}

_LEAST = 1e-30
"""Smaller decays of averages are as none at all."""


@dataclass(frozen=True)
class Update:
    """One parameter where it is updated.

    `value` and `gradient` are f32 at least: those of half precision are cast, and the next value is
    cast back. `lr` is the rate of this step for this parameter, and `step` the number of the step,
    from 1: scalars of the same type. `decay` is the weight decay for this parameter. `owners` are
    the states of the step by name, and whose each is.
    """

    graph: GraphBuilder
    name: str
    value: Value
    gradient: Value
    lr: Value
    step: Value
    decay: float
    owners: dict[str, str] = field(default_factory=dict[str, str])

    def state(
        self, name: str, shape: Any = None, initialiser: InitialiserAttr | None = None
    ) -> State:
        """A state `optimizer.<parameter>.<name>`, of zeros at first, and of the value's shape where
        no other is given. MgnError where the name is that of another state of the step.
        """
        sizes = ", ".join(map(str, self.value.shape if shape is None else shape))
        external = f"{PREFIX}.{self.name}.{name}"
        claim(self.owners, external, f"the optimiser's for '{self.name}'")
        return self.graph.state(external, f"{self.value.element}[{sizes}]", initialiser)


def claim(owners: dict[str, str], name: str, owner: str) -> None:
    """Notes whose a state is. MgnError where another one has the name."""
    first = owners.setdefault(name, owner)
    if first != owner:
        raise MgnError(
            f"the state '{name}' would be {first} and {owner} at once; give it another name"
        )


@dataclass(frozen=True)
class Optimizer(ABC):
    """Base of optimisers. `lr` is a number or a schedule.

    `lr_factors` and `decay_factors` say by which factor the rate or the decay of some parameters
    differs: from a regular expression that is searched for in the name to the factor; the first one
    that is found counts.
    """

    lr: float | Schedule = 1e-3
    weight_decay: float = field(default=0.0, kw_only=True, metadata=NOT_NEGATIVE)
    lr_factors: Mapping[str, float] = field(default_factory=dict[str, float], kw_only=True)
    decay_factors: Mapping[str, float] = field(default_factory=dict[str, float], kw_only=True)

    def __post_init__(self) -> None:
        name = type(self).__name__
        as_schedule(self.lr)
        if isinstance(self.lr, int | float) and self.lr < 0.0:
            raise MgnError(f"{name}: lr is {self.lr!r:.80}; a rate is a number of at least 0")
        for item in fields(self):
            fault = _fault(getattr(self, item.name), item.type, item.metadata)
            if fault is not None:
                raise MgnError(f"{name}: {item.name} {fault}")

    def for_parameter(self, name: str, shape: tuple[int, ...]) -> "Optimizer":
        """The optimiser of a parameter: this one, unless a subclass knows better."""
        return self

    @abstractmethod
    def update(self, at: Update) -> Value:
        """The next value of a parameter; states are written on the way."""
        ...


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Polyak 1964) or Nesterov's (Sutskever et al.
    2013); the decay is added to the gradient. Of a gradient a share of `dampening` does not go into
    the momentum, but for the first one's. MgnError for Nesterov's without momentum or with
    dampening.
    """

    momentum: float = field(default=0.0, metadata=NOT_NEGATIVE)
    nesterov: bool = False
    dampening: float = field(default=0.0, metadata={"at least": 0.0, "at most": 1.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (not self.momentum or self.dampening):
            raise MgnError("SGD: nesterov takes a momentum above 0 and no dampening")

    def update(self, at: Update) -> Value:
        gradient = decayed(at)
        if not self.momentum:
            return at.value - at.lr * gradient
        velocity, added = at.state("velocity"), gradient
        if self.dampening:
            added = ops.where(at.step == 1.0, gradient, gradient * (1.0 - self.dampening))
        after = velocity.value * self.momentum + added
        velocity.write(after)
        return at.value - at.lr * (gradient + after * self.momentum if self.nesterov else after)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015); the decay is added to the gradient."""

    betas: tuple[float, float] = field(default=(0.9, 0.999), metadata=SHARE)
    eps: float = field(default=1e-8, metadata=NOT_NEGATIVE)

    def update(self, at: Update) -> Value:
        return at.value - adam_change(at, decayed(at), self.betas, self.eps)


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with a decay of the value itself (Loshchilov and Hutter 2019)."""

    betas: tuple[float, float] = field(default=(0.9, 0.999), metadata=SHARE)
    eps: float = field(default=1e-8, metadata=NOT_NEGATIVE)
    weight_decay: float = field(default=0.01, kw_only=True, metadata=NOT_NEGATIVE)

    def update(self, at: Update) -> Value:
        return shrunk(at) - adam_change(at, at.gradient, self.betas, self.eps)


@dataclass(frozen=True)
class Lion(Optimizer):
    """Steps of one length, by an average's sign (Chen et al. 2023); the value itself decays."""

    lr: float | Schedule = 1e-4
    betas: tuple[float, float] = field(default=(0.9, 0.99), metadata=SHARE)

    def update(self, at: Update) -> Value:
        held = at.state("average")
        blended = held.value * self.betas[0] + at.gradient * (1.0 - self.betas[0])
        after = shrunk(at) - at.lr * ops.sign(blended)
        moving(held, at.gradient, self.betas[1])
        return after


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """Gradients by the root of their mean square (Tieleman and Hinton 2012), with momentum, and
    `centered` by their deviation (Graves 2013); the decay is added to the gradient.
    """

    lr: float | Schedule = 1e-2
    alpha: float = field(default=0.99, metadata=SHARE)
    eps: float = field(default=1e-8, metadata=NOT_NEGATIVE)
    momentum: float = field(default=0.0, metadata=NOT_NEGATIVE)
    centered: bool = False

    def update(self, at: Update) -> Value:
        gradient = decayed(at)
        spread = moving(at.state("square"), gradient * gradient, self.alpha)
        if self.centered:
            mean = moving(at.state("mean"), gradient, self.alpha)
            spread = ops.max(spread - mean * mean, 0.0)
        change = gradient / (ops.sqrt(spread) + self.eps)
        if self.momentum:
            velocity = at.state("velocity")
            change = velocity.value * self.momentum + change
            velocity.write(change)
        return at.value - at.lr * change


def _fault(value: Any, type: Any, limits: Limits) -> str | None:
    """What is wrong with the value of a setting that is declared with a type; None where nothing
    is, or the type is none of those that are known here.
    """
    kinds = get_args(type) if get_origin(type) is tuple else (type,)
    numbers: list[Any]
    if get_origin(type) is Mapping:
        numbers = list(value.values()) if isinstance(value, Mapping) else [None]
        is_right, wanted = all(map(_is_number, numbers)), "numbers by patterns of names"
    elif not {*kinds} <= {float, int, bool}:
        return None
    else:
        numbers = list(value) if isinstance(value, tuple | list) else [value]
        is_right = len(numbers) == len(kinds) and all(map(_is_of, numbers, kinds))
        wanted = _NOUNS[kinds[0]] if len(kinds) == 1 else f"{len(kinds)} numbers"
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        return f"is {value!r:.80}"
    if not is_right:
        return f"takes {wanted}, not {value!r:.80}"
    for limit, fits in _LIMITS.items():
        if limit in limits and not all(fits(number, limits[limit]) for number in numbers):
            return f"is {value!r:.80}, and is to be {limit} {limits[limit]:g}"
    return None


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max


def _is_of(value: Any, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    return _is_number(value) and (kind is float or isinstance(value, int))


def decayed(at: Update) -> Value:
    """The gradient with that of half the decay times the squared value."""
    return at.gradient + at.value * at.decay if at.decay else at.gradient


def shrunk(at: Update) -> Value:
    """The value after a decay of its own, by the rate."""
    return at.value * (1.0 - at.lr * at.decay) if at.decay else at.value


def moving(state: State, value: Value, beta: float) -> Value:
    """Writes a moving average: what a state holds, and a share of `1 - beta` of a value."""
    after = state.value * beta + value * (1.0 - beta)
    state.write(after)
    return after


def begun(at: Update, beta: float) -> Value:
    """`1 - beta ** step`: which share of a moving average is not its zero of the beginning."""
    return -ops.expm1(at.step * math.log(max(beta, _LEAST)))


def adam_change(at: Update, gradient: Value, betas: tuple[float, float], eps: float) -> Value:
    """What Adam subtracts from a value."""
    first = moving(at.state("first"), gradient, betas[0])
    second = moving(at.state("second"), gradient * gradient, betas[1])
    scale = ops.sqrt(begun(at, betas[1]))
    return (at.lr / begun(at, betas[0])) * first / (ops.sqrt(second) / scale + eps)
