"""Runs that the driver refuses at each of their steps, or that are interrupted: what is left in
states.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.codegen.launch_plan import LaunchStep
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.memory import buffer_bytes
from tests.whole_programs.test_states import DEVICE, PROGRAMS, contents


@contextmanager
def failing_after(steps: int, method: str = "enqueue") -> Iterator[None]:
    """Turns the launches and copies of runs, but for the first ones, into failures."""
    left = [steps]

    def limited(method: Any) -> Any:
        def step(self: Any, *queue: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeFault("the driver refused")
            return method(self, *queue)

        return step

    with pytest.MonkeyPatch.context() as patched:
        for kind in (Launch, Copy):
            patched.setattr(kind, method, limited(getattr(kind, method)))
        yield


RUNS = {
    "run": lambda exe, x: exe(x=x),
    "on the device": lambda exe, x: exe.run_on_device(x=x),
    "timed": lambda exe, x: exe.run({"x": x}, profile=True),
}


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_that_fails_leaves_states_as_they_were_or_says_that_they_are_lost(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-written states are never read by mistake: only a reset or new values help. Lost is what
    was begun to be written, and nothing else.
    """
    monkeypatch.setattr("mgn.runtime.launching.executable.record", lambda *_: None)
    exe = mgn.compile(mgn.parse(PROGRAMS[name]), device=DEVICE)
    x = np.array([1, 2, 3], np.float32)
    before = contents(exe)
    exe(x=x)  # prepares what is derived from parameters, once for all runs
    accesses = {key: item.accesses for key, item in exe.kernels.items()}
    written = exe.plan.written_states(accesses).items()
    timed = [
        step
        for step, planned in enumerate(exe.plan.steps)
        if how != "timed"
        or isinstance(planned, LaunchStep)
        or buffer_bytes(exe.plan.buffers[planned.source])
    ]
    for count, steps in enumerate(timed):
        exe.reset()
        refused = pytest.raises(RuntimeFault, match="the driver refused")
        with failing_after(count, "timed" if how == "timed" else "enqueue"), refused:
            RUNS[how](exe, x)
        lost = set(exe.params.session.lost)
        assert lost == {exe.plan.buffers[number].name for number, step in written if step < steps}
        for key, array in before.items():
            if key in lost:
                with pytest.raises(RuntimeFault, match="a run failed while it wrote state"):
                    exe.state[key]
            else:
                np.testing.assert_array_equal(exe.state[key], array)
        if lost:
            with pytest.raises(RuntimeFault, match="reset the states, or set these"):
                RUNS[how](exe, x)
        for key in lost:
            exe.state[key] = before[key]
        assert not exe.params.session.lost


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, as it does not in what a shell began in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_that_is_interrupted_has_written_all_of_its_states(
    name: str, how: str, ctrl_c: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgn.runtime.launching.executable.record", lambda *_: None)
    module = mgn.parse(PROGRAMS[name])
    exe, whole = mgn.compile(module, device=DEVICE), mgn.compile(module, device=DEVICE)
    x = np.array([1, 2, 3], np.float32)
    for prepared in (exe, whole, whole):
        RUNS[how](prepared, x)
    for kind in (Launch, Copy):
        for method in ("enqueue", "timed"):
            monkeypatch.setattr(kind, method, interrupted(getattr(kind, method)))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        RUNS[how](exe, x)
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before
    for key, array in contents(whole).items():
        np.testing.assert_array_equal(exe.state[key], array)


def test_a_run_that_fails_and_is_interrupted_says_what_is_lost(ctrl_c: None) -> None:
    exe = mgn.compile(mgn.parse(IN_PLACE), device=DEVICE)
    x = np.ones(4, np.float32)
    exe(x=x)
    refused = pytest.raises((RuntimeFault, KeyboardInterrupt))
    with pytest.MonkeyPatch.context() as patched, refused:
        patched.setattr(Launch, "enqueue", interrupted(Launch.enqueue))
        patched.setattr(Executable, "_collect", failing)
        exe(x=x)
    assert exe.params.session.lost == {"k"}


IN_PLACE = """graph g(x: f32[4]) {
  state k: f32[8, 4]
  k <- dynamic_update_slice(k, expand_dims(x, 0), [1, 0])
  return y = k @ x
}"""


def failing(*arguments: Any) -> None:
    """What fails once all steps are begun."""
    raise RuntimeFault("the driver refused")


def interrupted(method: Any) -> Any:
    """A step of a run during which somebody presses Ctrl-C."""

    def step(self: Any, *queue: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return method(self, *queue)

    return step


LATE_CHECK = """graph g(x: f32[4]) {
  state k: f32[8, 4]
  state at: i32[]
  k <- dynamic_update_slice(k, expand_dims(x, 0), [at, 0])
  at <- at + 1
  y = k @ x
  labels = expand_dims(cast(sum(k), i32), 0)
  return loss = cross_entropy(expand_dims(y, 0), labels, check = true), y
}"""


@pytest.mark.parametrize("how", RUNS)
def test_a_check_that_is_counted_after_a_write_fails_before_states_change(how: str) -> None:
    exe = mgn.compile(mgn.parse(LATE_CHECK), device=DEVICE)
    RUNS[how](exe, np.ones(4, np.float32))
    before = contents(exe)
    with pytest.raises(RuntimeFault, match="ids that are none of its 8 classes"):
        RUNS[how](exe, np.full(4, 9, np.float32))
    assert not exe.params.session.lost
    for name, array in before.items():
        np.testing.assert_array_equal(exe.state[name], array)


def test_a_run_that_finds_no_memory_for_its_results_has_written_no_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exe = mgn.compile(mgn.parse(IN_PLACE), device=DEVICE)
    x = np.ones(4, np.float32)
    exe.run_on_device(x=x)
    before = contents(exe)
    monkeypatch.setattr("pyopencl.Buffer", failing)
    with pytest.raises(RuntimeFault):
        exe.run_on_device(x=2 * x)
    monkeypatch.undo()
    assert not exe.params.session.lost
    np.testing.assert_array_equal(exe.state["k"], before["k"])
