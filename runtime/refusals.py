"""What a driver refuses, and what it says no more.

In: a queue, and what gives it a command. Out: what that gives, where the driver takes the command
at the second time at the latest; whether a device still answers; OpenCL's errors as RuntimeFaults.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mgn.runtime.devices import opencl
from mgn.runtime.errors import RuntimeFault

Given = TypeVar("Given")


def insisted(queue: Any, command: Callable[[], Given]) -> Given:
    """What a command gives. A refused one has done nothing, so it is given again once all before it
    is done: what that took of the device is free then.
    """
    try:
        return command()
    except opencl().Error:
        queue.finish()
        return command()


def answers(queue: Any) -> bool:
    """Whether the device does what it was told to the end."""
    try:
        queue.finish()
    except opencl().Error:
        return False
    return True


@contextmanager
def as_faults(what: str) -> Iterator[None]:
    """OpenCL's errors as RuntimeFaults; `what` is what failed."""
    try:
        yield
    except opencl().Error as error:
        raise RuntimeFault(f"{what} failed: {error}") from None
