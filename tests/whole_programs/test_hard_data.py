"""Programs that are finite on hard data stay so under the default rules, with an error of their
order.
"""

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.moderate import LARGEST, is_moderate
from mgn.passes.saturate import SaturateOptions, SaturateReport
from tests.whole_programs.hard_programs import HARD, ROUNDING, Hard

TIMES = 8
"""How many times its own error a program may get."""
SLACK = 2.0**-21
"""What is no error beside a result's size: some roundings to f32."""
LEAST = 1e-37
"""Nor is what devices flush to 0."""


def graph_of(module: object) -> GraphOp:
    return next(graphs_of(module))  # pyright: ignore


def errors(hard: Hard, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The errors of a result and what is allowed, both against f64."""
    graph = graph_of(mgn.parse(hard.text).lower())
    written = Interpreter(hard.parameters).run(graph, hard.inputs)["y"].astype(np.float64)
    exact = Interpreter(hard.parameters, wide=True).run(graph, hard.inputs)["y"]
    assert np.isfinite(written).all(), "the program is not finite as it stands"
    own, size = np.abs(written - exact), np.abs(exact)
    if hard.by_row:
        own, size = (array.max(axis=-1, keepdims=True) for array in (own, size))
    return np.abs(found.astype(np.float64) - exact), TIMES * (own + SLACK * size) + LEAST


def check(hard: Hard, found: np.ndarray) -> None:
    assert np.isfinite(found).all()
    error, allowed = errors(hard, found)
    assert (error <= allowed).all(), (error / allowed).max()


def rewritten(hard: Hard, device: str = "cpu") -> GraphOp:
    """A program under the default rules, which take parameters to be moderate where they are."""
    moderate = all(np.abs(array).max() <= LARGEST for array in hard.parameters.values())
    options = SaturateOptions(moderate=moderate)
    return graph_of(mgn.optimize(mgn.parse(hard.text), device=device, saturation=options).module)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_a_hard_program_keeps_its_accuracy_when_it_is_rewritten(name: str, device: str) -> None:
    hard = HARD[name]()
    check(hard, Interpreter(hard.parameters).run(rewritten(hard, device), hard.inputs)["y"])


@pytest.mark.parametrize("name", ROUNDING)
def test_a_program_that_rounds_by_a_large_number_rounds_as_it_is_written(name: str) -> None:
    hard = HARD[name]()
    written = Interpreter().run(graph_of(mgn.parse(hard.text).lower()), hard.inputs)["y"]
    assert (Interpreter().run(rewritten(hard), hard.inputs)["y"] == written).all()


ON_THE_DEVICE = (
    *("a scale before a product", "shares of masses and their places", "rows that a mask hides"),
    *("differences, weighted", "a padded table of parameters", "rounding by a large number"),
    *("gelu by sigmoid", "a norm of large rows", "a norm with a large scale"),
)


@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_a_hard_program_keeps_its_accuracy_on_the_device(name: str) -> None:
    hard = HARD[name]()
    executable = mgn.compile(mgn.parse(hard.text), device="cpu")
    executable.params.update(hard.parameters)
    check(hard, executable(**hard.inputs)["y"])


def test_a_program_is_compiled_again_for_parameters_that_are_not_moderate() -> None:
    hard = HARD["a norm with a large scale"]()
    executable = mgn.compile(mgn.parse(hard.text), device="cpu")
    first = executable.report.saturation
    assert isinstance(first, SaturateReport) and first.assumes_moderate
    executable.params["w"] = hard.parameters["w"]
    assert executable.report.saturation is first
    executable.params["s"] = hard.parameters["s"]
    again = executable.report.saturation
    assert isinstance(again, SaturateReport) and not again.assumes_moderate
    np.testing.assert_array_equal(executable.params["w"], hard.parameters["w"])
    check(hard, executable(**hard.inputs)["y"])


@pytest.mark.parametrize("type", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_parameter_is_moderate_up_to_a_size_and_neither_infinite_nor_nan(type: type) -> None:
    values = np.linspace(-8, 8, 7).astype(type)
    assert is_moderate(values)
    for wrong in (np.inf, -np.inf, np.nan):
        assert not is_moderate(np.append(values, np.array(wrong, type)))
    if type is not np.float16:
        assert is_moderate(np.array([LARGEST, -LARGEST], type))
        assert not is_moderate(np.array([-LARGEST * 1.01], type))
    assert is_moderate(np.array(np.inf, type)) and is_moderate(np.array([1 << 40]))
