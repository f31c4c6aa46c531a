"""A kernel says that maxima of rows only stabilise exponentials, from its candidate on."""

import random
from dataclasses import replace

import pytest

import mgn
from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.stabilising_maximum import STABILISED, Step, maxima_only_stabilise
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.check import ExtractionError, check_selection
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import body_names, kernels_of

SAYS = ScheduleAttr.of(maximum="stabilises")
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
    chosen.template = replace(chosen.template, facts=(("maximum", "stabilises"),))
    with pytest.raises(ExtractionError, match="maximum = stabilises, falsely"):
        check_selection(view, found, selection, device)


SOFTMAX = (
    Step("m", "max_reduce", ("x",)),
    Step("d", "sub", ("x", "m")),
    Step("e", "exp", ("d",)),
    Step("s", "sum", ("e",)),
    Step("y", "div", ("e", "s")),
)


def test_a_body_without_one_of_these_operations_has_no_largest_element_that_only_shifts() -> None:
    """Softmaxes in which operations and operands are changed at random."""
    draw, said = random.Random(0), 0
    for _ in range(3000):
        steps = list(SOFTMAX)
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(steps))
            step, before = steps[place], ["x", *(item.name for item in steps[:place])]
            name = draw.choice([item.operation for item in SOFTMAX] + ["mul", "recip", "identity"])
            operands = tuple(
                draw.choice(before) if draw.random() < 0.3 else item for item in step.operands
            )
            steps[place] = Step(step.name, name, operands)
        if maxima_only_stabilise(steps, ["y"]):
            said += 1
            assert STABILISED.issubset(step.operation for step in steps)
    assert said > 500
