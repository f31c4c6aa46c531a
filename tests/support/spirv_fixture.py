"""Kernels as SPIR-V for the tests: the signature of a kernel, and the judgement of `spirv-val`."""

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from mgn.codegen.signature import KernelSignature
from mgn.codegen.spirv import spirv
from mgn.dialects.kernel import Device, FuncOp
from mgn.modules.verification import verify_whole
from mgn.passes.convert_kernel_to_spirv import convert
from tests.support import lower_fixture
from tests.support.joint_programs import spirv_signatures
from tests.support.lower_fixture import Way
from tests.support.opencl_fixture import opencl


def spirv_signature(func: FuncOp, device: Device | None = None) -> KernelSignature:
    """A kernel's launch with SPIR-V, which has been verified."""
    module = convert([func], device)
    verify_whole(module)
    return spirv.signature(func, module)


def takes_spirv(queue: Any) -> bool:
    """Whether the device builds kernels from SPIR-V."""
    try:
        return "SPIR-V_1." in queue.device.il_version
    except opencl().Error:
        return False


def need_spirv(queue: Any) -> None:
    """Skips the test, saying so, where the device builds nothing from SPIR-V."""
    if not takes_spirv(queue):
        pytest.skip(f"{queue.device.name} takes no SPIR-V")


@pytest.fixture
def also_as_spirv(cl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that a test lowers are run as SPIR-V, too, which the Khronos validator accepts, where
    the device takes it. The driver does not optimise it: it shows what the words mean.
    """
    _add_spirv(cl_queue, monkeypatch, unoptimised=True)


@pytest.fixture
def also_as_optimised_spirv(cl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, with what an optimiser makes of the words."""
    _add_spirv(cl_queue, monkeypatch, unoptimised=False)


def _add_spirv(queue: Any, patch: pytest.MonkeyPatch, unoptimised: bool) -> None:
    if takes_spirv(queue):
        way = Way(validated_signatures, " as SPIR-V", unoptimised)
        patch.setattr(lower_fixture, "WAYS", [*lower_fixture.WAYS, way])


def tool(name: str) -> str:
    """The path of a program of Debian's spirv-tools; the test is skipped where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name}: install spirv-tools")
    return path


def validate(binary: bytes) -> None:
    """Fails with the words of `spirv-val` where it refuses a binary for OpenCL 2.0."""
    command = [tool("spirv-val"), "--target-env", "opencl2.0", "-"]
    done = subprocess.run(command, input=binary, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def validated_signatures(
    funcs: Sequence[FuncOp], devices: Sequence[Device]
) -> list[KernelSignature]:
    """Kernels of one module whose words `spirv-val` has accepted, where there is one."""
    signatures = spirv_signatures(funcs, devices)
    words = signatures[0].il
    if shutil.which("spirv-val") is not None:
        assert words is not None
        validate(words)
    return signatures
