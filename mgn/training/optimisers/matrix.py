"""Optimisers that look at a parameter as a matrix: at its rows and columns, or its directions.

In and out: as in `mgn.training.optimisers.optimisers`.
"""

import math
import re
from dataclasses import dataclass, field

from mgn import ops
from mgn.builder import Value
from mgn.diagnostics import MgnError
from mgn.training.optimisers.optimisers import (
    NOT_NEGATIVE,
    SHARE,
    AdamW,
    Optimizer,
    Update,
    moving,
    shrunk,
)
from mgn.training.optimisers.schedules import Schedule


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adam's second moments from those of rows and columns alone (Shazeer and Stern 2018), as
    PyTorch has it. Steps are relative to the value's size and no longer than `clip`. Their rate is
    at most `1 / sqrt(step)`. The value itself decays. `eps` are the least root of a moment, and the
    least size.
    """

    lr: float | Schedule = 1e-2
    beta2_decay: float = field(default=-0.8, metadata={"at most": 0.0})
    eps: tuple[float, float] = field(default=(2.0**-23, 1e-3), metadata=NOT_NEGATIVE)
    clip: float = field(default=1.0, metadata={"above": 0.0})

    def update(self, at: Update) -> Value:
        share = ops.exp(ops.log(at.step) * self.beta2_decay)
        square = at.gradient * at.gradient
        if at.value.ndim > 1:
            rows = self.moved(at, "rows", ops.mean(square, axis=-1, keepdims=True), share)
            columns = self.moved(at, "columns", ops.mean(square, axis=-2, keepdims=True), share)
            whole = ops.max(ops.mean(rows, axis=-2, keepdims=True), self.eps[0])
            moment = rows * columns / whole
        else:
            moment = self.moved(at, "square", square, share)
        change = at.gradient * ops.rsqrt(ops.max(moment, self.eps[0] ** 2))
        rate = ops.min(at.lr, ops.rsqrt(at.step)) * ops.max(size_of(at.value), self.eps[1])
        return shrunk(at) - change * (rate / ops.max(size_of(change) / self.clip, 1.0))

    def moved(self, at: Update, name: str, value: Value, share: Value) -> Value:
        """Moves an average by a share towards a value."""
        held = at.state(name, value.shape)
        after = held.value * (1.0 - share) + value * share
        held.write(after)
        return after


def size_of(value: Value) -> Value:
    """The root of the mean square of all elements."""
    return ops.sqrt(ops.sum(value * value) / float(max(value.size, 1)))


@dataclass(frozen=True)
class Muon(Optimizer):
    """Momentum whose directions are made equally long, by Newton and Schulz's iteration (Jordan et
    al. 2024); the value itself decays. A convolution's weight is a matrix of its outputs.

    Vectors, and parameters in whose name `others_for` is found, as embeddings, have the optimiser
    `others`, whose factors come before those of this one.
    """

    lr: float | Schedule = 2e-2
    momentum: float = field(default=0.95, metadata=SHARE)
    nesterov: bool = True
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    iterations: int = field(default=5, metadata=NOT_NEGATIVE)
    eps: float = field(default=1e-7, metadata=NOT_NEGATIVE)
    weight_decay: float = field(default=0.1, kw_only=True, metadata=NOT_NEGATIVE)
    others: Optimizer = field(default_factory=AdamW, kw_only=True)
    others_for: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.others, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MgnError(f"Muon: others takes such as mgn.AdamW(), not {self.others!r:.80}")
        try:
            re.compile(self.others_for or "")
        except (re.error, TypeError) as error:
            raise MgnError(f"Muon: others_for is no regular expression: {error}") from None

    def for_parameter(self, name: str, shape: tuple[int, ...]) -> Optimizer:
        is_other = self.others_for is not None and re.search(self.others_for, name)
        return self.others.for_parameter(name, shape) if len(shape) < 2 or is_other else self

    def update(self, at: Update) -> Value:
        average = moving(at.state("velocity"), at.gradient, self.momentum)
        if self.nesterov:
            average = at.gradient * (1.0 - self.momentum) + average * self.momentum
        rows, columns = at.value.shape[0], math.prod(at.value.shape[1:])
        matrix = self.orthogonal(ops.reshape(average, [rows, columns]))
        stretch = math.sqrt(max(1.0, rows / max(columns, 1)))
        change = ops.reshape(matrix, list(at.value.shape))
        return shrunk(at) - change * (at.lr * stretch)

    def orthogonal(self, matrix: Value) -> Value:
        """The matrix with all its singular values near 1."""
        is_tall = matrix.shape[0] > matrix.shape[1]
        x = matrix.T if is_tall else matrix
        x = x / ops.max(ops.sqrt(ops.sum(x * x)), self.eps)
        a, b, c = self.coefficients
        for _ in range(self.iterations):
            gram = x @ x.T
            x = x * a + (gram * b + (gram @ gram) * c) @ x
        return x.T if is_tall else x
