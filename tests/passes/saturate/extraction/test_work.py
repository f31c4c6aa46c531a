"""Work beyond a budget is bounded: a step that was begun, and one choice that is made at once."""

import pytest

from benchmarks.graphs.irregular_graphs import irregular_graph
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.extraction.chosen_joins import extract_joined
from mgn.passes.saturate.extraction.elimination import SOON, good_choice
from mgn.passes.saturate.extraction.exact import ExactSolver, cost_of
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.work import STATE, Work
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.extraction.test_saturate_bounds import deep_problem
from tests.passes.saturate.saturate_programs import CPU

DRAWN = [("resnet", 1, 150), ("resnet", 2, 150), ("nas", 1, 150), ("nas", 4, 90), ("mixed", 2, 250)]
"""Kinds, seeds and sizes of graphs, some of whose cheapest closed choices have rings."""


def beyond(work: Work) -> float:
    return max(-work.left, 0.0)


@pytest.mark.parametrize("device", [CPU, DEVICES["nvidia-h200"]], ids=["cpu", "gpu"])
@pytest.mark.parametrize(("kind", "seed", "size"), DRAWN)
def test_what_is_done_beyond_a_budget_is_about_a_choice_that_is_made_at_once(
    kind: str, seed: int, size: int, device: Device
) -> None:
    view = saturated_view(irregular_graph(kind, seed, size))
    found = find_candidates(view, device, Reach(view))

    def more_than(budget: float) -> float:
        work, own = Work(budget), found.only(found.candidates)
        extraction = extract_joined(view, own, device, CutLimits(), work)
        assert extraction.bound <= extraction.selection.cost
        return beyond(work)

    at_once = more_than(0.0)
    assert at_once < SOON * STATE * len(found.candidates)
    for budget in (0.02, 0.06, 0.1, 0.2, 0.4, 0.8):
        assert more_than(budget) <= 1.2 * at_once


@pytest.mark.parametrize("seed", range(4))
def test_a_deep_problem_takes_little_more_work_than_there_is(seed: int) -> None:
    problem = deep_problem(seed)
    most = 2 * SOON * STATE * len(problem.prices)
    for budget in (0.0, 0.1, 0.5):
        work = Work(budget)
        assert cheapest_choice(problem, ExactSolver(work)).chosen is not None
        assert beyond(work) <= most


def test_a_choice_with_little_work_keeps_fewer_states_of_each_table() -> None:
    problem = deep_problem(0)
    works = [Work(seconds) for seconds in (0.0, 0.5, 30.0)]
    costs: list[float] = []
    for work in works:
        before, chosen = work.left, good_choice(problem, work)
        assert chosen is not None
        costs.append(cost_of(problem, chosen))
        work.left = before - work.left
    least, some, most = (work.left for work in works)
    assert least < 2 * SOON * STATE * len(problem.prices) < 0.5 < most
    assert least < some < 1.0
    assert costs[2] < costs[0]
