"""An executable computes what its plan says, checks what it is given, and tells on bad kernels."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.codegen.launch_plan import (
    BufferKind,
    BufferPlan,
    CopyStep,
    LaunchPlan,
    LaunchStep,
    OutputPlan,
)
from mgn.codegen.signature import KernelSignature
from mgn.runtime.cache import KernelCache
from mgn.runtime.errors import BuildError, DeviceError, GuardError, InputError, RuntimeFault
from mgn.runtime.launching.executable import Executable
from tests.runtime.device_kernels import KERNELS, PLAN, SIZE, signature
from tests.support.threads import run_together

pytestmark = pytest.mark.gpu
RANDOM = np.random.default_rng(7)


def affine(**options: bool) -> Executable:
    executable = Executable(PLAN, KERNELS, cache=KernelCache.disabled(), **options)
    executable.set_param("scale", np.full(SIZE, 2.0, np.float32))
    return executable


def expected(x: np.ndarray) -> np.ndarray:
    return x * np.float32(2) + np.arange(SIZE, dtype=np.float32).reshape(8, 12)


@pytest.mark.parametrize("guard", [False, True])
def test_a_run_gives_fresh_arrays_with_the_right_values(guard: bool) -> None:
    executable = affine(guard=guard)
    x = RANDOM.random((8, 12), np.float32)
    first = executable.run({"x": x})["y"]
    kept = first.copy()
    second = executable.run({"x": -x})["y"]
    np.testing.assert_allclose(first, expected(x), rtol=1e-6)
    np.testing.assert_allclose(second, expected(-x), rtol=1e-6)
    assert np.array_equal(first, kept)
    assert first.dtype == np.float32 and first.shape == (8, 12) and first.flags.owndata


def test_inputs_need_not_be_contiguous() -> None:
    x = RANDOM.random((12, 16), np.float32).T[::2]
    assert not x.flags.c_contiguous
    np.testing.assert_allclose(affine().run({"x": x})["y"], expected(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'x' is missing; it is f32\[8, 12\]"),
        (
            {"x": np.zeros((8, 12))},
            r"input 'x' has dtype float64, not float32 .*\.astype\(np\.float32\)",
        ),
        (
            {"x": np.zeros((12, 8), np.float32)},
            r"input 'x' has shape \[12, 8\], not \[8, 12\]",
        ),
        (
            {"x": np.zeros((8, 12), np.float32), "xs": np.zeros(1)},
            "there is no input 'xs'; did you mean 'x'",
        ),
        ({"y": np.zeros(1)}, "(?s)there is no input 'y'.*input 'x' is missing"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        affine().run(inputs)


def test_parameters_must_be_set_and_must_fit() -> None:
    executable = Executable(PLAN, KERNELS, cache=KernelCache.disabled())
    with pytest.raises(InputError, match="1 parameter has no value: 'scale'"):
        executable.run({"x": np.zeros((8, 12), np.float32)})
    with pytest.raises(InputError, match="no parameter 'scael'; did you mean 'scale'"):
        executable.set_param("scael", np.zeros(SIZE, np.float32))
    with pytest.raises(InputError, match="'scale' has dtype int32, not float32"):
        executable.set_param("scale", np.zeros(SIZE, np.int32))
    with pytest.raises(InputError, match=r"'scale' has shape \[3\], not \[96\]"):
        executable.set_param("scale", np.zeros(3, np.float32))
    value = RANDOM.random(SIZE, np.float32)
    executable.set_param("scale", value)
    assert np.array_equal(executable.get_param("scale"), value)
    assert executable.parameters == {"scale": ("f32", (SIZE,))}


def guarded(body: str) -> Executable:
    """The plan under guard, its `add` replaced by one whose work-item i does this."""
    source = (
        "__kernel void add(__global const float *x, __global const float *w, __global float *y)"
        f"{{ size_t i = get_global_id(0); {body} }}"
    )
    kernels = {**KERNELS, "add": signature("add", source, "read", "read", "write")}
    executable = Executable(PLAN, kernels, cache=KernelCache.disabled(), guard=True)
    executable.set_param("scale", np.ones(SIZE, np.float32))
    return executable


def test_a_kernel_that_writes_past_its_buffer_is_found_and_the_buffer_named() -> None:
    executable = guarded("y[i + 1] = x[i] + w[i];")
    with pytest.raises(GuardError, match="wrote 4 bytes past the end of view %y, which has 384"):
        executable.run({"x": np.ones((8, 12), np.float32)})


def test_a_kernel_that_writes_before_its_buffer_is_found() -> None:
    executable = guarded("y[(long)i - 2] = x[i] + w[i];")
    with pytest.raises(GuardError, match="wrote 8 bytes before the start of view %y"):
        executable.run({"x": np.ones((8, 12), np.float32)})


@pytest.mark.parametrize(("index", "element"), [("i + 1", SIZE - 1), ("(long)i - 1", 0)])
def test_what_a_kernel_reads_outside_its_buffer_is_nan_under_guard(
    index: str, element: int
) -> None:
    executable = guarded(f"y[i] = x[i] + w[{index}];")
    y = executable.run({"x": np.ones((8, 12), np.float32)})["y"].ravel()
    assert np.flatnonzero(np.isnan(y)).tolist() == [element]


def test_a_variable_asks_for_guard_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "__kernel void add(__global const float *x, __global const float *w, __global float *y)"
    )
    wrong = signature("add", source + "{ y[get_global_id(0) + 1] = 0; }", "read", "read", "write")
    for word, is_found in (("on", True), ("off", False)):
        monkeypatch.setenv("MGN_GUARD", word)
        executable = Executable(PLAN, {**KERNELS, "add": wrong}, cache=KernelCache.disabled())
        executable.set_param("scale", np.ones(SIZE, np.float32))
        if is_found:
            with pytest.raises(GuardError, match="wrote 4 bytes past the end of view %y"):
                executable.run({"x": np.ones((8, 12), np.float32)})
        else:
            executable.run({"x": np.ones((8, 12), np.float32)})
    monkeypatch.setenv("MGN_GUARD", "perhaps")
    with pytest.raises(DeviceError, match="MGN_GUARD is on or off, not 'perhaps'"):
        Executable(PLAN, KERNELS, cache=KernelCache.disabled())


def test_what_a_kernel_leaves_unwritten_is_nan_under_guard() -> None:
    executable = guarded("if (i != 5) y[i] = x[i] + w[i];")
    for _ in range(2):
        y = executable.run({"x": np.ones((8, 12), np.float32)})["y"].ravel()
        assert np.flatnonzero(np.isnan(y)).tolist() == [5]


def test_a_profiled_run_times_each_launch_and_writes_a_trace(tmp_path: Path) -> None:
    executable = affine()
    with pytest.raises(RuntimeFault, match="nothing to trace"):
        executable.trace(tmp_path / "none.json")
    x = RANDOM.random((8, 12), np.float32)
    y = executable.run({"x": x}, profile=True)["y"]
    np.testing.assert_allclose(y, expected(x), rtol=1e-6)
    assert [time.kernel for time in executable.profile] == ["multiply", "add"]
    assert all(0.0 < time.seconds < 1.0 for time in executable.profile)
    assert executable.profile[0].start == 0.0 < executable.profile[1].start
    executable.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    launches = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in launches] == ["multiply", "add"]
    assert launches[1]["dur"] == pytest.approx(executable.profile[1].seconds * 1e6)
    with pytest.raises(RuntimeFault, match="cannot write the trace"):
        executable.trace(tmp_path / "no" / "folder.json")


def copy_plan(element: str, shape: tuple[int, ...]) -> LaunchPlan:
    buffers = (
        BufferPlan(BufferKind.INPUT, "x", element, shape),
        BufferPlan(BufferKind.VIEW, "%y", element, shape, 0),
    )
    outputs = (OutputPlan("y", 1, element, shape),)
    return LaunchPlan("copy", 4096, buffers, (CopyStep(0, 1),), outputs)


@pytest.mark.parametrize(
    "array",
    [
        np.array([True, False, True]),
        np.array([1.5, -2.0], ml_dtypes.bfloat16),
        np.array([[1, 255]], np.uint8),
        np.array(3.25, np.float64),
        np.array([-(2**62)], np.int64),
        np.zeros((0, 4), np.float32),
    ],
)
@pytest.mark.parametrize("guard", [False, True])
def test_every_element_type_goes_in_and_out_unchanged(array: np.ndarray, guard: bool) -> None:
    names = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "uint8": "u8", "int64": "i64"}
    plan = copy_plan(names.get(array.dtype.name, "bool"), array.shape)
    y = Executable(plan, {}, guard=guard).run({"x": array})["y"]
    assert y.dtype == array.dtype and y.shape == array.shape
    assert y.tobytes() == array.tobytes()


def test_runs_from_several_threads_do_not_mix() -> None:
    executable = affine()
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(20):
            x = np.full((8, 12), seed * 100 + step, np.float32)
            if not np.array_equal(executable.run({"x": x})["y"], expected(x)):
                wrong.append(seed)

    run_together([partial(work, seed) for seed in range(3)])
    assert not wrong


def test_a_kernel_that_does_not_compile_is_reported_with_the_drivers_words() -> None:
    broken = {**KERNELS, "add": signature("add", "__kernel void add() { y = 3; }", "read")}
    plan = replace(PLAN, steps=(LaunchStep("add", (0,)),))
    with pytest.raises(BuildError, match=r"(?s)refused a kernel.*undeclared identifier 'y'"):
        Executable(plan, broken, cache=KernelCache.disabled())


def test_launches_must_fit_their_kernels() -> None:
    with pytest.raises(RuntimeFault, match="launches 'add', which was not given"):
        Executable(PLAN, {"multiply": KERNELS["multiply"]})
    plan = replace(PLAN, steps=(LaunchStep("add", (0, 1)),))
    with pytest.raises(RuntimeFault, match="takes 3 buffers, not 2"):
        Executable(plan, KERNELS)
    small = KernelSignature(
        "add", KERNELS["add"].source, (1, 1, 1), (1, 1, 1), KERNELS["add"].arguments
    )
    short = BufferPlan(BufferKind.INPUT, "x", "f32", (4,))
    plan = replace(PLAN, buffers=(short, *PLAN.buffers[1:]))
    with pytest.raises(RuntimeFault, match="wants 384 bytes where x has 16"):
        Executable(plan, {**KERNELS, "add": small})


def test_offsets_that_the_device_cannot_take_are_an_error_of_ours() -> None:
    view = BufferPlan(BufferKind.VIEW, "%t", "f32", (SIZE,), 4)
    plan = replace(PLAN, buffers=(*PLAN.buffers[:3], view, PLAN.buffers[4]))
    with pytest.raises(DeviceError, match="%t lies at 4, and this one needs multiples of"):
        Executable(plan, KERNELS, cache=KernelCache.disabled(), guard=False)


def test_memory_that_the_device_has_not_is_an_error_of_ours() -> None:
    plan = replace(PLAN, arena=1 << 60)
    with pytest.raises(DeviceError, match=r"has no .* bytes for 'affine'"):
        Executable(plan, KERNELS, cache=KernelCache.disabled(), guard=False)


def test_kernels_that_are_alike_share_what_pyopencl_writes_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyopencl import invoker

    written: list[str] = []
    plain = invoker._generate_enqueue_and_set_args_module  # pyright: ignore

    def counting(name: str, *rest: Any) -> Any:
        written.append(name)
        return plain(name, *rest)

    executable = Executable(PLAN, KERNELS)
    monkeypatch.setattr(invoker, "_generate_enqueue_and_set_args_module", counting)
    again = Executable(PLAN, KERNELS)
    assert written == []
    for item in (executable, again):
        item.set_param("scale", np.full(SIZE, 2.0, np.float32))
    x = {"x": np.ones((8, 12), np.float32)}
    assert np.array_equal(executable.run(x)["y"], again.run(x)["y"])
