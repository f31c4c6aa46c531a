"""Optimisers side by side on given gradients: the loss is the sum of the parameters times what
comes in, so that updates alone are compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mgn
from mgn import nn, ops
from mgn.builder import GraphBuilder, Value

Cases = Mapping[str, tuple[str, dict[str, Any]]]
"""An optimiser of mgn by its name, and its settings, for each case."""


@dataclass(frozen=True)
class EachItsOwn(mgn.Optimizer):
    """The optimiser of a case for the parameters that are named after it, so that all cases are one
    program.
    """

    optimisers: tuple[tuple[str, mgn.Optimizer], ...] = ()

    @staticmethod
    def of(cases: Cases, lr: float) -> "EachItsOwn":
        """The optimisers of all cases."""
        made = ((case, getattr(mgn, name)(lr=lr, **more)) for case, (name, more) in cases.items())
        return EachItsOwn(optimisers=tuple(made))

    def for_parameter(self, name: str, shape: tuple[int, ...]) -> mgn.Optimizer:
        return dict(self.optimisers)[name.split(".")[0]].for_parameter(name, shape)

    def update(self, at: mgn.Update) -> Value:
        raise AssertionError("every parameter has another one")


def given_gradients(cases: Iterable[str], shapes: Mapping[str, tuple[int, ...]]) -> GraphBuilder:
    """A graph in which each gradient is an input: the same one for all cases."""
    with mgn.graph("given") as g:
        total: Any = 0.0
        for name, shape in shapes.items():
            type = f"f32[{', '.join(map(str, shape))}]"
            gradient = g.input(name, type)
            for case in cases:
                total = total + ops.sum(g.param(f"{case}.{name}", type, nn.normal()) * gradient)
        g.output(loss=total)
    return g
