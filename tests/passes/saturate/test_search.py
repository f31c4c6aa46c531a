"""The search for kernels by what a rough choice tells of memory."""

import pytest

from benchmarks.graphs.irregular_graphs import irregular_graph
from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.types import tensor
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph, search
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template
from mgn.passes.saturate.candidates.cuts import MANY, Ranking, Traits
from mgn.passes.saturate.prices.forms import Form
from mgn.passes.saturate.search import takers_of
from tests.passes.saturate.saturate_programs import CPU

BOTH = pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])


def chosen(kind: str, device: str) -> SaturateReport:
    """The choice for a training step whose layers differ."""
    graph = irregular_graph(kind, 7, 150)
    return saturate_graph(graph, DEVICES[device], SaturateOptions(memoise=False))


@BOTH
@pytest.mark.parametrize("kind", ["resnet", "nas", "mixed", "unet"])
def test_what_a_rough_choice_tells_makes_choices_cheaper(
    kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a search that is not told."""
    known = chosen(kind, device)
    monkeypatch.setattr(search, "_kernels", lambda *_: [])
    guessed = chosen(kind, device)
    assert known.cost_after < guessed.cost_after * 0.99


def kernel(results: tuple[int, ...], inputs: tuple[int, ...]) -> Template:
    body = tuple((name, 0, inputs) for name in results)
    return Template(body, Form(KernelKind.POINTWISE), results, inputs, inputs, 1.0)


def test_a_value_is_taken_by_the_kernels_that_read_it_and_at_least_by_the_program() -> None:
    found = CandidateSet()
    for item in (kernel((0, 1), ()), kernel((2,), (0, 0, 1)), kernel((3,), (0,))):
        found.add(item, (10, 11, 12, 13))
    assert takers_of(found.candidates) == {10: 2, 11: 1, 12: 1, 13: 1}


def test_a_value_that_is_taken_in_any_case_costs_its_reader_nothing() -> None:
    ranking = Ranking([], CPU)

    def share(users: int, takers: int | None) -> float:
        traits = Traits(tensor("f32", (1 << 20,)), False, False, users, False, takers=takers)
        return ranking._share(traits)  # pyright: ignore[reportPrivateUsage]

    whole = share(1, None)
    assert [share(3, takers) / whole for takers in (None, 0, 1, MANY)] == [1 / 3, 1, 0.5, 0]
    assert [share(1, takers) / whole for takers in (None, 0, 1)] == [1, 1, 1]
