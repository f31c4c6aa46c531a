"""A body that is joined of known ones: its form is found without a look at all of it."""

import pytest

from benchmarks.graphs.irregular_graphs import KINDS, irregular_graph
from mgn.dialects.kernel.device import DEVICES
from mgn.passes.saturate.candidates.cut_lists import CutBuilder
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.prices.bodies import renamed
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.saturate import saturated_view


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_form_of_a_joined_body_is_that_of_the_whole(kind: str, device: str) -> None:
    view = saturated_view(irregular_graph(kind, 41, 300))
    priced = PricedBodies(view.signatures, DEVICES[device])
    CutBuilder(view, DEVICES[device], CutLimits(), priced).build()
    joined = [found[0] for found in priced.joins.values() if found is not None]
    assert len(joined) > 100
    for known in joined:
        assert known.form == classify(known.body, view.signatures)


def test_what_one_part_reads_and_another_one_computes_is_put_in_order() -> None:
    view = saturated_view(irregular_graph("mixed", 41, 300))
    priced = PricedBodies(view.signatures, DEVICES["cpu"])
    number = next(
        number
        for number, item in enumerate(view.signatures)
        if item.name == "add" and item.operand_types[0] == item.operand_types[1] == item.type
    )
    for at in (1, 11):
        a, b, c, d = range(at, at + 4)
        inner, outer = priced.part(((a, number, (b, c)),)), priced.part(((d, number, (a, b)),))
        known, names = priced.joined((0, number, (d, a)), [outer, inner], []) or (None, ())
        ordered = ((a, number, (b, c)), (d, number, (a, b)), (0, number, (d, a)))
        assert known is not None and renamed(known.body, names) == ordered
    assert len(priced.joins) == 1
    turned = priced.part(((1, number, (4, 4)),)), priced.part(((4, number, (1, 1)),))
    assert priced.joined((0, number, (1, 4)), turned, []) is None
    inner = priced.part(((1, number, (2, 3)),))
    known, names = priced.joined((0, number, (1, 2)), [inner], [2]) or (None, ())
    assert known is not None and known.body == ((0, number, (1, 2)), (3, number, (0, 1)))
    assert names == (1, 2, 3, 0)
