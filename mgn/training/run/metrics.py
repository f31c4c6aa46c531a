"""Metrics of an evaluation, written as calls of what a graph takes and gives.

In: a text such as `accuracy(logits, labels)`, and the batches with their results. Out: a number.

A metric is a row of `METRICS`: a function that gives each example its value, and what becomes of
their mean. A result alone, as in `--metric loss`, is a metric as well: its mean. If it is called as
one of the rows is, more is better where it is there.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mgn.diagnostics import MgnError, clipped
from mgn.runtime.host_arrays import nearest

Array = np.ndarray
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class MetricRow:
    """How a metric is computed from arrays whose first axes are the examples."""

    operands: int
    values: Callable[..., Array]
    of_mean: Callable[[float], float] = float
    rises: bool = False
    """Whether more is better."""


def _same_class(logits: Array, labels: Array) -> Array:
    """1 where the largest logit is that of the label, which is a class or probabilities; 0 where a
    logit is NaN, beside which none is the largest.
    """
    return (logits.argmax(-1) == _classes(logits, labels)) & ~np.isnan(logits).any(-1)


def _classes(logits: Array, labels: Array) -> Array:
    """The class of each example. ValueError where labels are not of these examples."""
    if labels.shape == logits.shape and logits.ndim > 1:
        return labels.argmax(-1)
    if logits.ndim < 2 or labels.shape != logits.shape[:-1]:
        raise ValueError("labels are classes, one for each row of logits, or probabilities")
    return labels


def _among_five(logits: Array, labels: Array) -> Array:
    """1 where the label's logit is one of the five largest; 0 where a logit is NaN."""
    wanted = _classes(logits, labels)
    most = min(5, logits.shape[-1])
    best = np.argpartition(logits, -most, axis=-1)[..., -most:]
    return (best == wanted[..., None]).any(-1) & ~np.isnan(logits).any(-1)


def _exponential(mean: float) -> float:
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


METRICS: dict[str, MetricRow] = {
    "accuracy": MetricRow(2, _same_class, rises=True),
    "top5": MetricRow(2, _among_five, rises=True),
    "mse": MetricRow(2, lambda a, b: np.square(_wide(a) - _wide(b))),
    "rmse": MetricRow(2, lambda a, b: np.square(_wide(a) - _wide(b)), math.sqrt),
    "mae": MetricRow(2, lambda a, b: np.abs(_wide(a) - _wide(b))),
    "mean": MetricRow(1, lambda a: a),
    "perplexity": MetricRow(1, lambda a: a, _exponential),
}
"""Metrics by name."""


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


@dataclass(frozen=True)
class Metric:
    """A metric with the names of its operands."""

    text: str
    row: MetricRow
    operands: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the log calls it: `accuracy`, or the result's own name."""
        return self.text.partition("(")[0].strip()

    def check(self, names: Sequence[str]) -> None:
        """MgnError where an operand is neither an input nor a result of the graph."""
        for operand in self.operands:
            if operand not in names:
                raise MgnError(
                    f"metric '{clipped(self.text)}': the graph has no '{clipped(operand)}' among "
                    f"its inputs and results, {', '.join(names)}{nearest(operand, list(names))}"
                )


def parse_metric(text: str) -> Metric:
    """The metric of a text. MgnError where it is none."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise MgnError(f"a metric is such as accuracy(logits, labels), not '{clipped(text)}'")
    name, inside = match[1], match[2]
    if inside is None:
        rises = name in METRICS and METRICS[name].rises
        return Metric(name, replace(METRICS["mean"], rises=rises), (name,))
    if name not in METRICS:
        hint = nearest(name, [*METRICS]) or f"; there are {', '.join(METRICS)}"
        raise MgnError(f"there is no metric '{clipped(name)}'{hint}")
    row = METRICS[name]
    operands = tuple(item.strip() for item in inside.split(",")) if inside.strip() else ()
    if len(operands) != row.operands or not all(item.isidentifier() for item in operands):
        wanted = "one value" if row.operands == 1 else f"{row.operands} values"
        raise MgnError(f"metric '{name}' takes {wanted} of the graph, not ({clipped(inside)})")
    return Metric(f"{name}({', '.join(operands)})", row, operands)


@dataclass
class Mean:
    """A metric's mean over batches, as they come."""

    metric: Metric
    total: float = 0.0
    weight: float = 0.0

    def add(self, values: Mapping[str, Array], size: int, count: int | None = None) -> None:
        """Adds a batch of `size` examples, or only the first `count` of them.

        A scalar counts for a whole batch; of a part of one it would say too much.
        """
        operands = [np.asarray(values[name]) for name in self.metric.operands]
        try:
            each = np.asarray(self.metric.row.values(*operands))
        except (ValueError, IndexError, TypeError) as error:
            shapes = ", ".join(str(list(item.shape)) for item in operands)
            raise MgnError(f"metric '{self.metric.text}' of shapes {shapes}: {error}") from None
        if count is not None and each.ndim == 0:
            return
        taken = each if count is None else each[:count]
        weight = size if count is None else count
        self.total += float(taken.astype(np.float64).mean()) * weight
        self.weight += weight

    @property
    def value(self) -> float:
        """The metric so far; NaN where nothing was added."""
        return self.metric.row.of_mean(self.total / self.weight) if self.weight else math.nan
