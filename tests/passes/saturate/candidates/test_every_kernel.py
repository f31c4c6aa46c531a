"""All kernels of small graphs: what bounds say of a kernel is never more than it costs."""

from math import inf

import pytest

from benchmarks.graphs.small_graphs import small_graph
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.candidates.candidates import CandidateSet, undominated
from mgn.passes.saturate.candidates.every_kernel import EveryKernel
from mgn.passes.saturate.candidates.kernel_bodies import TooMany
from mgn.passes.saturate.candidates.limits import BEYOND, TIME, CutLimits
from mgn.passes.saturate.candidates.within import Within
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.saturate import SaturateOptions, saturated_view
from tests.passes.saturate.candidates.exhaustive_kernels import BY_ITSELF, tree_graph
from tests.passes.saturate.saturate_programs import CPU

BOTH = pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=["cpu", "gpu"])
SLACK = 1.0 + 1e-9


def views() -> list[View]:
    """Graphs whose values are broadcast, have several readers, and are results; and trees."""
    graphs = [small_graph(seed, operations) for seed in range(6) for operations in (5, 8)]
    graphs += [tree_graph(seed, 6, 256) for seed in range(4)]
    return [saturated_view(graph, BY_ITSELF) for graph in graphs]


def no_candidates(view: View) -> CandidateSet:
    outputs = [key for key in dict.fromkeys(view.outputs) if view.classes[key].leaf is None]
    position = {key: place for place, key in enumerate(view.classes)}
    return CandidateSet(position=position, outputs=tuple(outputs))


def every_kernel(view: View, device: Device) -> EveryKernel:
    return EveryKernel(view, no_candidates(view), device, CutLimits(kernels=1_000_000))


def all_candidates(view: View, every: EveryKernel) -> CandidateSet:
    found = no_candidates(view)
    for template in every.templates(inf):
        found.add(template, every.classes)
    return found


@BOTH
def test_a_kernel_costs_no_less_than_its_body_was_said_to(device: Device) -> None:
    for view in views():
        every = every_kernel(view, device)
        every.least(inf)
        for part in every.bodies.of(inf):
            for template in every.kernels_of(part, inf):
                assert every.bodies.floor(part) <= (part.before + template.price) * SLACK


@BOTH
def test_no_kernel_of_several_results_obtains_a_value_for_less_than_one_of_it_alone(
    device: Device,
) -> None:
    for view in views():
        every = every_kernel(view, device)
        every.least(inf)
        obtained = Within(all_candidates(view, every)).obtained
        for place, key in enumerate(every.classes):
            assert every.bodies.obtained[place] <= obtained.get(key, inf) * SLACK


@BOTH
def test_no_kernel_of_the_best_choice_is_said_to_make_a_choice_dearer(device: Device) -> None:
    for view in views():
        found = all_candidates(view, every_kernel(view, device))
        within, selection = Within(found), extract(found).selection
        assert within.least <= selection.cost * SLACK
        for number in selection.kernels:
            assert within.cost_with(found.candidates[number]) <= selection.cost * SLACK


@BOTH
def test_kernels_that_others_replace_are_in_no_cheaper_choice(device: Device) -> None:
    for view in views():
        found = all_candidates(view, every_kernel(view, device))
        fewer = found.only(undominated(found.candidates))
        assert len(fewer.candidates) <= len(found.candidates)
        least = extract(found).selection.cost
        assert extract(fewer).selection.cost == pytest.approx(least, rel=1e-9)


def test_too_many_kernels_are_said_to_be_too_many() -> None:
    view = saturated_view(small_graph(4, 12), BY_ITSELF)
    every = EveryKernel(view, no_candidates(view), CPU, CutLimits(kernels=50))
    with pytest.raises(TooMany):
        every.templates(inf)


def test_a_report_says_whether_all_kernels_were_looked_at() -> None:
    """A search that is cut short says so, and its choice is no worse than one not made at all."""
    whole = saturate_graph(small_graph(0, 12), CPU)
    assert BEYOND in whole.passed_over and TIME not in whole.passed_over
    limits = CutLimits(kernels=50)
    short = saturate_graph(small_graph(0, 12), CPU, SaturateOptions(limits=limits))
    assert TIME in short.passed_over
    assert whole.cost_after < short.cost_after <= short.cost_before
