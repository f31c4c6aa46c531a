"""The stages of an order of launches, and what may be computed again in each.

In: a problem and an order of its tasks. Out: `Stages`: which stage each task runs in, where each
value is needed, and the pairs of a task and a later stage in which it may run again.

A stage is a run of tasks that follow one another. With one task a stage, the programme over them is
that of Checkmate (Jain et al. 2020); of longer orders there are `MOST_STAGES`, so that the
programme stays small. A task may run again in a stage that reads what it writes, or in which
something does that may run again and reads it. The chains are at most so many of `CHAINS` deep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mgn.passes.rematerialise.tasks import Problem

MOST_STAGES = 48
CHAINS = (8, 32)
"""How deep chains may be: at first, and where there was no room."""

MOST_REPEATS = 1500
"""Pairs of a task and a stage that are looked at; chains are cut where there are more."""

SMALL_SHARE = 0.01
"""Of all bytes that live at the peak, the part that may be kept without a thought: values that are
the smallest of all.
"""

Need = tuple[int, int]
"""The first and the last place in a stage at which a value is read."""


@dataclass
class Stages:
    """The places of tasks in an order, and what is needed and may run again in each stage.

    `needs` has, by value and stage, where it is read by tasks of the order; `asked` the same with
    those that run again. `repeats` has the place of what runs again, by task and stage.
    `committed` is the place of the first task that commits, or of the end.
    """

    problem: Problem
    order: Sequence[int]
    longest: int = CHAINS[0]
    count: int = 0
    place: list[int] = field(default_factory=list[int])
    committed: int = 0
    needs: list[dict[int, Need]] = field(default_factory=list[dict[int, Need]])
    asked: list[dict[int, Need]] = field(default_factory=list[dict[int, Need]])
    repeats: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def __post_init__(self) -> None:
        problem, length = self.problem, len(self.order)
        self.count = min(MOST_STAGES, length)
        self.place = [0] * length
        for position, number in enumerate(self.order):
            self.place[number] = position
        commits = (self.place[number] for number in self.order if problem.tasks[number].commits)
        self.committed = min(commits, default=length)
        self.needs = [{} for _ in problem.sizes]
        for position, number in enumerate(self.order):
            for item in problem.tasks[number].reads:
                _need(self.needs[item], self.stage(position), position)
        for item in sorted(problem.kept):
            _need(self.needs[item], self.count - 1, length)
        self.asked = [dict(item) for item in self.needs]
        self._find_repeats()

    def stage(self, position: int) -> int:
        """The stage of a place in the order."""
        return min(position, len(self.order) - 1) * self.count // len(self.order)

    def begin(self, stage: int) -> int:
        """The first place of a stage."""
        return -(-stage * len(self.order) // self.count)

    def made(self, value: int) -> int:
        """The stage in which a value is first there."""
        return self.stage(self.place[self.problem.maker[value]])

    def events(self, value: int) -> list[int]:
        """The stages in which it may matter whether a value is there: from where it is made on."""
        made = self.made(value)
        return [made, *sorted(stage for stage in self.asked[value] if stage > made)]

    def _find_repeats(self) -> None:
        """Chains from what is read, a step deeper each time."""
        small = _small(self.problem, self)
        found: list[tuple[int, int]] = []
        wanted = [
            (self.problem.maker[item], stage)
            for item, needs in enumerate(self.needs)
            for stage in sorted(needs)
            if item not in small and stage > self.made(item)
        ]
        seen: set[tuple[int, int]] = set()
        for _ in range(self.longest):
            following: list[tuple[int, int]] = []
            for pair in wanted:
                if pair in seen or not self._may_run(*pair) or len(found) >= MOST_REPEATS:
                    continue
                seen.add(pair)
                found.append(pair)
                task, stage = pair
                following += [
                    (self.problem.maker[item], stage)
                    for item in self.problem.tasks[task].reads
                    if item not in small and self.made(item) < stage
                ]
            wanted = following
        for task, stage in sorted(found, key=lambda pair: -self.place[pair[0]]):
            writes = self.problem.tasks[task].writes
            asked = [self.asked[item][stage] for item in writes if stage in self.asked[item]]
            self.repeats[task, stage] = first = min(item[0] for item in asked)
            for item in self.problem.tasks[task].reads:
                _need(self.asked[item], stage, first)

    def _may_run(self, task: int, stage: int) -> bool:
        """Whether a task may run once more in a stage: nothing has overwritten what it reads, and
        nothing has committed.
        """
        row, last = self.problem.tasks[task], self.begin(stage + 1) - 1
        is_there = all(self.place[later] >= last for later in row.ahead_of)
        return row.again and is_there and self.committed >= last


def _need(needs: dict[int, Need], stage: int, position: int) -> None:
    first, last = needs.get(stage, (position, position))
    needs[stage] = min(first, position), max(last, position)


def _small(problem: Problem, stages: Stages) -> set[int]:
    """The smallest values of those that live for more than a stage."""
    lasting = [
        item for item, needs in enumerate(stages.needs) if max(needs, default=0) > stages.made(item)
    ]
    most = SMALL_SHARE * sum(problem.sizes[item] for item in lasting)
    found: set[int] = set()
    for item in sorted(lasting, key=lambda item: problem.sizes[item]):
        most -= problem.sizes[item]
        if most < 0:
            break
        found.add(item)
    return found
