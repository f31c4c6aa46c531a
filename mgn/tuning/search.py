"""The search for better schedules within a time.

In: scheduled kernels with how often each is launched, a trial that measures one under a schedule,
and seconds. Out: for each kernel its best schedule and the times before and after. The kernel whose
launches take longest for how often it was tried already comes next.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.passes.schedule_space import axes_of, walk_space

LEAST_GAIN = 0.03
"""By what share of its time a kernel must be quicker for a schedule to count as better."""

Trial = Callable[[FusedKernelOp, ScheduleAttr], float | None]
"""Seconds of a launch; None where the schedule cannot be built or gives another result."""


@dataclass(frozen=True)
class Candidate:
    """A scheduled kernel, how many launches of it a run has, and its best schedule so far."""

    fused: FusedKernelOp
    launches: int
    known: ScheduleAttr | None = None

    @property
    def schedule(self) -> ScheduleAttr:
        """The schedule that was chosen without measuring."""
        assert self.fused.schedule is not None
        return self.fused.schedule


@dataclass
class Outcome:
    """The best schedule of a kernel; `before` and `after` are seconds of a launch."""

    candidate: Candidate
    schedule: ScheduleAttr
    before: float
    after: float
    tried: int = 0

    @property
    def won(self) -> bool:
        """Whether another schedule than the one chosen without measuring is better."""
        return self.schedule != self.candidate.schedule


@dataclass
class _Walk:
    outcome: Outcome
    steps: Generator[ScheduleAttr, bool | None, None] = field(repr=False)
    improved: bool | None = None

    @property
    def urgency(self) -> float:
        outcome = self.outcome
        return outcome.after * outcome.candidate.launches / (1 + outcome.tried)


def search(
    candidates: Sequence[Candidate],
    trial: Trial,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Outcome]:
    """Tries schedules until the time is over; kernels that there was no time for are left out."""
    end = clock() + seconds
    walks: list[_Walk] = []
    for candidate in candidates:
        axes = axes_of(candidate.fused)
        if not axes or clock() >= end:
            continue
        taken = trial(candidate.fused, candidate.schedule)
        if taken is None:
            continue
        outcome = Outcome(candidate, candidate.schedule, taken, taken)
        if candidate.known is not None:
            _consider(outcome, candidate.known, trial)
        walks.append(_Walk(outcome, walk_space(outcome.schedule, axes)))
    outcomes = [walk.outcome for walk in walks]
    while walks and clock() < end:
        walk = max(walks, key=lambda walk: walk.urgency)
        try:
            schedule = walk.steps.send(walk.improved)
        except StopIteration:
            walks.remove(walk)
            continue
        walk.improved = _consider(walk.outcome, schedule, trial)
    for outcome in outcomes:
        if outcome.won:
            _confirm(outcome, trial)
    return outcomes


def _consider(outcome: Outcome, schedule: ScheduleAttr, trial: Trial) -> bool:
    """Tries a schedule; whether it is the best so far."""
    taken = trial(outcome.candidate.fused, schedule)
    outcome.tried += 1
    if taken is None or taken > outcome.after * (1 - LEAST_GAIN):
        return False
    outcome.schedule, outcome.after = schedule, taken
    return True


def _confirm(outcome: Outcome, trial: Trial) -> None:
    """Measures both again: a schedule that was only lucky is given up."""
    fused, first = outcome.candidate.fused, outcome.candidate.schedule
    before, after = trial(fused, first), trial(fused, outcome.schedule)
    if before is None or after is None or after > before * (1 - LEAST_GAIN):
        outcome.schedule, outcome.after = first, outcome.before
    else:
        outcome.before, outcome.after = before, after
