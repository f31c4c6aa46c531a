"""Merges that are left out because another one may stand in their place, most without a look."""

from itertools import product

import pytest
from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.types import tensor
from mgn.passes.saturate.candidates.cuts import Cut, Traits
from mgn.passes.saturate.candidates.needless_reads import Places, needless_reads
from mgn.passes.saturate.candidates.priced_bodies import KnownBody
from mgn.passes.saturate.prices.forms import Form

TYPE: TensorType = tensor("f32", (8,))
NAMES = [1, 2]


def cut(name: int, reduced: bool = False) -> Cut:
    """What computes a value from one that nothing else reads."""
    form = Form(KernelKind.POINTWISE, reduced=(8,) if reduced else ())
    return Cut(KnownBody(((0, 0, (1,)),), form), form, (name, 3), (1,), (3,), 0.0)


def traits(*stored: int) -> list[Traits]:
    """Of the result, two operands and a leaf: some of them may be stored."""
    users = [2 if name in stored else 1 for name in range(4)]
    return [Traits(TYPE, False, False, count, False) for count in users]


class Merges:
    """All merges of two operands, each computed or read; those looked at are noted."""

    def __init__(self, illegal: Places | None = None, reduced: Places | None = None) -> None:
        self.choices = [[cut(name), None] for name in NAMES]
        self.tried = dict.fromkeys(product(range(2), range(2)))
        self.illegal, self.reduced = illegal, reduced
        self.met: list[Places] = []

    def merge(self, places: Places) -> Cut | None:
        self.met.append(places)
        return None if places == self.illegal else cut(0, places == self.reduced)

    def left_out(self, known: list[Traits], reduces: bool = False) -> set[Places]:
        return needless_reads(self.tried, self.merge, NAMES, self.choices, known, reduces)


def test_a_read_is_left_out_where_the_value_can_be_computed_without_a_look_at_it() -> None:
    merges = Merges()
    assert merges.left_out(traits()) == {(0, 1), (1, 0), (1, 1)}
    assert (1, 1) not in merges.met


def test_a_read_of_a_value_that_may_be_stored_stays() -> None:
    assert Merges().left_out(traits(1)) == {(0, 1), (1, 1)}


@pytest.mark.parametrize("illegal", [(0, 0), (0, 1)])
def test_a_read_stays_where_no_kernel_computes_the_value(illegal: Places) -> None:
    merges = Merges(illegal)
    left = {places for places in merges.tried if places != illegal} - merges.left_out(traits())
    assert left == ({(0, 1), (1, 0)} if illegal == (0, 0) else {(0, 0)})


def test_a_product_that_reduces_rows_is_left_out_by_none() -> None:
    assert (1, 1) in Merges().left_out(traits(), reduces=True)
    assert (1, 1) not in Merges(reduced=(1, 1)).left_out(traits(), reduces=True)
