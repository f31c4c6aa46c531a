"""Neighbouring results of a product that its kernel combines: where the members of a group are.

In: a body with one matmul, behind which a reduction combines few rows or columns, as a pool does
behind a convolution. Out: its `ProductPool`: index maps from groups to rows or columns, and to the
elements of what is reduced and of what comes of it.

A template may walk the product in its own order, and look up the members of a group where sums are
kept. Or it walks rows or columns group by group (`Product.grouped`): members are then neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mgn.dialects.fusion.pooled_bodies import (
    BATCH,
    COMBINED_BY,
    MOVING_APART,
    ROWS,
    Pool,
    Step,
    pool_behind,
)
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import ZERO, Index, delinearised, linear
from mgn.passes.kernels.index_maps import reshaped_index


@dataclass(frozen=True)
class Group:
    """A group of rows or columns: its batch, its number along the side that is combined, and the
    column or row that its members share.
    """

    batch: Indices
    number: Index
    other: Index


@dataclass(frozen=True)
class ProductPool:
    """The reduction `node` combines groups of rows, or of columns, of a product with such a batch,
    as a `Pool` says.
    """

    node: Node
    pool: Pool
    batch: tuple[int, ...]

    @property
    def combines_rows(self) -> bool:
        """Whether members of a group are rows, and not columns."""
        return self.pool.side == ROWS

    @property
    def members(self) -> int:
        """Rows or columns of a group."""
        return self.pool.members

    @property
    def groups(self) -> int:
        """Groups along the side that is combined."""
        return self.pool.groups

    def along(self, is_combined: bool) -> dict[int, int]:
        """How far members of a group are apart, or groups, along each axis of the side that is
        combined; and how many there are.
        """
        axes = self.pool.combined if is_combined else self.pool.kept
        return {self.pool.axes[number].step: self.pool.axes[number].size for number in axes}

    def place(self, position: Index) -> Index:
        """The row or column at a position, where all are walked group by group."""
        axes = [*self.pool.kept, *self.pool.combined]
        parts = zip(axes, delinearised(position, self._sizes(axes)), strict=True)
        return sum((part * self.pool.axes[number].step for number, part in parts), ZERO)

    def operand_index(self, group: Group, member: Index) -> Indices:
        """The element of what is reduced that a member of a group is."""
        found = self._kept(group)
        parts = delinearised(member, self._sizes(self.pool.combined))
        found.update(zip(self.pool.combined, parts, strict=True))
        return tuple(found.get(number, ZERO) for number in range(len(self.pool.axes)))

    def result_index(self, node: Node, group: Group) -> Indices:
        """The index of what comes of a group, in the reduction or a value behind it."""
        found, axes = self._kept(group), self.pool.axes
        kept = [number for number, axis in enumerate(axes) if not axis.is_combined]
        index = tuple(found.get(number, ZERO) for number in kept)
        return reshaped_index(index, self._sizes(kept), node.shape)

    def _sizes(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.pool.axes[number].size for number in axes)

    def _kept(self, group: Group) -> dict[int, Index]:
        """The index along each axis that is not combined."""
        sides = {
            BATCH: linear(group.batch, self.batch),
            self.pool.side: group.number,
            1 - self.pool.side: group.other,
        }
        found: dict[int, Index] = {}
        for side, position in sides.items():
            own = [
                number
                for number, axis in enumerate(self.pool.axes)
                if axis.side == side and axis.step and not axis.is_combined
            ]
            own.sort(key=lambda number: -self.pool.axes[number].step)
            found.update(zip(own, delinearised(position, self._sizes(own)), strict=True))
        return found


def product_pool(body: Body, product: Node) -> ProductPool | None:
    """What combines neighbouring results of a product; None where what follows is not reduced."""
    after = body.dependent_on([product])
    found = [node for node in body.nodes if node in after and node.name in COMBINED_BY]
    if len(found) != 1:
        return None
    (node,), (value,) = found, found[0].operands
    moves = list[Step]()
    while value.name in MOVING_APART:
        moves.append(_step_of(value))
        (value,) = value.operands
    operands = [operand.shape for operand in product.operands]
    pool = pool_behind(product.shape, operands, moves[::-1], _step_of(node))
    return ProductPool(node, pool, product.shape[:-2]) if pool else None


def _step_of(node: Node) -> Step:
    return Step(node.name, node.values, node.operands[0].shape, node.shape)
