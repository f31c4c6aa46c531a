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
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mgn import ops
from mgn.builder import Value
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.gradients.reverse import Tape
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import ParamOp, ReadOp, parameters_of
from mgn.dialects.types import element_of, spelling
from mgn.modules.mlir_text import check_module
from mgn.training.extension import ExtendedGraph
from mgn.training.optimisers import PREFIX, AdamW, Optimizer, Update
from mgn.training.patterns import Patterns, check_patterns, factor_of, matching
from mgn.training.schedules import Schedule, as_schedule

COUNT = f"{PREFIX}.step"
"""The state that counts the steps that were done."""

NORM = "grad_norm"
"""The output that is the norm of all gradients together."""

_SMALLEST_NORM = 1e-6
"""Is added to a norm by which is divided."""


@dataclass(frozen=True)
class TrainingStep:
    """The module of a step, and the parameters that it trains, as they were declared."""

    module: ModuleOp
    trained: Mapping[str, ParamOp]


@dataclass(frozen=True)
class StepOptions:
    """What a step does besides the optimiser's update.

    `trained` and `frozen` are patterns of parameters: those that are trained (all, if there are
    none), but for those that are not. `clip_norm` is the largest norm of all gradients together.
    `ema` keeps an average of each parameter, of which each step replaces a share of `1 - ema`.
    `grad_norm` adds the norm, before it is clipped, to the outputs.
    """

    trained: Patterns | None = None
    frozen: Patterns = ()
    clip_norm: float | None = None
    ema: float | None = None
    grad_norm: bool = False

    def __post_init__(self) -> None:
        if self.clip_norm is not None and not 0.0 < self.clip_norm < float("inf"):
            raise MgnError(f"clip_norm is a number above 0, not {self.clip_norm:g}")
        if self.ema is not None and not 0.0 <= self.ema < 1.0:
            raise MgnError(f"ema is a number from 0 to below 1, not {self.ema:g}")


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
    optimizer = AdamW() if optimizer is None else optimizer
    if not isinstance(optimizer, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MgnError(f"an optimizer is such as mgn.AdamW(lr=1e-3), not {optimizer!r:.80}")
    options = options or StepOptions()
    _check_names(module)
    graph = ExtendedGraph(module)
    graph.draw_dropouts()
    target = _loss(graph, loss)
    names = _trained(graph, target, options)
    for factors, what in ((optimizer.lr_factors, "lr"), (optimizer.decay_factors, "decay")):
        check_patterns(factors, names, f"{what}_factors")
    trained = {name: graph.hold(name) for name in names}
    with graph:
        _Step(graph, optimizer, options, trained).write(graph.outputs[loss])
    check_module(graph.module)
    return TrainingStep(graph.module, trained)


def evaluation(
    module: ModuleOp, trained: Mapping[str, ParamOp], renamed: Mapping[str, str]
) -> ModuleOp:
    """A module's one graph, which is used up, as it reads what a step of it trains, and writes
    nothing. Those that are renamed are read from another state.
    """
    graph = ExtendedGraph(module)
    graph.drop_writes()
    for name in trained:
        graph.hold(name, renamed.get(name, name))
    with graph:
        pass
    return graph.module


class _Step:
    """Adds gradients and updates to a graph."""

    def __init__(
        self,
        graph: ExtendedGraph,
        optimizer: Optimizer,
        options: StepOptions,
        trained: Mapping[str, ParamOp],
    ) -> None:
        self.graph, self.optimizer, self.options = graph, optimizer, options
        self.trained = trained
        self.count = graph.state(COUNT, "i32")
        self.rates: list[tuple[float | Schedule, Value]] = []
        self.number: Value | None = None

    def write(self, loss: Value) -> None:
        """All that the step does with a loss."""
        graph = self.graph
        states = {name: graph.state(name, op.type) for name, op in self.trained.items()}
        values = [state.value for state in states.values()]
        gradients: Sequence[Value] = graph.grad(loss, values)
        values, gradients = [list(map(widened, items)) for items in (values, gradients)]
        gradients = self.clipped(gradients)
        for (name, state), value, gradient in zip(states.items(), values, gradients, strict=True):
            after = self.updated(name, value, gradient)
            is_narrow = element_of(state.type).name != after.element
            state.write(ops.cast(after, element_of(state.type).name) if is_narrow else after)
            self.average(name, after)
        self.count.write(self.count.value + 1)

    def clipped(self, gradients: Sequence[Value]) -> list[Value]:
        """The gradients, and all smaller by the same factor where they are too long together."""
        options = self.options
        if options.clip_norm is None and not options.grad_norm:
            return list(gradients)
        norm = ops.sqrt(squared_norm(gradients))
        self.graph.output(**{NORM: norm})
        if options.clip_norm is None:
            return list(gradients)
        factor = ops.min(options.clip_norm / (norm + _SMALLEST_NORM), 1.0)
        return [item * like(factor, item) for item in gradients]

    def updated(self, name: str, value: Value, gradient: Value) -> Value:
        """The next value of a parameter."""
        chosen = self.optimizer.for_parameter(name, value.shape)
        factors = self.optimizer.lr_factors, self.optimizer.decay_factors
        lr_factor, decay_factor = [factor_of(item, name) for item in factors]
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
            )
        )
        if not isinstance(after, Value) or after.type != value.type:  # pyright: ignore[reportUnnecessaryIsInstance]
            given = spelling(after.type) if isinstance(after, Value) else f"{after!r:.80}"  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"{type(chosen).__name__}: the next value of '{name}'"
            raise MgnError(f"{what} is {given}, not {spelling(value.type)}")
        return after

    def rate(self, lr: float | Schedule) -> Value:
        """The rate of this step, f32: one value for all that share it."""
        for known, value in self.rates:
            if known == lr:
                return value
        found = as_schedule(lr)(self.count.value)
        value = found if isinstance(found, Value) else self.graph.constant(found, "f32")
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
    wanted = list(known)
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
