"""What padding does to composite operations, where their decompositions do not show it.

In: a composite in a longer and in a shorter program, with what is known of its operands, which
agree. Out: what is known of its results, or None where the decomposition is to say it. Differs
where the results need not agree.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from mgn.dialects.mgn.operations.products.attention import HIDING
from mgn.sizes.known import ANYTHING, FINITE, Beside, Differs, Fact, Known, exactly


def softmax(at: Beside) -> list[Known] | None:
    """Weights along an axis: those of -inf are 0."""
    (x,), (result,) = at.operands, at.results
    axis: int = at.values["axis"]
    if axis not in x.padded:
        return None
    if x.slabs[axis] != exactly(-math.inf):
        raise Differs(f"it weighs all of axis {axis}, and its padding")
    slabs = {a: exactly(0) if a == axis else ANYTHING for a in result.padded}
    return [replace(result, inside=ANYTHING, slabs=slabs)]


def attention(at: Beside) -> list[Known] | None:
    """Queries that see keys: padding of the keys has to be hidden from the queries that count, by
    being causal or by a bias, and to be finite.
    """
    q, k, v, bias = at.grouped()
    (result,) = at.results
    if k.long[-2] == k.short[-2]:
        return _of_all_keys(at, q)
    fronts = [(*item.long[:-2], *item.short[:-2]) for item in (q, k, v)]
    alike = len(set(fronts)) == 1 and not any(
        set(item.padded) - {len(item.long) - 2} for item in (q, k, v)
    )
    if not alike or (bias is not None and set(bias.padded) - {len(bias.long) - i for i in (1, 2)}):
        raise Differs("other axes than those of queries and keys have padding")
    if not (k.slabs[len(k.long) - 2].finite and v.slabs[len(v.long) - 2].finite):
        raise Differs("keys or values of the padding may be infinite or no numbers")
    if bias is not None and not _spreads_alike(bias, q, k):
        raise Differs("its bias is spread at one size alone")
    if not (_is_causal(at, q, k) or _is_hidden(bias)):
        raise Differs("queries see the keys of the padding")
    return [result.with_facts(_weighed(q, k, v, bias))]


def _of_all_keys(at: Beside, q: Known) -> list[Known] | None:
    """The same where padding is of queries alone."""
    depends = at.values["causal"] or at.values["window"]
    if depends and len(q.long) - 2 in q.padded:
        raise Differs("which keys a query sees depends on how many queries there are")
    return None


def _is_causal(at: Beside, q: Known, k: Known) -> bool:
    """Whether no query that counts sees a key of the padding, or another one than without it."""
    window, short = at.values["window"], at.short.values["window"]
    same_window = window == short or (short == 0 and window >= k.short[-2])
    same_shift = k.long[-2] - q.long[-2] == k.short[-2] - q.short[-2]
    return bool(at.values["causal"]) and same_window and same_shift


def _is_hidden(bias: Known | None) -> bool:
    if bias is None or len(bias.long) - 1 not in bias.padded:
        return False
    hiding = bias.slabs[len(bias.long) - 1].value
    return hiding is not None and hiding <= HIDING


def _spreads_alike(bias: Known, q: Known, k: Known) -> bool:
    """Whether the bias has an axis of one element at both sizes, or at none."""
    sizes = (bias.long[-1], bias.short[-1], k.long[-2], k.short[-2])
    if sizes[0] != 1 and sizes[1] != sizes[3]:
        return False
    if len(bias.long) < 2:
        return True
    return bias.long[-2] == 1 or bias.short[-2] == q.short[-2]


def _weighed(q: Known, k: Known, v: Known, bias: Known | None) -> Fact:
    """What is so of means of values, of which there is one at least."""
    sees_one = bias is None and k.long[-2] >= q.long[-2] and k.short[-2] >= q.short[-2]
    finite = all(item.everywhere.finite for item in (q, k, v))
    return FINITE if sees_one and finite else ANYTHING


def dynamic_slice(at: Beside) -> list[Known] | None:
    """A part of some size that grows, from a place that is known and leaves it room."""
    x, starts = at.grouped()
    (result,) = at.results
    if x.padded or len(starts) != len(x.long):
        return None
    for axis in result.padded:
        start = starts[axis].inside.value
        if start is None or not 0 <= start <= x.long[axis] - result.long[axis]:
            raise Differs("where it starts is not known")
    return [result.with_facts(x.everywhere)]


CUSTOM: dict[str, Callable[[Beside], list[Known] | None]] = {
    "softmax": softmax,
    "attention": attention,
    "dynamic_slice": dynamic_slice,
}

FREE = {"attention": frozenset({"window"}), "dynamic_slice": frozenset({"sizes"})}
"""Attributes that the functions of `CUSTOM` compare."""

STAYS_FINITE = frozenset(
    {
        "relu",
        "leaky_relu",
        "elu",
        "softplus",
        "sigmoid",
        "silu",
        "gelu",
        "hard_sigmoid",
        "hard_swish",
        "clamp",
        "swiglu",
        "geglu",
        "softmax",
        "log_softmax",
        "layer_norm",
        "rms_norm",
        "linear",
        "rope",
        "embedding",
        "mean",
        "conv1d",
        "conv2d",
    }
)
"""Composites of finite numbers whose results are finite, but for overflow."""
