"""The step of a graph in two graphs, between which gradients leave for other ranks and come back.

In: a module of one graph, whose batch is a rank's share, and an optimiser. Out: a `SplitStep`:

    graph mlp(x: f32[4, 4], t: i32[4]) {            graph mlp_update(gradient_0: f32[3, 4]) {
      state w: f32[3, 4]                              state w: f32[3, 4]
      loss = cross_entropy(x @ w.T, t)                w <- w - 0.1 * gradient_0
      gradient_0 = grad(loss, w) * share              done <- done + 1
      return loss, gradient_0                         return done
    }                                               }

The sum of `gradient_0` over all ranks is the gradient of the loss over the whole batch, where a
loss is a mean over examples and `share` is a rank's part of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType

from mgn.builder import Value
from mgn.dialects.mgn.structure import ParamOp
from mgn.modules.mlir_text import check_module
from mgn.training.optimisers.optimisers import Optimizer
from mgn.training.step.extension import AddedGraph
from mgn.training.step.options import StepOptions
from mgn.training.step.step import StepWriter, like, opened_step, widened

SQUARES = "squares"
"""The input of an update that is the sum of the squares of all gradients, where ranks share out
parameters.
"""


DONE = "done"
"""The output of an update that is the count of steps."""


@dataclass(frozen=True)
class SplitStep:
    """The module that computes gradients, and the one that updates the parameters a rank owns.

    `gradients` has the output of each parameter's gradient, with its type, in the program's order;
    the update has inputs of these names.
    """

    backward: ModuleOp
    update: ModuleOp
    trained: Mapping[str, ParamOp]
    gradients: Mapping[str, tuple[str, TensorType]]
    takes_squares: bool

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs that are gradients."""
        return [output for output, _ in self.gradients.values()]


def split_step(
    module: ModuleOp,
    loss: str,
    optimizer: Optimizer,
    options: StepOptions,
    share: float,
    owned: Collection[str] | None = None,
) -> SplitStep:
    """The step of a module's one graph, which is used up. `share` is a rank's part of a batch.
    `owned` are the parameters that the rank updates; all, where it is None. MgnError as for
    `mgn.training.step.step.training_step`.
    """
    graph, writer = opened_step(module, loss, optimizer, options)
    gradients: dict[str, tuple[str, TensorType]] = {}
    with graph:
        states = {name: graph.state(name, op.type) for name, op in writer.trained.items()}
        _, found = writer.gradients(graph.outputs[loss], states)
        for number, (name, value) in enumerate(zip(states, found, strict=True)):
            part = value if share == 1.0 else value * like(graph.constant(share, "f32"), value)
            gradients[name] = f"gradient_{number}", part.type
            graph.output(**{gradients[name][0]: part})
    check_module(graph.module)
    is_asked = options.clip_norm is not None or options.grad_norm
    takes_squares = owned is not None and (is_asked or options.loss_scale is not None)
    kept = {name: op for name, op in writer.trained.items() if owned is None or name in owned}
    update = _update(graph.name, graph.place, writer, kept, gradients, takes_squares)
    return SplitStep(graph.module, update, writer.trained, gradients, takes_squares)


def _update(
    name: str,
    place: LocationAttr,
    writer: StepWriter,
    kept: Mapping[str, ParamOp],
    gradients: Mapping[str, tuple[str, TensorType]],
    takes_squares: bool,
) -> ModuleOp:
    """The module that updates some parameters by their gradients."""
    graph = AddedGraph(f"{name}_update", place)
    with graph:
        inputs = [graph.input(*gradients[name]) for name in kept]
        squares = graph.input(SQUARES, "f32") if takes_squares else None
        owned = _OwnedWriter(graph, writer.optimizer, writer.options, kept, squares)
        owned.write_by(inputs)
    check_module(graph.module)
    return graph.module


class _OwnedWriter(StepWriter):
    """Adds the updates of some parameters, by gradients that come as inputs."""

    def __init__(
        self,
        graph: AddedGraph,
        optimizer: Optimizer,
        options: StepOptions,
        trained: Mapping[str, ParamOp],
        given: Value | None,
    ) -> None:
        super().__init__(graph, optimizer, options, trained)
        self.given = given

    def write_by(self, gradients: Sequence[Value]) -> None:
        """All that a step does with gradients."""
        states = {
            name: self.graph.state(name, op.type, op.initialiser)
            for name, op in self.trained.items()
        }
        done = self.count.value + 1
        self.update(states, [widened(state.value) for state in states.values()], gradients)
        self.graph.output(**{DONE: done})

    def squares(self, gradients: Sequence[Value]) -> Value:
        """Those of all parameters, of which only some are here."""
        return super().squares(gradients) if self.given is None else self.given
