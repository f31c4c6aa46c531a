"""Kernels without a heavy operation, gone over by a loop of their own: the prices are the same."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from benchmarks.graphs.irregular_graphs import irregular_graph
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate.candidates.cut_lists import CutBuilder
from mgn.passes.saturate.candidates.cuts import Cut, Traits
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.prices import prices
from mgn.passes.saturate.prices.plain_work import PLAIN, plain_work
from mgn.passes.saturate.prices.prices import measure_kernel
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import random_graph

GRAPHS = {
    **{f"random {seed}": lambda seed=seed: random_graph(seed, 20) for seed in range(4)},
    "mixed": lambda: irregular_graph("mixed", 31, 300),
    "unet": lambda: irregular_graph("unet", 32, 300),
}
"""Small graphs that have rows, broadcasts, functions in chains, movement and long bodies."""


def cuts_of(
    graph: GraphOp, device: Device, kinds: Sequence[KernelKind] = PLAIN
) -> tuple[View, list[tuple[Cut, list[Traits]]]]:
    """The distinct ways to compute values of a graph in kernels of some kinds: of those without a
    heavy operation.
    """
    view = saturated_view(graph)
    placed = CutBuilder(view, device, CutLimits()).build().values()
    distinct = {item.cut_list.number: item.cut_list for item in placed}.values()
    pairs = [(cut, item.traits) for item in distinct for cut in item.cuts]
    return view, [pair for pair in pairs if pair[0].form.kind in kinds]


def sets_of_results(cut: Cut, view: View, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """The root with up to three values of the body that the kernel may write too, over names of the
    known body.
    """
    *inner, (last, number, _) = cut.known.body
    root = view.signatures[number]
    others = [
        name for name, number, _ in inner if cut.form.writable(name, view.signatures[number], root)
    ]
    others = rng.sample(others, min(3, len(others)))
    for count in range(len(others) + 1):
        yield from ((last, *some) for some in combinations(others, count))


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", GRAPHS)
def test_what_a_plain_kernel_takes_is_what_the_loop_for_all_kernels_finds(
    name: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, cuts = cuts_of(GRAPHS[name](), device)
    rng, compared = random.Random(name), 0
    for cut, traits in cuts:
        types = cut.types(traits)
        for results in sets_of_results(cut, view, rng):
            given = cut.known.body, cut.form, results, types, view.signatures, device
            assert plain_work(*given) is not None
            found = measure_kernel(*given)
            with monkeypatch.context() as patch:
                patch.setattr(prices, "is_plain", lambda *_: False)
                assert measure_kernel(*given) == found
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", GRAPHS)
def test_kernels_of_one_body_cost_together_what_each_does(name: str, device: Device) -> None:
    view, cuts = cuts_of(GRAPHS[name](), device, (*PLAIN, KernelKind.CONTRACTION))
    rng, several = random.Random(name), 0
    for cut, traits in cuts:
        types, body = cut.types(traits), cut.known.body
        sets = [results[1:] for results in sets_of_results(cut, view, rng)]
        extras = sorted({item for some in sets for item in some})
        known, _ = PricedBodies(view.signatures, device).part(body)
        together = PricedBodies(view.signatures, device).prices_with(known, extras, sets, types)
        alone = PricedBodies(view.signatures, device)
        assert together == [alone.price(body, (*cut.results, *s), types) for s in sets]
        several += len(sets) > 1
    assert several >= 3
