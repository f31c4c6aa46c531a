"""Launches through the driver's own function and without it: the same results, and errors told."""

import numpy as np
import pytest
from device_kernels import KERNELS, PLAN, SIZE

from mgn.runtime import launches
from mgn.runtime.cache import KernelCache
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.executable import Executable
from mgn.runtime.launches import Launch, driver_enqueue


def affine() -> Executable:
    executable = Executable(PLAN, KERNELS, cache=KernelCache.disabled())
    executable.set_param("scale", np.full(SIZE, 2.0, np.float32))
    return executable


def test_the_drivers_own_function_is_found_through_pyopencl() -> None:
    assert driver_enqueue() is not None


def test_launches_do_the_same_where_the_drivers_function_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(1).standard_normal((8, 12)).astype(np.float32)
    direct = affine().run({"x": x})
    monkeypatch.setattr(launches, "driver_enqueue", lambda: None)
    wrapped = affine().run({"x": x})
    for name, values in direct.items():
        np.testing.assert_array_equal(values, wrapped[name])


def test_a_launch_that_the_driver_refuses_is_an_error_that_names_the_kernel() -> None:
    executable = affine()
    good = next(step for step in executable._steps if isinstance(step, Launch))  # pyright: ignore
    bad = Launch(executable._queue, good.kernel, (12, 1, 1), (5, 1, 1))  # pyright: ignore
    with pytest.raises(RuntimeFault, match=rf"'{good.kernel.function_name}' was not launched: \w+"):
        bad.enqueue()
