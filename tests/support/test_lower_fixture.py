"""Kernels of a test are lowered once where they are equal, and each gets its own results."""

from typing import Any

import numpy as np
import pytest

from tests.support import lower_fixture
from tests.support.lower_fixture import CPU, GPU_ON_CPU, Run, check_all, fused_kernel, same_rounded
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def cast(element: str, seed: int, device: Any = CPU, source: str = "f32", **schedule: Any) -> Run:
    """A kernel of a cast, from which another one may differ in a type alone."""
    array = np.random.default_rng(seed).integers(-9, 9, (3, 17))
    kernel = fused_kernel("pointwise", [(source, (3, 17))], lambda b, x: b.cast(x, element))
    array = array.astype({"f32": np.float32, "i32": np.int32}[source])
    return Run(kernel, [array], device, schedule, f"{element} {seed}")


def test_equal_kernels_are_lowered_once(
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []
    lowered = lower_fixture.lowered

    def noted(kernel: Any, device: Any, name: str, **schedule: Any) -> Any:
        names.append(name)
        return lowered(kernel, device, name, **schedule)

    monkeypatch.setattr(lower_fixture, "lowered", noted)
    runs = [
        cast("f64", 0), cast("f64", 1), cast("i32", 2), cast("i64", 3), cast("f64", 4, GPU_ON_CPU),
        cast("f64", 5, source="i32"), cast("i32", 6), cast("f64", 7, GPU_ON_CPU),
    ]  # fmt: skip
    check_all(cl_queue, runs, same_rounded)
    assert names == [f"kernel_{n}" for n in (0, 2, 3, 4, 5)]


def test_a_shape_tells_kernels_apart(cl_queue: Any) -> None:  # noqa: F811
    x = np.arange(36, dtype=np.int32).reshape(6, 6)
    reshaped = [
        fused_kernel("pointwise", [("i32", (6, 6))], lambda b, x, s=shape: b.reshape(x, s))
        for shape in ([36], [4, 9], [36])
    ]
    one, other, again = [Run(kernel, [x], CPU) for kernel in reshaped]
    assert lower_fixture._one_kernel(one, again)  # pyright: ignore[reportPrivateUsage]
    assert not lower_fixture._one_kernel(one, other)  # pyright: ignore[reportPrivateUsage]
    check_all(cl_queue, [one, other, again], same_rounded)
