"""A schedule as a value, and a request for one.

In: a kernel's body with what its device, its arrangement and fixed numbers say. Out: `Schedule`, a
variant of the kernel's template and its numbers, as `ScheduleAttr` holds it in the IR.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mgn.dialects.fusion import ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.passes.kernels.body import Body

Entries = Mapping[str, int | str]
"""Numbers and words of a schedule by name."""

VARIANT = "variant"
"""The entry that names the variant of the template."""


@dataclass(frozen=True)
class Request:
    """A kernel that a schedule is wanted for.

    `entries` are the device's figures, what the kernel is arranged for, and numbers that are fixed:
    a chooser takes those as they are.
    """

    body: Body
    entries: Entries
    device: Device

    @property
    def is_gpu(self) -> bool:
        return self.entries.get("form") == "gpu"

    def number(self, name: str, default: int) -> int:
        """An entry, or what stands for it where there is none."""
        return int(self.entries.get(name, default))

    def facts(self, *names: str) -> dict[str, int | str]:
        """The entries of those names that there are."""
        return {name: self.entries[name] for name in names if name in self.entries}

    def word(self, name: str) -> str:
        """An entry that is a word; empty where there is none."""
        return str(self.entries.get(name, ""))


@dataclass(frozen=True)
class Schedule:
    """A variant of a template, its numbers, and what they cost.

    `facts` are what else the template reads, of the request. `seconds` are what the template's own
    work takes on the device: multiplying, packing, waiting. What is computed beside it, and bytes
    that are moved, depend on the body alone. The schedule of a kernel with the least is the best.
    `passes` says how often each operand of a heavy operation is gone over, `evaluation` what an
    element computed on the way takes, in the time of one in a full vector. `waits` are seconds in
    which nothing is computed or moved.
    """

    variant: str
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    facts: Entries = field(default_factory=dict[str, int | str])
    seconds: float = 0.0
    passes: tuple[float, ...] = ()
    evaluation: float = 1.0
    waits: float = 0.0

    @property
    def attribute(self) -> ScheduleAttr:
        """The schedule as the IR holds it."""
        entries: dict[str, int | str] = {VARIANT: str(self.variant), **self.numbers}
        return ScheduleAttr.of(
            **entries, **{k: v for k, v in self.facts.items() if k not in entries}
        )


Schedules = Sequence[Schedule]
"""The admissible schedules of a kernel, the preferred one first."""
