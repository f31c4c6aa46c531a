"""Launches as the search for a plan sees them, and what a plan of them takes of memory.

In: `Task`s, which read and write values of so many bytes. Out: `Plan`s, lists of `Run`s; the
intervals in which each copy of a value is in memory, and the bytes that live at each run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from mgn.passes.arena import Interval, pack

Copy = tuple[int, int]
"""A value and which of its computations made it: 0 is the first."""


@dataclass(frozen=True)
class Task:
    """A launch. Its values are the numbers of those that lie in the arena; other values have none.

    `over` has pairs of a value read and a written value that may take its place. `ahead_of` are the
    tasks that overwrite what this task reads outside the arena: it never runs behind them. `behind`
    are the tasks that it runs behind for another reason. `again` says whether it may run twice.
    `commits` says whether no task may run again behind it: a run that failed there would lose
    states.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    seconds: float
    over: tuple[tuple[int, int], ...] = ()
    ahead_of: frozenset[int] = frozenset()
    behind: frozenset[int] = frozenset()
    again: bool = True
    commits: bool = False


@dataclass(frozen=True)
class Problem:
    """Tasks in the order of the program, the bytes of each value, and the values that are read when
    all tasks have run. `copied` has the bytes of each copy that is made after that.
    """

    tasks: Sequence[Task]
    sizes: Sequence[int]
    kept: frozenset[int]
    alignment: int = 1
    copied: tuple[int, ...] = ()
    maker: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        made = {item: number for number, task in enumerate(self.tasks) for item in task.writes}
        object.__setattr__(self, "maker", made)

    def predecessors(self) -> list[set[int]]:
        """The tasks that each one runs behind."""
        found = [{*task.behind, *(self.maker[item] for item in task.reads)} for task in self.tasks]
        for number, task in enumerate(self.tasks):
            for later in task.ahead_of:
                if later > number:
                    found[later].add(number)
        return found


@dataclass(frozen=True)
class Run:
    """A task that runs, the copies that it reads and those that it makes."""

    task: int
    reads: tuple[Copy, ...]
    writes: tuple[Copy, ...]

    @property
    def is_repeated(self) -> bool:
        """Whether the task ran before."""
        return bool(self.writes) and self.writes[0][1] > 0


@dataclass(frozen=True)
class Plan:
    """Runs in order, and the copy of each kept value that is there at the end. A plan with stages
    also has the numbers of the runs that begin them.
    """

    runs: Sequence[Run]
    kept: dict[int, Copy]
    begins: Sequence[int] = ()

    @property
    def repeated(self) -> list[int]:
        """The tasks that run again, in order."""
        return [run.task for run in self.runs if run.is_repeated]


def plan_of(problem: Problem, order: Iterable[int]) -> Plan:
    """The plan that runs each task once."""
    runs = [
        Run(
            number,
            tuple((item, 0) for item in problem.tasks[number].reads),
            tuple((item, 0) for item in problem.tasks[number].writes),
        )
        for number in order
    ]
    return Plan(runs, {item: (item, 0) for item in sorted(problem.kept)})


def is_sound(problem: Problem, plan: Plan) -> bool:
    """Whether each repeated task may run where it does, and still finds the values that it
    reads.
    """
    done: set[int] = set()
    is_committed = False
    for run in plan.runs:
        task = problem.tasks[run.task]
        may_repeat = task.again and not is_committed and done.isdisjoint(task.ahead_of)
        if run.is_repeated and not may_repeat:
            return False
        done.add(run.task)
        is_committed |= task.commits
    return True


def intervals_of(problem: Problem, plan: Plan) -> list[Interval]:
    """When each block of memory is in use: copies that are written in place share one, as
    `mgn.passes.liveness` has it.
    """
    last = {copy: step for step, run in enumerate(plan.runs) for copy in run.reads}
    last |= dict.fromkeys(plan.kept.values(), len(plan.runs))
    slots: list[list[int]] = []
    slot_of: dict[Copy, int] = {}
    for step, run in enumerate(plan.runs):
        taken: dict[int, int] = {}
        copies = dict(run.reads)
        for read, written in problem.tasks[run.task].over:
            copy = (read, copies[read])
            slot = slot_of[copy]
            if last[copy] > step or written in taken or slot in taken.values():
                continue
            if run.reads.count(copy) == 1 and problem.sizes[read] == problem.sizes[written]:
                taken[written] = slot
        for copy in run.writes:
            end = last.get(copy, step)
            if copy[0] in taken:
                slot_of[copy] = taken[copy[0]]
                slots[slot_of[copy]][2] = end
            else:
                slot_of[copy] = len(slots)
                slots.append([problem.sizes[copy[0]], step, end])
    end = len(plan.runs)
    return [Interval(*slot) for slot in slots] + [
        Interval(size, end, end) for size in problem.copied
    ]


def live_bytes(intervals: Sequence[Interval], steps: int) -> list[int]:
    """The bytes in use at each step, and behind the last."""
    change = [0] * (steps + 2)
    for item in intervals:
        change[item.first] += item.size
        change[item.last + 1] -= item.size
    return list(accumulate(change))[:-1]


def peak_of(problem: Problem, plan: Plan) -> int:
    """The most bytes that live at once."""
    return max(live_bytes(intervals_of(problem, plan), len(plan.runs)))


def arena_of(problem: Problem, plan: Plan) -> int:
    """The bytes of the arena of a plan."""
    return pack(intervals_of(problem, plan), problem.alignment).size
