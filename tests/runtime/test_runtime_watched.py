"""Runs that are watched: results leave while the device is at them, and states are written last."""

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind, BufferPlan, CopyStep, LaunchStep, OutputPlan
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import opencl
from mgn.runtime.launching.watched import WatchedExecutable
from tests.runtime.device_kernels import KERNELS, PLAN, SIZE, signature

pytestmark = pytest.mark.gpu
RANDOM = np.random.default_rng(8)
C = np.arange(SIZE, dtype=np.float32).reshape(8, 12)

KEPT = replace(
    PLAN,
    buffers=(*PLAN.buffers, BufferPlan(BufferKind.STATE, "last", "f32", (SIZE,))),
    steps=(*PLAN.steps, CopyStep(4, 5)),
    outputs=(*PLAN.outputs, OutputPlan("product", 3, "f32", (SIZE,))),
)
"""`product = x * scale`, `y = product + c`, and y is left in a state."""


@pytest.fixture
def exe() -> WatchedExecutable:
    executable = WatchedExecutable(KEPT, KERNELS, cache=KernelCache.disabled())
    executable.set_param("scale", np.full(SIZE, 2.0, np.float32))
    return executable


def draw() -> np.ndarray:
    return RANDOM.standard_normal((8, 12)).astype(np.float32)


def test_who_is_told_copies_a_result_among_the_launches(exe: WatchedExecutable) -> None:
    for _ in range(4):  # the second run records the launches
        x, told, copied = draw(), list[int](), np.full(SIZE, np.nan, np.float32)
        events: list[Any] = []

        def behind(end: int, told: list[int] = told, to: Any = copied, kept: Any = events) -> None:
            told.append(end)
            if end == 1:
                source, queue = exe.place("product"), exe.session.queue
                kept.append(opencl().enqueue_copy(queue, to, source, is_blocking=False))

        with exe.in_pieces({"x": x}, (1, 2), behind, left=("product",)) as results:
            assert told == [1, 2]
        assert events[0].command_execution_status == 0
        np.testing.assert_array_equal(copied, (x * np.float32(2)).reshape(-1))
        assert results.keys() == {"y"}
        np.testing.assert_array_equal(results["y"], x * np.float32(2) + C)
        np.testing.assert_array_equal(exe.run({"x": x})["y"], results["y"])


def test_an_input_that_is_in_its_place_is_not_given(exe: WatchedExecutable) -> None:
    x = draw()
    opencl().enqueue_copy(exe.session.queue, exe.place("x", is_input=True), x)
    with exe.in_pieces({}, placed=("x",)) as results:
        pass
    np.testing.assert_array_equal(results["y"], x * np.float32(2) + C)


def test_a_run_that_fails_while_it_is_watched_has_written_no_state(exe: WatchedExecutable) -> None:
    x = draw()
    with exe.in_pieces({"x": x}) as results:
        pass
    before = exe.session.get(BufferKind.STATE, "last")
    np.testing.assert_array_equal(before, results["y"].reshape(-1))
    with pytest.raises(ValueError, match="a rank is gone"), exe.in_pieces({"x": draw()}):
        raise ValueError("a rank is gone")
    np.testing.assert_array_equal(exe.session.get(BufferKind.STATE, "last"), before)


def test_what_is_dropped_has_ended_its_last_run() -> None:
    source = (
        "__kernel void slow(__global const float *x, __global float *y) {\n"
        "  size_t i = get_global_id(0);\n  float a = x[i];\n"
        "  for (int k = 0; k < 400000; k++) a = sin(a + (float)k);\n  y[i] = a;\n}\n"
    )
    kernels = {**KERNELS, "slow": signature("slow", source, "read", "write")}
    plan = replace(KEPT, steps=(*PLAN.steps, LaunchStep("slow", (4, 5))))
    executable = WatchedExecutable(plan, kernels, cache=KernelCache.disabled())
    executable.set_param("scale", np.full(SIZE, 2.0, np.float32))
    executable.run({"x": draw()})
    queue = executable.session.queue
    last = opencl().enqueue_marker(queue)
    queue.flush()
    assert last.command_execution_status != 0, "the results were there before the state was"
    del executable
    gc.collect()
    assert last.command_execution_status == 0
