"""In which ways operands come is tried in an order that leaves nothing out for what comes later."""

from itertools import product
from math import prod
from random import Random

import pytest

from mgn.dialects.fusion import KernelKind
from mgn.passes.saturate.candidates.cuts import Cut
from mgn.passes.saturate.candidates.priced_bodies import KnownBody
from mgn.passes.saturate.candidates.ways_tried import ways_tried
from mgn.passes.saturate.prices.forms import Form


def cut(lying: bool) -> Cut:
    form = Form(KernelKind.CONTRACTION)
    return Cut(KnownBody((), form), form, (), (), (), 0.0, lying=lying)


def test_a_value_that_is_read_twice_comes_in_one_way() -> None:
    ways = [*[cut(False)] * 7, None]
    assert list(ways_tried([3, 3], [ways, ways], 24)) == [(place, place) for place in range(8)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_lying_rounded_leaves_no_other_way_out(seed: int) -> None:
    random = Random(seed)
    names = list(range(random.randint(1, 4)))
    flags = [[random.random() < 0.4 for _ in range(random.randint(1, 4))] for _ in names]
    choices = [[*map(cut, row), None] for row in flags]
    most = random.randint(1, 30)
    tried = list(ways_tried(names, choices, most))
    assert len(set(tried)) == len(tried) <= most

    def lies(places: tuple[int, ...]) -> bool:
        return any([*row, False][place] for row, place in zip(flags, places, strict=True))

    every = list(product(*[range(len(choice)) for choice in choices]))
    others = [places for places in every if not lies(places)]
    assert tried[: len(others)] == others[:most]
    assert len(tried) == most or prod(map(len, choices)) > most or len(tried) == len(every)
