"""What derives from parameters is made before the first run, and again when it is stale."""

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, LaunchStep, OutputPlan
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import opencl
from mgn.runtime.errors import InputError, RuntimeFault
from mgn.runtime.launching import executable as launching
from mgn.runtime.launching.executable import Executable
from mgn.runtime.memory import DeviceMemory
from mgn.runtime.packages.format import Package, PackagedKernel
from mgn.runtime.packages.load import PackagedExecutable
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes
from tests.runtime.device_kernels import KERNELS, SIZE
from tests.support.threads import run_together

RANDOM = np.random.default_rng(11)


def _buffer(kind: BufferKind, name: str, offset: int = 0) -> BufferPlan:
    return BufferPlan(kind, name, "f32", (SIZE,), offset)


DERIVING = LaunchPlan(
    name="deriving",
    arena=1024,
    buffers=(
        _buffer(BufferKind.INPUT, "x"),
        *(_buffer(BufferKind.PARAM, name) for name in ("a", "b", "c")),
        *(_buffer(BufferKind.DERIVED, name) for name in ("%ab", "%abc", "%cc")),
        _buffer(BufferKind.VIEW, "%t"),
        _buffer(BufferKind.VIEW, "%y", 512),
    ),
    prepare=(
        LaunchStep("multiply", (1, 2, 4)),
        LaunchStep("add", (4, 3, 5)),
        LaunchStep("multiply", (3, 3, 6)),
    ),
    steps=(LaunchStep("multiply", (0, 5, 7)), LaunchStep("add", (7, 6, 8))),
    outputs=(OutputPlan("y", 8, "f32", (SIZE,)), OutputPlan("cc", 6, "f32", (SIZE,))),
)
"""y = x * (a * b + c) + c * c"""


def deriving(guard: bool = False) -> tuple[Executable, dict[str, np.ndarray]]:
    executable = Executable(DERIVING, KERNELS, cache=KernelCache.disabled(), guard=guard)
    values = {name: RANDOM.standard_normal(SIZE).astype(np.float32) for name in "abc"}
    for name, value in values.items():
        executable.set_param(name, value)
    return executable, values


def check(executable: Executable, values: dict[str, np.ndarray]) -> None:
    x = RANDOM.standard_normal(SIZE).astype(np.float32)
    found = executable.run({"x": x})
    a, b, c, wide = (item.astype(np.float64) for item in (*values.values(), x))
    np.testing.assert_allclose(found["y"], wide * (a * b + c) + c * c, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["cc"], c * c, rtol=1e-6)


@pytest.mark.parametrize("guard", [False, True])
def test_the_first_run_prepares_and_the_next_ones_do_not(guard: bool) -> None:
    executable, values = deriving(guard)
    assert executable.preparation.launches == 0
    for _ in range(3):
        check(executable, values)
        assert executable.preparation.launches == 3
    assert executable.preparation.seconds > 0.0
    executable.replay()
    assert executable.preparation.launches == 3


@pytest.mark.parametrize(("name", "again"), [("a", 2), ("b", 2), ("c", 3)])
def test_a_changed_parameter_makes_again_just_what_depends_on_it(name: str, again: int) -> None:
    executable, values = deriving()
    check(executable, values)
    values[name] = RANDOM.standard_normal(SIZE).astype(np.float32)
    executable.set_param(name, values[name])
    expected = {"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}[name]
    assert executable.preparation.stale == expected
    check(executable, values)
    assert executable.preparation.launches == 3 + again
    assert executable.preparation.stale == []


def test_replay_prepares_too() -> None:
    executable, values = deriving()
    check(executable, values)
    executable.set_param("a", values["a"])
    executable.replay(profile=True)
    assert executable.preparation.launches == 5
    assert [item.kernel for item in executable.profile] == ["multiply", "add"]


def test_a_refused_value_leaves_all_as_it_was() -> None:
    executable, values = deriving()
    check(executable, values)
    with pytest.raises(InputError, match="'a' has shape"):
        executable.set_param("a", np.zeros(3, np.float32))
    assert executable.preparation.stale == []
    check(executable, values)


def test_executables_of_one_plan_do_not_share_what_they_derive() -> None:
    first, second = deriving(), deriving()
    check(*first)
    check(*second)
    changed = {**first[1], "b": RANDOM.standard_normal(SIZE).astype(np.float32)}
    first[0].set_param("b", changed["b"])
    assert second[0].preparation.stale == []
    check(first[0], changed)
    check(*second)


def test_a_run_never_mixes_an_old_derived_value_with_a_new_parameter() -> None:
    executable, _ = deriving()
    choices = [np.full(SIZE, value, np.float32) for value in (2.0, 3.0)]
    wrong: list[float] = []

    def write() -> None:
        for step in range(60):
            executable.set_param("c", choices[step % 2])

    def read() -> None:
        for _ in range(60):
            found = executable.run({"x": np.zeros(SIZE, np.float32)})
            if not np.array_equal(found["y"], found["cc"]) or found["cc"][0] not in (4.0, 9.0):
                wrong.append(found["cc"][0])

    executable.set_param("c", choices[0])
    run_together([write, read, read])
    assert not wrong


def test_a_preparing_launch_must_fit_its_kernel() -> None:
    plan = replace(DERIVING, prepare=(LaunchStep("add", (1, 2)),))
    with pytest.raises(RuntimeFault, match="'add' takes 3 buffers, not 2"):
        Executable(plan, KERNELS)
    with pytest.raises(RuntimeFault, match="launches 'add', which was not given"):
        Executable(replace(DERIVING, steps=()), {"multiply": KERNELS["multiply"]})


@pytest.mark.parametrize("guard", [False, True])
def test_what_no_run_reads_has_memory_only_while_it_is_prepared(guard: bool) -> None:
    executable, values = deriving(guard)
    assert {DERIVING.buffers[item].name for item in DERIVING.passing} == {"a", "b", "c", "%ab"}
    assert executable.allocated == DERIVING.arena + 3 * 4 * SIZE
    assert executable.held_bytes == executable.session.held_bytes == 0
    for name, value in values.items():
        np.testing.assert_array_equal(executable.get_param(name), value)
    check(executable, values)


def test_a_parameter_that_another_graph_reads_in_its_runs_goes_to_the_device() -> None:
    first, values = deriving()
    reading = replace(
        DERIVING,
        buffers=(DERIVING.buffers[0], DERIVING.buffers[3], _buffer(BufferKind.VIEW, "%y")),
        prepare=(),
        steps=(LaunchStep("multiply", (0, 1, 2)),),
        outputs=(OutputPlan("y", 2, "f32", (SIZE,)),),
    )
    cache, session = KernelCache.disabled(), first.session
    second = Executable(reading, KERNELS, first.device, cache=cache, session=session)
    assert second.held_bytes == first.session.held_bytes == 4 * SIZE
    x = RANDOM.standard_normal(SIZE).astype(np.float32)
    for _ in range(2):
        np.testing.assert_allclose(second.run({"x": x})["y"], x * values["c"], rtol=1e-6)
        check(first, values)
        values["c"] = RANDOM.standard_normal(SIZE).astype(np.float32)
        second.set_param("c", values["c"])
        np.testing.assert_array_equal(first.get_param("c"), values["c"])


@pytest.mark.parametrize("most_lent", [1, 3 * 4 * SIZE])
def test_what_is_lent_to_preparing_launches_is_freed_before_more_is_lent(
    most_lent: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(launching, "LENT_BYTES", most_lent)
    executable, values = deriving()
    lent: list[weakref.ref[Any]] = []
    most: list[int] = []
    cl = opencl()

    class Buffer(cl.Buffer):
        """One that weak references may name."""

    def counted(_: DeviceMemory, number: int) -> Any:
        assert DERIVING.buffers[number].shape == (SIZE,)
        buffer = Buffer(executable.session.context, cl.mem_flags.READ_WRITE, 4 * SIZE)
        lent.append(weakref.ref(buffer))
        most.append(sum(item() is not None for item in lent))
        return buffer

    monkeypatch.setattr(DeviceMemory, "lend", counted)
    check(executable, values)
    assert len(lent) == 4 and max(most) == 3, "a, b and their product, then this and c, then c"
    assert all(item() is None for item in lent)


def test_a_package_prepares_as_well() -> None:
    values = {name: RANDOM.standard_normal(SIZE).astype(np.float32) for name in "abc"}
    kernels = {name: PackagedKernel(kernel, None) for name, kernel in KERNELS.items()}
    package = read_package(package_bytes(Package(DERIVING, kernels, values, "any device")))
    assert package.plan.prepare == DERIVING.prepare
    executable = PackagedExecutable(package)
    check(executable, values)
    values["a"] = values["a"] + np.float32(1)
    executable.params["a"] = values["a"]
    check(executable, values)
    assert executable.preparation.launches == 5
