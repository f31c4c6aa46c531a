"""What all tests share: commands run in this process, and the device under test.

`MGN_TEST_DEVICE` selects the device that kernels are tested on. The tests that run on it have the
marker `gpu`: those that want a fixture of it, and those of modules that read the variable. So
`pytest -m gpu` is all of them on a GPU; it skips them, saying so, where there is none. Buffers lie
between guard zones in every run of a program.
"""

import gc
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fuzz.device import Runner

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

os.environ["MGN_PROGRAM_CACHE"] = "off"  # what is tested is the compiler, not what it once gave


os.environ.setdefault("MGN_GUARD", "on")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each processor has a process of tests already
gc.set_threshold(500_000, 4, 20)  # IR is full of cycles, and most of it is in use
MOST_UNSEEN = 6_000_000
"""Objects that pauses of the collector leave unseen: to look at all takes seconds, since all tests
and what their modules keep are among them.
"""

DEVICE_VARIABLE = "MGN_TEST_DEVICE"
DEVICE_FIXTURES = frozenset({"cl_queue", "device_runner", "device_target"})
"""Fixtures of the device under test."""


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, which may read the variable."""
    if config.getoption("markexpr", "").strip() == "gpu":
        os.environ[DEVICE_VARIABLE] = "gpu"
    from mgn.dialects import garbage

    garbage.MOST_UNSEEN = MOST_UNSEEN


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that run on the device under test."""
    module = getattr(item, "module", None)
    wants_device = not DEVICE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    if wants_device or (module is not None and reads_the_variable(module)):
        item.add_marker("gpu")
    if "device" in getattr(item, "fixturenames", ()) and has_the_matrix_unit(module):
        item.add_marker("sub_groups")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts what takes long first, where several processes share the tests."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_sessionfinish() -> None:
    """pytest and Python look for garbage before a process ends, and the process drops all of it."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what is for a GPU where there is none."""
    wanted = os.environ.get(DEVICE_VARIABLE) == "gpu"
    if wanted and item.get_closest_marker("gpu") is not None and not gpu_names():
        pytest.skip("there is no OpenCL GPU on this machine")


@cache
def reads_the_variable(module: ModuleType) -> bool:
    """Whether a module's tests run on the device that the variable selects."""
    return DEVICE_VARIABLE in inspect.getsource(module)


def has_the_matrix_unit(module: ModuleType | None) -> bool:
    """Whether a module's `device` is the one with a matrix unit, if only by sub-groups."""
    fixtures = sys.modules.get("tests.support.matrix_unit_fixture")
    found = getattr(module, "device", None)
    return found is not None and found is getattr(fixtures, "device", None)


@cache
def gpu_names() -> list[str]:
    """The GPUs that OpenCL has here."""
    from mgn.runtime.devices import list_devices

    return [device.name for device in list_devices() if device.kind == "gpu"]


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    stdout: str
    stderr: str


def run_in_process(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], stdin: str | bytes = ""
) -> Outcome:
    """Runs a command's main function with its own streams."""
    stdout, stderr = io.StringIO(), io.StringIO()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    held, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            status = main(arguments)
    finally:
        sys.stdin = held
    return Outcome(status, stdout.getvalue(), stderr.getvalue())


@pytest.fixture
def mgn_opt() -> Callable[..., Outcome]:
    """Runs `mgn-opt` in this process: `mgn_opt("-p", "simplify", "-", stdin="…")`."""
    from mgn.commands.opt import main

    return lambda *arguments, stdin="": run_in_process(main, [str(a) for a in arguments], stdin)


@pytest.fixture(scope="module")
def device_runner() -> "Runner":
    """Runs programs on the device under test; skips, saying so, where there is none."""
    from mgn.runtime.errors import DeviceError
    from tests.fuzz.device import Runner

    try:
        return Runner(os.environ.get(DEVICE_VARIABLE, "cpu"))
    except DeviceError:
        pytest.skip(f"no such OpenCL device: install the extra 'cpu', or set {DEVICE_VARIABLE}")


@pytest.fixture(params=["opencl", "spirv"])
def device_target(request: pytest.FixtureRequest) -> str:
    """Each form of kernels; the test is skipped, saying so, where the device does not take it."""
    if request.param not in targets_of_the_device():
        pytest.skip("the device takes no SPIR-V")
    return request.param


@cache
def targets_of_the_device() -> tuple[str, ...]:
    """The forms of kernels that the device under test takes; OpenCL C alone where there is none."""
    from mgn.runtime.devices import choose
    from mgn.runtime.errors import DeviceError

    try:
        device = choose(os.environ.get(DEVICE_VARIABLE, "cpu"))
    except DeviceError:
        return ("opencl",)
    return ("opencl", "spirv") if device.accepts_spirv else ("opencl",)


@pytest.fixture
def without_old_objects() -> Iterator[None]:
    """What earlier tests left behind is no work for the garbage collector in a timed test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
