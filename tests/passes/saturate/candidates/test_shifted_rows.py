"""A kernel says that largest elements of rows only shift exponentials: from its candidate on."""

from dataclasses import replace

import pytest

import mgn
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.check import ExtractionError, check_selection
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import body_names, kernels_of

SAYS = ScheduleAttr.of(largest="shifts")
PARTS = """
  m = max_reduce(x, axis = 1, keepdims = true)
  e = exp(x - m)
  s = sum(e, axis = 1, keepdims = true);
"""


def graph_of(body: str) -> GraphOp:
    return next(graphs_of(mgn.parse(f"graph g(x: f32[64, 256]) {{ {body} }}").lower()))


def shifting(body: str, device: str = "cpu") -> list[FusedKernelOp]:
    """The kernels of a program that look for largest elements."""
    graph = graph_of(body)
    saturate_graph(graph, DEVICES[device])
    return [op for op in kernels_of(graph) if "max_reduce" in body_names(op)]


@pytest.mark.parametrize(
    "body",
    [
        "return y = softmax(x * 0.5)",
        f"{PARTS} return y = e / s",
        f"{PARTS} return y = relu(e * recip(s))",
        "m = stop_gradient(max_reduce(x, axis = 1, keepdims = true));"
        " e = exp(x - m); return y = e / sum(e, axis = 1, keepdims = true)",
    ],
    ids=["composite", "parts", "followed", "stopped"],
)
def test_a_softmax_says_so_however_it_is_spelled(body: str) -> None:
    (kernel,) = shifting(body)
    assert kernel.arranged == SAYS


@pytest.mark.parametrize(
    "body",
    [
        f"{PARTS} return y = e / s, largest = m",
        f"{PARTS} return y = log(s) + m",
        "return y = log_softmax(x)",
        "return y = max_reduce(x, axis = 1)",
    ],
    ids=["written", "added", "logarithm", "itself"],
)
def test_other_kernels_of_largest_elements_say_nothing(body: str) -> None:
    assert all(kernel.arranged is None for kernel in shifting(body))


def test_two_softmaxes_in_one_kernel_say_what_each_would() -> None:
    (kernel,) = shifting("return a = softmax(x), b = softmax(x * 2.0)", "nvidia-h200")
    assert len(kernel.results) == 2
    assert kernel.arranged == SAYS


def test_the_checker_refuses_a_kernel_that_says_so_falsely() -> None:
    device = DEVICES["cpu"]
    view = saturated_view(graph_of("return y = max_reduce(x, axis = 1)"))
    found = find_candidates(view, device, Reach(view))
    selection = extract(found).selection
    check_selection(view, found, selection, device)
    (chosen,) = (found.candidates[number] for number in selection.kernels)
    chosen.template = replace(chosen.template, facts=(("largest", "shifts"),))
    with pytest.raises(ExtractionError, match="largest = shifts, falsely"):
        check_selection(view, found, selection, device)
