"""A graph as another library computes it, operation by operation.

In: the IR of a graph, a library's `Rows`, and arrays for parameters. Out: `Translation`, a function
from the library's tensors to the results. An operation that has no row is computed by its
decomposition; where that ends in an operation without one, MgnError lists all such.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from mgn.diagnostics import MgnError
from mgn.dialects.block_formats import unpack_blocks
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, graphs_of, parameters_of
from mgn.dialects.types import Family, element_of
from mgn.driver.pipelines import parse_passes, run_passes
from mgn.modules.dialect_table import make_context

Tensor = Any


@dataclass(frozen=True)
class Rows:
    """How a library computes operations: `rows[name](*operands, **attributes)`, operands as the
    operation's signature groups them, attributes in canonical form. NotImplementedError from a row
    leaves a case to the decomposition. `tensor` makes its tensor of an array.
    """

    library: str
    rows: Mapping[str, Callable[..., Any]]
    tensor: Callable[[np.ndarray], Tensor]


Slots = int | None | list[int]
"""Where an operand of a step lies: one value, none, or those of a list."""


@dataclass(frozen=True)
class Step:
    """A call of a row: where its operands lie and its results go, and what no later step reads."""

    row: Callable[..., Any]
    operands: tuple[Slots, ...]
    attributes: Mapping[str, Any]
    results: tuple[int, ...]
    released: tuple[int, ...] = ()


@dataclass
class Translation:
    """A graph in a library: call it with tensors in the order of `inputs`, as `tensors` makes
    them; a tuple of results comes, in the order of `outputs`.

    The first call finds out which rows compute what; later ones make just these calls.
    """

    graph: GraphOp
    rows: Rows
    parameters: dict[str, Tensor]
    _steps: list[Step] = field(default_factory=list[Step])
    _held: list[Tensor] = field(default_factory=list[Any])
    _results: list[int] = field(default_factory=list[int])

    @property
    def inputs(self) -> list[str]:
        """The names of the arguments."""
        return [name for name, _ in self.graph.named_inputs]

    @property
    def outputs(self) -> list[str]:
        """The names of the results."""
        return list(self.graph.result_names)

    def tensors(self, arrays: Mapping[str, np.ndarray]) -> list[Tensor]:
        """The arguments of arrays by input name."""
        return [self.rows.tensor(arrays[name]) for name in self.inputs]

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        if not self._results:
            self._record(tensors)
        values = [*tensors, *self._held[len(tensors) :]]
        for step in self._steps:
            given = [
                values[item]
                if isinstance(item, int)
                else None
                if item is None
                else [values[slot] for slot in item]
                for item in step.operands
            ]
            found = step.row(*given, **step.attributes)
            if len(step.results) == 1:
                values[step.results[0]] = found[0] if isinstance(found, tuple | list) else found
            else:
                for slot, item in zip(step.results, found, strict=True):
                    values[slot] = item
            for slot in step.released:
                values[slot] = None
        return tuple(values[slot] for slot in self._results)

    def _record(self, tensors: Sequence[Tensor]) -> None:
        """Computes the graph once and notes the steps."""
        recorder = _Recorder(self.rows, self.parameters, list(tensors))
        places: dict[SSAValue, int] = dict(
            zip(self.graph.block.args, range(len(tensors)), strict=True)
        )
        results = recorder.block(self.graph.block, places)
        read = set(results)
        kept = set(recorder.held)
        steps: list[Step] = []
        for step in reversed(recorder.steps):
            used = {slot for item in step.operands for slot in _slots(item)} | set(step.results)
            ended = tuple(sorted(used - read - kept))
            read |= used
            steps.append(replace(step, released=ended))
        held = [item if n in kept else None for n, item in enumerate(recorder.values)]
        self._steps, self._held, self._results = steps[::-1], held, results


def _slots(item: Slots) -> list[int]:
    return [] if item is None else [item] if isinstance(item, int) else item


class _Recorder:
    """Walks a graph with tensors, and notes which row computed what."""

    def __init__(self, rows: Rows, parameters: Mapping[str, Tensor], values: list[Tensor]) -> None:
        self.rows, self.parameters, self.values = rows, parameters, values
        self.steps: list[Step] = []
        self.held: list[int] = list(range(len(values)))
        self._read: dict[str, int] = {}

    def block(self, block: Block, places: dict[SSAValue, int]) -> list[int]:
        """Where the values lie that a block's end names."""
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [places[value] for value in op.operands]
            results = self._results(op, [places[value] for value in op.operands])
            places.update(zip(op.results, results, strict=True))
        return []

    def _results(self, op: Operation, operands: Sequence[int]) -> Sequence[int]:
        if isinstance(op, ReadOp):
            name = op.parameter_name
            if name not in self._read:
                self._read[name] = self._hold(self.parameters[name])
            return [self._read[name]]
        if isinstance(op, ConstantOp):
            return [self._hold(self.rows.tensor(op.array))]
        if not isinstance(op, TensorOp):
            raise Missing(op.name)
        row = self.rows.rows.get(op.spec.name)
        if row is not None:
            try:
                return self._called(row, op, operands)
            except NotImplementedError:
                pass
        if op.spec.is_core:
            raise Missing(f"{self.rows.library} has no row for this case of {op.spec.name}")
        expansion = decomposition_of(op)
        places: dict[SSAValue, int] = dict(zip(expansion.block.args, operands, strict=True))
        self.block(expansion.block, places)
        return [places[value] for value in expansion.results]

    def _called(
        self, row: Callable[..., Any], op: TensorOp, operands: Sequence[int]
    ) -> Sequence[int]:
        """Calls a row, and notes the step."""
        grouped = op.spec.split_operands(operands)
        given = [
            [self.values[slot] for slot in item]
            if isinstance(item, list)
            else None
            if item is None
            else self.values[item]
            for item in grouped
        ]
        found = row(*given, **op.values)
        items = list(found) if isinstance(found, tuple | list) else [found]
        slots = tuple(range(len(self.values), len(self.values) + len(items)))
        self.values += items
        self.steps.append(Step(row, tuple(grouped), dict(op.values), slots))
        return slots

    def _hold(self, tensor: Tensor) -> int:
        self.held.append(len(self.values))
        self.values.append(tensor)
        return self.held[-1]


class Missing(MgnError, NotImplementedError):
    """An operation that the library's rows lack, and that has no decomposition."""


def translated(module: ModuleOp, rows: Rows, parameters: Mapping[str, np.ndarray]) -> Translation:
    """The graph of a module of one, which is changed in place, in a library. MgnError where the
    library's rows lack an operation, or the graph keeps states or draws numbers.
    """
    run_passes(parse_passes("differentiate"), module, make_context())
    graph = next(graphs_of(module))
    missing = sorted({name for op in graph.block.ops for name in _without_row(op, rows, set())})
    if missing:
        why = "; ".join(dict.fromkeys(_WHY[name] for name in missing if name in _WHY))
        raise MgnError(
            f"the graph cannot be translated for {rows.library}, which has no row for "
            f"{', '.join(missing)}" + f" ({why})" * bool(why)
        )
    declared = parameters_of(module)
    wanted = {op.parameter_name for op in graph.walk() if isinstance(op, ReadOp)}
    given = {
        name: rows.tensor(_plain(parameters[name], element_of(declared[name].type).name))
        if element_of(declared[name].type).family is Family.BLOCK
        else rows.tensor(parameters[name])
        for name in wanted
    }
    return Translation(graph, rows, given)


_WHY = {
    "read_state": "states outlive a run, and no peer has them",
    "write_state": "states outlive a run, and no peer has them",
    "philox": "it draws random numbers, which no peer draws equally",
}


def _plain(array: np.ndarray, format: str) -> np.ndarray:
    """The values of a parameter of a block format."""
    return unpack_blocks(array, format) if array.dtype == np.uint8 else array


def _without_row(op: Operation, rows: Rows, seen: set[Any]) -> set[str]:
    """The operations that are missing for one."""
    if isinstance(op, ReadOp | ConstantOp) or op.has_trait(IsTerminator):
        return set()
    if not isinstance(op, TensorOp):
        return {op.name.removeprefix("mgn.")}
    if op.spec.name in rows.rows or op.spec.name in seen:
        return set()
    if op.spec.is_core:
        return {op.spec.name}
    seen.add(op.spec.name)
    inner = decomposition_of(op).block.ops
    return {name for item in inner for name in _without_row(item, rows, seen)}
