"""Which few neighbouring results of a product its kernel may combine: the contract of the fuser and
the templates on shapes.

In: the shape of a product, and the movement between what follows it and a reduction. Out: a `Pool`:
which rows or columns of the product each result combines; or None where a kernel cannot.

A value whose elements lie in the order of the product's results is seen as memory. Movement of it
is then another view of that memory: each axis has a step. The windows of a pool are such a view,
and so is a matrix whose rows are taken four by four.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

Shape = tuple[int, ...]

COMBINED_BY = frozenset({"sum", "max_reduce", "min_reduce"})
"""Reductions that combine neighbouring results."""

MOVING_APART = frozenset({"windows", "transpose", "reshape"})
"""Movement that may stand between what follows a product and such a reduction."""

MOST_COMBINED = 32
"""Results up to which some are combined: all of them are held at a time."""

BATCH, ROWS, COLUMNS = -1, 0, 1
"""Along what of a product an axis goes."""


@dataclass(frozen=True)
class Steps:
    """A view of the results of a product: sizes of axes, and how far neighbours are apart along
    each.
    """

    sizes: Shape
    steps: Shape

    @staticmethod
    def of(shape: Shape) -> "Steps":
        """The view of a value that has all results in their order."""
        return Steps(shape, tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))

    def moved(self, name: str, values: Mapping[str, Any], shape: Shape) -> "Steps | None":
        """The view that movement of this one gives, of a shape; None where it is no view."""
        if name == "transpose":
            order = values["perm"]
            return Steps(shape, tuple(self.steps[axis] for axis in order))
        if name == "windows":
            outer = len(self.sizes) - len(values["sizes"])
            own = self.steps[outer:]
            places = zip(own, values["strides"], strict=True)
            elements = zip(own, values["dilation"], strict=True)
            slid = [*(a * b for a, b in places), *(a * b for a, b in elements)]
            return Steps(shape, (*self.steps[:outer], *slid))
        return self._reshaped(shape) if name == "reshape" else None

    def _reshaped(self, shape: Shape) -> "Steps | None":
        """The same in another shape: axes may be parted, or become one where they follow each
        other.
        """
        if 0 in shape:
            return None
        given = [pair for pair in zip(self.sizes, self.steps, strict=True) if pair[0] != 1]
        found = list[int]()
        size = step = 1
        for wanted in reversed(shape):
            if wanted == 1:
                found.append(0)
                continue
            if size == 1 and given:
                size, step = given.pop()
            while size < wanted and given and given[-1][1] == step * size:
                size *= given.pop()[0]
            if size % wanted:
                return None
            found.append(step)
            size, step = size // wanted, step * wanted
        return None if given or size != 1 else Steps(shape, tuple(found[::-1]))


@dataclass(frozen=True)
class Axis:
    """An axis of what is reduced: along the batches, the rows or the columns of a product. `step`
    counts these.
    """

    size: int
    side: int
    step: int
    is_combined: bool


@dataclass(frozen=True)
class Pool:
    """Rows of a product, or columns, are combined in groups; `axes` are those of what is reduced.
    `side` says which, rows or columns.
    """

    axes: tuple[Axis, ...]
    side: int

    @cached_property
    def kept(self) -> list[int]:
        """The axes of groups along the side that is combined, the longest step first."""
        return self._along(False)

    @cached_property
    def combined(self) -> list[int]:
        """The axes of the members of a group, the longest step first."""
        return self._along(True)

    def _along(self, is_combined: bool) -> list[int]:
        own = [
            number
            for number, axis in enumerate(self.axes)
            if axis.side == self.side and axis.is_combined is is_combined and axis.size > 1
        ]
        return sorted(own, key=lambda number: -self.axes[number].step)

    @property
    def groups(self) -> int:
        """How many groups there are along the side that is combined."""
        return prod(self.axes[number].size for number in self.kept)

    @property
    def members(self) -> int:
        """How many rows, or columns, a group has."""
        return prod(self.axes[number].size for number in self.combined)


@dataclass(frozen=True)
class Step:
    """An operation of one operand: movement between a product and a reduction, or this itself."""

    name: str
    values: Mapping[str, Any]
    given: Shape
    shape: Shape


def in_order(moves: Sequence[Step]) -> int:
    """How many of the first of some steps, each of which reads the one before, keep the order of
    what they are given.
    """
    names = [move.name for move in moves]
    return next((n for n, name in enumerate(names) if name != "reshape"), len(names))


def pool_behind(
    product: Shape, operands: Sequence[Shape], moves: Sequence[Step], reduction: Step
) -> Pool | None:
    """The pool that a reduction is behind a product of that shape, through movement of what follows
    the product as it lies; None where a kernel cannot combine what it reduces.
    """
    if reduction.name not in COMBINED_BY:
        return None
    apart = moves[in_order(moves) :]
    view: Steps | None = Steps.of(apart[0].given if apart else reduction.given)
    for move in apart:
        view = view and view.moved(move.name, move.values, move.shape)
    return view and _pool_of(product, operands, view, tuple(reduction.values["axis"]))


def _pool_of(product: Shape, operands: Sequence[Shape], view: Steps, axes: Shape) -> Pool | None:
    """The pool of a reduction of a view over some axes, behind a product of that shape; None where
    a kernel cannot combine what it reduces, or would not write results in their order.
    """
    if min(map(len, operands)) < 2 or 0 in (*product, *view.sizes, *map(prod, operands)):
        return None
    *batch, rows, columns = product
    limits = {BATCH: prod(batch), ROWS: rows, COLUMNS: columns}
    units = {BATCH: rows * columns, ROWS: columns, COLUMNS: 1}
    found = list[Axis]()
    for number, (size, step) in enumerate(zip(view.sizes, view.steps, strict=True)):
        if size == 1:
            found.append(Axis(1, BATCH, 0, number in axes))
            continue
        side = next(side for side, unit in units.items() if step % unit == 0)
        found.append(Axis(size, side, step // units[side], number in axes))
    kept = [pair[1] for number, pair in enumerate(zip(view.sizes, view.steps, strict=True))
            if pair[0] > 1 and number not in axes]  # fmt: skip
    if kept != sorted(kept, reverse=True):
        return None
    combined = {axis.side for axis in found if axis.is_combined and axis.size > 1}
    if len(combined) != 1 or BATCH in combined:
        return None
    pool = Pool(tuple(found), *combined)
    fits = pool.members <= MOST_COMBINED
    return pool if fits and all(_fits(pool, *item) for item in limits.items()) else None


def _fits(pool: Pool, side: int, limit: int) -> bool:
    """Whether the axes along a side tell all of it apart: each element has one place at most, and
    of a side that is not combined has one.
    """
    own = sorted((axis.step, axis.size) for axis in pool.axes if axis.side == side and axis.step)
    reached = 0
    for step, size in own:
        if step <= reached or (side != pool.side and step != reached + 1):
            return False
        reached += step * (size - 1)
    return reached < limit if side == pool.side else reached == limit - 1
