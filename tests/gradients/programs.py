"""Programs of the language, by the interpreter in f64."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of


def graph_of(text: str) -> GraphOp:
    """The only graph of a program."""
    (graph,) = graphs_of(mgn.parse(text).lower())
    return graph


def values_of(
    text: str,
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    states: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """The results of a program, all floats in f64."""
    arrays = {name: np.asarray(value) for name, value in (parameters or {}).items()}
    held = {name: np.asarray(value) for name, value in (states or {}).items()}
    interpreter = Interpreter(arrays, wide=True, states=held)
    return interpreter.run(graph_of(text), {name: np.asarray(v) for name, v in inputs.items()})
