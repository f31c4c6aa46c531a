"""A device with a matrix unit, if only by exchange of registers, and a process where that works."""

import os
import subprocess
import sys
from typing import Any

import pytest

from mgn.dialects.kernel import DEVICES, Device
from tests.support import opencl_fixture
from tests.support.lower_fixture import GPU_ON_CPU
from tests.support.opencl_fixture import UNOPTIMISED, cl_queue, device_description  # noqa: F401

VECTORISER = "CL_CONFIG_CPU_VECTORIZER_MODE"
"""The CPU's driver makes sub-groups where this is 0 before it is loaded."""


def passes_in_a_process_with_sub_groups(path: str) -> None:
    """Runs a folder's tests of the unit where the CPU's driver makes sub-groups; skips in there."""
    if os.environ.get(VECTORISER) == "0" or os.environ.get("MGN_TEST_DEVICE", "cpu") != "cpu":
        pytest.skip("the tests below run in this process")
    on_the_device = ["-m", "sub_groups", path]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *on_the_device]
    done = subprocess.run(
        command, env={**os.environ, VECTORISER: "0"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture
def device(cl_queue: Any, monkeypatch: pytest.MonkeyPatch) -> Device:  # noqa: F811
    """The device under test, with a matrix unit if only by exchange of registers."""
    if not device_description(cl_queue).is_cpu:
        return DEVICES["nvidia-h200"]
    if os.environ.get(VECTORISER) != "0":
        pytest.skip("run in a process of its own by lower_kernels/test_in_sub_groups.py")
    # That driver takes minutes to optimise exchanges between registers.
    monkeypatch.setattr(opencl_fixture, "build_options", lambda queue: [UNOPTIMISED])
    rates = DEVICES["nvidia-h200"].matrix_rates
    return GPU_ON_CPU.with_figures(matrix_rates=rates, matrix_unit="wgmma")
