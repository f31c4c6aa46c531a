"""The reference interpreter: runs `mgn` programs on NumPy, and so says what every program means.

In: a graph with arrays for its inputs, parameters and states. Out: arrays by result name, and
what the run left in the states. Each operation is
computed in its declared element types, or all floats in f64 on request (`wide=True`). A composite
is computed by its decomposition. A gradient is computed by the operations that
`differentiate` puts in its place. A fused program is interpreted through its kernels' bodies.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from mgn.dialects.block_formats import pack_blocks, part_of_name, split_parts, unpack_blocks
from mgn.dialects.mgn.checks import LABELS
from mgn.dialects.mgn.states import ReadStateOp, WriteStateOp
from mgn.dialects.mgn.steps import Array, Declared, ReadyGraph, Step, Steps, declared_type
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp
from mgn.dialects.types import element_of, spelling

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

    def run(self, graph: GraphOp | ReadyGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Results of a graph by name. A value is dropped after its last use. One that runs again
        and again is made ready once.
        """
        ready = ReadyGraph(graph) if isinstance(graph, GraphOp) else graph
        names = {name for name, _ in ready.inputs}
        unknown = sorted(set(inputs) - names)
        if unknown:
            raise InterpretationError(f"graph '{ready.name}' has no input '{unknown[0]}'")
        arguments: list[Array] = []
        for name, type in ready.inputs:
            if name not in inputs:
                raise InterpretationError(f"input '{name}' is missing")
            arguments.append(self._given(f"input '{name}'", inputs[name], type))
        self._now = dict(self.states)
        arguments += [self._state(name, type) for name, type in ready.states]
        with np.errstate(all="ignore"):
            returned = self._run(ready.steps, arguments)
        count = len(ready.result_names)
        self.states = self._now | dict(zip(ready.written_names, returned[count:], strict=True))
        return dict(zip(ready.result_names, returned[:count], strict=True))

    def run_block(self, block: Block, environment: Environment) -> list[Array]:
        """Evaluates a block in an environment, which gets the values of all its operations; the
        arrays its terminator names, if it has one.
        """
        steps = Steps(block)
        with np.errstate(all="ignore"):
            values: list[Array] = []
            returned = self._run(steps, [environment[value] for value in steps.given], values)
        environment.update(zip(steps.places, values, strict=True))
        return returned

    def run_op(self, op: Operation | Step, operands: Sequence[Array]) -> list[Array]:
        """The results of one operation on arrays, whose types are the operation's own. One that is
        computed again and again is made ready once.
        """
        step = op if isinstance(op, Step) else Step(op)
        with np.errstate(all="ignore"):
            return self._results(step, operands)

    def _run(
        self, steps: Steps, given: Sequence[Array], kept: list[Array] | None = None
    ) -> list[Array]:
        """What a block returns, of its arguments and the values from outside. `kept` gets all its
        values; else each is dropped after its last use.
        """
        values: list[Any] = [None] * len(steps.places)
        for value, array in zip(steps.given, given, strict=True):
            values[steps.places[value]] = array
        for step, operands, results, ended in steps.steps:
            found = self._results(step, [values[place] for place in operands])
            for place, array in zip(results, found, strict=True):
                values[place] = array
            if kept is None:
                for place in ended:
                    values[place] = None
        if kept is not None:
            kept += values
        return [values[place] for place in steps.returned]

    def _results(self, step: Step, operands: Sequence[Array]) -> list[Array]:
        results: list[Array] = []
        for array, type in zip(self._compute(step, operands), step.declared, strict=True):
            made = np.asarray(array, type.wide if self.wide else type.dtype)
            if made.shape != type.shape:
                _refuse_shape(step.op.name, made, type)
            results.append(made)
        return results

    def _compute(self, step: Step, operands: Sequence[Array]) -> Sequence[Array]:
        checked = step.checked
        if checked is not None and (count := checked.wrong(operands[LABELS])):
            raise InterpretationError(f"{checked.message} ({count} in all)")
        if step.evaluate is not None:
            attributes = step.wide_attributes if self.wide else step.attributes
            if step.is_grouped:
                operands = step.spec.split_operands(operands)
            results = step.evaluate(*operands, **attributes)
            return [results] if isinstance(results, np.ndarray | np.generic) else list(results)
        if step.inner is not None:
            return self._run(step.inner, operands)
        op = step.op
        if isinstance(op, ConstantOp):
            return [step.array]
        if isinstance(op, ReadOp):
            return [self._parameter(op, step.format)]
        if isinstance(op, ReadStateOp):
            return [self._state(op.state_name, op.result.type)]
        if isinstance(op, WriteStateOp):
            self._now[op.state_name] = operands[0]
            return []
        raise InterpretationError(f"the interpreter does not know {op.name}")

    def _parameter(self, op: ReadOp, format: str | None) -> Array:
        name = op.parameter_name
        found = part_of_name(name)
        if name in self.parameters:
            array = self.parameters[name]
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

    def _state(self, name: str, type: Attribute) -> Array:
        """What a state holds at this point of a run."""
        if name not in self._now:
            raise InterpretationError(f"state '{name}' is missing")
        return self._given(f"state '{name}'", self._now[name], type)

    def _given(self, what: str, array: Array, type: Attribute) -> Array:
        """An array from outside. A float does not become an integer, nor a number a bool."""
        element, declared = element_of(type), declared_type(type)
        given = np.asarray(array)
        if element.dtype is None:
            raise InterpretationError(f"{what} has the block format {element.name}")
        if not np.can_cast(given.dtype, element.dtype, "same_kind") and not element.is_float:
            raise InterpretationError(f"{what} is {given.dtype}, expected {spelling(type)}")
        made = np.asarray(given, declared.wide if self.wide else declared.dtype)
        if made.shape != declared.shape:
            _refuse_shape(what, made, declared)
        return made


def _refuse_shape(what: str, array: Array, declared: Declared) -> NoReturn:
    raise InterpretationError(
        f"{what} has shape {list(array.shape)}, expected {spelling(declared.type)}"
    )
