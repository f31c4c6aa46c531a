"""Which of a plan's derived buffers have to be made again.

In: a `LaunchPlan`, and which parameters were set. Out: the preparing launches that are stale, in
order: those that read a changed parameter, or what another stale one writes, and those whose
results were not kept, for others.
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
    _kept: set[int] = field(default_factory=set[int], init=False)
    _needs: dict[int, list[int]] = field(default_factory=dict[int, list[int]], init=False)
    _stale: set[int] = field(default_factory=set[int], init=False)

    def __post_init__(self) -> None:
        made, passing = self.plan.derivations(), self.plan.passing
        for step, parameters in made.values():
            for parameter in parameters:
                self._readers.setdefault(parameter, set()).add(step)
        self._kept = {step for buffer, (step, _) in made.items() if buffer not in passing}
        self._stale = set(self._kept)
        for step, launch in enumerate(self.plan.prepare):
            needed = [made[item][0] for item in launch.arguments if item in made.keys() & passing]
            self._needs[step] = [item for item in needed if item != step]

    @property
    def stale(self) -> list[int]:
        """The numbers of the launches to run before the next run, in order: each behind those that
        make what is not kept for it.
        """
        found: dict[int, None] = {}
        for step in sorted(self._stale):
            waiting = [step]
            while waiting:
                needed = [item for item in self._needs[waiting[-1]] if item not in found]
                if needed:
                    waiting.append(needed[0])
                else:
                    found[waiting.pop()] = None
        return list(found)

    def parameter_changed(self, buffer: int) -> None:
        """Notes that a parameter, named by its buffer's number, has another value now."""
        self._stale |= self._readers.get(buffer, set()) & self._kept

    def done(self, launches: int, seconds: float) -> None:
        """Notes that everything stale has been made again."""
        self._stale.clear()
        self.launches += launches
        self.seconds = seconds
