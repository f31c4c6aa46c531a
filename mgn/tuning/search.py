"""The search for better schedules within a time.

In: scheduled kernels with how often each is launched, a trial that measures one under a schedule,
and seconds. Out: for each kernel its best schedule and the times before and after. The kernel whose
launches take longest for how often it was tried already comes next.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device
from mgn.passes.schedules.core.schedule import Entries
from mgn.passes.schedules.space import Choice, Space

LEAST_GAIN = 0.03
"""By what share of its time a kernel must be quicker for a schedule to count as better."""

Trial = Callable[[FusedKernelOp, ScheduleAttr], float | None]
"""Seconds of a launch; None where the schedule cannot be built or gives another result."""


@dataclass(frozen=True)
class Candidate:
    """A scheduled kernel, how many launches of it a run has, and what an earlier search fixed."""

    fused: FusedKernelOp
    launches: int
    known: Entries | None = None
    device: Device = DEVICES["cpu"]

    @property
    def schedule(self) -> ScheduleAttr:
        """The schedule that was chosen without measuring."""
        assert self.fused.schedule is not None
        return self.fused.schedule


@dataclass
class Outcome:
    """The best schedule of a kernel, and what is fixed for it; `before` and `after` are seconds."""

    candidate: Candidate
    best: Choice
    before: float
    after: float
    tried: int = 0

    @property
    def schedule(self) -> ScheduleAttr:
        """The best schedule."""
        return self.best.schedule

    @property
    def won(self) -> bool:
        """Whether another schedule than the one chosen without measuring is better."""
        return self.schedule != self.candidate.schedule


@dataclass
class _Walk:
    outcome: Outcome
    steps: Generator[Choice, bool | None, None] = field(repr=False)
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
        space = Space(candidate.fused, candidate.device)
        if not space.axes or clock() >= end:
            continue
        taken = trial(candidate.fused, candidate.schedule)
        if taken is None:
            continue
        outcome = Outcome(candidate, Choice({}, candidate.schedule), taken, taken)
        known = space.complete(candidate.known) if candidate.known is not None else None
        if known is not None:
            _consider(outcome, Choice(candidate.known or {}, known), trial)
        walks.append(_Walk(outcome, space.walk(outcome.best)))
    outcomes = [walk.outcome for walk in walks]
    while walks and clock() < end:
        walk = max(walks, key=lambda walk: walk.urgency)
        try:
            choice = walk.steps.send(walk.improved)
        except StopIteration:
            walks.remove(walk)
            continue
        walk.improved = _consider(walk.outcome, choice, trial)
    for outcome in outcomes:
        if outcome.won:
            _confirm(outcome, trial)
    return outcomes


def _consider(outcome: Outcome, choice: Choice, trial: Trial) -> bool:
    """Tries a schedule; whether it is the best so far."""
    taken = trial(outcome.candidate.fused, choice.schedule)
    outcome.tried += 1
    if taken is None or taken > outcome.after * (1 - LEAST_GAIN):
        return False
    outcome.best, outcome.after = choice, taken
    return True


def _confirm(outcome: Outcome, trial: Trial) -> None:
    """Measures both again: a schedule that was only lucky is given up."""
    fused, first = outcome.candidate.fused, outcome.candidate.schedule
    before, after = trial(fused, first), trial(fused, outcome.schedule)
    if before is None or after is None or after > before * (1 - LEAST_GAIN):
        outcome.best, outcome.after = Choice({}, first), outcome.before
    else:
        outcome.before, outcome.after = before, after
