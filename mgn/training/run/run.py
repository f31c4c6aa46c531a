"""A training run as it goes: epochs, steps, and what is done between them.

In: a trainer, its batches, what is wanted beside steps, and the position at which it begins. Out:
records in a `History`, a log, checkpoints, and events for callbacks.
"""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mgn.diagnostics import MgnError, argument_name
from mgn.distributed.crew import crew_of
from mgn.training.data.batches import Batch, Batches, whole_steps
from mgn.training.data.prefetch import prefetched
from mgn.training.run.checkpoints import Checkpoint, Checkpoints, Header, Position
from mgn.training.run.curves import Curves, EventFiles
from mgn.training.run.history import Evaluation, History, JsonLog, StepRecord
from mgn.training.run.metrics import Mean, Metric, parse_metric
from mgn.training.run.progress import Progress
from mgn.training.run.skips import Skips
from mgn.training.run.trainee import Callback, Event, Interruption, StopTraining, Trainee
from mgn.training.step.finite import FiniteCheck, FiniteGuard

_RECENT = 20
"""Steps over which a line has the mean loss."""


@dataclass(frozen=True)
class Wanted:
    """What a run does beside its steps."""

    metric: Metric | None
    every: int | None
    patience: int | None
    check_finite: bool
    norms: bool
    keep_best: bool
    save_not_finite: bool


class Run:
    """A run as it goes."""

    log: JsonLog | None = None
    curves: Curves | None = None
    events: EventFiles | None = None
    files: Checkpoints | None = None
    callbacks: tuple[Callback, ...] = ()
    interrupted: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the run is to end soon."""
    best: float | None = None
    since_best = 0
    saved: str | None = None
    """The step of the last checkpoint."""
    _is_lost = False

    def __init__(
        self,
        trainer: Trainee,
        training: Batches,
        evaluated: Batches | None,
        wanted: Wanted,
        history: History,
        position: Position,
        show: Progress,
        name: str,
    ) -> None:
        self.trainer = trainer
        self.training = training
        self.evaluated = evaluated
        self.wanted = wanted
        self.history = history
        self.position = position
        self.show = show
        self.name = name
        self._seen: tuple[int, int] | None = self._now
        self._kept = self._now
        self._recent = deque[float](maxlen=_RECENT)
        self._seconds = 0.0
        self._rate = 0.0
        self._finite = FiniteCheck(trainer) if wanted.check_finite else None
        self._crew = crew_of(trainer)
        self._guard = FiniteGuard(trainer)
        self._skips = Skips(history, show)

    def resume(self, header: Header) -> None:
        """Goes on with what a checkpoint says of the last losses and of the evaluations so far."""
        self.saved = f"step {header.step}"
        if header.criterion in (None, self.criterion):
            self.best, self.since_best = header.best, header.since_best
        self._recent.extend(header.recent)
        if not header.evaluated:
            self._seen = None

    @property
    def criterion(self) -> str:
        """What says which evaluation is the best; of steps, where there are no evaluations."""
        if self.wanted.metric is not None:
            return self.wanted.metric.text
        return f"{self.trainer.loss} of {'steps' if self.evaluated is None else 'evaluations'}"

    @property
    def _now(self) -> tuple[int, int]:
        """The steps so far, and the batches of one that is not complete."""
        return self.trainer.steps, self.trainer.pending

    def go(self, last_epoch: int | None, last_step: int | None) -> None:
        """Runs to the end of an epoch, or to a step, or until something ends it before."""
        total = last_step
        if last_epoch is not None and self.training.per_epoch is not None:
            epochs = last_epoch - self.position.first_epoch
            per_epoch = self.training.per_epoch // self.trainer.accumulate
            total = self.position.first_step + epochs * per_epoch
        self.show.begin(total, self.trainer.steps)
        if self._is_over(last_epoch, last_step):
            self.show.say(f"nothing is left to do behind step {self.trainer.steps}")
        if self.files is not None and not self.wanted.save_not_finite:
            self._guard.begin()
        try:
            self._go(last_epoch, last_step)
        except Exception:
            self._rescue()
            raise

    def _go(self, last_epoch: int | None, last_step: int | None) -> None:
        """The same, once it has begun."""
        is_said = False
        try:
            self._check_patience()
            self._look_if_due()
            while not self._is_over(last_epoch, last_step):
                is_said = is_said or self._said_what_is_left_out()
                self._epoch(last_step)
                is_said = is_said or self._said_what_is_left_out()
        except StopTraining as reason:
            self._note_end(reason)
            if isinstance(reason, Interruption):
                self._interrupt()
                return
        self._finish()

    def _note_end(self, reason: StopTraining) -> None:
        """Notes why the run ends before its time."""
        self.history.stopped = str(reason) or "a callback ended the run"
        self.show.say(f"stopped at step {self.trainer.steps}: {self.history.stopped}")

    def _said_what_is_left_out(self) -> bool:
        """Says what makes no whole batch, where there is such a thing."""
        remark = self.training.remark(self.trainer.accumulate)
        if remark is not None:
            self.show.say(remark)
        return remark is not None

    def _is_over(self, last_epoch: int | None, last_step: int | None) -> bool:
        if last_step is not None:
            return self.trainer.steps >= last_step
        return last_epoch is not None and self.position.epoch >= last_epoch

    def _epoch(self, last_step: int | None) -> None:
        """The rest of an epoch, or as much of it as there are steps to do."""
        epoch, start = self.position.epoch, self.position.batch
        count, done = self.trainer.accumulate, self.trainer.pending
        with prefetched(whole_steps(self.training.epoch(epoch, start), count, done)) as ready:
            any_came = False
            for batch in ready:
                any_came = True
                if not self._step(batch):
                    continue
                self._look_if_due()
                if last_step is not None and self.trainer.steps >= last_step:
                    return
        if not any_came and start == 0:
            what = "batch" if count == 1 else f"step of {count} batches"
            raise MgnError(f"the data: epoch {epoch + 1} has no whole {what}")
        self.position = replace(self.position, epoch=epoch + 1, batch=0)
        if self.wanted.every is None:
            self._look_if_due()

    def _step(self, batch: Batch) -> bool:
        """A step, with its record; or a batch of it, behind which others are to come: whether the
        step is complete.
        """
        if self._finite is not None:
            self._finite.before(batch)
        began = time.perf_counter()
        results = self.trainer.step(batch)
        self._seconds += time.perf_counter() - began
        epoch = self.position.epoch
        self.position = replace(self.position, batch=self.position.batch + 1)
        values = scalars_of(results)
        if self.trainer.pending:
            if self._finite is not None:
                self._finite.after(results)
            self._tell("batch", values)
            return False
        seconds, self._seconds = self._seconds, 0.0
        if self.trainer.loss not in values:
            raise MgnError(f"a step gives no scalar '{self.trainer.loss}'")
        norms = norms_of(self.trainer.params) if self.wanted.norms else {}
        record = StepRecord(self.trainer.steps, epoch, seconds, values, norms)
        self._note(record)
        self._skips.note(record)
        if self._finite is not None:
            self._finite.after(results)
        self._rate = _rate(self._rate, seconds)
        loss = values[self.trainer.loss]
        self._recent.append(loss)
        if not math.isfinite(loss) and not self._is_lost:
            self._is_lost = True
            hint = f"{argument_name('check_finite')} names the operation that made it"
            self.show.say(f"step {record.step}: {self.trainer.loss} is {loss}; {hint}")
        text = f"epoch {epoch + 1}  {self.trainer.loss} {loss:.4f}  {self._rate:.0f} steps/s"
        self.show.step(self.trainer.steps, text + self._skips.text)
        self._tell("step", values)
        return True

    def _look_if_due(self) -> None:
        """Looks behind so many steps, or an epoch, if that was not done yet."""
        every, position = self.wanted.every, self.position
        if every is not None:
            is_due = not self.trainer.pending and not self.trainer.steps % every
        else:
            is_due = not position.batch and position.epoch > position.first_epoch
        if is_due and self._seen != self._now:
            self._look()

    def _look(self) -> None:
        """Evaluates, saves and draws; StopTraining where it gets no better."""
        try:
            values = self._evaluate()
        except MgnError:
            if self.files is not None:
                self._save(self.files)  # it is no better than others as long as that is not known
            raise
        self._seen = self._now
        is_saved = self.files is not None and self._save(self.files)
        is_best = is_saved and self.wanted.keep_best and not self.since_best
        if is_best and self.files is not None and self._crew.is_first:
            self.files.mark_best()
        if self.curves is not None:
            self.curves.draw(self.history)
        if values:
            self._tell("evaluation", values)
        if is_saved:
            self._tell("checkpoint", {})
        self._check_patience()

    def _check_patience(self) -> None:
        """StopTraining where as many evaluations as are waited for were no better than the best;
        also before the first step of a run that had ended so.
        """
        patience = self.wanted.patience
        if patience is not None and self.since_best >= patience:
            raise StopTraining(f"no better evaluation among the last {self.since_best}")

    def _evaluate(self) -> dict[str, float]:
        """What an evaluation gives, which is noted; the mean loss of training without one."""
        epoch = self.position.epoch if self.position.batch else self.position.epoch - 1
        values: dict[str, float] = {}
        if self.evaluated is not None:
            values = evaluate(self.trainer, self.evaluated, self.wanted.metric, self._end_if_asked)
            self._note(Evaluation(self.trainer.steps, max(epoch, 0), values))
        self._compare(values)
        mean = sum(self._recent) / len(self._recent) if self._recent else math.nan
        said = "".join(f", evaluated {name} {value:.4f}" for name, value in values.items())
        line = f"epoch {max(epoch, 0) + 1}, step {self.trainer.steps}: "
        self.show.say(f"{line}{self.trainer.loss} {mean:.4f}{said}{self._skips.text}")
        return values

    def _compare(self, values: Mapping[str, float]) -> None:
        """Counts evaluations that are no better than the best."""
        metric = self.wanted.metric
        rises = metric is not None and metric.row.rises
        name = metric.name if metric is not None else self.trainer.loss
        if name in values:
            value = values[name]
        elif self._recent:
            value = self._recent[-1]
        else:
            return
        better = self.best is None or (value > self.best if rises else value < self.best)
        if better and not math.isnan(value):
            self.best, self.since_best = value, 0
        else:
            self.since_best += 1

    def _save(self, files: Checkpoints) -> bool:
        """Writes a checkpoint; not of a state that is no longer finite, unless that is wanted.
        Whether it was written.
        """
        state = self.trainer.state()
        fault = self._guard.fault(state)
        if fault is not None:
            kept = "there is no checkpoint" if self.saved is None else f"that of {self.saved} stays"
            kept += f"; {argument_name('save_not_finite')} saves it all the same"
            self.show.say(f"step {self.trainer.steps}: not saved, since {fault}: {kept}")
            return False
        header = Header(
            files.run,
            self.trainer.steps,
            self.trainer.seed,
            self.position,
            dict(self.training.identity),
            dict(self.trainer.configuration),
            self.best,
            self.since_best,
            self.criterion,
            self._seen == self._now,
            list(self._recent),
        )
        if self._crew.is_first:
            files.write(Checkpoint(header, state))
        self.saved, self._kept = f"step {self.trainer.steps}", self._now
        return True

    def _interrupt(self) -> None:
        """Saves what was done since the last look, without one."""
        if self._seen == self._now:
            return
        is_saved = self.files is not None and self._save(self.files)
        if self.curves is not None:
            self.curves.draw(self.history)
        if is_saved:
            with contextlib.suppress(StopTraining):
                self._tell("checkpoint", {})

    def _rescue(self) -> None:
        """Saves the steps before an error, as one of the data, a log or a callback, if it can: that
        error is the one to tell. A step that was found not finite is to be found again, and nothing
        goes on from one that has all its batches and was not completed.
        """
        if self.files is None or self._kept == self._now or self._finite is not None:
            return
        if self.trainer.pending == self.trainer.accumulate:
            return
        if self._crew.size > 1:  # the others do not know of it yet
            return
        with contextlib.suppress(Exception):
            if self._save(self.files):
                self.show.say(f"saved at step {self.trainer.steps}, before this error:")

    def _finish(self) -> None:
        """What the last look left to do."""
        if self._seen == self._now:
            return
        try:
            self._look()
        except Interruption as reason:
            self._note_end(reason)
            self._interrupt()
        except StopTraining:
            pass

    def _note(self, record: StepRecord | Evaluation) -> None:
        self.history.add(record)
        if self.log is not None:
            self.log.add(record)
        if self.events is not None:
            self.events.add(record)

    def _tell(self, kind: Any, values: Mapping[str, float]) -> None:
        """Calls the callbacks; StopTraining on all ranks where it is raised on one."""
        reason: StopTraining | None = None
        try:
            for callback in self.callbacks:
                epoch = self.position.epoch
                callback(Event(kind, self.trainer.steps, epoch, values, self.trainer, self.history))
        except StopTraining as raised:
            reason = raised
        self._end_if_asked(reason)

    def _end_if_asked(self, reason: StopTraining | None = None) -> None:
        """StopTraining on all ranks where one has a reason, Interruption where one is asked to end
        soon.
        """
        if reason is None and self.interrupted():
            reason = Interruption("interrupted")
        own = None if reason is None else (str(reason), isinstance(reason, Interruption))
        reasons = self._crew.exchange(f"the end of step {self.trainer.steps}", own)
        for given in reasons:
            if given is not None:
                text, is_urgent = given
                raise Interruption(text) if is_urgent else StopTraining(text)


def evaluate(
    trainer: Trainee,
    batches: Batches,
    metric: Metric | None,
    behind_each: Callable[[], None],
) -> dict[str, float]:
    """The mean loss over whole batches, and a metric over all examples. Behind each batch something
    is called.
    """
    loss = parse_metric(trainer.loss)
    means = [Mean(loss), *([] if metric is None else [Mean(metric)])]
    for batch, count in batches.evaluation():
        results = trainer.run_eval(batch)
        size = next((len(batch[name]) for name in batch if batch[name].ndim), 1)
        for mean in means if count != 0 else ():
            mean.add({**batch, **results}, size, count)
        behind_each()
    sums = crew_of(trainer).exchange("means", [(mean.total, mean.weight) for mean in means])
    for place, mean in enumerate(means):
        mean.total = sum(item[place][0] for item in sums)
        mean.weight = sum(item[place][1] for item in sums)
    found = {mean.metric.name: mean.value for mean in means if mean.weight}
    if not found:
        raise MgnError("the eval data has no whole batch, and a loss is a mean over whole ones")
    return found


def scalars_of(results: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The results that are one number."""
    return {name: float(value) for name, value in results.items() if np.ndim(value) == 0}


def norms_of(params: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The Euclidean norm of each parameter."""
    return {
        name: float(np.linalg.norm(np.asarray(value, np.float64).reshape(-1)))
        for name, value in params.items()
    }


def _rate(before: float, seconds: float) -> float:
    """Steps a second, of the last ten or so."""
    now = 1.0 / max(seconds, 1e-9)
    return now if not before else 0.9 * before + 0.1 * now
