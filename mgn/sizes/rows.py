"""The table of what padding does to each core operation, a row each.

In: an operation in a longer and in a shorter program, with what is known of its operands, which
agree. Out: what is known of its results. Differs where these need not agree.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.shapes import Shape
from mgn.dialects.types import element_of
from mgn.sizes.known import (
    ANYTHING,
    FINITE,
    Beside,
    Differs,
    Fact,
    Known,
    any_of,
    exactly,
)

MOST_ELEMENTS = 1 << 21
"""Of a tensor whose movement is followed element by element."""

STAYS_FINITE = frozenset(
    {
        "neg",
        "abs",
        "sign",
        "sin",
        "cos",
        "tanh",
        "erf",
        "floor",
        "ceil",
        "round",
        "identity",
        "stop_gradient",
        "add",
        "sub",
        "mul",
        "max",
        "min",
        "where",
        "cast",
    }
)
"""Elementwise operations of finite numbers whose results are finite, but for overflow."""


@dataclass(frozen=True)
class Row:
    """What an operation does, and the attributes that may differ between the two programs."""

    rule: Callable[[Beside], list[Known]]
    free: frozenset[str] = frozenset()


def elementwise(at: Beside) -> list[Known]:
    """Result[i] from operands[i]: padding stays where it is."""
    return _spread(at, lambda facts: _computed(at, facts))


def _spread(at: Beside, computed: Callable[[Sequence[Fact]], Fact]) -> list[Known]:
    """Operands whose axes broadcast, and what is computed of their elements."""
    (result,) = at.results
    rank = len(result.long)
    for item in at.operands:
        for axis, size in enumerate(item.long, rank - len(item.long)):
            if size != 1 and item.short[axis - rank] != result.short[axis]:
                raise Differs("an axis of one element is spread at one size alone")
    inside = computed([item.inside for item in at.operands])
    slabs = {
        axis: computed([_aligned(item, axis, rank) for item in at.operands])
        for axis in result.padded
    }
    return [replace(result, inside=inside, slabs=slabs)]


def _aligned(item: Known, axis: int, rank: int) -> Fact:
    own = axis - rank + len(item.long)
    return item.at(own) if own >= 0 else item.everywhere


def _computed(at: Beside, facts: Sequence[Fact]) -> Fact:
    """What an elementwise operation makes of elements."""
    if at.name == "where":
        condition, one, other = facts
        if condition.value is not None:
            return one if condition.value else other
        return one | other
    values = [fact.value for fact in facts]
    if at.name == "mul" and 0 in values and all(fact.finite for fact in facts):
        return exactly(0)
    if at.name in ("logical_and", "logical_or"):
        deciding = at.name == "logical_or"
        if any(value is not None and bool(value) == deciding for value in values):
            return exactly(deciding)
    if all(value is not None for value in values):
        arrays = [
            np.asarray(value, element_of(operand.type).dtype)
            for value, operand in zip(values, at.long.operands, strict=True)
        ]
        assert at.long.spec.evaluate is not None
        with np.errstate(all="ignore"):
            found = at.long.spec.evaluate(*arrays, **at.values)
        return exactly(np.asarray(found).reshape(()).item())
    is_float = element_of(at.long.results[0].type).is_float
    stays = at.name in STAYS_FINITE and all(fact.finite for fact in facts)
    return FINITE if stays or not is_float else ANYTHING


NEUTRAL = {"sum": 0, "prod": 1, "max_reduce": -math.inf, "min_reduce": math.inf}
"""What a reduction passes over."""


def reduction(at: Beside) -> list[Known]:
    """A combination along axes: padding along them has to be neutral."""
    (x,), (result,) = at.operands, at.results
    axes: Sequence[int] = at.values["axis"]
    for axis in x.padded:
        if axis in axes and x.slabs[axis].value != NEUTRAL[at.name]:
            raise Differs(f"it combines all of axis {axis}, and its padding")
    kept = [axis for axis in range(len(x.long)) if at.values["keepdims"] or axis not in axes]
    empty = any(x.short[axis] == 0 for axis in axes)
    return [_reduced(at.name, x, result, kept, empty)]


def _reduced(name: str, x: Known, result: Known, kept: Sequence[int], empty: bool) -> Known:
    def of(fact: Fact) -> Fact:
        if fact.value is not None and (name != "sum" or fact.value == 0) and not empty:
            return fact if name != "prod" or fact.value in (0, 1) else ANYTHING
        is_extreme = name in ("max_reduce", "min_reduce")
        return FINITE if fact.finite and not (empty and is_extreme) else ANYTHING

    slabs = {axis: of(x.at(kept[axis])) for axis in result.padded}
    return replace(result, inside=of(x.everywhere), slabs=slabs)


def scan(at: Beside) -> list[Known]:
    """A combination of what comes before: padding comes last."""
    (x,), (result,) = at.operands, at.results
    fact = FINITE if x.everywhere.finite and at.name == "running_sum" else ANYTHING
    return [result.with_facts(fact)]


def matmul(at: Beside) -> list[Known]:
    """A sum of products: padding along the shared axis has to be zeros on one side, and finite on
    the other.
    """
    (a, b), (result,) = at.operands, at.results
    inner_a = len(a.long) - (2 if at.values["transpose_a"] else 1)
    inner_b = max(len(b.long) - (1 if at.values["transpose_b"] else 2), 0)
    if a.long[inner_a] != a.short[inner_a]:
        facts = a.slabs[inner_a], b.slabs[inner_b]
        if not (any(fact.value == 0 for fact in facts) and all(fact.finite for fact in facts)):
            raise Differs("the axis that both operands share has padding")
    _check_batches(at, result, 2)
    finite = a.everywhere.finite and b.everywhere.finite
    return [result.with_facts(FINITE if finite else ANYTHING)]


def _check_batches(at: Beside, result: Known, matrix: int) -> None:
    """Differs where a batch axis of one element is spread at one size alone."""
    rank = len(result.long) - matrix
    for item in at.operands:
        for back in range(1, min(len(item.long) - matrix, rank) + 1):
            size, short = item.long[-matrix - back], item.short[-matrix - back]
            if size != 1 and short != result.short[-matrix - back]:
                raise Differs("an axis of one element is spread at one size alone")


def transpose(at: Beside) -> list[Known]:
    """Axes in another order."""
    (x,), (result,) = at.operands, at.results
    slabs = {axis: x.at(at.values["perm"][axis]) for axis in result.padded}
    return [replace(result, inside=x.inside, slabs=slabs)]


def reshape(at: Beside) -> list[Known]:
    """The same elements in the same order: an axis with padding has to be the first of those that
    it is joined with, or was taken apart from.
    """
    (x,), (result,) = at.operands, at.results
    if 0 in (*x.short, *x.long):
        raise Differs("it is empty")
    slabs: dict[int, Fact] = {}
    for old, new in _groups(x.long, result.long):
        one, other = _only_padded(x, old), _only_padded(result, new)
        if one is not None and other is not None and (one, other) == (old[0], new[0]):
            slabs[other] = x.slabs[one]
        elif one is not None or other is not None:
            raise Differs("padding would come between the elements")
        if math.prod(x.short[a] for a in old) != math.prod(result.short[a] for a in new):
            raise Differs("it cuts axes otherwise at other sizes")
    return [replace(result, inside=x.inside, slabs=slabs)]


def _only_padded(item: Known, axes: Sequence[int]) -> int | None:
    found = [axis for axis in axes if axis in item.padded]
    if len(found) > 1:
        raise Differs("it joins two axes with padding")
    return found[0] if found else None


def _groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """The least runs of axes of both shapes with as many elements; axes of one are in none."""
    left = [axis for axis, size in enumerate(old) if size != 1]
    right = [axis for axis, size in enumerate(new) if size != 1]
    found: list[tuple[list[int], list[int]]] = []
    while left and right:
        one, other = [left.pop(0)], [right.pop(0)]
        while (count := math.prod(old[axis] for axis in one)) != (
            wanted := math.prod(new[axis] for axis in other)
        ):
            if count < wanted:
                one.append(left.pop(0))
            else:
                other.append(right.pop(0))
        found.append((one, other))
    return found


def broadcast_to(at: Beside) -> list[Known]:
    """Axes of one element spread."""
    return _spread(at, lambda facts: facts[0])


def slice_(at: Beside) -> list[Known]:
    """Elements from the same starts on, in the same steps."""
    (x,), (result,) = at.operands, at.results
    steps: Sequence[int] = at.values["steps"]
    starts: Sequence[int] = at.values["starts"]
    for axis in x.padded:
        if steps[axis] < 0:
            raise Differs("it begins with the padding")
    slabs: dict[int, Fact] = {}
    for axis in result.padded:
        first = starts[axis] + result.short[axis] * steps[axis]
        beyond = first >= x.short[axis]
        slabs[axis] = x.at(axis) if beyond else x.everywhere
    return [replace(result, inside=x.inside, slabs=slabs)]


def concat(at: Beside) -> list[Known]:
    """Parts one behind the other: padding in the last part alone stays last."""
    parts, (result,) = at.operands, at.results
    along: int = at.values["axis"]
    if any(along in item.padded for item in parts[:-1]):
        raise Differs("what follows padding would move")
    slabs = {
        axis: parts[-1].at(axis) if axis == along else any_of([item.at(axis) for item in parts])
        for axis in result.padded
    }
    return [replace(result, inside=any_of([item.inside for item in parts]), slabs=slabs)]


def pad(at: Beside) -> list[Known]:
    """Elements around a tensor: those behind padding have to be like it."""
    (x,), (result,) = at.operands, at.results
    value = exactly(at.values["value"])
    padding: Sequence[Sequence[int]] = at.values["padding"]
    for axis in x.padded:
        if padding[axis][1] > 0 and x.slabs[axis] != value:
            raise Differs("what it adds would come behind padding")
    edges = [value] if any(edge > 0 for pair in padding for edge in pair) else []
    slabs = {
        axis: any_of([x.at(axis) if padding[axis][1] >= 0 else x.everywhere, *edges])
        for axis in result.padded
    }
    return [replace(result, inside=any_of([x.everywhere, *edges]), slabs=slabs)]


def iota(at: Beside) -> list[Known]:
    """Numbers from 0 on."""
    return [item.with_facts(FINITE) for item in at.results]


def full(at: Beside) -> list[Known]:
    """One number."""
    return [item.with_facts(exactly(at.values["value"])) for item in at.results]


def gather(at: Beside) -> list[Known]:
    """Elements at indices, which are clamped: the axis that they count along has one size."""
    (x, ids), (result,) = at.operands, at.results
    along: int = at.values["axis"]
    if along in x.padded:
        raise Differs(f"its indices may reach the padding of axis {along}")
    count = len(ids.long)
    slabs: dict[int, Fact] = {}
    for axis in result.padded:
        taken = along <= axis < along + count
        own = axis if axis < along else axis - count + 1
        slabs[axis] = x.everywhere if taken else x.at(own)
    return [replace(result, inside=x.everywhere, slabs=slabs)]


def rows_in_order(at: Beside) -> list[Known]:
    """Each line along an axis by itself."""
    along: int = at.values["axis"]
    if any(along in item.padded for item in (*at.operands, *at.results)):
        raise Differs(f"it orders axis {along} with its padding")
    return at.results


def movement(at: Beside) -> list[Known]:
    """Any other movement, followed element by element."""
    (x,), (result,) = at.operands, at.results
    if max(math.prod(x.long), math.prod(result.long)) > MOST_ELEMENTS:
        raise Differs("it moves too many elements to be followed")
    evaluate = at.long.spec.evaluate
    assert evaluate is not None
    numbers = np.arange(math.prod(x.long)).reshape(x.long)
    moved = np.asarray(evaluate(numbers, **at.values))[_corner(result.short)]
    if not np.array_equal(moved, evaluate(numbers[_corner(x.short)], **at.short.values)):
        raise Differs("padding would come before or between the elements")
    return [result.with_facts(x.everywhere)]


def _corner(shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(size) for size in shape)


def _row(rule: Callable[[Beside], list[Known]], *free: str) -> Row:
    return Row(rule, frozenset(free))


ROWS: dict[str, Row] = {
    **dict.fromkeys(NEUTRAL, _row(reduction)),
    **dict.fromkeys(("running_sum", "running_product"), _row(scan)),
    "matmul": _row(matmul),
    "transpose": _row(transpose),
    "reshape": _row(reshape, "shape"),
    "broadcast_to": _row(broadcast_to, "shape"),
    "slice": _row(slice_, "stops"),
    "concat": _row(concat),
    "pad": _row(pad),
    "flip": _row(movement),
    "windows": _row(movement),
    "iota": _row(iota, "shape"),
    "full": _row(full, "shape"),
    "gather": _row(gather),
    "sort_runs": _row(rows_in_order),
}
"""Core operations that are not elementwise; of those that are not here nothing is known."""

ELEMENTWISE = _row(elementwise)


def row_of(op: TensorOp) -> Row | None:
    """The row of a core operation."""
    return ELEMENTWISE if op.spec.kind is Kind.ELEMENTWISE else ROWS.get(op.spec.name)
