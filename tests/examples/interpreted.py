"""Programs of examples by the reference interpreter: no kernel is compiled.

In: a program, sizes, and arrays by name. Out: `Steps`, which trains, and `Runs`, which runs graphs
that share parameters and states.
"""

from collections.abc import Mapping

import numpy as np

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import graphs_of, parameters_of
from mgn.dialects.types import element_of
from mgn.modules.module import Module
from mgn.training.step.step import StepOptions, training_step

Arrays = dict[str, np.ndarray]


class Runs:
    """Graphs of a program with their parameters and states."""

    def __init__(self, program: Module, sizes: Mapping[str, int], params: Arrays) -> None:
        self.program, self.sizes, self.params = program, sizes, params
        self.states: Arrays = {}
        self._lowered = {}

    def __call__(self, graph: str, **inputs: np.ndarray) -> Arrays:
        """A run of a graph."""
        if graph not in self._lowered:
            known = {item.name: item.dimensions for item in self.program.signatures}
            others = {name for names in known.values() for name in names} - {*known[graph]}
            sizes = {name: size for name, size in self.sizes.items() if name not in others}
            self._lowered[graph] = self.program.lower(graph, sizes)
        module = self._lowered[graph]
        interpreter = Interpreter(self.params, states=zeros(module) | self.states)
        found = interpreter.run(next(graphs_of(module)), inputs)
        self.states = interpreter.states
        return found


class Steps:
    """A graph that is trained; parameters that are not given are drawn."""

    def __init__(
        self,
        program: Module,
        graph: str,
        optimizer: mgn.Optimizer,
        sizes: Mapping[str, int],
        given: Arrays | None = None,
        options: StepOptions | None = None,
    ) -> None:
        declared = parameters_of(program.lower(graph, sizes))
        dice = np.random.default_rng(0)
        self.params: Arrays = {}
        for name, op in declared.items():
            drawn = dice.standard_normal(op.type.get_shape()).astype(np.float32) * 0.2
            drawn += name.endswith(("norm.weight", "norm1.weight", "norm2.weight"))
            self.params[name] = (given or {}).get(name, drawn)
        step = training_step(program.lower(graph, sizes), "loss", optimizer, options)
        self.trained = [*step.trained]
        self._graph = next(graphs_of(step.module))
        self._states = zeros(step.module)

    def step(self, **batch: np.ndarray) -> float:
        """A step; the loss before it."""
        kept = {name: self.params[name] for name in self.trained}
        interpreter = Interpreter(self.params, states=self._states | kept)
        loss = interpreter.run(self._graph, batch)["loss"]
        self._states = interpreter.states
        self.params |= {name: self._states[name] for name in self.trained}
        return float(loss)


def zeros(module: object) -> Arrays:
    """What the states of a module begin with, if that is zeros."""
    return {
        name: np.zeros(op.type.get_shape(), element_of(op.type).dtype)
        for name, op in states_of(module).items()
    }
