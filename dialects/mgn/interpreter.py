"""The reference interpreter: runs `mgn` programs on NumPy, and so says what every program means.

In: a graph with arrays for its inputs and parameters. Out: arrays by result name.
Each operation is computed in its declared element types, or all floats in f64 on request (`wide=True`).
A composite is computed by its decomposition. A fused program is interpreted through its kernels' bodies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of

Array = np.ndarray
Environment = dict[SSAValue, Array]


class Interpreter:
    """Evaluates operations; `wide` computes every float in f64, as the oracle of tolerance tests."""

    def __init__(self, parameters: Mapping[str, Array] | None = None, wide: bool = False) -> None:
        self.parameters = dict(parameters or {})
        self.wide = wide

    def run(self, graph: GraphOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Results of a graph by name. KeyError where an input or parameter is missing."""
        environment: Environment = {}
        for name, argument in zip(graph.input_names, graph.block.args, strict=True):
            environment[argument] = self._as_declared(inputs[name], argument.type)
        returned = self.run_block(graph.block, environment)
        return dict(zip(graph.result_names, returned, strict=True))

    def run_block(self, block: Block, environment: Environment) -> list[Array]:
        """Evaluates a block in an environment; the arrays its terminator names, if it has one."""
        for op in block.ops:
            if isinstance(op, ReturnOp | FusionReturnOp):
                return [environment[value] for value in op.operands]
            results = self.run_op(op, [environment[value] for value in op.operands])
            environment.update(zip(op.results, results, strict=True))
        return []

    def run_op(self, op: Operation, operands: Sequence[Array]) -> list[Array]:
        """The results of one operation on arrays, whose types are the operation's own."""
        with np.errstate(all="ignore"):
            results = self._compute(op, operands)
        return [
            self._as_declared(array, result.type)
            for array, result in zip(results, op.results, strict=True)
        ]

    def _compute(self, op: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        if isinstance(op, ConstantOp):
            return [op.array]
        if isinstance(op, ReadOp):
            return [self.parameters[op.parameter_name]]
        if isinstance(op, FusedKernelOp):
            return self.run_block(op.block, dict(zip(op.block.args, operands, strict=True)))
        if not isinstance(op, TensorOp):
            raise InterpretationError(f"the interpreter does not know {op.name}")
        if op.spec.evaluate is None:
            expansion = decomposition_of(op)
            environment = dict(zip(expansion.block.args, operands, strict=True))
            self.run_block(expansion.block, environment)
            return [environment[value] for value in expansion.results]
        attributes = {name: self._widened(value) for name, value in op.values.items()}
        results = op.spec.evaluate(*op.spec.split_operands(operands), **attributes)
        return [results] if isinstance(results, np.ndarray | np.generic) else list(results)

    def _widened(self, value: Any) -> Any:
        if self.wide and isinstance(value, ElementType) and value.is_float:
            return ELEMENT_TYPES["f64"]
        return value

    def _as_declared(self, array: Array, type: Attribute) -> Array:
        assert isinstance(type, TensorType)
        element = element_of(type)
        dtype = np.dtype(np.float64) if self.wide and element.is_float else element.dtype
        array = np.asarray(array, dtype)
        if array.shape != type.get_shape():
            raise InterpretationError(f"expected shape {type.get_shape()}, got {array.shape}")
        return array
