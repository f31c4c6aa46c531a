"""Trains a graph's parameters on a device, step by step.

In: a program, the name of its loss, an optimiser, and batches of arrays. Out: the graph's outputs
of each step, and parameters that have moved.

    trainer = mgn.Trainer(module, loss="loss", optimizer=mgn.AdamW(lr=1e-3))
    for batch in batches:
        print(trainer.step(batch)["loss"])
    trainer.params["w"]
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.api import (
    AnyModule,
    Module,
    as_module,
    checked_budget,
    compile_lowered,
    describe_device,
    recipe_of,
)
from mgn.diagnostics import MgnError, argument_name
from mgn.dialects.mgn.structure import graphs_of
from mgn.distributed.launch import check_stage, find_crew
from mgn.driver.precision import check_precision
from mgn.driver.residency import check_residency, residing
from mgn.executable import Executable
from mgn.modules.call_arguments import check_arguments
from mgn.parameters import Parameters
from mgn.runtime.checkpoints.renaming import Rename
from mgn.runtime.weights import save_params
from mgn.training.data.batches import InputTypes
from mgn.training.optimisers.optimisers import PREFIX, AdamW, Optimizer
from mgn.training.optimisers.patterns import Patterns, matching
from mgn.training.step.evaluation import BoundGraph, bound_graph, evaluation
from mgn.training.step.loss_scale import AUTOMATIC, SKIPPED, SKIPS, LossScale, as_loss_scale
from mgn.training.step.options import StepOptions
from mgn.training.step.step import BATCHES, COUNT, average_name, training_step

if TYPE_CHECKING:
    from mgn.training.data.shards import Division
    from mgn.training.run.history import History
    from mgn.training.step.shared_steps import SharedSteps

SEED = f"{PREFIX}.seed"
"""What the seed is called in a trainer's state."""

MOST_SEEDS = 1 << 63


class Trainer:
    """A graph, its loss and an optimiser on a device. `step(batch)` takes one step.

    `trained` and `frozen` are patterns of parameters: regular expressions, searched for in names;
    without them all parameters with floats are trained that the loss depends on. `clip_norm` is the
    largest norm of all gradients together, and adds `grad_norm` to the outputs, as does
    `grad_norm=True`. `ema` keeps an average of each parameter, of which a step replaces a share of
    `1 - ema`. `memory`, such as `"4GiB"`, is the most device memory that each graph of a step may
    take, and `resident` whether runs of kernels become one launch: see `mgn.compile`. `seed`
    decides about the first parameters and the random numbers of the steps. `precision` is what
    products round to; with `bf16` and `f16`, what goes into them and comes out of them is stored
    so, forward and backward, and parameters stay in f32. Parameters that the program declares in
    half precision are moved in f32 with `masters`, and rounded.

    `accumulate` is of how many batches a step takes the mean gradient: the parameters move with the
    last of them. `loss_scale` is by what the loss is multiplied while gradients are computed:
    `dynamic`, `none`, a number, or a `mgn.LossScale`; `auto` is dynamic where precision is f16. A
    step whose gradients are not finite then leaves all as it was, and is `skipped`.

    Under `mpiexec`, the processes share every batch out: `mgn.distributed`. `ranks` is False where
    each is to train by itself, or a communicator of mpi4py, or another trainer's `crew`. `zero=1`
    has each rank keep the optimiser's states of some parameters alone, and `bucket` is how many MiB
    of gradients leave together.

    `eval_graph` names another graph of the program, with parameters and states of the same names.
    `run_eval` and the evaluations of `fit` compute it in the place of the one that is trained.
    """

    def __init__(
        self,
        module: AnyModule,
        graph: str | None = None,
        loss: str = "loss",
        optimizer: Optimizer | None = None,
        *,
        seed: int = 0,
        device: str = "auto",
        precision: str = "f32",
        dims: Mapping[str, int] | None = None,
        clip_norm: float | None = None,
        ema: float | None = None,
        trained: Patterns | None = None,
        frozen: Patterns = (),
        grad_norm: bool = False,
        accumulate: int = 1,
        loss_scale: float | str | LossScale | None = AUTOMATIC,
        masters: bool = False,
        ranks: Any = None,
        zero: int = 0,
        bucket: float = 16.0,
        memory: int | str | None = None,
        eval_graph: str | None = None,
        resident: str = "auto",
    ) -> None:
        from mgn.runtime.devices import choose
        from mgn.runtime.launching.session import Session

        check_arguments("mgn.Trainer", graph=graph, loss=loss, seed=seed, device=device, dims=dims)
        check_precision(precision, trains=True)
        check_residency(resident)
        self._memory = checked_budget("mgn.Trainer", memory)
        if not 0 <= seed < MOST_SEEDS:
            raise MgnError("seed takes a number from 0 to 2**63 - 1")
        self._module = as_module(module)
        self.graph = self._module.choose_graph(graph)
        self.loss, self.seed, self.precision = loss, seed, precision
        self.dims = dict(dims or {})
        self.crew = find_crew(ranks)
        self.shared: SharedSteps | None = None
        check_stage(zero, bucket)
        if self.crew.size > 1 and accumulate != 1:
            raise MgnError(
                f"several ranks take each batch at once: without {argument_name('accumulate')}, "
                "and with a batch of as many more rows, a step is the same"
            )
        scale = as_loss_scale(loss_scale, precision)
        options = StepOptions(
            *(trained, frozen, clip_norm, ema, grad_norm, accumulate, scale, masters),
            fixed=self._module.fixed,
        )
        self.accumulate = accumulate
        self._optimizer, self._options = optimizer or AdamW(), options
        with self.crew.guard():
            self._trains = bound_graph(self._module, self.graph, self.dims, self.crew)
            self._evaluates = self._trains
            if eval_graph is not None:
                name = self._module.choose_graph(eval_graph)
                self._evaluates = self._trains.another(name, loss, self.crew)
        self._step = training_step(self._trains.lowered(precision), loss, self._optimizer, options)
        self._averaged = ema is not None
        self._device = choose(device, self.crew.node_rank)
        with self.crew.in_turn():
            self._described = residing(describe_device(self._device), resident)
        session = Session(self._device)
        self.params = Parameters(session, seed, self._step.trained)
        self.executable = self._begun(zero, bucket)
        update = self._step.update
        self._update = None if update is None else self._compiled(update, memory=self._memory)
        self._evaluation: dict[bool, Executable] = {}
        self._steps = self._pending = self._skipped = 0

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of the parameters that steps change."""
        return tuple(self._step.trained)

    @property
    def steps(self) -> int:
        """How many steps were taken, with those that were skipped."""
        return self._steps

    @property
    def skipped(self) -> int:
        """How many of the steps were skipped, since their gradients were not finite."""
        return self._skipped

    @property
    def pending(self) -> int:
        """How many batches there were of a step that is not complete."""
        return self._pending

    @property
    def step_modules(self) -> tuple[ModuleOp, ...]:
        """The graphs of a step, before any pass; not to be changed. Where a step has several
        batches, one for each batch, and one behind the last.
        """
        update = self._step.update
        return (self._step.module,) if update is None else (self._step.module, update)

    @property
    def inputs(self) -> InputTypes:
        """The inputs of the graph: element and shape by name; of a whole batch."""
        return self._trains.inputs

    @property
    def evaluates(self) -> BoundGraph:
        """The graph that `run_eval` computes."""
        return self._evaluates

    @property
    def division(self) -> "Division | None":
        """A rank's share of a batch, where there are several."""
        return self._trains.division

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a step gives."""
        graphs = [graph for module in self.step_modules for graph in graphs_of(module)]
        return tuple(dict.fromkeys(name for graph in graphs for name in graph.result_names))

    @property
    def configuration(self) -> dict[str, Any]:
        """What the steps depend on beside the state, in a form that JSON has."""
        return {
            "graph": self.graph,
            "loss": self.loss,
            "dims": dict(self.dims),
            "precision": self.precision,
            "optimizer": repr(self._optimizer),
            "options": repr(self._options),
        }

    @property
    def texts(self) -> Mapping[str, str]:
        """The program's files by the names that places in it have; none for IR."""
        return self._module.texts

    def step(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Takes a step on a batch, arrays by input name, and waits: all outputs by name.

        Where a step has several batches, the outputs are those of this one. With the last of them,
        those that are float scalars are means over the step's batches. Of several ranks, each is
        given the whole batch, or its rows alone; outputs that are scalars are those of the whole
        batch, and others those of the rank's rows. InputError where a batch does not fit.
        """
        with self._trains.taking(batch):
            if self.shared is None:
                outputs = self.executable.run(batch)
            else:
                with self.crew.guard():
                    outputs = self.shared.step(self._steps, batch)
        self._pending += 1
        if self._pending < self.accumulate:
            return outputs
        if self._update is not None:
            outputs |= self._update.run({})
        self._pending = 0
        self._steps += 1
        self._skipped += int(outputs[SKIPPED]) if self._options.loss_scale is not None else 0
        return outputs

    def run_eval(
        self, batch: Mapping[str, Any], *, averaged: bool = False
    ) -> dict[str, np.ndarray]:
        """The outputs of the graph, or of `eval_graph`, for a batch, without a step: nothing drops
        out, and no state is written. `averaged` takes the averages of the parameters instead, where
        a step was taken. InputError where a batch does not fit.
        """
        if averaged and not self._averaged:
            raise MgnError("there are no averages of parameters; ema=0.999 keeps them")
        averaged = averaged and self._steps > self._skipped
        if averaged not in self._evaluation:
            lowered = self._evaluates.lowered(self.precision)
            module = evaluation(lowered, self._step.trained, averaged)
            with self.crew.in_turn():
                self._evaluation[averaged] = self._compiled(module)
        division = self._evaluates.division
        if self.shared is None or division is None:
            with self._evaluates.taking(batch):
                return self._evaluation[averaged].run(batch)
        with self._evaluates.taking(batch), self.crew.guard():
            if averaged:
                names = [average_name(name) for name in self.trained]
                self.shared.share_averages(names, self._steps)
            return self.shared.evaluated(self._evaluation[averaged], batch, division)

    def explain(self, path: str | Path) -> None:
        """Writes a page of HTML that says how each kernel of a step came about, and which part of
        the step it belongs to: `Executable.explain`. Where a step has several batches, or several
        ranks, it is of what each batch or rank computes.
        """
        self.executable.explain(path)

    def load_params(
        self,
        path: str | Path,
        rename: Rename = None,
        dtype: str | None = None,
        *,
        drawn: Patterns = (),
    ) -> int:
        """Loads all parameters from a checkpoint, as `Executable.load_params` does, but for those
        that match the patterns of `drawn`, which stay as they are; the number of arrays left over.
        What was loaded is `params.loaded`. WeightsError where one is missing or of a type that is
        not converted.
        """
        types = self.params.types
        kept = set(matching(drawn, types, "drawn"))
        wanted = {name: type for name, type in types.items() if name not in kept}
        return self.params.load(path, wanted, rename, dtype).extra

    def save_params(self, path: str | Path, *, only_trained: bool = False) -> None:
        """Writes all parameters, or those that steps change, to a .safetensors file."""
        if not only_trained:
            self.params.save(path)
            return
        check_arguments("save_params", path=path)
        save_params(path, {name: self.params[name] for name in self.trained})

    def state(self) -> dict[str, np.ndarray]:
        """All that a trainer has to go on from: parameters by their names, the program's states by
        theirs, those of the optimiser as `optimizer.<parameter>.<name>`, the count of steps as
        `optimizer.step` and the seed as `optimizer.seed`. All ranks call it together, and have it
        whole.
        """
        dead = self._step.sums if not self._pending else ()
        if self.shared is not None:
            with self.crew.guard():
                found = {**dict(self.params), **self.shared.states()}
            return {**found, SEED: np.array(self.seed, np.int64)}
        names = {name: item for item in self._executables for name in item.state}
        held = {name: item.state[name] for name, item in names.items() if name not in dead}
        zeros = {name: np.zeros(shape, dtype) for name, (dtype, shape) in self._types_of(dead)}
        found = {**dict(self.params), **held, **zeros}
        return {**found, SEED: np.array(self.seed, np.int64)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state()` gave, bit for bit.

        MgnError where a name is missing or unknown, or a shape or a type differs; then nothing has
        changed.
        """
        check_arguments("load_state", state=state)
        given = {name: np.asarray(value) for name, value in state.items()}
        wanted = self.state_types
        for what, names in (
            ("is missing", [name for name in wanted if name not in given]),
            ("is not of this trainer", [name for name in given if name not in wanted]),
        ):
            if names:
                more = f", and {len(names) - 1} more" if len(names) > 1 else ""
                raise MgnError(f"the state '{names[0]}'{more} {what}")
        for name, (dtype, shape) in wanted.items():
            array = given[name]
            if (array.dtype, array.shape) != (dtype, shape):
                here = f"{dtype}{list(shape)}"
                raise MgnError(
                    f"the state '{name}' is {array.dtype}{list(array.shape)}, not {here}"
                )
        pending = int(given.get(BATCHES, 0))
        if not 0 <= pending < self.accumulate:
            raise MgnError(
                f"the state has {pending} batches of a step that is not complete, and a step of "
                f"this trainer has {self.accumulate}"
            )
        parameters = {*self.params}
        for name, array in given.items():
            if name in parameters:
                self.params[name] = array
                continue
            if self.shared is not None and name != SEED:
                self.shared.set_state(name, array)
                continue
            for executable in self._executables:
                if name in executable.state:
                    executable.state[name] = array
        self.seed, self._pending = int(given[SEED]), pending
        self._skipped = int(given.get(SKIPS, 0))
        self._steps = int(given[COUNT]) + self._skipped

    def fit(
        self,
        batches: Any,
        epochs: int = 1,
        steps: int | None = None,
        **options: Any,
    ) -> "History":
        """Steps over batches, for so many epochs or steps. `batches` is the path of a .npz or
        .safetensors file, or all examples by input name, or an iterable of batches;
        `mgn.training.run.fit` has the options.
        """
        from mgn.training.run.fit import fit

        return fit(self, batches, epochs=epochs, steps=steps, **options)

    def __repr__(self) -> str:
        return (
            f"Trainer(graph={self.graph!r}, loss={self.loss!r}, steps={self.steps}, "
            f"trained={len(self.trained)}, device={self._device.name!r})"
        )

    @property
    def state_types(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type of each array of the state."""
        from mgn.runtime.host_arrays import DTYPES

        types = dict(self.params.types)
        for steps in self._executables if self.shared is None else (self.shared,):
            types |= steps.state_types
        found = {name: (np.dtype(DTYPES[item]), shape) for name, (item, shape) in types.items()}
        return {**found, SEED: (np.dtype(np.int64), ())}

    def _types_of(
        self, names: Iterable[str]
    ) -> Iterator[tuple[str, tuple[np.dtype[Any], tuple[int, ...]]]]:
        """The types of some arrays of the state."""
        types = self.state_types if names else {}
        return ((name, types[name]) for name in names)

    @property
    def _executables(self) -> tuple[Executable, ...]:
        """What a step runs."""
        return (self.executable,) if self._update is None else (self.executable, self._update)

    def _begun(self, zero: int, bucket: float) -> Executable:
        """What a step runs first: all of it, or, of several ranks, what computes gradients."""
        if self.division is None:
            return self._compiled(self._step.module, memory=self._memory)
        from mgn.distributed.ranks import Ranks
        from mgn.training.step.shared_steps import SharedSteps

        assert isinstance(self.crew, Ranks)
        with self.crew.guard():
            self.shared = SharedSteps(
                self.crew,
                self.division,
                partial(self._trains.lowered, self.precision),
                (self.loss, self._optimizer, self._options),
                self._step.trained,
                self.params,
                self._compiled,
                zero,
                bucket,
                self._memory,
            )
        return self.shared.backward

    def _compiled(
        self, module: Any, params: Parameters | None = None, memory: int | None = None
    ) -> Executable:
        program = Module(module, self._module.values)
        settings = (self._described, None, self.precision, None, memory)
        recipe = recipe_of(program, None, None, *settings)
        ir = recipe.lower()
        held = self.params if params is None else params
        return compile_lowered(ir, self._device, recipe, self.seed, params=held)
