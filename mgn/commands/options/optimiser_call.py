"""Reads what `--optimizer` says: a name, or a call with numbers.

In: `adamw`, or `sgd(momentum=0.9, nesterov=True)`; a rate, and how it changes. Out: an optimiser.
"""

import ast
from dataclasses import fields
from typing import Any

from mgn.commands.options.errors import UsageError
from mgn.diagnostics import clipped
from mgn.runtime.host_arrays import nearest
from mgn.training.optimisers import schedules
from mgn.training.optimisers.named import OPTIMISERS
from mgn.training.optimisers.optimisers import Optimizer
from mgn.training.optimisers.schedules import Schedule


def read_optimiser(
    text: str, rate: float | None, schedule: str, warmup: int, steps: int
) -> Optimizer:
    """The optimiser of a text, with the rate and the schedule of a run of so many steps.

    UsageError where the text is no such call, or gives the rate a second time.
    """
    name, options = _call(text)
    known = OPTIMISERS
    if name.lower() not in known:
        hint = nearest(name.lower(), [*known]) or f"; there are {', '.join(known)}"
        raise UsageError(f"--optimizer: there is no optimiser '{clipped(name)}'{hint}")
    kind = known[name.lower()]
    taken = {item.name: item.default for item in fields(kind) if item.init}
    for option in options:
        if option not in taken:
            hint = nearest(option, [*taken]) or f"; there are {', '.join(taken)}"
            raise UsageError(f"--optimizer: {name} has no option '{clipped(option)}'{hint}")
    if rate is not None and "lr" in options:
        raise UsageError(f"--lr gives the rate, and --optimizer '{clipped(text)}' gives it too")
    lr = options.pop("lr", taken["lr"]) if rate is None else rate
    try:
        return kind(**options, lr=_scheduled(lr, schedule, warmup, steps))
    except (TypeError, ValueError) as error:
        raise UsageError(f"--optimizer '{clipped(text)}': {error}") from None


def _scheduled(rate: Any, schedule: str, warmup: int, steps: int) -> float | Schedule:
    """A rate as it changes over a run."""
    if schedule == "constant" and not warmup:
        return rate
    falling = max(steps - warmup, 1)
    then: float | Schedule = rate
    if schedule == "cosine":
        then = schedules.cosine(rate, falling)
    elif schedule == "linear":
        then = schedules.linear(rate, 0.0, falling)
    return schedules.warmup(warmup, then) if warmup else then


_WORDS = {"true": True, "false": False, "none": None}
"""What the language writes for Python's literals."""


def _call(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of a call. UsageError where a text is none."""
    wanted = UsageError(
        f"--optimizer takes a name, or a call such as 'sgd(momentum=0.9)', not '{clipped(text)}'"
    )
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise wanted from None
    if isinstance(node, ast.Name):
        return node.id, {}
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise wanted
    options: dict[str, Any] = {}
    for item in node.keywords:
        value = item.value
        if isinstance(value, ast.Name) and value.id in _WORDS:
            options[item.arg or ""] = _WORDS[value.id]
            continue
        try:
            options[item.arg or ""] = ast.literal_eval(value)
        except ValueError:
            raise wanted from None
    return node.func.id, options
