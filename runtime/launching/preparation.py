"""Which of a plan's derived buffers have to be made again.

In: a `LaunchPlan`, and the derived buffers that it holds, which other plans may hold and make too.
Out: the preparing launches that are to run, in order: those whose results are not there, or not of
the parameters' present values, and those whose results were not kept, for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mgn.codegen.launch_plan import LaunchPlan
from mgn.runtime.derived import Derived, DerivedBuffers


@dataclass
class Preparation:
    """What of `plan.prepare` is stale; at first all that no other plan has made. `derived` has the
    plan's own buffers by their numbers, `held` those of the session.

    `launches` counts those that have run since the executable was made, `seconds` is what the last
    of its preparations took.
    """

    plan: LaunchPlan
    derived: Mapping[int, Derived]
    held: DerivedBuffers
    launches: int = 0
    seconds: float = 0.0
    _seen: int = field(default=-1, init=False)
    _steps: dict[int, int] = field(default_factory=dict[int, int], init=False)
    _needs: dict[int, list[int]] = field(default_factory=dict[int, list[int]], init=False)

    def __post_init__(self) -> None:
        made, passing = self.plan.derivations(), self.plan.passing
        self._steps = {buffer: step for buffer, (step, _) in made.items() if buffer not in passing}
        for step, launch in enumerate(self.plan.prepare):
            needed = [made[item][0] for item in launch.arguments if item in made.keys() & passing]
            self._needs[step] = [item for item in needed if item != step]

    @property
    def stale(self) -> list[int]:
        """The numbers of the launches to run before the next run, in order: each behind those that
        make what is not kept for it. The caller has locked the session.
        """
        if self._seen == self.held.changes:
            return []
        first: dict[Derived, int] = {}
        for buffer, step in self._steps.items():
            if not self.derived[buffer].is_made:
                first.setdefault(self.derived[buffer], step)
        found: dict[int, None] = {}
        for step in sorted({*first.values()}):
            waiting = [step]
            while waiting:
                needed = [item for item in self._needs[waiting[-1]] if item not in found]
                if needed:
                    waiting.append(needed[0])
                else:
                    found[waiting.pop()] = None
        if not found:
            self._seen = self.held.changes
        return list(found)

    def begin(self, steps: Sequence[int]) -> None:
        """Notes that launches are about to write what they make."""
        self.held.make_again(self._made_by(steps))

    def done(self, steps: Sequence[int], seconds: float) -> None:
        """Notes that what launches make is there."""
        for item in self._made_by(steps):
            item.is_made = True
        self.launches += len(steps)
        self.seconds = seconds

    def _made_by(self, steps: Sequence[int]) -> list[Derived]:
        known = {*steps}
        return [self.derived[buffer] for buffer, step in self._steps.items() if step in known]
