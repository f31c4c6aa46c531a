"""Loss scaling: the loss is multiplied before it is differentiated, and gradients are divided.

In: what `loss_scale=` and `--loss-scale` say. Out: a `LossScale`, or none. Gradients that are too
small for half precision are kept from becoming 0 by the factor (Micikevicius et al. 2018). A step
whose gradients are not finite, since the factor was too large, is skipped.

    LossScale()                           begins at 65536; halved by a step that is skipped, doubled
                                          after 2000 steps without one
    LossScale(1024.0, 1.0, 1.0)           stays as it is
"""

import math
from dataclasses import dataclass
from typing import Any

from mgn import nn, ops
from mgn.builder import GraphBuilder, Value
from mgn.diagnostics import MgnError
from mgn.training.optimisers.optimisers import PREFIX

AUTOMATIC = "auto"
DYNAMIC = "dynamic"
NONE = "none"

SCALE, GOOD, SKIPS = f"{PREFIX}.loss_scale", f"{PREFIX}.good_steps", f"{PREFIX}.skipped"
"""The states: the scale, the steps since it moved, and how many were skipped."""

LOSS_SCALE, SKIPPED, NORM = "loss_scale", "skipped", "grad_norm"
"""The outputs that are the scale of a step, 1 where it was skipped, and the norm of its gradients.
"""

_PRECISIONS = ("f16",)
"""The precisions whose range asks for a scale."""

LARGEST, SMALLEST = 2.0**100, 2.0**-24
"""Between these a scale moves."""


@dataclass(frozen=True)
class LossScale:
    """By what a loss is multiplied: `initial` at first, times `backoff` with each step that is
    skipped, and times `growth` after each `interval` steps without one.
    """

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        for name, is_right, wanted in (
            ("initial", _is_in(self.initial, SMALLEST, LARGEST), "a number from 2**-24 to 2**100"),
            ("growth", _is_in(self.growth, 1.0, LARGEST), "a number of at least 1"),
            ("backoff", _is_in(self.backoff, SMALLEST, 1.0), "a number above 0, at most 1"),
            ("interval", _is_count(self.interval), "a whole number of at least 1"),
        ):
            if not is_right:
                raise MgnError(f"LossScale: {name} takes {wanted}, not {getattr(self, name)!r:.80}")

    @property
    def is_fixed(self) -> bool:
        """Whether the scale never moves."""
        return self.growth == self.backoff == 1.0


def fixed_scale(number: float) -> LossScale:
    """A scale that stays as it is."""
    return LossScale(number, growth=1.0, backoff=1.0)


def as_loss_scale(given: Any, precision: str = "f32") -> LossScale | None:
    """What is meant by `dynamic`, `none`, a number, or a `LossScale`; `auto` is dynamic in f16, and
    none at other precisions. MgnError for anything else.
    """
    if isinstance(given, str) and given == AUTOMATIC:
        given = DYNAMIC if precision in _PRECISIONS else NONE
    if given is None or (isinstance(given, str) and given == NONE):
        return None
    if isinstance(given, str) and given == DYNAMIC:
        return LossScale()
    if isinstance(given, LossScale):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return fixed_scale(given)
    known = "'auto', 'dynamic', 'none', a number or mgn.LossScale(…)"
    raise MgnError(f"loss_scale takes {known}, not {given!r:.80}")


def current_scale(graph: GraphBuilder, rule: LossScale) -> Value:
    """By what the loss of a graph is multiplied, f32."""
    if rule.is_fixed:
        return graph.constant(rule.initial, "f32")
    return graph.state(SCALE, "f32", nn.constant(rule.initial)).value


def move_scale(graph: GraphBuilder, rule: LossScale, finite: Value) -> None:
    """Counts a step that is skipped, and has the scale follow what came of it."""
    skips = graph.state(SKIPS, "i32")
    is_skipped = ops.cast(ops.logical_not(finite), "i32")
    skips.write(skips.value + is_skipped)
    graph.output(**{SKIPPED: is_skipped})
    if rule.is_fixed:
        return
    held = graph.state(SCALE, "f32", nn.constant(rule.initial))
    good = graph.state(GOOD, "i32")
    scale, reached = held.value, good.value + 1
    graph.output(**{LOSS_SCALE: scale})
    grows = reached >= rule.interval
    raised = ops.where(grows, ops.min(scale * rule.growth, LARGEST), scale)
    held.write(ops.where(finite, raised, ops.max(scale * rule.backoff, SMALLEST)))
    good.write(ops.where(ops.logical_and(finite, ops.logical_not(grows)), reached, 0))


def _is_in(value: Any, least: float, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and least <= value <= most


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 31
