"""A program for the device as plain data: buffers, launches in order, outputs.

In: what `mgn.codegen.plan_to_launches` reads from a `plan.program`, or anyone who writes kernels by
hand. Out: all that `mgn.runtime` needs besides the kernels' signatures; no IR.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class BufferKind(StrEnum):
    """Where a buffer's content comes from."""

    INPUT = "input"
    PARAM = "param"
    CONSTANT = "constant"
    VIEW = "view"
    DERIVED = "derived"
    STATE = "state"


@dataclass(frozen=True)
class BufferPlan:
    """One buffer. `element` is the language's name (`u8` too); a view has an `offset` in the arena.

    `name` is the external name of an input, parameter or state, and only for messages elsewhere.
    """

    kind: BufferKind
    name: str
    element: str
    shape: tuple[int, ...]
    offset: int = 0
    value: np.ndarray | None = None


@dataclass(frozen=True)
class LaunchStep:
    """Runs a kernel; `arguments` are numbers of buffers in the order of the kernel's arguments."""

    kernel: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class CopyStep:
    """Copies one buffer to another of the same size."""

    source: int
    target: int


@dataclass(frozen=True)
class OutputPlan:
    """A named result: the buffer that holds it, and its type as the host sees it."""

    name: str
    buffer: int
    element: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a run does. `arena` is the size in bytes of the memory that the views share.

    `prepare` writes the derived buffers, from parameters and constants alone: before the first run,
    and again what depends on a parameter that has changed. States keep what a run leaves in them.
    `budget` is the most device memory that it may take, in bytes; 0 where there is no limit.
    """

    name: str
    arena: int
    buffers: tuple[BufferPlan, ...]
    steps: tuple[LaunchStep | CopyStep, ...]
    outputs: tuple[OutputPlan, ...]
    tensor_bytes: int = 0
    lower_bound: int = 0
    prepare: tuple[LaunchStep, ...] = ()
    budget: int = 0

    def of_kind(self, kind: BufferKind) -> Iterator[tuple[int, BufferPlan]]:
        """The buffers of one kind with their numbers, in order."""
        for number, buffer in enumerate(self.buffers):
            if buffer.kind is kind:
                yield number, buffer

    @property
    def launches(self) -> tuple[LaunchStep, ...]:
        """The kernel launches of a run, in order."""
        return tuple(step for step in self.steps if isinstance(step, LaunchStep))

    @property
    def passing(self) -> frozenset[int]:
        """The parameters and derived buffers that preparing launches alone name: no run needs
        them, nor does the host.
        """
        kinds = (BufferKind.PARAM, BufferKind.DERIVED)
        named = {item for step in self.prepare for item in step.arguments}
        kept = {item for step in self.launches for item in step.arguments}
        kept |= {step.source for step in self.steps if isinstance(step, CopyStep)}
        kept |= {output.buffer for output in self.outputs}
        return frozenset(item for item in named - kept if self.buffers[item].kind in kinds)

    def commits(self, accesses: Mapping[str, Sequence[str]]) -> int:
        """The number of the step from which on the rest write states alone, which no result is
        read from: they may wait until the results are there. `accesses` has, by a kernel's name,
        those of its arguments.
        """
        first = len(self.steps)
        if any(self.buffers[output.buffer].kind is BufferKind.STATE for output in self.outputs):
            return first
        for step in reversed(self.steps):
            kinds = {self.buffers[buffer].kind for buffer in _written(step, accesses)}
            if kinds != {BufferKind.STATE}:
                break
            first -= 1
        return first

    def written_states(self, accesses: Mapping[str, Sequence[str]]) -> dict[int, int]:
        """The buffers of the states that a run writes, and the first step that writes each."""
        found: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for buffer in _written(step, accesses):
                if self.buffers[buffer].kind is BufferKind.STATE:
                    found.setdefault(buffer, number)
        return found

    def written_up_to(self, accesses: Mapping[str, Sequence[str]], buffers: Collection[int]) -> int:
        """How many steps there are up to the last that writes one of some buffers."""
        writing = [
            number
            for number, step in enumerate(self.steps)
            if not set(buffers).isdisjoint(_written(step, accesses))
        ]
        return max(writing, default=-1) + 1

    def derivations(self) -> dict[int, tuple[int, frozenset[int]]]:
        """For each derived buffer the number of the step that makes it, and the parameters, by
        their buffers' numbers, that it depends on.
        """
        found: dict[int, tuple[int, frozenset[int]]] = {}
        for step, launch in enumerate(self.prepare):
            parameters: set[int] = set()
            for item in launch.arguments:
                if self.buffers[item].kind is BufferKind.PARAM:
                    parameters.add(item)
                elif item in found:
                    parameters |= found[item][1]
            for item in launch.arguments:
                if self.buffers[item].kind is BufferKind.DERIVED:
                    found.setdefault(item, (step, frozenset(parameters)))
        return found


def _written(step: LaunchStep | CopyStep, accesses: Mapping[str, Sequence[str]]) -> list[int]:
    """The buffers that a step writes."""
    if isinstance(step, CopyStep):
        return [step.target]
    pairs = zip(step.arguments, accesses[step.kernel], strict=True)
    return [buffer for buffer, access in pairs if access != "read"]
