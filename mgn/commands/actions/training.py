"""The main work of `mgn-train`: a program and files of examples in, a trained graph out.

In: the arguments. Out: the last loss and metric on stdout, remarks on stderr, files. What may fail
on bad input is looked at before the graph is compiled.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.commands.actions.soft_end import soft_end
from mgn.commands.options.arguments import budget_of, parse_dimensions
from mgn.commands.options.checkpoints import say_loaded
from mgn.commands.options.errors import UsageError, say
from mgn.commands.options.optimiser_call import read_optimiser
from mgn.commands.options.sources import read_source
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.structure import graphs_of
from mgn.distributed.crew import Crew
from mgn.distributed.launch import find_crew
from mgn.modules.files import check_apart, check_target
from mgn.modules.module import Module, load_program
from mgn.runtime.weights import load_arrays
from mgn.training.data.batches import ArrayBatches, InputTypes, input_types
from mgn.training.data.texts import is_text, text_examples
from mgn.training.run.checkpoints import check_run, run_of
from mgn.training.run.history import History
from mgn.training.run.metrics import parse_metric
from mgn.training.step.finite import fault_among
from mgn.training.step.loss_scale import LossScale, as_loss_scale

if TYPE_CHECKING:
    from mgn.training.trainer import Trainer


def train(arguments: argparse.Namespace) -> bool:
    """Trains the graph that the arguments describe, and prints what came of it. Whether the run
    came to its end, which a signal can keep it from. Several processes do it together.
    """
    budget_of(arguments)
    crew = find_crew()
    with crew.guard():
        return _train(arguments, crew)


def _train(arguments: argparse.Namespace, crew: Crew) -> bool:
    """The same, by one of a crew, of which the first writes and talks to the reader."""
    if arguments.file == "-" and crew.size > 1:
        raise UsageError("several processes read the program from a file, not from stdin")
    tell = say if crew.is_first else _silent
    metric = None if arguments.metric is None else parse_metric(arguments.metric)
    scale = _loss_scale(arguments.loss_scale, arguments.precision)
    program = _program_of(arguments)
    given = parse_dimensions(arguments.dim)
    graph = _choose_graph(program, arguments, given)
    dimensions = _with_batch(program, graph, given, arguments.batch)
    inputs, outputs = _interface(program.lower(graph, dimensions))
    if arguments.loss not in outputs:
        listing = ", ".join(outputs)
        raise UsageError(f"graph '{graph}' has no result '{arguments.loss}'; it has {listing}")
    evaluated = inputs
    if arguments.eval_graph is not None:
        name = program.choose_graph(arguments.eval_graph)
        evaluated, outputs = _interface(_lowered(program, name, dimensions))
    if metric is not None:
        metric.check([*evaluated, *outputs])
    if metric is not None and arguments.eval is None:
        raise UsageError("--metric is computed on the examples of --eval, and there are none")
    if crew.is_first:
        _check_targets(arguments, program)
        check_run(arguments.save, arguments.resume, arguments.overwrite)
    texts = [item for item in (arguments.data, arguments.eval) if item and is_text(item)]
    if arguments.tokenizer is not None and not texts:
        raise UsageError(f"--tokenizer makes tokens of a .txt file, and '{arguments.data}' is none")
    arrays = _examples(arguments.data, arguments.tokenizer, inputs)
    data = ArrayBatches(arrays, inputs, arguments.seed, arguments.data)
    data.need_a_batch(accumulate=arguments.accumulate)
    _check_batch(arguments.batch, data.size)
    held_out = None
    if arguments.eval is not None:
        arrays = _examples(arguments.eval, arguments.tokenizer, evaluated, apart=None)
        held_out = ArrayBatches(arrays, evaluated, 0, arguments.eval)
    per_epoch = data.examples // (data.size * arguments.accumulate)
    steps = arguments.steps or (arguments.epochs or 1) * per_epoch
    optimiser = read_optimiser(
        arguments.optimizer, arguments.lr, arguments.schedule, arguments.warmup, steps
    )
    from mgn.training.trainer import Trainer

    trainer = Trainer(
        program,
        graph,
        arguments.loss,
        optimiser,
        seed=arguments.seed,
        device=arguments.device,
        precision=arguments.precision,
        dims=dimensions,
        clip_norm=arguments.clip_norm,
        accumulate=arguments.accumulate,
        loss_scale=scale,
        masters=arguments.masters,
        trained=arguments.trained or None,
        frozen=arguments.frozen,
        zero=arguments.zero,
        bucket=arguments.bucket,
        memory=budget_of(arguments),
        eval_graph=arguments.eval_graph,
        resident=arguments.resident,
    )
    if arguments.params is not None and not crew.from_first(lambda: _goes_on(arguments)):
        trainer.load_params(arguments.params, drawn=arguments.drawn)
        if trainer.params.loaded is not None and crew.is_first:
            say_loaded(trainer.params.loaded)
    with soft_end(tell) as end:
        history = trainer.fit(
            data,
            epochs=arguments.epochs or 1,
            steps=arguments.steps,
            eval=held_out,
            metric=arguments.metric,
            every=arguments.every,
            save=arguments.save,
            keep=arguments.keep or 1,
            keep_best=arguments.keep_best,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            log=arguments.log,
            curves=arguments.curves,
            tensorboard=arguments.tensorboard,
            patience=arguments.patience,
            check_finite=arguments.check_finite,
            norms=arguments.norms,
            save_not_finite=arguments.save_not_finite,
            progress=False if arguments.no_progress else None,
            say=tell,
            interrupted=end,
        )
    if arguments.save_params is not None and crew.is_first:
        _save_params(trainer, arguments.save_params, arguments.save_not_finite)
    if arguments.save_trained is not None and crew.is_first:
        _save_params(trainer, arguments.save_trained, arguments.save_not_finite, only_trained=True)
    if arguments.explain is not None and crew.is_first:
        trainer.executable.replay(profile=True)  # which takes one more step
        trainer.explain(arguments.explain)
    if crew.is_first:
        sys.stdout.write(_summary(history, trainer.steps))
    return not any(crew.exchange("the end", end.is_asked))


def _goes_on(arguments: argparse.Namespace) -> bool:
    """Whether there is a checkpoint to go on with, which has all parameters."""
    return arguments.resume and Path(arguments.save).exists()


def _silent(text: str) -> None:
    """Says nothing."""


def _loss_scale(text: str, precision: str) -> LossScale | None:
    """What `--loss-scale` says. UsageError where it says nothing that is known."""
    try:
        number = float(text)
    except ValueError:
        number = None
    try:
        return as_loss_scale(text if number is None else number, precision)
    except MgnError as error:
        known = "auto, dynamic, none or a number from 2**-24 to 2**100"
        raise UsageError(f"--loss-scale takes {known}, not '{text:.80}'") from error


def _save_params(
    trainer: "Trainer", path: str, even_not_finite: bool, only_trained: bool = False
) -> None:
    """Writes the parameters. MgnError where those that were trained are not finite."""
    trained = {name: trainer.params[name] for name in trainer.trained}
    fault = None if even_not_finite else fault_among(trained)
    if fault is not None:
        raise MgnError(
            f"{path}: {fault}: nothing is written; --save-not-finite writes it all the same"
        )
    trainer.save_params(path, only_trained=only_trained)


def _program_of(arguments: argparse.Namespace) -> Module:
    if arguments.file == "-" and arguments.frontend is None:
        arguments.frontend = "mgn"
    source = read_source(arguments.file, arguments.frontend)
    path = None if arguments.file == "-" else Path(arguments.file)
    return load_program(source.language, source.text, source.name, path)


def _examples(
    path: str, tokenizer: str | None, inputs: InputTypes, apart: int | None = 1
) -> dict[str, np.ndarray]:
    """The examples of a file of arrays, or the windows of a text."""
    if not is_text(path):
        return load_arrays(path)
    if tokenizer is None:
        raise UsageError(f"'{path}' is a text: --tokenizer names what makes tokens of it")
    return text_examples(path, tokenizer, inputs, apart)


def _choose_graph(
    program: Module, arguments: argparse.Namespace, dimensions: Mapping[str, int]
) -> str:
    """The graph asked for, or the one that gives the loss. UsageError where that is not one."""
    if arguments.graph is not None or len(program.graphs) == 1:
        return program.choose_graph(arguments.graph)
    loss = arguments.loss
    bound = [item.name for item in program.signatures if {*item.required} <= {*dimensions}]
    names = [
        name
        for name in (bound if program.signatures else program.graphs)
        if name != arguments.eval_graph
    ]
    found = [name for name in names if loss in _interface(_lowered(program, name, dimensions))[1]]
    if len(found) != 1:
        several = f"several graphs give '{loss}': {', '.join(found)}" if found else None
        listing = several or f"no graph of {', '.join(program.graphs)} gives '{loss}'"
        raise UsageError(f"{listing}; --graph NAME says which one, --loss NAME which result")
    return found[0]


def _lowered(program: Module, graph: str, dimensions: Mapping[str, int]) -> ModuleOp:
    """A graph with those of the dimensions that are its own."""
    known = {item.name: item.dimensions for item in program.signatures}.get(graph, ())
    return program.lower(graph, {name: dimensions[name] for name in known if name in dimensions})


def _with_batch(
    program: Module, graph: str, dimensions: Mapping[str, int], batch: int | None
) -> dict[str, int]:
    """The dimensions with that of the batch. UsageError where the graph has none."""
    if batch is None:
        return dict(dimensions)
    leading = next((item.leading for item in program.signatures if item.name == graph), None)
    if leading is None:
        return dict(dimensions)
    if dimensions.get(leading, batch) != batch:
        raise UsageError(f"--batch {batch} and --dim {leading}={dimensions[leading]} differ")
    return {**dimensions, leading: batch}


def _check_batch(batch: int | None, size: int) -> None:
    """UsageError where a graph's batches are of another size, which nothing can change."""
    if batch is not None and size != batch:
        raise UsageError(
            f"--batch {batch}: the graph's inputs have batches of {size}, since no dimension "
            "parameter is the first size of all of them"
        )


def _interface(ir: ModuleOp) -> tuple[InputTypes, tuple[str, ...]]:
    """The inputs of a module's one graph with their types, and its results' names."""
    (graph,) = graphs_of(ir)
    return input_types(ir), tuple(graph.result_names)


def _check_targets(arguments: argparse.Namespace, program: Module) -> None:
    """What is written can be, and takes the place of nothing that is read or written beside it."""
    given = (arguments.file, arguments.data, arguments.eval, arguments.params, arguments.tokenizer)
    taken = [*program.files, *(Path(file) for file in given if file not in (None, "-"))]
    named = {"--save-params": arguments.save_params, "--save-trained": arguments.save_trained}
    pages = arguments.log, arguments.curves, arguments.explain
    for path in (arguments.save, *named.values(), *pages):
        if path is None:
            continue
        check_target(path)
        check_apart(path, taken)
        taken.append(Path(path))
    for option, target in named.items():
        if target is not None and not target.endswith(".safetensors"):
            raise UsageError(f"{option} takes a name that ends in .safetensors, not '{target}'")
        if target is not None and not arguments.overwrite and run_of(Path(target)) is not None:
            raise UsageError(
                f"{option}: '{target}' is a checkpoint, of which parameters alone would be left; "
                "--overwrite takes its place"
            )


def _summary(history: History, steps: int) -> str:
    """The lines of the result."""
    lines = [f"steps: {steps}"]
    if history.skipped:
        lines.append(f"skipped: {history.skipped}")
    if history.steps:
        lines.append(f"{history.loss}: {history.losses[-1]:.6g}")
    for name, values in history.metrics.items():
        lines.append(f"evaluated {name}: {values[-1]:.6g}")
    return "\n".join(lines) + "\n"
