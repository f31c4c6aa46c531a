"""A queue on the device under test, and running one kernel on NumPy arrays."""

import os
from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math, memref, scf, vector
from xdsl.parser import Parser

from mgn.codegen.opencl.opencl import BUILD_OPTIONS
from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import DEVICES, Device, FuncOp, Kernel
from mgn.runtime.devices import choose, opencl
from mgn.runtime.errors import DeviceError
from mgn.runtime.launching.programs import build_source
from tests.support.guard_zones import launch_guarded

DTYPES: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i1": np.bool_,
}
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8")

UNOPTIMISED = "-cl-opt-disable"
"""A build without a driver's optimiser takes half as long, or less."""

_CONTEXTS: list[Any] = []
"""Holds the context: a queue alone does not keep it alive."""


@cache
def _queue() -> Any:
    try:
        device = choose(os.environ.get("MGN_TEST_DEVICE", "cpu"))
    except DeviceError:
        return None
    pyopencl = opencl()
    _CONTEXTS.append(pyopencl.Context([device.handle]))
    return pyopencl.CommandQueue(_CONTEXTS[-1])


@pytest.fixture(scope="session")
def cl_queue() -> Any:
    """A command queue on the device that MGN_TEST_DEVICE names, by default the CPU.

    The test is skipped, saying so, where there is none.
    """
    queue = _queue()
    if queue is None:
        pytest.skip("no such OpenCL device: install the extra 'cpu', or set MGN_TEST_DEVICE")
    return queue


def device_description(queue: Any) -> Device:
    """The description whose text suits the device under test."""
    if "NVIDIA" in queue.device.vendor:
        return DEVICES["nvidia-h200"]
    return compiled_there(queue, DEVICES["cpu"])


def compiled_there(queue: Any, device: Device) -> Device:
    """A description with the vendor whose compiler builds for a queue, where its text differs."""
    for vendor, platform in (("pocl", "Portable Computing"), ("nvidia", "NVIDIA")):
        if platform in queue.device.platform.name:
            return device.with_figures(vendor=vendor)
    return device


def build_options(queue: Any) -> list[str]:
    """The emitter's options, where the device knows them."""
    rounded = opencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return [BUILD_OPTIONS] if queue.device.single_fp_config & rounded else []


def build_unoptimised(patch: pytest.MonkeyPatch) -> None:
    """Builds without a CPU driver's optimiser: for kernels of which others are built with it."""
    asked = build_options

    def options(queue: Any) -> list[str]:
        given = asked(queue)
        is_cpu = queue.device.type & opencl().device_type.CPU
        return [*given, UNOPTIMISED] if is_cpu and UNOPTIMISED not in given else given

    patch.setattr("tests.support.opencl_fixture.build_options", options)


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds so in a test."""
    build_unoptimised(monkeypatch)


def built(queue: Any, program: str | bytes) -> Any:
    """A program of the text or the SPIR-V of kernels."""
    return _built(program, tuple(build_options(queue)))


@lru_cache(maxsize=8)
def _built(program: str | bytes, options: tuple[str, ...]) -> Any:
    if isinstance(program, bytes):
        return opencl().Program(_CONTEXTS[-1], program).build(options=list(options))
    return build_source(_CONTEXTS[-1], _queue().device, program, options)[0]


def run_kernel(queue: Any, kernel: KernelSignature, arrays: list[np.ndarray]) -> None:
    """Launch a kernel between guard zones; written arrays are read back in place."""
    program = built(queue, kernel.program)
    launch_guarded(queue, _CONTEXTS[-1], program, kernel, arrays)


@cache
def _context() -> Context:
    context = Context()
    for dialect in (
        builtin.Builtin,
        arith.Arith,
        math.Math,
        scf.Scf,
        memref.MemRef,
        vector.Vector,
        Kernel,
    ):
        context.load_dialect(dialect)
    return context


def kernel(text: str) -> FuncOp:
    """The first function of a module's text, verified."""
    module = Parser(_context(), text).parse_module()
    module.verify()
    func = module.body.block.first_op
    assert isinstance(func, FuncOp)
    return func


def assert_close(actual: np.ndarray, expected: np.ndarray, ulps: float) -> None:
    """Equal bits but for NaN payloads, or within so many units in the last place."""
    if actual.dtype.kind in "ib":
        np.testing.assert_array_equal(actual, expected)
        return
    wide, wanted = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(wanted))
    if ulps == 0:
        np.testing.assert_array_equal(wide, wanted)
        settled = ~np.isnan(wide)
        np.testing.assert_array_equal(np.signbit(wide[settled]), np.signbit(wanted[settled]))
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(wide[~finite], wanted[~finite])
    limits = ml_dtypes.finfo(actual.dtype)
    unit = np.maximum(np.abs(wanted[finite]), float(limits.smallest_normal)) * float(limits.eps)
    assert np.max(np.abs(wide[finite] - wanted[finite]) / unit, initial=0.0) <= ulps
