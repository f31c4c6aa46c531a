"""Which of a plan's derived buffers have to be made again.

In: a `LaunchPlan`, and which parameters were set. Out: the preparing launches that are stale, in
order: those that read a changed parameter, or what another stale one writes.
"""

from dataclasses import dataclass, field

from mgn.codegen.launch_plan import LaunchPlan


@dataclass
class Preparation:
    """What of `plan.prepare` is stale; at first everything.

    `launches` counts those that have run since the executable was made, `seconds` is what the last
    of its preparations took.
    """

    plan: LaunchPlan
    launches: int = 0
    seconds: float = 0.0
    _readers: dict[int, set[int]] = field(default_factory=dict[int, set[int]], init=False)
    _stale: set[int] = field(default_factory=set[int], init=False)

    def __post_init__(self) -> None:
        for step, parameters in self.plan.derivations().values():
            for parameter in parameters:
                self._readers.setdefault(parameter, set()).add(step)
        self._stale = set(range(len(self.plan.prepare)))

    @property
    def stale(self) -> list[int]:
        """The numbers of the launches to run before the next run, in order."""
        return sorted(self._stale)

    def parameter_changed(self, buffer: int) -> None:
        """Notes that a parameter, named by its buffer's number, has another value now."""
        self._stale |= self._readers.get(buffer, set())

    def done(self, launches: int, seconds: float) -> None:
        """Notes that everything stale has been made again."""
        self._stale.clear()
        self.launches += launches
        self.seconds = seconds
