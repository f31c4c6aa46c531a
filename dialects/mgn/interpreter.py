"""The reference interpreter: runs `mgn` programs on NumPy, and so says what every program means.

In: a graph with arrays for its inputs, parameters and states. Out: arrays by result name, and
what the run left in the states. Each operation is
computed in its declared element types, or all floats in f64 on request (`wide=True`). A composite
is computed by its decomposition. A gradient is computed by the operations that
`differentiate` puts in its place. A fused program is interpreted through its kernels' bodies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import InterpretationError

from mgn.dialects.block_formats import pack_blocks, part_of_name, split_parts, unpack_blocks
from mgn.dialects.mgn.checks import LABELS, checked_ids
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.grad import EXPANDERS, grads_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.structure import (
    ConstantOp,
    GraphOp,
    HoldsProgram,
    ParamOp,
    ReadOp,
    parameters_of,
)
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family, element_of, spelling

Array = np.ndarray
Environment = dict[SSAValue, Array]


class Interpreter:
    """Evaluates operations; `wide` computes every float in f64, as the oracle of tolerance tests.

    `states` holds what a run finds in states, and, once it has succeeded, what it left there.
    Errors are InterpretationError: a missing, unknown or misshaped array, or an unknown operation.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array] | None = None,
        wide: bool = False,
        states: Mapping[str, Array] | None = None,
    ) -> None:
        self.parameters = dict(parameters or {})
        self.states = dict(states or {})
        self.wide = wide
        self._now: dict[str, Array] = {}
        self._declared: Mapping[str, ParamOp] = {}

    def run(self, graph: GraphOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Results of a graph by name. A value is dropped after its last use."""
        unknown = sorted(set(inputs) - set(graph.input_names))
        if unknown:
            raise InterpretationError(f"graph '{graph.sym_name.data}' has no input '{unknown[0]}'")
        self._declared = parameters_of(module) if (module := _module_of(graph)) else {}
        if grads_of(graph):
            graph = graph.clone()
            for expand in EXPANDERS:
                expand(graph.block)
        environment: Environment = {}
        for name, argument in graph.named_inputs:
            if name not in inputs:
                raise InterpretationError(f"input '{name}' is missing")
            environment[argument] = self._given(f"input '{name}'", inputs[name], argument.type)
        self._now = dict(self.states)
        for name, argument in graph.named_states:
            environment[argument] = self._state(name, argument.type)
        returned = self.run_block(graph.block, environment, last_uses(graph.block))
        count = len(graph.result_names)
        self.states = self._now | dict(zip(graph.written_names, returned[count:], strict=True))
        return dict(zip(graph.result_names, returned[:count], strict=True))

    def run_block(
        self,
        block: Block,
        environment: Environment,
        released: Mapping[Operation, Sequence[SSAValue]] | None = None,
    ) -> list[Array]:
        """Evaluates a block in an environment; the arrays its terminator names, if it has one.

        `released` names the values that the environment forgets after an operation.
        """
        with np.errstate(all="ignore"):
            for op in block.ops:
                if op.has_trait(IsTerminator):
                    return [environment[value] for value in op.operands]
                results = self._results(op, [environment[value] for value in op.operands])
                environment.update(zip(op.results, results, strict=True))
                for value in released.get(op, ()) if released is not None else ():
                    del environment[value]
        return []

    def run_op(self, op: Operation, operands: Sequence[Array]) -> list[Array]:
        """The results of one operation on arrays, whose types are the operation's own."""
        with np.errstate(all="ignore"):
            return self._results(op, operands)

    def _results(self, op: Operation, operands: Sequence[Array]) -> list[Array]:
        results = self._compute(op, operands)
        return [
            self._as_declared(op.name, array, result.type)
            for array, result in zip(results, op.results, strict=True)
        ]

    def _compute(self, op: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        if isinstance(op, ConstantOp):
            return [op.array]
        if isinstance(op, ReadOp):
            return [self._parameter(op)]
        if isinstance(op, ReadStateOp):
            return [self._state(op.state_name, op.result.type)]
        if isinstance(op, WriteStateOp):
            self._now[op.state_name] = operands[0]
            return []
        if isinstance(op, HoldsProgram):
            return self.run_block(op.block, dict(zip(op.block.args, operands, strict=True)))
        if not isinstance(op, TensorOp):
            raise InterpretationError(f"the interpreter does not know {op.name}")
        checked = checked_ids(op)
        if checked is not None and (count := checked.wrong(operands[LABELS])):
            raise InterpretationError(f"{checked.message} ({count} in all)")
        if op.spec.evaluate is None:
            expansion = decomposition_of(op)
            environment: Environment = dict(zip(expansion.block.args, operands, strict=True))
            self.run_block(expansion.block, environment)
            return [environment[value] for value in expansion.results]
        attributes = {name: self._widened(value) for name, value in op.values.items()}
        results = op.spec.evaluate(*op.spec.split_operands(operands), **attributes)
        return [results] if isinstance(results, np.ndarray | np.generic) else list(results)

    def _parameter(self, op: ReadOp) -> Array:
        name = op.parameter_name
        found = part_of_name(name)
        if name in self.parameters:
            array = self.parameters[name]
            format = self._block_format(op)
            if format is not None and np.asarray(array).dtype == np.uint8:
                array = unpack_blocks(array, format)
        elif found is not None and found[0] in self.parameters:
            whole, row, part = found
            array = np.asarray(self.parameters[whole])
            packed = array if array.dtype == np.uint8 else pack_blocks(array, row.name)
            array = split_parts(packed, row.name)[part.name]
        else:
            raise InterpretationError(f"parameter '{name}' is missing")
        return self._given(f"parameter '{name}'", array, op.result.type)

    def _block_format(self, op: ReadOp) -> str | None:
        """The block format of the parameter that is read, if it has one. A graph whose gradients
        were put in place is in no module: the one that it was copied from says it.
        """
        module = _module_of(op)
        declared = self._declared if module is None else parameters_of(module)
        found = declared.get(op.parameter_name)
        element = None if found is None else element_of(found.type)
        return element.name if element is not None and element.family is Family.BLOCK else None

    def _state(self, name: str, type: Attribute) -> Array:
        """What a state holds at this point of a run."""
        if name not in self._now:
            raise InterpretationError(f"state '{name}' is missing")
        return self._given(f"state '{name}'", self._now[name], type)

    def _given(self, what: str, array: Array, type: Attribute) -> Array:
        """An array from outside. A float does not become an integer, nor a number a bool."""
        element = element_of(type)
        given = np.asarray(array)
        if element.dtype is None:
            raise InterpretationError(f"{what} has the block format {element.name}")
        if not np.can_cast(given.dtype, element.dtype, "same_kind") and not element.is_float:
            raise InterpretationError(f"{what} is {given.dtype}, expected {spelling(type)}")
        return self._as_declared(what, given, type)

    def _widened(self, value: Any) -> Any:
        if self.wide and isinstance(value, ElementType) and value.is_float:
            return ELEMENT_TYPES["f64"]
        return value

    def _as_declared(self, what: str, array: Array, type: Attribute) -> Array:
        assert isinstance(type, TensorType)
        element = element_of(type)
        dtype = np.dtype(np.float64) if self.wide and element.is_float else element.dtype
        array = np.asarray(array, dtype)
        if array.shape != type.get_shape():
            raise InterpretationError(
                f"{what} has shape {list(array.shape)}, expected {spelling(type)}"
            )
        return array


def _module_of(op: Operation) -> ModuleOp | None:
    """The module that an operation is in, if it is in one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    return parent


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """The values of a block that no later operation reads, by the operation that ends them."""
    seen: set[SSAValue] = set()
    result: dict[Operation, list[SSAValue]] = {}
    for op in reversed(tuple(block.ops)):
        ended = [value for value in dict.fromkeys((*op.operands, *op.results)) if value not in seen]
        seen.update(ended)
        if ended:
            result[op] = ended
    return result
