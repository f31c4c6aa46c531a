"""The loop of a training run: batches in, steps, evaluations, checkpoints.

In: a trainer and batches. Out: a `History`. A run that is killed and resumed gives the bits of one
that was not: the state, the seed and the position in the data are all that a step depends on.

    history = fit(trainer, "train.npz", epochs=10, eval="held_out.npz",
                  metric="accuracy(logits, labels)", save="digits.safetensors")
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from mgn.diagnostics import MgnError
from mgn.distributed.crew import crew_of
from mgn.modules.call_arguments import check_arguments
from mgn.runtime.errors import WeightsError
from mgn.training.data.batches import ArrayBatches, Batches, open_batches
from mgn.training.data.shards import shared_by
from mgn.training.run.checkpoints import (
    Checkpoint,
    Checkpoints,
    Position,
    begin_run,
    check_names,
    check_state,
    new_run,
)
from mgn.training.run.curves import Curves, EventFiles
from mgn.training.run.history import History, JsonLog, is_log, read_log
from mgn.training.run.metrics import parse_metric
from mgn.training.run.progress import Progress, Silence, show_progress
from mgn.training.run.run import Run, Wanted
from mgn.training.run.trainee import Callback, Trainee


def fit(
    trainer: Trainee,
    batches: Any,
    *,
    epochs: int = 1,
    steps: int | None = None,
    eval: Any = None,
    metric: str | None = None,
    every: int | None = None,
    callbacks: Iterable[Callback] = (),
    interrupted: Callable[[], bool] | None = None,
    save: str | Path | None = None,
    keep: int = 1,
    keep_best: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    log: str | Path | None = None,
    curves: str | Path | None = None,
    tensorboard: str | Path | None = None,
    patience: int | None = None,
    check_finite: bool = False,
    norms: bool = False,
    save_not_finite: bool = False,
    progress: bool | None = None,
    say: Callable[[str], None] | None = None,
) -> History:
    """Trains for some epochs, or for `steps` steps however many epochs those are.

    `batches` and `eval` are what `open_batches` takes. `metric` is such as
    `accuracy(logits, labels)`. At the end of each epoch, or after each `every` steps, the run is
    evaluated, saved to `save`, and drawn to `curves`. The last `keep` checkpoints stay, and with
    `keep_best` that of the best evaluation. `resume` goes on with what is saved, if anything is;
    epochs and steps then count from the run's beginning. `overwrite` lets a new run take the place
    of the files of another one. `patience` ends the run after so many evaluations without a better
    one: of the metric, or of the loss. `check_finite` raises an error that names the operation from
    which the first NaN or infinity came, and makes steps slower. `norms` notes the norm of each
    parameter with each step. A state that is no longer finite is saved only with `save_not_finite`;
    without it the last good checkpoint stays. A callback is called with each `Event`, and may raise
    `StopTraining`. `interrupted` is asked behind each batch, of evaluations too, whether the run is
    to be saved at once and to end. `progress` is whether there is a bar; by default where stderr is
    a terminal. `say` takes lines for the reader where there is no bar. Several ranks all call it,
    with the same options and the same whole batches; the first one writes files and talks to the
    reader.

    MgnError with what is wrong with data, files or options, most of it before the first step.
    """
    _check_counts(epochs=epochs, steps=steps, every=every, patience=patience, keep=keep)
    check_arguments(
        "fit", save=save, log=log, curves=curves, tensorboard=tensorboard, metric=metric
    )
    callbacks = _callables(callbacks)
    measured = None if metric is None else parse_metric(metric)
    wanted = Wanted(measured, every, patience, check_finite, norms, keep_best, save_not_finite)
    if patience is not None and eval is None:
        raise MgnError("patience counts evaluations, and there is no eval data")
    if keep_best and save is None:
        raise MgnError("keep_best is about checkpoints, and none are saved")
    crew = crew_of(trainer)
    show = show_progress(progress, say) if crew.is_first else Silence()
    training = open_batches(batches, trainer.inputs, trainer.seed, "the data")
    if isinstance(training, ArrayBatches):
        training.need_a_batch(accumulate=trainer.accumulate)
    looked_at, evaluated = trainer.evaluates, None
    if eval is not None:
        evaluated = open_batches(eval, looked_at.inputs, 0, "the eval data")
    if wanted.metric is not None:
        if evaluated is None:
            raise MgnError("a metric is computed on evaluation data, and there is none")
        wanted.metric.check([*looked_at.inputs, *looked_at.outputs])
    if isinstance(evaluated, ArrayBatches) and wanted.metric is None:
        evaluated.need_a_batch("a loss is a mean over whole batches; a metric is not")
    if save is not None:
        check_names(trainer.state_types)
    files, found = crew.from_first(lambda: _begin_run(save, resume, overwrite, keep, keep_best))
    history = History(trainer.loss)
    position = _first_position(trainer, training)
    if files is not None and found is not None:
        _resume(trainer, training, files.path, found, show)
        position = found.header.position
    elif resume:
        show.say("there is no checkpoint yet: the run begins")
    run_name = files.run if files is not None else new_run()
    training = shared_by(trainer.division, training)
    if evaluated is not None:
        evaluated = shared_by(looked_at.division, evaluated)
    run = Run(trainer, training, evaluated, wanted, history, position, show, run_name)
    if found is not None:
        run.resume(found.header)
    run.files, run.callbacks = files, callbacks
    run.interrupted = run.interrupted if interrupted is None else interrupted
    if crew.is_first:
        run.curves = None if curves is None else Curves(curves, run_name, overwrite)
        run.events = None if tensorboard is None else EventFiles(tensorboard)
        if log is not None:
            is_new = overwrite or (resume and _left_nothing(log, run, found))
            run.log = _open_log(log, run, found, is_new)
    last_epoch = position.first_epoch + epochs if steps is None else None
    last_step = None if steps is None else position.first_step + steps
    try:
        with crew.guard():
            run.go(last_epoch, last_step)
    finally:
        show.end()
        if run.events is not None:
            run.events.close()
    return history


def _begin_run(
    save: str | Path | None, resume: bool, overwrite: bool, keep: int, keep_best: bool
) -> tuple[Checkpoints | None, Checkpoint | None]:
    """What `begin_run` gives, once the place of the best checkpoint was looked at."""
    files, found = begin_run(save, resume, overwrite, keep)
    if keep_best and files is not None:
        files.check_best()
    return files, found


def _check_counts(**counts: Any) -> None:
    """MgnError where a count is none."""
    for name, count in counts.items():
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise MgnError(f"{name} takes a whole number of at least 1, not {count!r:.80}")


def _callables(callbacks: Any) -> tuple[Callback, ...]:
    """Several callbacks. MgnError where they are none."""
    if not isinstance(callbacks, Iterable):
        raise MgnError(f"callbacks takes a list of functions, not {type(callbacks).__name__}")
    listed = tuple(cast("Iterable[Any]", callbacks))
    for item in listed:
        if not callable(item):
            raise MgnError(f"a callback is a function of an Event, not {type(item).__name__}")
    return listed


def _first_position(trainer: Trainee, training: Batches) -> Position:
    """Where a run begins: behind the epochs that the steps so far were, for other orders than
    theirs.
    """
    per_epoch = (training.per_epoch or 0) // trainer.accumulate
    first = -(-trainer.steps // per_epoch) if per_epoch else 0
    return Position(first, 0, first, trainer.steps)


def _resume(
    trainer: Trainee, training: Batches, path: Path, found: Checkpoint, show: Progress
) -> None:
    """Gives a trainer the state of a checkpoint. WeightsError where it is not one of its own."""
    header = found.header
    check_state(path, found.arrays, trainer.state_types)
    if header.seed != trainer.seed:
        raise WeightsError(f"{path} is of a run with seed {header.seed}, not {trainer.seed}")
    for name, count in header.data.items():
        now = training.identity.get(name, count)
        if now != count:
            raise WeightsError(f"{path} is of a run with {name} = {count}, and here it is {now}")
    for name, now in trainer.configuration.items():
        before = header.configuration.get(name, now)
        if before != now:
            show.say(f"{path}: the run so far had {name} = {before}; it goes on with {now}")
    trainer.load_state(found.arrays)
    show.say(f"resumed at step {header.step}")


def _left_nothing(path: str | Path, run: Run, found: Checkpoint | None) -> bool:
    """Whether a log is of a run that ended before it could write a checkpoint: what is resumed
    without one begins anew, and so does its log.
    """
    if found is not None or not is_log(path):
        return False
    every, first = run.wanted.every, run.position
    for record in read_log(path, run.trainer.loss).steps:
        if record.epoch != first.epoch or (every and record.step > first.first_step + every):
            return False
    return True


def _open_log(path: str | Path, run: Run, found: Checkpoint | None, overwrite: bool) -> JsonLog:
    """A new log; that of the run so far where it is resumed, whose records the history takes."""
    if found is not None:
        log = JsonLog.resume(path, run.name, found.header.step, run.history)
        if log is not None:
            return log
    return JsonLog.begin(path, run.name, run.trainer.configuration, overwrite)
