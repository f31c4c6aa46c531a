"""Small inputs and results of a CPU are copied by the host: what comes out is what went in."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.runtime.devices import opencl
from mgn.runtime.memory import SMALL_BYTES

MIXED = """
graph g(x: f32[3, 5], y: i32[3, 5], on: bool[5], empty: f32[0, 2], large: f32[64, 1024]) {
  state count: i32[] = zeros()
  count <- count + 1
  return a = where(on, x + cast(y, f32), x), b = -y, c = concat([empty, empty], axis = 0), d = x,
    e = sum(y), f = large + 1.0, g = sum(large, axis = 1), h = count * 10
}
"""


def arrays(seed: int) -> dict[str, np.ndarray]:
    dice = np.random.default_rng(seed)
    return {
        "x": dice.standard_normal((5, 3), np.float32).T,
        "y": dice.integers(-9, 9, (3, 5), np.int32),
        "on": dice.random(5) < 0.5,
        "empty": np.zeros((0, 2), np.float32),
        "large": dice.standard_normal((64, 1024), np.float32),
    }


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each copy that OpenCL makes to or from an array."""
    found: list[int] = []
    copy = opencl().enqueue_copy

    def noted(queue: Any, target: Any, source: Any, **options: Any) -> Any:
        found.extend(item.nbytes for item in (target, source) if isinstance(item, np.ndarray))
        return copy(queue, target, source, **options)

    monkeypatch.setenv("MGN_GUARD", "off")
    monkeypatch.setattr(opencl(), "enqueue_copy", noted)
    return found


def test_runs_of_small_and_large_arrays_follow_one_another(copies: list[int]) -> None:
    assert SMALL_BYTES < 64 * 1024 * 4
    exe = mgn.compile(mgn.parse(MIXED), device="cpu")
    for number in range(4):
        given = arrays(number)
        x, y, on, large = (given[name] for name in ("x", "y", "on", "large"))
        copies.clear()
        found = exe(**given)
        assert number == 0 or min(copies) >= large.nbytes, "what is small, the host copies"
        np.testing.assert_array_equal(found["a"], np.where(on, x + y.astype(np.float32), x))
        np.testing.assert_array_equal(found["b"], -y)
        assert found["c"].shape == (0, 2)
        np.testing.assert_array_equal(found["d"], x)
        assert found["e"] == y.sum()
        np.testing.assert_array_equal(found["f"], large + 1)
        np.testing.assert_allclose(found["g"], large.sum(1), atol=1e-4)
        assert found["h"] == 10 * (number + 1)


def test_what_lies_on_the_device_is_taken_beside_what_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MGN_GUARD", "off")
    text = "graph g(x: f32[4], y: f32[4]) { return z = x + 2.0 * y }"
    exe = mgn.compile(mgn.parse(text), device="cpu")
    one, two = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    held = exe.run_on_device(x=one, y=two)["z"]
    np.testing.assert_array_equal(exe(x=held, y=two)["z"], one + 28)
    np.testing.assert_array_equal(exe(x=two, y=held)["z"], 7 + 2 * (one + 14))
    np.testing.assert_array_equal(held.numpy(), one + 14)
