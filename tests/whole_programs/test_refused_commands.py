"""Commands that a driver refuses, one at a time or from one on: what is left in states.

In: programs with several states, run on a driver that refuses the command of a number. Out: what a
run on a willing driver leaves, or, once the device is gone, an error at every later use.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import mgn
from mgn.executable import Executable
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.launching import launches
from tests.whole_programs.test_failing_runs import RUNS
from tests.whole_programs.test_random_states import Writer
from tests.whole_programs.test_states import DEVICE, contents
from tests.whole_programs.test_states import PROGRAMS as NAMED_PROGRAMS

REFUSED = cl.status_code.OUT_OF_RESOURCES
COMMANDS = ("enqueue_copy", "enqueue_nd_range_kernel", "enqueue_map_buffer", "enqueue_fill_buffer")
X = np.array([1, 2, 3], np.float32)
PROGRAMS = NAMED_PROGRAMS | {f"random {seed}": Writer(seed).text for seed in range(100, 103)}


class Driver:
    """OpenCL's, but that it refuses commands: those for whose number `refuses` is true."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.given = 0
        self.refuses: Callable[[int], bool] = lambda _: False
        self.is_gone = False
        enqueue, finish = launches.driver_enqueue(), cl.CommandQueue.finish
        assert enqueue is not None
        patched.setattr(launches, "driver_enqueue", lambda: self._launching(enqueue))
        for name in COMMANDS:
            patched.setattr(cl, name, self._refusing(getattr(cl, name)))
        patched.setattr(cl.CommandQueue, "finish", self._finishing(finish))
        patched.setattr("mgn.runtime.launching.executable.record", lambda *_: None)
        patched.setenv("MGN_GUARD", "off")

    def begin(self, refuses: Callable[[int], bool]) -> None:
        """Counts commands from 0 again."""
        self.given, self.refuses, self.is_gone = 0, refuses, False

    def _takes(self) -> bool:
        self.given += 1
        return not (self.is_gone or self.refuses(self.given - 1))

    def _launching(self, method: Any) -> Any:
        return lambda *call: method(*call) if self._takes() else REFUSED

    def _refusing(self, method: Any) -> Any:
        def command(*call: Any, **options: Any) -> Any:
            if not self._takes():
                raise cl.RuntimeError("clEnqueue failed: OUT_OF_RESOURCES")
            return method(*call, **options)

        return command

    def _finishing(self, method: Any) -> Any:
        def finish(queue: cl.CommandQueue) -> None:
            method(queue)
            if self.is_gone:
                raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")

        return finish


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


def begun(name: str, how: str, driver: Driver) -> tuple[Executable, int]:
    """A program that has run once, and how many commands its next run takes."""
    exe = mgn.compile(mgn.parse(PROGRAMS[name]), device=DEVICE)
    exe(x=X)
    driver.begin(lambda _: False)
    RUNS[how](exe, X)
    commands = driver.given
    exe.reset()
    return exe, commands


def results(exe: Executable, how: str) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in RUNS[how](exe, X).items()}


def assert_equal(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_command_that_is_refused_once_changes_nothing(
    name: str, how: str, driver: Driver
) -> None:
    exe, commands = begun(name, how, driver)
    wanted, left = results(exe, how), contents(exe)
    assert commands
    for refused in range(commands):
        driver.begin(lambda _: False)
        exe.reset()
        driver.begin(lambda number, refused=refused: number == refused)
        assert_equal(results(exe, how), wanted)
        driver.begin(lambda _: False)
        assert_equal(contents(exe), left)


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_refused_for_good_leaves_states_as_they_were_or_lost(
    name: str, how: str, driver: Driver
) -> None:
    exe, commands = begun(name, how, driver)
    before = contents(exe)
    for first in range(commands):
        exe.reset()
        driver.begin(lambda number, first=first: number >= first)
        with pytest.raises(mgn.MgnError):
            RUNS[how](exe, X)
        driver.begin(lambda _: False)
        lost = set(exe.params.session.lost)
        for key, array in before.items():
            if key not in lost:
                np.testing.assert_array_equal(exe.state[key], array)
                continue
            with pytest.raises(RuntimeFault, match="reset the states, or set these"):
                exe.state[key]
        if lost:
            with pytest.raises(RuntimeFault, match="reset the states, or set these"):
                RUNS[how](exe, X)


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_states_of_a_device_that_is_gone_are_never_read(
    name: str, how: str, driver: Driver
) -> None:
    """Nobody knows what it has done of what it was told, also by the run before."""
    exe, commands = begun(name, how, driver)
    before = contents(exe)
    for last in range(commands):
        exe.reset()
        results(exe, how)

        def goes(number: int, last: int = last) -> bool:
            driver.is_gone |= number >= last
            return driver.is_gone

        driver.begin(goes)
        for _ in range(2):
            with pytest.raises(mgn.MgnError):
                RUNS[how](exe, X)
        with pytest.raises(mgn.MgnError):
            exe.reset()
        for key, array in before.items():
            with pytest.raises(mgn.MgnError):
                exe.state[key]
            if array.size:
                with pytest.raises(mgn.MgnError):
                    exe.state[key] = array
        driver.begin(lambda _: False)
        for key, array in before.items():
            with pytest.raises(RuntimeFault, match="reset the states, or set these"):
                exe.state[key]
            exe.state[key] = array
        assert_equal(contents(exe), before)


def test_a_step_of_training_that_is_lost_goes_on_from_a_checkpoint(driver: Driver) -> None:
    """`reset` gives no trained parameter its first value, so that is not what is said to help."""
    text = """graph g(x: f32[3]) {
      param w: f32[3] = ones()
      param b: f32 = ones()
      return loss = sum(w * w * x) + b * b
    }"""
    trainer = mgn.Trainer(mgn.parse(text), optimizer=mgn.SGD(0.1, momentum=0.9), device=DEVICE)
    trainer.step({"x": X})
    kept = trainer.state()
    driver.begin(lambda _: False)
    wanted = trainer.step({"x": X})["loss"]
    commands, left, seen = driver.given, trainer.state(), 0
    for first in range(commands):
        trainer.load_state(kept)
        driver.begin(lambda number, first=first: number >= first)
        with pytest.raises(mgn.MgnError):
            trainer.step({"x": X})
        driver.begin(lambda _: False)
        if trainer.params.session.lost:
            seen += 1
            with pytest.raises(RuntimeFault, match="load a checkpoint, or set these"):
                trainer.step({"x": X})
            trainer.load_state(kept)
        assert trainer.step({"x": X})["loss"] == wanted
        assert_equal(trainer.state(), left)
    assert seen
