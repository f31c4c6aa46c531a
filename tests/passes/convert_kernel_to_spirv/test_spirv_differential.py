"""Tests of lowered kernels that ask for SPIR-V, too, see what is wrong in it alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import Device, FuncOp
from tests.support import lower_fixture, opencl_fixture, spirv_fixture
from tests.support.lower_fixture import CPU, Run, check_all, fused_kernel, same_values
from tests.support.opencl_fixture import UNOPTIMISED, cl_queue, opencl  # noqa: F401
from tests.support.spirv_fixture import (
    also_as_optimised_spirv,  # noqa: F401
    also_as_spirv,  # noqa: F401
    need_spirv,
    validated_signatures,
)

FIXTURES = ("also_as_spirv", "also_as_optimised_spirv")


def runs() -> list[Run]:
    """Two kernels on the same array, with different results."""
    array = np.arange(20, dtype=np.int32)
    kernels = [
        fused_kernel("pointwise", [("i32", (20,))], lambda b, x, n=n: b.add(x, n)) for n in (1, 2)
    ]
    return [Run(kernel, [array], CPU, what=f"plus {n}") for n, kernel in enumerate(kernels, 1)]


def exchanged(funcs: Sequence[FuncOp], devices: Sequence[Device]) -> list[KernelSignature]:
    """The SPIR-V of each kernel for the other one."""
    return validated_signatures(funcs, devices)[::-1]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_is_wrong_in_spirv_alone_is_found(
    fixture: str,
    request: pytest.FixtureRequest,
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_spirv(cl_queue)
    monkeypatch.setattr(spirv_fixture, "validated_signatures", exchanged)
    check_all(cl_queue, runs(), same_values)
    request.getfixturevalue(fixture)
    with pytest.raises(AssertionError, match="plus 1 as SPIR-V"):
        check_all(cl_queue, runs(), same_values)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_kernels_are_built_from_both_forms(
    fixture: str,
    request: pytest.FixtureRequest,
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_spirv(cl_queue)
    request.getfixturevalue(fixture)
    launched: list[tuple[type, bool]] = []
    run_kernel = lower_fixture.run_kernel

    def noted(queue: Any, kernel: KernelSignature, arrays: list[np.ndarray]) -> None:
        options = " ".join(opencl_fixture.build_options(queue))
        launched.append((type(kernel.program), UNOPTIMISED in options))
        run_kernel(queue, kernel, arrays)

    monkeypatch.setattr(lower_fixture, "run_kernel", noted)
    check_all(cl_queue, runs(), same_values)
    is_cpu = bool(cl_queue.device.type & opencl().device_type.CPU)
    unoptimised = is_cpu and fixture == "also_as_spirv"
    assert launched == [(str, False)] * 2 + [(bytes, unoptimised)] * 2
