"""Which keys count for the rows of a work-item's fragments of scores.

In: scores of a tile of keys as a matrix unit gives them, for two rows of a work-item. Out: the
same scores, with -inf where a row does not see the key, or what lies as they do with 0. Most tiles
are seen by all rows: for those, nothing is compared.
"""

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Index, constant
from mgn.passes.lower_kernels.attention.node import Attention
from mgn.passes.lower_kernels.attention.products import QUAD
from mgn.passes.lower_kernels.attention.weights import HELD
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.schedules.attention.matrix import UNIT_COLUMNS

Vectors = list[SSAValue]


def of_both_rows(code: Code, values: Sequence[SSAValue]) -> SSAValue:
    """A number of each row, in all lanes of a result."""
    low, high = values
    return code.joined([low, low, high, high])


Bound = Callable[[Index], Index | int]


@dataclass(frozen=True)
class Seen:
    """Which of so many keys a row sees: from `first` on, where there is a `window`, and below
    `limit`, where that is another for each row (`causal`).
    """

    keys: int
    causal: bool
    window: int
    first: Bound
    limit: Bound

    @staticmethod
    def of(attention: Attention) -> "Seen":
        """What queries see."""
        sizes = (attention.keys, attention.causal, attention.window)
        return Seen(*sizes, attention.first, attention.limit)


@dataclass
class FragmentMask:
    """The mask of `rows`, the two that a work-item in `lane` of its sub-group has of a result, for
    `tile_keys` keys of the `visited` ones of a group's tile; fragments of 32-bit numbers are
    `paired`.
    """

    code: Code
    seen: Seen
    rows: Sequence[Index]
    lane: Index
    tile_keys: int
    visited: int
    paired: bool

    def key(self, n: int, lane: int) -> Index:
        """The number, in its tile, of the key to which a lane of the n-th result belongs."""
        own = self.lane % QUAD
        apart = UNIT_COLUMNS // 2 if self.paired else 1
        return own * (1 if self.paired else 2) + (n * UNIT_COLUMNS + lane % 2 * apart)

    def apply(self, first: Index, scores: Vectors, hidden: float = -numbers.inf) -> Vectors:
        """The scores of a tile that begins at a key, or what lies as they do, with another number
        where a row does not see the key.
        """
        seen, code = self.seen, self.code
        limits = [seen.limit(row) for row in self.rows]
        starts = [seen.first(row) for row in self.rows]
        tests: list[tuple[SSAValue, str, SSAValue]] = []
        if seen.causal or seen.keys % self.visited:
            past = code.compare_integers(
                "sgt", self._number(first + self.tile_keys), self._bound(limits[0])
            )
            tests.append((past, "slt", self._bounds(first, limits)))
        if seen.window:
            before = code.compare_integers("slt", self._number(first), self._bound(starts[1]))
            tests.append((before, "sge", self._bounds(first, starts)))
        for test, predicate, bound in tests:
            scores = code.branch(
                test, self._select(predicate, bound, scores, hidden), lambda held=scores: held
            )
        return scores

    def _number(self, index: Index) -> SSAValue:
        return self.code.convert("index_cast", self.code.index(index), i32)

    def _bound(self, bound: Index | int) -> SSAValue:
        return self._number(bound if isinstance(bound, Index) else constant(bound))

    def _bounds(self, first: Index, bounds: Sequence[Index | int]) -> SSAValue:
        """The bounds of both rows, counted from the work-item's first key of a tile."""
        own = self.key(0, 0) * -1 - first
        return of_both_rows(self.code, [self._number(own + bound) for bound in bounds])

    def _select(
        self, predicate: str, bound: SSAValue, scores: Vectors, hidden: float
    ) -> Callable[[], Sequence[SSAValue]]:
        code = self.code
        nothing = code.constant(hidden, f32, HELD)

        def select() -> Sequence[SSAValue]:
            result: Vectors = []
            for n, score in enumerate(scores):
                keys = code.numbers([self.key(n, lane).constant for lane in range(HELD)], i32)
                seen = code.compare_integers(predicate, keys, bound)
                result.append(code.select(seen, score, nothing))
            return result

        return select
