"""Plans of ever less memory: where most lives, one decision after the other is turned over.

In: the programme of an order, without its room. Out: what plans keep, from all on, each with less
at its peak than the one before; none of it depends on a budget.

A peak is lower where a value that lives there unread is made again behind it, or where what runs
again there is kept instead. What costs the fewest seconds a byte is looked at first, and taken
where the peaks of the stages, the highest first, are lower than before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mgn.passes.rematerialise.programme import Programme
from mgn.passes.rematerialise.tasks import Plan, intervals_of, is_sound, live_bytes


@dataclass
class Runs:
    """How many runs of tasks may still be looked at, in all plans."""

    left: int


def descend(programme: Programme, runs: Runs) -> Iterator[tuple[np.ndarray, Plan]]:
    """What is kept, and the plan, for each plan whose peak is the least so far."""
    kept = np.ones(programme.columns, bool)
    plan = programme.plan(kept)
    peaks = _peaks(programme, plan)
    yield kept.copy(), plan
    least = max(peaks)
    while (turned := _turned(programme, kept, peaks, runs)) is not None:
        plan, peaks = turned
        if max(peaks) < least:
            least = max(peaks)
            yield kept.copy(), plan


def _turned(
    programme: Programme, kept: np.ndarray, peaks: list[int], runs: Runs
) -> tuple[Plan, list[int]] | None:
    """Turns over the first decision that makes the highest peaks lower; None where none does."""
    before = sorted(peaks, reverse=True)
    for column in _decisions(programme, kept, peaks.index(before[0])):
        kept[column] ^= True
        plan = programme.plan(kept)
        runs.left -= len(plan.runs)
        if is_sound(programme.stages.problem, plan):
            following = _peaks(programme, plan)
            if sorted(following, reverse=True) < before:
                return plan, following
        kept[column] ^= True
        if runs.left < 0:
            return None
    return None


def _decisions(programme: Programme, kept: np.ndarray, stage: int) -> list[int]:
    """What changes what lives in a stage: values no longer kept over it, then such as are again."""
    problem = programme.stages.problem
    found: list[tuple[bool, bool, float, int]] = []
    for (value, event), column in programme.kept.items():
        task = problem.maker[value]
        first, last = programme.gap(value, event)
        if first <= stage <= last:
            price = problem.tasks[task].seconds / max(problem.sizes[value], 1)
            is_far = (task, event) not in programme.again
            found.append((not kept[column], is_far, price, column))
    return [column for *_, column in sorted(found)]


def _peaks(programme: Programme, plan: Plan) -> list[int]:
    """The most bytes that live at once in each stage; the last has what follows it."""
    live = live_bytes(intervals_of(programme.stages.problem, plan), len(plan.runs))
    ends = [*plan.begins[1:], len(live)]
    return [max(live[begin:end], default=0) for begin, end in zip(plan.begins, ends, strict=True)]
