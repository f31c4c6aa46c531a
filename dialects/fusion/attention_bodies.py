"""What stands beside attention in a kernel, and what of its gradient: the contract of the fuser and
the templates on attributes and operands. In: attributes, shapes. Out: whether they fit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]

HALVES = ("bf16", "f16")
"""Element types of half precision."""

ATTENTION_GRADIENT = ("attention_lse", "attention_query_gradient", "attention_key_gradient")
"""What the gradient of attention is made of."""

TOTALS = ATTENTION_GRADIENT[0]
"""What an attention's kernel knows of its scores."""

SCORING = ("heads", "kv_heads", "causal", "window", "scale", "softcap")
"""The attributes that scores depend on."""


def has_totals(
    name: str,
    totals: Mapping[str, Any],
    attention: Mapping[str, Any],
    given: Sequence[Any],
    attended: Sequence[Any],
) -> bool:
    """Whether a log-sum-exp of those attributes is of the scores of an operation with that name.
    Operands are what both are given before it is widened.
    """
    if name != "attention" or any(totals[item] != attention[item] for item in SCORING):
        return False
    return [*given] == [*attended[:2], *attended[3:]]


def widens(source: str, element: str) -> bool:
    """Whether a cast from one element type to the other is from half to single precision."""
    return source in HALVES and element == "f32"


def takes_part(shape: Shape, width: int, values: Mapping[str, Any]) -> int | None:
    """Which part of the columns a slice of keys and values takes: 0 the keys, which are so many, 1
    the values; None where it takes neither.
    """
    *outer, columns = shape
    starts, stops = list(values["starts"]), list(values["stops"])
    whole = starts[:-1] == [0] * len(outer) and stops[:-1] == outer
    if not whole or any(step != 1 for step in values["steps"]):
        return None
    bounds = ((0, width), (width, columns))
    own = starts[-1], stops[-1]
    return bounds.index(own) if own in bounds and 0 < width < columns else None
