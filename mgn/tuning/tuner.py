"""Tuned schedules in a compilation: those of earlier searches, and a search where asked for.

In: a module whose kernels have schedules. Out: the same with better ones, and a `TuningReport`.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.garbage import collector_running
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.parameter_only import parameter_only
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.compilation import TuningPass
from mgn.driver.report import TuningReport
from mgn.passes.kernels.structure import structure
from mgn.passes.schedules.space import Space
from mgn.tasks import task
from mgn.tuning.search import Candidate, Outcome, Trial, search
from mgn.tuning.store import ScheduleStore


@dataclass(frozen=True)
class Tuner(TuningPass):
    """The pass `tune` of a compilation: looks schedules up, and searches for `seconds` where that
    is not zero.
    """

    name = "tune"

    store: ScheduleStore
    trial: Trial | None = None
    seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic

    @property
    def searches(self) -> bool:
        """Whether schedules are measured, and not only looked up."""
        return self.trial is not None and self.seconds > 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Gives kernels their tuned schedules, in place."""
        report = self._tuned(op)
        if report is not None:
            self.reports.append(report)

    def _tuned(self, module: ModuleOp) -> TuningReport | None:
        """What was done; None where nothing was tuned."""
        if not self.searches and not self.store.state:
            return None
        groups = _groups(module)
        device = Device.of(module)
        spaces = {key: Space(kernels[0], device) for key, kernels in groups.items()}
        known = {key: self.store.load(space) for key, space in spaces.items()}
        found = {key: spaces[key].complete(fixed) for key, fixed in known.items() if fixed}
        kept = {key: schedule for key, schedule in found.items() if schedule is not None}
        report = TuningReport(recalled=len(kept))
        if self.trial is not None and self.searches:
            constant = {value for graph in graphs_of(module) for value in parameter_only(graph)}
            candidates: list[Candidate] = []
            for key, kernels in groups.items():
                launches = sum(not constant.issuperset(op.outputs) for op in kernels)
                if launches:
                    candidates.append(Candidate(kernels[0], launches, known[key], device))
            with collector_running():
                outcomes = self._searched(candidates, self.trial)
            for outcome in outcomes:
                if outcome.won:
                    fused = outcome.candidate.fused
                    kept[structure(fused)] = outcome.schedule
                    self.store.save(fused, outcome.candidate.schedule, outcome.best.fixed)
            report = _report(report.recalled, self.seconds, outcomes)
        for key, schedule in kept.items():
            _give(groups[key], schedule)
        return report if self.searches or kept else None

    def _searched(self, candidates: list[Candidate], trial: Trial) -> list[Outcome]:
        """The outcomes of a search, which says how far it is."""
        start = self.clock()
        with task("tune", f"tuning for {self.seconds:g} s", self.seconds) as tuning:

            def shown(fused: FusedKernelOp, schedule: ScheduleAttr) -> float | None:
                tuning.at(fused.kind.data, self.clock() - start)
                return trial(fused, schedule)

            return search(candidates, shown, self.seconds, self.clock)


def _groups(module: ModuleOp) -> dict[Hashable, list[FusedKernelOp]]:
    """Kernels that are equal but for what they are applied to."""
    groups: dict[Hashable, list[FusedKernelOp]] = {}
    for fused in _kernels(module):
        groups.setdefault(structure(fused), []).append(fused)
    return groups


def _kernels(module: ModuleOp) -> Iterator[FusedKernelOp]:
    return (op for op in module.walk() if isinstance(op, FusedKernelOp) and op.schedule is not None)


def _give(kernels: list[FusedKernelOp], schedule: ScheduleAttr) -> None:
    for fused in kernels:
        fused.schedule = schedule


def _report(recalled: int, seconds: float, outcomes: list[Outcome]) -> TuningReport:
    return TuningReport(
        recalled=recalled,
        seconds=seconds,
        kernels=len(outcomes),
        tried=sum(outcome.tried for outcome in outcomes),
        won=sum(outcome.won for outcome in outcomes),
        before=sum(outcome.before * outcome.candidate.launches for outcome in outcomes),
        after=sum(outcome.after * outcome.candidate.launches for outcome in outcomes),
    )
