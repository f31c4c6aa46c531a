"""The benchmark of prices: arrangements are forced as they are, and ranks are what they are."""

import math

import numpy as np
import pytest

import mgn
from benchmarks import prices
from benchmarks.pricing import alternatives as price_alternatives
from benchmarks.pricing import programs as price_programs
from benchmarks.pricing.programs import Program
from mgn.api import describe_device
from mgn.dialects.kernel.device import DEVICES
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError

SMALL = Program("small", "graph g(x: f32[8, 64], w: f32[64, 64]) { return y = softmax(x @ w) }")


def test_each_alternative_is_another_arrangement_and_the_first_is_what_is_chosen() -> None:
    found = price_alternatives.alternatives(SMALL, DEVICES["nvidia-h200"], 4)
    costs = [choice.selection.cost for choice in found]
    assert len(found) > 2
    assert costs[1:] == sorted(costs[1:])
    assert costs[0] <= costs[1] * (1 + 1e-9)


def test_alternatives_are_compiled_compared_and_timed() -> None:
    try:
        device = describe_device(choose("cpu"))
    except DeviceError:
        pytest.skip("no OpenCL device for the CPU: install the extra 'cpu'")
    (first, *_) = price_alternatives.alternatives(SMALL, device, 0)
    calibration = prices.Contestant(SMALL, first, "cpu")
    prices.check_results(SMALL, [calibration])
    row = prices.row_of(SMALL, "cpu", device, calibration)
    assert len({(item.names, item.predicted) for item in row.arrangements}) > 1
    assert row.loss >= 0.0
    assert all(item.measured > 0.0 for item in row.arrangements)
    assert "largest loss" in "\n".join(prices.summary(prices.in_proportion([row])))


def test_alternatives_differ_in_more_than_what_nothing_reads() -> None:
    text = "graph g(x: f32[256, 64], y: f32[64, 256]) { return z = relu(y.T) + exp(x) }"
    found = price_alternatives.alternatives(Program("wide", text), DEVICES["cpu"], 8)
    for choice in found[1:]:
        kernels = [choice.found.candidates[number] for number in choice.selection.kernels]
        read = set(choice.found.outputs).union(*(item.inputs for item in kernels))
        assert all(read.issuperset(item.results) for item in kernels)


def test_runs_that_follow_one_another_are_waited_for_once() -> None:
    try:
        choose("cpu")
    except DeviceError:
        pytest.skip("no OpenCL device for the CPU: install the extra 'cpu'")
    executable = mgn.compile(mgn.parse("graph g(x: f32[8]) { return y = x + 1.0 }"), device="cpu")
    executable.run({"x": np.zeros(8, np.float32)})
    assert executable.replay(times=3) == []
    assert len(executable.replay(times=3, profile=True)) == 1


def test_ranks_of_equal_values_are_their_mean() -> None:
    assert list(prices.ranks([3.0, 1.0, 3.0, 2.0])) == [3.5, 1.0, 3.5, 2.0]
    assert prices.correlation([1.0, 2.0, 3.0], [10.0, 20.0, 40.0]) == pytest.approx(1.0)
    assert prices.correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert math.isnan(prices.correlation([1.0, 1.0], [1.0, 2.0]))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_more_than_thirty_programs_are_measured_and_drawn_ones_repeat_by_seed(on_gpu: bool) -> None:
    assert len({item.name for item in price_programs.known_programs(on_gpu)}) > 30
    drawn = [list(price_programs.drawn_programs(on_gpu, seed, 4)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
