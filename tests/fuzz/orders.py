"""Scatters and orders of sets of values.

In: an operation with sets for its operands. Out: the set of its result. What ids that are not sure
scatter may be anywhere; a run of keys that are not known may be in any order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgn.dialects.mgn.operation import OPERATIONS, TensorOp
from mgn.dialects.types import ElementType
from tests.fuzz import intervals
from tests.fuzz.intervals import Array, Discrete, Floats, Values
from tests.fuzz.sums import settled_sum, summed

OF_PARTS: dict[str, tuple[str, dict[str, bool]]] = {
    "scatter_runs_in_parts": ("scatter_runs", {}),
    "scatter_along_in_parts": ("scatter_along", {"sorted": True}),
    "scatter_in_buckets": ("scatter_along", {"sorted": False}),
}
"""What operations compute by totals of parts, which are their last operand."""

TOTALS = ("part_totals", "bucket_totals")
"""Operations that give such totals."""


def scattered(op: TensorOp, operands: Sequence[Values], element: ElementType) -> Values:
    """A scatter, whose sums may have any order of terms: so the totals of its parts tell no more.
    Totals of parts are scattered to zeros.
    """
    name, whole = op.spec.name, op.spec
    others = {name: value for name, value in op.values.items() if name != "combine"}
    if name in OF_PARTS:
        name, more = OF_PARTS[name]
        whole, operands = OPERATIONS[name], operands[:-1]
        others = {"axis": others["axis"], **more}
    if name in TOTALS:
        zeros = np.zeros(op.results[0].type.get_shape(), element.dtype)  # type: ignore
        operands = [intervals.exactly(zeros), *operands]
    x, *where, src = operands
    ids = [item for item in where if isinstance(item, Discrete)]
    axis, combine = op.values["axis"], op.values.get("combine", "add")

    def over(base: Array, terms: Array, how: str = "add") -> Array:
        places = [item.value for item in ids]
        given = [*places, terms] if name in TOTALS else [base, *places, terms]
        joined = {"combine": how} if name != "bucket_totals" else {}
        found: Any = whole.evaluate(*given, **joined, **others)  # type: ignore
        return np.asarray(found)

    def anywhere(base: Array, terms: Array) -> Array:
        return over(base.astype(np.int64), terms.astype(np.int64)) > 0

    unsure, wild = (
        any(bool(part.any()) for part in parts)
        for parts in ([item.unsure for item in ids], [item.wild for item in ids])
    )
    if isinstance(x, Discrete) or isinstance(src, Discrete):
        assert isinstance(x, Discrete) and isinstance(src, Discrete)
        value = over(x.value, src.value, combine)
        masks = (anywhere(a, b) for a, b in ((x.unsure, src.unsure), (x.wild, src.wild)))
        vague, away = masks
        return Discrete(value, vague | unsure, away | wild)
    if unsure or combine != "add":
        return intervals.anything(x.shape)
    low, high, total = (over(a, b) for a, b in zip(_sides(x), _sides(src), strict=True))
    nan, empty, away = (
        anywhere(a, b) for a, b in ((x.nan, src.nan), (x.empty, src.empty), (x.wild, src.wild))
    )
    low, high, over_most = summed(low, high, total, src.shape[axis] + 1, element)
    return settled_sum(low, high, over_most, nan, empty, away | wild, element)


def _sides(x: Floats) -> tuple[Array, Array, Array]:
    """The ends and magnitudes, 0 where there is no number."""
    empty = x.empty
    return tuple(np.where(empty, 0.0, part) for part in (x.lo, x.hi, x.magnitude))  # type: ignore


def counted(op: TensorOp, keys: Values, *told: Values) -> Discrete:
    """How often digits occur in parts of rows: not sure in a part that has a key that is not. Falls
    of a part go by the key before it, too.
    """
    evaluate, values = op.spec.evaluate, dict(op.values)
    assert evaluate is not None
    vague, value = _of_keys(keys)
    more = [item.value for item in told if isinstance(item, Discrete)]
    found = np.asarray(evaluate(*op.spec.split_operands([value, *more]), **values))  # type: ignore[call-arg]
    rows = np.moveaxis(vague, values["axis"], -1).reshape(
        found.shape[0], vague.shape[values["axis"]]
    )
    unsure = np.zeros(found.shape, bool)
    for part in range(found.shape[2]):
        piece = rows[:, part * values["part"] : (part + 1) * values["part"]]
        unsure[:, :, part] = piece.any(axis=1, keepdims=True)
        if part and values["with_falls"]:
            unsure[:, -1, part] |= rows[:, part * values["part"] - 1]
    return Discrete(found, unsure, np.zeros(found.shape, bool))


def _of_keys(keys: Values) -> tuple[Array, Array]:
    """Which keys are not sure, and the keys."""
    if isinstance(keys, Discrete):
        return keys.unsure, keys.value
    return ~keys.known, np.where(keys.empty, np.nan, keys.lo)


def ordered(op: TensorOp, keys: Values, payload: Values, *told: Values) -> Values:
    """Values in the order of keys, or of their digits. Where keys are sure they are moved; where a
    float's own order is not, the least ends and the largest ones are each in order. What is `told`
    of the keys is true of them.
    """
    evaluate, values = op.spec.evaluate, dict(op.values)
    assert evaluate is not None
    more = [item.value for item in told if isinstance(item, Discrete)]

    def moved(by: Array, part: Array) -> Array:
        return np.asarray(evaluate(*op.spec.split_operands([by, part, *more]), **values))

    vague, value = _of_keys(keys)
    doubtful = _in_run(op, vague, keys.shape)
    doubtful_there = moved(value, doubtful.astype(np.int32)) > 0
    if isinstance(payload, Discrete):
        wild = payload.wild | (keys.wild if isinstance(keys, Discrete) else doubtful & keys.wild)
        return Discrete(
            moved(value, payload.value),
            moved(value, payload.unsure) | doubtful_there,
            moved(value, _in_run(op, wild, keys.shape).astype(bool)),
        )
    plain = Floats(*(moved(value, part) for part in payload.parts))
    if payload is keys and "run" in values and not payload.nan.any():
        lo, hi = moved(payload.lo, payload.lo), moved(payload.hi, payload.hi)
    else:
        lo, hi = (
            moved(value, _in_run(op, part, keys.shape, join))
            for part, join in ((payload.lo, np.min), (payload.hi, np.max))
        )
    nan, wild = (
        moved(value, _in_run(op, part, keys.shape)) for part in (payload.nan, payload.wild)
    )
    parts = zip((lo, hi, nan, wild), plain.parts, strict=True)
    return Floats(*(np.where(doubtful_there, one, other) for one, other in parts))


def _in_run(op: TensorOp, part: Array, shape: tuple[int, ...], join: Any = np.any) -> Array:
    """For each element, what is so of any one of its run: of its row, where there are no runs."""
    axis = op.values["axis"]
    run = op.values.get("run") or max(shape[axis], 1)
    result = np.moveaxis(np.array(part), axis, -1)
    for start in range(0, result.shape[-1], run):
        piece = result[..., start : start + run]
        piece[...] = join(piece, axis=-1, keepdims=True)
    return np.moveaxis(result, -1, axis)
