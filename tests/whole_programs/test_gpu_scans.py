"""Running sums and products of drawn sizes as a large GPU would have them, on any device.

What is added are small whole numbers, so that every order of additions gives the same.
"""

import os

import numpy as np
import pytest

import mgn
from tests.conftest import targets_of_the_device
from tests.support.large_gpu import large_gpu  # noqa: F401

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

SHAPES = [
    ((5000, 3), 0), ((129, 70), 0), ((2, 1000, 5), 1), ((3, 32_769), 1), ((1, 65_535), 1),
    ((20_001,), 0), ((65_536, 2), 0), ((40, 333), 1), ((127, 9), 0),
]  # fmt: skip


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize("call", ["cumsum", "cumprod"])
def test_scans_of_every_size_are_right(call: str, target: str) -> None:
    random = np.random.default_rng(3)
    for shape, axis in SHAPES:
        x = random.integers(-3, 4, shape).astype(np.float32)
        if call == "cumprod":
            x = np.where(x < 0, np.float32(-1), np.float32(1))
        program = f"graph g(x: f32{list(shape)}) {{ return y = {call}(x, axis = {axis}) }}"
        found = mgn.compile(mgn.parse(program), device=DEVICE, target=target)(x=x)["y"]
        wanted = getattr(np, call)(x.astype(np.float64), axis).astype(np.float32)
        np.testing.assert_array_equal(found, wanted, str(shape))


@pytest.mark.parametrize(
    ("shape", "axis"), [((65_536, 16), 0), ((1, 65_535), 1), ((9, 3000, 4), 1)]
)
def test_no_work_item_of_a_gpu_walks_a_long_row(shape: tuple[int, ...], axis: int) -> None:
    """A row or a column of thousands of elements is cut into parts."""
    program = f"graph g(x: f32{list(shape)}) {{ return y = cumsum(x, axis = {axis}) }}"
    report = str(mgn.optimize(mgn.parse(program), device="nvidia-h200").report)
    assert "rows in parts of" in report
