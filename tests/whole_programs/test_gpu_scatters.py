"""Scatters of drawn sizes as a large GPU would have them, on whichever device there is.

What is added are small whole numbers, so that every order of additions gives the same. NumPy is the
reference.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.types import ELEMENT_TYPES
from tests.conftest import targets_of_the_device

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

H200 = DEVICES["nvidia-h200"]
FIGURES: dict[str, Any] = {
    "kind": "gpu", "compute_units": H200.compute_units, "bandwidth": H200.bandwidth,
    "launch_cost": H200.launch_cost, "rates": H200.rates, "cache_gain": 1.0,
}  # fmt: skip

SIZES = [
    (1, 1), (16, 1), (64, 5), (300, 1000), (1024, 1000), (1024, 70_000), (5000, 1), (4099, 3000),
    (40_000, 100), (65_536, 1000), (65_537, 9000), (20_000, 30_000), (150_000, 2),
]  # fmt: skip
"""How many ids, and to how many places."""


CALLS = ("scatter(x, i, s)", "scatter_add(x, i, s)", 'scatter_along(x, i, s, combine = "max")')


@pytest.fixture
def large_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Has kernels chosen as for an H200."""
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(FIGURES))
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))


def drawn_ids(count: int, places: int, how: str, element: str) -> np.ndarray:
    """Ids, some of which are outside of the places."""
    random = np.random.default_rng(count + places)
    dtype = ELEMENT_TYPES[element].dtype
    if how == "equal":
        return np.full(count, places // 2, dtype)
    ids = random.integers(-3, places + 3, count)
    return (np.sort(ids) if how == "sorted" else ids).astype(dtype)


def drawn_numbers(shape: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(-4, 5, shape)
    return numbers.astype(ELEMENT_TYPES[element].dtype)


def run(call: str, arrays: list[np.ndarray], names: list[str], target: str) -> np.ndarray:
    given = zip(("x", "i", "s"), names, arrays, strict=True)
    head = ", ".join(
        f"{name}: {element}[{', '.join(map(str, array.shape))}]" for name, element, array in given
    )
    program = mgn.parse(f"graph g({head}) {{ return y = {call} }}")
    executable = mgn.compile(program, device=DEVICE, target=target)
    return executable(**dict(zip(("x", "i", "s"), arrays, strict=True)))["y"]


def wanted_of(call: str, x: np.ndarray, ids: np.ndarray, src: np.ndarray) -> np.ndarray:
    """By a loop of NumPy's, in the order of the ids, along the first axis."""
    places, result = np.clip(ids.astype(np.int64), 0, len(x) - 1), x.copy()
    if call.startswith("scatter_add"):
        np.add.at(result, places, src)
    elif call.startswith("scatter_along"):
        np.maximum.at(result, places, src)
    else:
        last = np.full(len(x), -1)
        np.maximum.at(last, places, np.arange(len(ids)))
        result[last >= 0] = src[last[last >= 0]]
    return result


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize("how", ["random", "sorted", "equal"])
@pytest.mark.parametrize("call", CALLS)
def test_scatters_of_every_size_are_right(call: str, how: str, target: str) -> None:
    for number, (count, places) in enumerate(SIZES):
        element = ("f32", "i32", "f64", "u32", "i64", "f32")[number % 6]
        named = ("i32", "i64")[number % 2]
        arrays = [
            abs(drawn_numbers((places,), element, 1)),
            drawn_ids(count, places, how, named),
            abs(drawn_numbers((count,), element, 2)),
        ]
        found = run(call, arrays, [element, named, element], target)
        np.testing.assert_array_equal(found, wanted_of(call, *arrays), f"{count} to {places}")
