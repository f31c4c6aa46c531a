"""What a step does besides the optimiser's update, as `mgn.Trainer` takes it.

In: options. Out: `StepOptions`, or an MgnError for one that is of another kind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgn.diagnostics import MgnError, argument_name
from mgn.training.optimisers.patterns import Patterns
from mgn.training.step.loss_scale import LossScale


@dataclass(frozen=True)
class StepOptions:
    """What a step does besides the optimiser's update.

    `trained` and `frozen` are patterns of parameters: those that are trained (all, if there are
    none), but for those that are not. `clip_norm` is the largest norm of all gradients together.
    `ema` keeps an average of each parameter, of which each step replaces a share of `1 - ema`.
    `grad_norm` adds the norm, before it is clipped, to the outputs. `accumulate` is of how many
    batches a step takes the mean gradient. With a `loss_scale`, gradients are those of a loss that
    is scaled, divided by the scale, and a step for which they are not finite is skipped. With
    `masters`, parameters in half precision are rounded copies of states in f32, which steps move.
    `fixed` are the names of parameters that are trained only where `trained` asks for them.
    """

    trained: Patterns | None = None
    frozen: Patterns = ()
    clip_norm: float | None = None
    ema: float | None = None
    grad_norm: bool = False
    accumulate: int = 1
    loss_scale: LossScale | None = None
    masters: bool = False
    fixed: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        for name in ("clip_norm", "ema"):
            _check_number(name, getattr(self, name))
        for name in ("trained", "frozen"):
            _check_patterns_kind(name, getattr(self, name))
        for name in ("grad_norm", "masters"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise MgnError(f"{name} takes True or False, not {value!r:.80}")
        if not _is_count(self.accumulate):
            raise MgnError(
                f"accumulate takes a whole number of at least 1, not {self.accumulate!r:.80}"
            )
        if self.clip_norm is not None and not 0.0 < self.clip_norm < float("inf"):
            raise MgnError(
                f"{argument_name('clip_norm')} is a number above 0, not {self.clip_norm:g}"
            )
        if self.ema is not None and not 0.0 <= self.ema < 1.0:
            raise MgnError(f"ema is a number from 0 to below 1, not {self.ema:g}")


def _check_number(name: str, value: Any) -> None:
    """MgnError where an option is not a number, nor left out."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return
    raise MgnError(f"{name} takes a number, not {value!r:.80}")


def _check_patterns_kind(name: str, value: Any) -> None:
    """MgnError where an option is neither a pattern nor several."""
    is_several = isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)
    if isinstance(value, str) or is_several or (value is None and name == "trained"):
        return
    raise MgnError(f"{name} takes a pattern of names or a list of them, not {value!r:.80}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 31
