"""Recurrences as one kernel, in both forms, against the interpreter; and where they are chosen."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.operations.recurrences.recurrence import CELLS, DIRECTIONS
from mgn.passes.saturate import RuleClass, SaturateOptions, saturate
from mgn.passes.saturate.memo import forget_choices
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}

SHAPES = [(1, 1, 1), (3, 2, 5), (4, 7, 16), (2, 1, 48), (5, 3, 33), (2, 9, 300), (3, 33, 4)]
"""Steps, samples and hidden elements: fewer and more than work-items, and vectors."""


def runs_of(cell: str, direction: str, shape: tuple[int, int, int], element: str) -> list[Run]:
    steps, samples, size = shape
    kind, many = CELLS[cell], len(DIRECTIONS[direction])
    rows = kind.gates * size
    shapes = [(steps, samples, many * rows), (many, size, rows)]
    shapes += [(many, samples, size)] * kind.states + [(many, rows)] * (steps % 2)
    random = np.random.default_rng(size)
    scale = 0.5 / max(size, 1) ** 0.5
    sizes = [scale if n == 1 else 1.0 for n in range(len(shapes))]
    arrays = [
        random.uniform(-most, most, item).astype(element.replace("f", "float"))
        for most, item in zip(sizes, shapes, strict=True)
    ]

    def build(b: Any, given: Any, r: Any, *states: Any) -> Any:
        return b.recurrence(b.neg(given), r, list(states), cell=cell, direction=direction)

    kernel = fused_kernel("recurrence", [(element, item) for item in shapes], build)
    return forms_of(kernel, arrays, f"{element} {cell} {direction} {shape}")


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """An error of a step reaches the next one through weights whose rows sum to less than that."""
    size, steps = run.arrays[1].shape[1], run.arrays[0].shape[0]
    bound = 8 * (size + 8) * steps * EPSILON[run.what.split()[0]]
    np.testing.assert_allclose(got[0], want[0], rtol=0, atol=bound, err_msg=run.what)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_kernel_walks_all_steps(direction: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    first = list(DIRECTIONS).index(direction)
    for number, shape in enumerate(SHAPES, first):
        cell = ("lstm", "gru", "rnn", "rnn_relu")[number % 4]
        runs += runs_of(cell, direction, shape, "f64" if number % 3 == 0 else "f32")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_one_kernel_is_chosen_for_many_small_steps(device: str) -> None:
    text = """param w: f32[128, 16]
    param r: f32[128, 32]
    graph g(x: f32[12, 2, 16]) { y, h, c = lstm(x, w, r)
      return y, c
    }"""
    report = mgn.optimize(mgn.parse(text), graph="g", device=device).report
    assert "recurrence" in [kernel.kind for kernel in report.kernels]
    assert len(report.kernels) < 8


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_a_long_loop_is_chosen_without_a_look_at_its_steps(device: str) -> None:
    text = """param w: f32[256, 40]
    param r: f32[256, 64]
    graph g(x: f32[1000, 1, 40]) { y, h, c = lstm(x, w, r)
      return y, c
    }"""
    report: Any = mgn.optimize(mgn.parse(text), graph="g", device=device).report
    assert report.saturation.nodes < 100
    assert [kernel.kind for kernel in report.kernels].count("recurrence") == 1
    assert report.saturation.cost_after <= report.saturation.cost_before


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
@pytest.mark.parametrize("steps, results", [(1, "y"), (1, "y, c"), (2, "y")])
def test_a_loop_of_few_steps_that_begins_with_zeros_costs_no_more_than_its_steps(
    steps: int, results: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step has no product then, and no kernel takes y from what the loop writes."""
    text = f"""param w: f32[256, 4]
    param r: f32[256, 64]
    graph g(x: f32[{steps}, 1, 4]) {{ y, h, c = lstm(x, w, r)
      return {results}
    }}"""

    def cost() -> float:
        found: Any = mgn.optimize(mgn.parse(text), graph="g", device=device).report.saturation
        return found.cost_after

    chosen = cost()
    forget_choices()
    monkeypatch.setattr(saturate, "is_never_unrolled", lambda op, device: False)
    assert chosen <= cost() * (1 + 1e-9)
    forget_choices()


def test_by_exact_rules_a_loop_is_its_steps() -> None:
    text = "graph g(x: f32[40, 1, 4], w: f32[8, 4], r: f32[8, 8]) { return y = rnn(x, w, r)[0] }"
    exact = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    report = mgn.optimize(mgn.parse(text), saturation=exact).report
    assert [kernel.kind for kernel in report.kernels].count("contraction") >= 40


def test_steps_that_reset_first_are_kernels_of_their_own() -> None:
    text = """param w: f32[48, 16]
    param r: f32[48, 16]
    graph g(x: f32[3, 2, 16]) { y = gru(x, w, r, linear_before_reset = false)[0]
      return y
    }"""
    report = mgn.optimize(mgn.parse(text), graph="g").report
    assert "recurrence" not in [kernel.kind for kernel in report.kernels]


def test_large_products_of_many_samples_are_not_walked_by_a_few_groups() -> None:
    text = """param w: f32[4096, 64]
    param r: f32[4096, 1024]
    graph g(x: f32[2, 256, 64]) { y = lstm(x, w, r)[0]
      return y
    }"""
    report = mgn.optimize(mgn.parse(text), graph="g", device="nvidia-h200").report
    assert DEVICES["nvidia-h200"].compute_units > 100
    assert "recurrence" not in [kernel.kind for kernel in report.kernels]
