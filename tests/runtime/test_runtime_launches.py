"""Launches one by one, through the driver's own function and without it, and all as one command
buffer: the same results, and errors told.
"""

import gc
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind, BufferPlan, CopyStep, LaunchPlan, LaunchStep
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import choose, opencl
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.launching import command_buffers, launches
from mgn.runtime.launching import executable as executables
from mgn.runtime.launching.command_buffers import record
from mgn.runtime.launching.driver import driver_enqueue
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.launches import Launch
from tests.runtime.device_kernels import KERNELS, PLAN, SIZE

X = np.random.default_rng(1).standard_normal((8, 12)).astype(np.float32)

COPYING = replace(
    PLAN,
    arena=1536,
    buffers=(
        *PLAN.buffers,
        BufferPlan(BufferKind.VIEW, "%z", "f32", (SIZE,), 1024),
        BufferPlan(BufferKind.VIEW, "%none", "f32", (0,), 1024),
    ),
    steps=(
        LaunchStep("multiply", (0, 1, 3)),
        CopyStep(3, 5),
        CopyStep(6, 6),
        LaunchStep("add", (5, 2, 4)),
    ),
)
"""The same with a copy in between, and one of nothing."""


def affine(plan: LaunchPlan = PLAN) -> Executable:
    executable = Executable(plan, KERNELS, cache=KernelCache.disabled())
    executable.set_param("scale", np.full(SIZE, 2.0, np.float32))
    return executable


@pytest.fixture
def command_buffers_of_device() -> None:
    if "cl_khr_command_buffer" not in choose().handle.extensions.split():
        pytest.skip("the device has no command buffers")


def test_the_drivers_own_function_is_found_through_pyopencl() -> None:
    assert driver_enqueue() is not None


def test_launches_do_the_same_where_the_drivers_function_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executables, "record", lambda *_: None)
    direct = affine().run({"x": X})
    monkeypatch.setattr(launches, "driver_enqueue", lambda: None)
    wrapped = affine().run({"x": X})
    for name, values in direct.items():
        np.testing.assert_array_equal(values, wrapped[name])


def test_a_launch_that_the_driver_refuses_is_an_error_that_names_the_kernel() -> None:
    executable = affine()
    good = next(step for step in executable._phases[0] if isinstance(step, Launch))  # pyright: ignore
    bad = Launch(executable._queue, good.kernel, (12, 1, 1), (5, 1, 1))  # pyright: ignore
    with pytest.raises(RuntimeFault, match=rf"'{good.kernel.function_name}' was not launched: \w+"):
        bad.enqueue()


@pytest.mark.usefixtures("command_buffers_of_device")
@pytest.mark.parametrize("plan", [PLAN, COPYING], ids=["launches", "copies"])
def test_a_command_buffer_does_what_the_launches_one_by_one_do(
    plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = affine(plan)
    executable.run({"x": X})
    assert executable._recorded[0] is None  # pyright: ignore[reportPrivateUsage]
    recorded = [executable.run({"x": x})["y"] for x in (X, X + 1.0)]
    assert executable._recorded[0] is not None  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(executables, "record", lambda *_: None)
    single = affine(plan)
    for x, y in zip((X, X + 1.0), recorded, strict=True):
        np.testing.assert_array_equal(y, single.run({"x": x})["y"])
    assert not np.array_equal(*recorded)


@pytest.mark.usefixtures("command_buffers_of_device")
def test_a_profiled_run_between_two_others_launches_one_by_one() -> None:
    executable = affine(COPYING)
    first = executable.run({"x": X})["y"]
    profiled = executable.run({"x": X}, profile=True)["y"]
    assert [launch.kernel for launch in executable.profile] == ["multiply", "copy", "add"]
    np.testing.assert_array_equal(first, profiled)
    np.testing.assert_array_equal(first, executable.run({"x": X})["y"])


@pytest.mark.usefixtures("command_buffers_of_device")
def test_a_launch_without_arguments_is_not_recorded_and_one_of_odd_size_is_refused() -> None:
    executable = affine()
    good = next(step for step in executable._phases[0] if isinstance(step, Launch))  # pyright: ignore
    queue = executable._queue  # pyright: ignore[reportPrivateUsage]
    unset = opencl().Kernel(executable.build.programs["add"], "add")
    with pytest.raises(RuntimeFault, match=r"'add' was not recorded: \w+"):
        record(executable.device.handle, queue, [good, Launch(queue, unset, (1, 1, 1), (1, 1, 1))])
    with pytest.raises(RuntimeFault, match=r"was not (launched|recorded): \w+"):
        odd = Launch(queue, good.kernel, (12, 1, 1), (5, 1, 1))
        recorded = record(executable.device.handle, queue, [good, odd])
        assert recorded is not None
        recorded.enqueue()


@pytest.mark.usefixtures("command_buffers_of_device")
def test_a_command_buffer_is_given_back_with_its_executable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released: list[Any] = []
    plain = command_buffers.extension

    def watched(platform: Any, name: str, *types: Any) -> Callable[..., Any] | None:
        function = plain(platform, name, *types)
        if name != "clReleaseCommandBufferKHR" or function is None:
            return function
        return lambda handle: released.append(handle) or function(handle)

    monkeypatch.setattr(command_buffers, "extension", watched)
    executable = affine()
    for _ in range(2):
        executable.run({"x": X})
    del executable
    gc.collect()
    assert len(released) == 1


@pytest.mark.parametrize(
    ("extensions", "version"),
    [("cl_khr_fp16", 0), ("cl_khr_fp16 cl_khr_command_buffer", 9 << 12)],
    ids=["absent", "provisional"],
)
def test_a_device_without_the_finished_extension_launches_one_by_one(
    extensions: str, version: int
) -> None:
    listed = [SimpleNamespace(name="cl_khr_command_buffer", version=version)] if version else []
    device = SimpleNamespace(extensions=extensions, extensions_with_version=listed)
    executable = affine()
    steps = executable._phases[0]  # pyright: ignore[reportPrivateUsage]
    assert record(device, executable._queue, steps) is None  # pyright: ignore[reportPrivateUsage]
