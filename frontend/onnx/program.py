"""An ONNX model as a program: what `mgn.from_onnx` wraps.

In: a path or a ModelProto. Out: a `Program` whose dimensions are those of the model's inputs that
have a name in the place of a size; `lower(dims)` gives the module, `values` the parameters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.dialects.garbage import collector_paused
from mgn.dialects.mgn.build import suggestion
from mgn.frontend.onnx.core.errors import MissingDimensions
from mgn.frontend.onnx.core.importer import Importer, dimension_name, node_diagnostic
from mgn.frontend.onnx.core.model import Input, Model, nodes_of
from mgn.frontend.onnx.core.operator import OPERATORS, find
from mgn.frontend.onnx.core.reading import has_schema_function, read_model
from mgn.frontend.onnx.operators import load_operators
from mgn.frontend.program import GraphSignature


@dataclass
class OnnxProgram:
    """A model whose operators mgn has. After `lower`, `values` are its parameters', and `outputs`
    the names of results that each output became.
    """

    model: Model
    name: str
    dims: Mapping[str, int]
    constants: Mapping[str, Any]
    path: Path | None = None
    values: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], repr=False)
    outputs: dict[str, str | list[str]] = field(
        default_factory=dict[str, str | list[str]], repr=False
    )

    @property
    def graphs(self) -> tuple[GraphSignature, ...]:
        """The one graph, with its dimensions."""
        names = tuple(self._uses())
        required = tuple(name for name in names if name not in self.dims)
        return (GraphSignature(self.name, names, required),)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The consts that another value may be given: a model has none."""
        return {}

    @property
    def texts(self) -> dict[str, str]:
        """The listing of the nodes, which places refer to."""
        return {self.model.file: self.model.text}

    @property
    def files(self) -> set[Path]:
        """The file that it was read from."""
        return {self.path} if self.path is not None else set()

    def lower(self, dims: Mapping[str, int] | None = None, graph: str | None = None) -> ModuleOp:
        """The module of the graph. DiagnosticsError where a dimension or the graph is not there."""
        if graph not in (None, self.name):
            self._fail(f"there is no graph '{graph}'; the graph is '{self.name}'")
        uses = self._uses()
        for name, size in (dims or {}).items():
            if name not in uses:
                there = ", ".join(uses) or "none"
                hint = suggestion(str(name), list(uses))
                self._fail(f"there is no dimension '{name}'{hint}; the dimensions are {there}")
            if type(size) is not int or size < 0:
                self._fail(f"dimension '{name}' cannot be {size!r}")
        sizes = {**self.dims, **(dims or {})}
        missing = {name: where for name, where in uses.items() if name not in sizes}
        if missing:
            raise MissingDimensions(self.model.file, missing)
        importer = Importer(self.model)
        with collector_paused():
            module = importer.module(sizes, self.constants, self.name)
        self.values.clear()
        self.values.update(importer.values)
        self.outputs.update(importer.outputs)
        return module

    def _uses(self) -> dict[str, list[str]]:
        """The dimensions by name, and the inputs that have them."""
        found: dict[str, list[str]] = {}
        for item in self.model.graph.inputs:
            for axis, size in enumerate(item.shape or ()):
                if not isinstance(size, int) and item.name not in self.constants:
                    where = f"axis {axis} of input '{item.name}'"
                    found.setdefault(dimension_name(item, axis), []).append(where)
        return found

    def _fail(self, message: str) -> None:
        raise DiagnosticsError([Diagnostic(message, self.model.file)])


def load_onnx(
    source: Any,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> OnnxProgram:
    """The program of a model. DiagnosticsError with every operator that mgn does not have."""
    load_operators()
    model = read_model(source)
    inputs = [item.name for item in model.graph.inputs]
    if len(set(inputs)) != len(inputs):
        twice = next(name for name in inputs if inputs.count(name) > 1)
        raise DiagnosticsError([Diagnostic(f"there are two inputs '{twice}'", model.file)])
    for what, given in (("shapes", shapes), ("constants", constants)):
        for name in given or {}:
            if name not in inputs:
                hint = suggestion(str(name), inputs)
                there = ", ".join(inputs) or "none"
                message = f"{what}: there is no input '{name}'{hint}; the inputs are {there}"
                raise DiagnosticsError([Diagnostic(message, model.file)])
    model.graph.inputs = tuple(
        _shaped(model, item, shapes[item.name]) if shapes and item.name in shapes else item
        for item in model.graph.inputs
    )
    _check_operators(model)
    name = re.sub(r"\W", "_", model.graph.name, flags=re.ASCII).lstrip("0123456789") or "main"
    path = None if model.file.startswith("<") else Path(model.file)
    program = OnnxProgram(model, name, {}, dict(constants or {}), path)
    known = program.graphs[0].dimensions
    for key in dims or {}:
        if key not in known:
            there = ", ".join(known) or "none"
            message = f"there is no dimension '{key}'{suggestion(str(key), known)}; "
            raise DiagnosticsError([Diagnostic(f"{message}the dimensions are {there}", model.file)])
    sizes = {key: _size(model, f"dimension '{key}'", size) for key, size in (dims or {}).items()}
    return replace(program, dims=sizes)


def _size(model: Model, what: str, size: Any) -> int:
    """A size as an int. DiagnosticsError of what is no whole number."""
    try:
        return index(size)
    except TypeError:
        message = f"{what} takes whole numbers, not {size!r}"
        raise DiagnosticsError([Diagnostic(message, model.file)]) from None


def _shaped(model: Model, item: Input, sizes: Any) -> Input:
    """An input with a shape that was given, or shapes. DiagnosticsError where its own is another
    one.
    """
    what = f"shapes: input '{item.name}'"
    if item.is_sequence:
        parts = (tuple(_size(model, what, size) for size in part) for part in sizes)
        return replace(item, shapes=tuple(parts))
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        sizes = [sizes]
    shape = tuple(_size(model, what, size) for size in sizes)
    own = item.shape
    fits = own is None or (
        len(own) == len(shape)
        and all(a == b for a, b in zip(own, shape, strict=True) if isinstance(a, int))
    )
    if not fits:
        message = f"{what} is {list(own or ())}, which {list(shape)} is not"
        raise DiagnosticsError([Diagnostic(message, model.file)])
    return replace(item, shape=shape)


def _check_operators(model: Model) -> None:
    """DiagnosticsError with every operator that there is no way to make."""
    wrong: dict[tuple[str, str], Diagnostic] = {}
    for nodes, opsets in (
        (model.graph.nodes, model.opsets),
        *((item.nodes, {**model.opsets, **item.opsets}) for item in model.functions.values()),
    ):
        for node in nodes_of(nodes):
            key = (node.domain, node.operator)
            version = opsets.get(node.domain, 1)
            if key in wrong or key in model.functions or find(*key, version):
                continue
            if has_schema_function(node, version):
                continue
            wrong[key] = node_diagnostic(model, node, _unsupported(node.domain, node.operator))
    if wrong:
        raise DiagnosticsError(list(wrong.values()))


def _unsupported(domain: str, name: str) -> str:
    whole = f"{domain}.{name}" if domain else name
    names = [other for there, other in OPERATORS if there == domain]
    hint = suggestion(name, names)
    return (
        f"operator {whole} is not supported{hint}; export the model with operators of "
        f"docs/onnx.md, or give the model a function (FunctionProto) for it"
    )
