"""The training step of a graph as one graph: loss, gradients, clipping and updates.

In: a module of one graph, dimensions bound, and an optimiser. Out: a `TrainingStep`, whose module's
one graph computes the graph's outputs, and writes what the step makes of the parameters:

    graph mlp(x: f32[8, 4], t: i32[8]) {            graph mlp(x: f32[8, 4], t: i32[8]) {
      param w: f32[3, 4] = normal(0, 0.1)             state w: f32[3, 4] = normal(0, 0.1)
      loss = cross_entropy(x @ w.T, t)      becomes   state done: i32[] as "optimizer.step"
      return loss                                     loss = cross_entropy(x @ w.T, t)
    }                                                 w <- w - 0.1 * grad(loss, w)
                                                      done <- done + 1
                                                      return loss
                                                    }

A trained parameter is a state of its name, so that it stays on the device from step to step. A
parameter that the loss does not depend on, or that has no floats, is not trained.

With `accumulate = K`, a step is two graphs. The first runs on each of K batches, and adds their
gradients up in states; the second follows the last of them, and writes what the sums make of the
parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import SSAValue

from mgn import ops
from mgn.builder import State, Value
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.gradients.reverse import Tape
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import ParamOp, ReadOp, parameters_of
from mgn.dialects.types import element_of, spelling
from mgn.driver.precision import check_precision
from mgn.modules.mlir_text import check_module
from mgn.passes.mixed_precision import round_products
from mgn.training.optimisers.optimisers import PREFIX, AdamW, Optimizer, Update, claim
from mgn.training.optimisers.patterns import check_patterns, factor_of, matching
from mgn.training.optimisers.schedules import Schedule, as_schedule
from mgn.training.step.extension import AddedGraph, ExtendedGraph
from mgn.training.step.loss_scale import NORM, as_loss_scale, current_scale, move_scale
from mgn.training.step.options import StepOptions

COUNT = f"{PREFIX}.step"
"""The state that counts the steps that were done."""

BATCHES = f"{PREFIX}.batches"
"""The state that counts the batches of a step that is not complete."""

_SMALLEST_NORM = 1e-6
"""Is added to a norm by which is divided."""

_LARGEST_SUM = 3.4028234e38
"""The largest number of f32: a sum of squares that is not finite is above it, or no number."""


@dataclass(frozen=True)
class TrainingStep:
    """The module of a step, and the parameters that it trains, as they were declared. `update` is
    what follows the last batch of a step that has several; its outputs are the step's. `sums` are
    the states that mean nothing while there is no batch of the next step.
    """

    module: ModuleOp
    trained: Mapping[str, ParamOp]
    update: ModuleOp | None = None
    sums: frozenset[str] = frozenset()


def training_step(
    module: ModuleOp,
    loss: str = "loss",
    optimizer: Optimizer | None = None,
    options: StepOptions | None = None,
) -> TrainingStep:
    """The step of a module's one graph, which is used up.

    MgnError where the loss is no output, or no float scalar, or nothing is trained, or a name is
    one that training gives.
    """
    graph, step = opened_step(module, loss, optimizer, options)
    trained = step.trained
    if step.options.accumulate == 1:
        with graph:
            step.write(graph.outputs[loss])
        check_module(graph.module)
        return TrainingStep(graph.module, trained)
    with graph:
        kept = step.accumulate(graph.outputs[loss])
    update = AddedGraph(f"{graph.name}_update", graph.place)
    with update:
        StepWriter(update, step.optimizer, step.options, trained).write_accumulated(kept)
    check_module(graph.module)
    check_module(update.module)
    sums = frozenset([*map(gradient_name, trained), *map(result_name, kept)])
    return TrainingStep(graph.module, trained, update.module, sums)


def opened_step(
    module: ModuleOp,
    loss: str,
    optimizer: Optimizer | None = None,
    options: StepOptions | None = None,
) -> "tuple[ExtendedGraph, StepWriter]":
    """A module's one graph, which is used up, open for what a step adds, and what adds it.
    MgnError as for `training_step`.
    """
    optimizer = AdamW() if optimizer is None else optimizer
    if not isinstance(optimizer, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MgnError(f"an optimizer is such as mgn.AdamW(lr=1e-3), not {optimizer!r:.80}")
    options = options or StepOptions()
    _check_names(module)
    graph = ExtendedGraph(module)
    graph.draw_dropouts()
    target = _loss(graph, loss)
    names = _trained(graph, target, options)
    trained = {name: graph.hold(name) for name in names}
    _check_factors(optimizer, trained)
    return graph, StepWriter(graph, optimizer, options, trained)


def scaled_step(
    module: ModuleOp,
    loss: str,
    optimizer: Optimizer | None,
    loss_scale: Any,
    precision: str,
    fixed: frozenset[str] = frozenset(),
) -> TrainingStep:
    """The step of a module's one graph, which is used up, at a precision, with what `loss_scale`
    says, of all parameters but those that are `fixed`.
    """
    check_precision(precision, trains=True)
    round_products(module, precision)
    options = StepOptions(loss_scale=as_loss_scale(loss_scale, precision), fixed=fixed)
    return training_step(module, loss, optimizer, options)


class StepWriter:
    """Adds gradients and updates to a graph."""

    def __init__(
        self,
        graph: AddedGraph,
        optimizer: Optimizer,
        options: StepOptions,
        trained: Mapping[str, ParamOp],
    ) -> None:
        self.graph, self.optimizer, self.options = graph, optimizer, options
        self.trained = trained
        self.rates: list[tuple[float | Schedule, Value]] = []
        self.number: Value | None = None
        self.owners: dict[str, str] = {}
        for name in trained:
            if options.ema is not None:
                claim(self.owners, average_name(name), "an average (ema)")
            if options.accumulate > 1:
                claim(self.owners, gradient_name(name), "a sum of gradients (accumulate)")
            if options.masters:
                claim(self.owners, master_name(name), "a master (masters)")

    @cached_property
    def count(self) -> State:
        """The state that counts the steps that were done."""
        return self.graph.state(COUNT, "i32")

    def write(self, loss: Value) -> None:
        """All that the step does with a loss."""
        graph = self.graph
        states = {name: graph.state(name, op.type) for name, op in self.trained.items()}
        values, gradients = self.gradients(loss, states)
        self.update(states, values, gradients)

    def gradients(
        self, loss: Value, states: Mapping[str, State]
    ) -> tuple[list[Value], Sequence[Value]]:
        """The values of parameters, and the gradients of the loss times its scale."""
        target = loss
        if self.options.loss_scale is not None:
            wide = widened(loss)
            target = wide * like(current_scale(self.graph, self.options.loss_scale), wide)
        values = [state.value for state in states.values()]
        gradients: Sequence[Value] = self.graph.grad(target, values)
        wide_values, wide_gradients = [list(map(widened, it)) for it in (values, gradients)]
        return wide_values, wide_gradients

    def accumulate(self, loss: Value) -> dict[str, TensorType]:
        """Adds the gradients of a batch to those of the batches before it, and results that are
        float scalars too: the types of these by name.
        """
        graph = self.graph
        states = {name: graph.state(name, op.type) for name, op in self.trained.items()}
        _, gradients = self.gradients(loss, states)
        self.keep_states(gradients)
        batches = graph.state(BATCHES, "i32")
        is_first = batches.value == 0
        added = {gradient_name(name): it for name, it in zip(states, gradients, strict=True)}
        assert isinstance(graph, ExtendedGraph)
        results = {name: value for name, value in graph.outputs.items() if _is_scalar(value)}
        for name, value in results.items():
            claim(self.owners, result_name(name), f"a sum of the result '{name}'")
            added[result_name(name)] = widened(value)
        for name, value in added.items():
            held = graph.state(name, value.type)
            held.write(ops.where(is_first, value, held.value + value))
        batches.write(batches.value + 1)
        return {name: value.type for name, value in results.items()}

    def keep_states(self, gradients: Sequence[Value]) -> None:
        """Leaves the program's own states as they were where scaled gradients are not finite."""
        if self.options.loss_scale is not None and self.graph.writes_states:
            self.graph.write_where(squared_norm(gradients) <= _LARGEST_SUM)

    def write_accumulated(self, results: Mapping[str, TensorType]) -> None:
        """All that a step does with sums of gradients, and the means of results."""
        graph, count = self.graph, self.options.accumulate
        states = {
            name: graph.state(name, op.type, op.initialiser) for name, op in self.trained.items()
        }
        for name, type in results.items():
            total = graph.state(result_name(name), wide_type(type)).value
            graph.output(**{name: ops.cast(total / float(count), element_of(type).name)})
        gradients = [
            graph.state(gradient_name(name), wide_type(op.type)).value
            for name, op in self.trained.items()
        ]
        self.update(states, [widened(state.value) for state in states.values()], gradients)
        graph.state(BATCHES, "i32").write(0)

    def update(
        self, states: Mapping[str, State], values: Sequence[Value], gradients: Sequence[Value]
    ) -> None:
        """Writes the next values of parameters, and whatever else a step leaves behind."""
        gradients, finite = self.clipped(gradients)
        for (name, state), value, gradient in zip(states.items(), values, gradients, strict=True):
            element = element_of(state.type).name
            if element == value.element:
                after = self.updated(name, value, gradient)
                state.write(after)
            else:
                after = self.updated(name, self.master(name, state, value), gradient)
                self.keep_master(name, after)
                state.write(ops.cast(after, element))
            self.average(name, after)
        self.count.write(self.count.value + 1)
        if finite is not None and self.options.loss_scale is not None:
            self.graph.write_where(finite)
            move_scale(self.graph, self.options.loss_scale, finite)

    def master(self, name: str, state: State, value: Value) -> Value:
        """What a parameter of half precision is before it is rounded. Where it has another value
        than the master's, it was set, or nothing was done yet: the master begins with it.
        """
        if not self.options.masters:
            return value
        held = self.graph.state(master_name(name), value.type).value
        return ops.where(ops.cast(held, element_of(state.type).name) == state.value, held, value)

    def keep_master(self, name: str, after: Value) -> None:
        """Writes the master of a parameter, where there are masters."""
        if self.options.masters:
            self.graph.state(master_name(name), after.type).write(after)

    def share(self) -> Value | None:
        """What a sum of scaled gradients is multiplied by: f32, or nothing."""
        rule, count = self.options.loss_scale, self.options.accumulate
        if rule is None and count == 1:
            return None
        share: Value = self.graph.constant(1.0 / count, "f32")
        return share if rule is None else share / current_scale(self.graph, rule)

    def clipped(self, gradients: Sequence[Value]) -> tuple[list[Value], Value | None]:
        """The mean gradients of the loss itself, all smaller by the same factor where they are too
        long together; and whether they are finite, where that is asked.

        A gradient is multiplied once, behind the norm, so that kernels read each as it came.
        """
        options, factor = self.options, self.share()
        has_norm = options.grad_norm or options.clip_norm is not None
        finite: Value | None = None
        square = self.squares(gradients) if has_norm or options.loss_scale is not None else None
        if square is not None and options.loss_scale is not None:
            finite = square <= _LARGEST_SUM
        if square is not None and has_norm:
            length = ops.sqrt(square)
            norm = length if factor is None else length * factor
            self.graph.output(**{NORM: norm})
            if options.clip_norm is not None:
                shorter = ops.min(options.clip_norm / (norm + _SMALLEST_NORM), 1.0)
                factor = shorter if factor is None else shorter * factor
        if factor is None:
            return list(gradients), finite
        return [item * like(factor, item) for item in gradients], finite

    def squares(self, gradients: Sequence[Value]) -> Value:
        """The sum of the squares of all gradients, f32."""
        return squared_norm(gradients)

    def updated(self, name: str, value: Value, gradient: Value) -> Value:
        """The next value of a parameter."""
        chosen = self.optimizer.for_parameter(name, value.shape)
        ruling = (chosen, self.optimizer)
        lr_factor = factor_of([item.lr_factors for item in ruling], name)
        decay_factor = factor_of([item.decay_factors for item in ruling], name)
        lr = self.rate(chosen.lr)
        if self.number is None:
            self.number = ops.cast(self.count.value + 1, "f32")
        after = chosen.update(
            Update(
                self.graph,
                name,
                value,
                gradient,
                like(lr if lr_factor == 1.0 else lr * lr_factor, value),
                like(self.number, value),
                chosen.weight_decay * decay_factor,
                self.owners,
            )
        )
        if not isinstance(after, Value) or after.type != value.type:  # pyright: ignore[reportUnnecessaryIsInstance]
            given = spelling(after.type) if isinstance(after, Value) else f"{after!r:.80}"  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{type(chosen).__name__}: the next value of '{name}'"
            raise MgnError(f"{what} is {given}, not {spelling(value.type)}")
        return after

    def rate(self, lr: float | Schedule) -> Value:
        """The rate of this step, f32: one value for all that share it. Schedules of equal texts may
        differ.
        """
        for known, value in self.rates:
            if known is lr or (known == lr and not isinstance(lr, Schedule)):
                return value
        found = as_schedule(lr)(self.count.value)
        value = found if isinstance(found, Value) else self.graph.constant(found, "f32")
        if value.shape:
            raise MgnError(
                f"the schedule '{lr}' gives {spelling(value.type)}, and a rate is a scalar"
            )
        self.rates.append((lr, value))
        return value

    def average(self, name: str, after: Value) -> None:
        """Moves the average of a parameter; the first step begins it."""
        if self.options.ema is None:
            return
        held = self.graph.state(average_name(name), after.type)
        moved = held.value * self.options.ema + after * (1.0 - self.options.ema)
        held.write(ops.where(self.count.value == 0, after, moved))


def average_name(name: str) -> str:
    """The state of a parameter's average."""
    return f"{PREFIX}.{name}.ema"


def gradient_name(name: str) -> str:
    """The state of the sum of a parameter's gradients."""
    return f"{PREFIX}.{name}.gradient"


def master_name(name: str) -> str:
    """The state of a parameter in f32, of which the parameter is the rounded copy."""
    return f"{PREFIX}.{name}.master"


def result_name(name: str) -> str:
    """The state of the sum of a result that is a scalar."""
    return f"{PREFIX}.results.{name}"


def wide_type(type: TensorType) -> TensorType:
    """The type of a value of a type that is widened."""
    if element_of(type).bits != 16:
        return type
    return TensorType(f32, type.get_shape())


def widened(value: Value) -> Value:
    """A value in which there is room for sums: half precision as f32."""
    return ops.cast(value, "f32") if element_of(value.type).bits == 16 else value


def like(scalar: Value, value: Value) -> Value:
    """A scalar of a value's element type."""
    return scalar if scalar.element == value.element else ops.cast(scalar, value.element)


def squared_norm(values: Sequence[Value]) -> Value:
    """The sum of all squares, f32."""
    squares = [ops.cast(ops.sum(item * item), "f32") for item in values]
    total = squares[0]
    for item in squares[1:]:
        total = total + item
    return total


def _is_scalar(value: Value) -> bool:
    """Whether a result is a float scalar, of which batches have a mean."""
    return not value.shape and element_of(value.type).is_float


def _check_names(module: ModuleOp) -> None:
    """MgnError where a parameter or a state has a name as those have that training adds."""
    for what, names in (("parameter", parameters_of(module)), ("state", states_of(module))):
        for name in names:
            if name.startswith(f"{PREFIX}."):
                raise MgnError(
                    f"{what} '{name}': names that begin with '{PREFIX}.' are those of what "
                    "training keeps; give it another one"
                )


def _loss(graph: ExtendedGraph, name: str) -> Value:
    outputs = graph.outputs
    if name not in outputs:
        listing = ", ".join(outputs)
        raise MgnError(f"graph '{graph.name}' has no output '{name}' to train; it has {listing}")
    found = outputs[name]
    if found.shape or not element_of(found.type).is_float:
        type = spelling(found.type)
        raise MgnError(f"the loss '{name}' is {type}, not a float scalar; mean or sum it")
    return found


def _trained(graph: ExtendedGraph, loss: Value, options: StepOptions) -> list[str]:
    """The names of the parameters that a step trains."""
    known = graph.parameters
    frozen = set(matching(options.frozen, known, "frozen"))
    wanted = [name for name in known if name not in options.fixed]
    if options.trained is not None:
        wanted = matching(options.trained, known, "trained")
        for name in wanted:
            element = element_of(known[name].type)
            if name not in frozen and not element.is_float:
                raise MgnError(
                    f"parameter '{name}' is {element.name}, which has no gradient; freeze it"
                )
    reached = _reaching(graph, loss)
    found = [
        name
        for name in wanted
        if name not in frozen and name in reached and element_of(known[name].type).is_float
    ]
    if not found:
        raise MgnError(f"graph '{graph.name}': the loss depends on no parameter that is trained")
    return found


def _check_factors(optimizer: Optimizer, trained: Mapping[str, ParamOp]) -> None:
    """MgnError for a pattern of factors that is found in no name, also of an optimiser to which
    this one leaves some parameters.
    """
    chosen = [optimizer.for_parameter(name, op.type.get_shape()) for name, op in trained.items()]
    for item in (optimizer, *chosen):
        if not isinstance(item, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(optimizer).__name__
            raise MgnError(f"{kind}: for_parameter gives an optimiser, not {item!r:.80}")
        check_patterns(item.lr_factors, list(trained), "lr_factors")
        check_patterns(item.decay_factors, list(trained), "decay_factors")


def _reaching(graph: ExtendedGraph, loss: Value) -> set[str]:
    """The names of the parameters that the loss depends on."""
    reads = [op for op in graph.operations if isinstance(op, ReadOp)]
    tape = Tape(graph.operations)
    needed: set[SSAValue] = {tape.first(loss.value)}
    floats = tape.reached([op.result for op in reads])
    for op in reversed(tape.operations):
        if any(tape.first(item) in needed for item in op.results):
            needed.update(item for item in tape.operands_of(op) if item in floats)
    return {op.parameter_name for op in reads if tape.first(op.result) in needed}
