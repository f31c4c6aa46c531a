"""What the compiler knows of each name of a text: for editors, which show it while it is written.

In: a source, which may have errors, and sizes for dimensions that have none of their own. Out: an
`Observed`: the values that names have, by place, and all errors and warnings that need no device.

A function is seen once for each call, a loop's body once for each turn: a place can have several
values. A graph with dimensions that nobody has bound is lowered with a size of `TRIAL`, for its
values alone: its errors would be those of the size.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.ir import SSAValue

from mgn.diagnostics import Diagnostic
from mgn.dialects.garbage import collector_paused
from mgn.dialects.mgn.structure import ReadOp
from mgn.dialects.types import ElementType, spelling
from mgn.frontend.lowering.context import Frame
from mgn.frontend.lowering.lower import Lowering
from mgn.frontend.lowering.values import StateRef
from mgn.frontend.program import default_graphs, errors_of, in_order, signature_of
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Expression, Place
from mgn.frontend.syntax.source import Source, read_source
from mgn.frontend.syntax.units import Definition, Loader, Unit

TRIAL = 64
"""The size of a dimension that nobody has bound."""

MOST_VALUES = 4
"""Different values of one place that are kept."""

_LONGEST = 40
_SEEN = (ast.Name, ast.Call, ast.Member, ast.Index)
_PLACED = re.compile(r"(?P<file>.*):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", re.DOTALL)


class Cancelled(Exception):
    """The text has changed, and nobody waits for what was seen of it."""


@dataclass
class Observed:
    """What was seen of a text. `values` are by file and place, each as a reader wants it:
    `f32[2, 3]`, `576`. `trial` are the dimensions that got a size to be seen with, and `keys` the
    external names of the parameters and states that a place declares.
    """

    unit: Unit
    files: Mapping[Path, Unit]
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    values: dict[str, dict[Place, list[str]]] = field(
        default_factory=dict[str, dict[Place, list[str]]]
    )
    trial: dict[str, int] = field(default_factory=dict[str, int])
    keys: dict[tuple[str, Place], dict[str, None]] = field(
        default_factory=dict[tuple[str, Place], dict[str, None]]
    )

    def at(self, file: str, place: Place) -> Sequence[str]:
        """The values of a place, in the order in which they were met."""
        return self.values.get(file, {}).get(place, ())


def observe(
    source: Source,
    dims: Mapping[str, int] | None = None,
    read: Callable[[Path], Source] = read_source,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Observed:
    """What the compiler knows of a text. Cancelled where `is_cancelled` comes to hold."""
    loader = Loader(read)
    with _warnings_of(source) as warned, collector_paused():
        try:
            unit = loader.load(source)
        except RecursionError:
            error = source.error((1, 1), "the imports are nested too deep")
            return Observed(Unit(source), {}, [error])
        seen = Observed(unit, loader.loaded)
        bound, unbound = _divided(unit, dims or {})
        errors = errors_of(_Observing(unit, seen, is_cancelled), bound, dims)
        _try_out(unit, seen, unbound, dims or {}, is_cancelled)
    seen.diagnostics = in_order([*loader.diagnostics, *errors, *warned])
    return seen


def _divided(
    unit: Unit, dims: Mapping[str, int]
) -> tuple[Sequence[Definition], Sequence[Definition]]:
    """The graphs whose dimensions have sizes, and the others."""
    graphs = default_graphs(unit)
    unbound = [item for item in graphs if set(signature_of(item).required) - dims.keys()]
    return [item for item in graphs if item not in unbound], unbound


def _try_out(
    unit: Unit,
    seen: Observed,
    graphs: Sequence[Definition],
    dims: Mapping[str, int],
    is_cancelled: Callable[[], bool],
) -> None:
    """Sees graphs with sizes that nobody gave them."""
    if not graphs:
        return
    names = [name for item in graphs for name in signature_of(item).required]
    seen.trial = {name: TRIAL for name in names if name not in dims}
    lowering = _Observing(unit, seen, is_cancelled)
    for graph in graphs:
        lowering.lower_graph(graph, {**seen.trial, **dims})


@contextmanager
def _warnings_of(source: Source) -> Iterator[list[Diagnostic]]:
    """What the compiler warns of, with the place that the warning begins with."""
    found: list[Diagnostic] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for message in dict.fromkeys(str(item.message) for item in caught):
        placed = _PLACED.fullmatch(message)
        if placed is None:
            found.append(Diagnostic(message, source.name, severity="warning"))
            continue
        place = int(placed["line"]), int(placed["column"])
        found.append(Diagnostic(placed["message"], placed["file"], *place, None, "warning"))


class _Observing(Lowering):
    """A lowering that keeps what the values of names are."""

    def __init__(self, unit: Unit, seen: Observed, is_cancelled: Callable[[], bool]) -> None:
        super().__init__(unit)
        self.seen = seen
        self.is_cancelled = is_cancelled

    def step(self, place: Place, count: int = 1) -> None:
        if self.is_cancelled():
            raise Cancelled
        super().step(place, count)

    def see(self, unit: Unit, place: Place, value: Any) -> None:
        """Keeps the value of a place."""
        text = _shown(value)
        if text is None:
            return
        values = self.seen.values.setdefault(unit.source.name, {}).setdefault(place, [])
        if text not in values and len(values) <= MOST_VALUES:
            values.append(text)

    def see_key(self, place: Place, name: str) -> None:
        """Keeps the external name of what a place of this file declares."""
        self.seen.keys.setdefault((self.frame.unit.source.name, place), {})[name] = None

    def evaluate(self, node: Expression) -> Any:
        value = super().evaluate(node)
        if isinstance(node, _SEEN):
            self.see(self.frame.unit, node.place, value)
        return value

    def _evaluate_constant(self, node: ast.Constant) -> Any:
        value = super()._evaluate_constant(node)
        self.see(self.frame.unit, node.place, value)
        return value

    def _bind(self, target: tuple[str, Place], value: Any) -> None:
        super()._bind(target, value)
        self.see(self.frame.unit, target[1], value)

    def _bind_dimensions(self, graph: ast.Graph, dims: Mapping[str, int]) -> None:
        super()._bind_dimensions(graph, dims)
        for dim in graph.dimensions:
            self.see(self.frame.unit, dim.place, self.frame.scopes[0].get(dim.name))

    def _bind_inputs(self, graph: ast.Graph) -> list[Any]:
        types = super()._bind_inputs(graph)
        for item in graph.inputs:
            self.see(self.frame.unit, item.place, self.frame.scopes[0].get(item.name))
        return types

    def _read(self, node: ast.Param, top_level: bool = False) -> Any:
        value = super()._read(node, top_level)
        self.see(self.frame.unit, node.place, value)
        if isinstance(value, SSAValue) and isinstance(value.owner, ReadOp):
            self.see_key(node.place, value.owner.parameter_name)
        return value

    def _declared(self, node: ast.State, prefixes: Sequence[str]) -> Any:
        value = super()._declared(node, prefixes)
        self.see(self.frame.unit, node.place, value)
        if isinstance(value, StateRef):
            self.see_key(node.place, value.name)
        return value

    def _argument(
        self, formal: ast.Formal, given: Mapping[str, tuple[Any, Place]], caller: Frame
    ) -> Any:
        value = super()._argument(formal, given, caller)
        self.see(self.frame.unit, formal.place, value)
        return value

    def _loop_items(self, node: ast.For) -> Sequence[Any] | None:
        items = super()._loop_items(node)
        for item in items[: MOST_VALUES + 1] if items is not None else ():
            self.see(self.frame.unit, node.place, item)
        return items


def _shown(value: Any) -> str | None:
    """A value as a reader wants it; None for one that has an error."""
    if isinstance(value, SSAValue):
        return spelling(value.type)
    if isinstance(value, StateRef):
        return spelling(value.type)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, str):
        return f'"{value[:_LONGEST]}…"' if len(value) > _LONGEST else f'"{value}"'
    if not isinstance(value, list | tuple):
        return None
    items = [_shown(item) for item in value[: _LONGEST // 2]]
    told = ", ".join(item for item in items if item is not None)
    told = f"{told[:_LONGEST]}…" if len(told) > _LONGEST else told
    return f"[{told}]" if isinstance(value, list) else f"({told})"
