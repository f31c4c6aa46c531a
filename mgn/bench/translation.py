"""A graph as another library computes it, operation by operation.

In: the IR of a graph, a library's `Rows`, and arrays for parameters. Out: `Translation`, a function
from the library's tensors to the results. An operation that has no row is computed by its
decomposition; where that ends in an operation without one, MgnError lists all such.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass
class Translation:
    """A graph in a library: call it with tensors in the order of `inputs`, as `tensors` makes
    them; a tuple of results comes, in the order of `outputs`.
    """

    graph: GraphOp
    rows: Rows
    parameters: dict[str, Tensor]
    constants: dict[Operation, Tensor] = field(default_factory=dict[Operation, Tensor])

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
        environment: dict[SSAValue, Tensor] = dict(zip(self.graph.block.args, tensors, strict=True))
        return tuple(self._block(self.graph.block, environment))

    def _block(self, block: Block, environment: dict[SSAValue, Tensor]) -> list[Tensor]:
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [environment[value] for value in op.operands]
            results = self._results(op, [environment[value] for value in op.operands])
            environment.update(zip(op.results, results, strict=True))
        return []

    def _results(self, op: Operation, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        if isinstance(op, ReadOp):
            return [self.parameters[op.parameter_name]]
        if isinstance(op, ConstantOp):
            if op not in self.constants:
                self.constants[op] = self.rows.tensor(op.array)
            return [self.constants[op]]
        if not isinstance(op, TensorOp):
            raise Missing(op.name)
        row = self.rows.rows.get(op.spec.name)
        if row is not None:
            try:
                found = row(*op.spec.split_operands(operands), **op.values)
                return found if isinstance(found, tuple | list) else [found]
            except NotImplementedError:
                pass
        if op.spec.is_core:
            raise Missing(op.spec.name)
        expansion = decomposition_of(op)
        environment: dict[SSAValue, Tensor] = dict(zip(expansion.block.args, operands, strict=True))
        self._block(expansion.block, environment)
        return [environment[value] for value in expansion.results]


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
        why = "; ".join(_WHY[name] for name in missing if name in _WHY)
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
