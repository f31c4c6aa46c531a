"""What is known of values while a model is read: constants, and what follows from them.

In: a value. Out: its array, computed by the reference interpreter; None where it depends on an
input of the graph. Shapes are known, so what models compute from shapes is.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import ConstantOp, ReadOp
from mgn.frontend.onnx.core.errors import NotKnown

MOST_KEPT = 4096
"""Elements of a value that becomes a constant of the program where it is known."""

MOST_AT_ONCE = 65536
"""Elements of a value that is computed as soon as it is made."""


class Known:
    """The arrays of values. `parameter` gives that of a parameter, by its name."""

    def __init__(self, parameter: Callable[[str], np.ndarray], inputs: Sequence[str]) -> None:
        self._parameter = parameter
        self._inputs = inputs
        self._arrays: dict[SSAValue, np.ndarray | None] = {}
        self._constants = set[SSAValue]()
        self._interpreter = Interpreter()

    def watch(self, op: Operation) -> None:
        """Computes what a new operation gives, where that is small and follows from constants."""
        if isinstance(op, ConstantOp):
            self._arrays[op.results[0]] = op.array
        elif isinstance(op, TensorOp) and self._constants.issuperset(op.operands):
            if not all(map(_is_small, op.results)):
                return
            self._compute(op)
        else:
            return
        self._constants.update(op.results)

    def constant(self, value: SSAValue) -> np.ndarray | None:
        """The array of a small value that follows from constants, not from parameters."""
        return self._arrays[value] if value in self._constants else None

    def array(self, value: SSAValue) -> np.ndarray | None:
        """The array of a value, if it is known."""
        pending = [value]
        while pending:
            last = pending[-1]
            if last in self._arrays:
                pending.pop()
                continue
            op = last.owner
            if isinstance(op, ReadOp):
                self._arrays[last] = self._parameter(op.parameter_name)
            elif not isinstance(op, TensorOp):
                self._arrays[last] = None
            else:
                missing = [item for item in op.operands if item not in self._arrays]
                if missing:
                    pending += missing
                    continue
                self._compute(op)
        return self._arrays[value]

    def required(self, value: SSAValue, what: str) -> np.ndarray:
        """The array of a value. NotKnown, which names the inputs that it depends on."""
        found = self.array(value)
        if found is None:
            raise NotKnown(what, self.inputs_of(value))
        return found

    def inputs_of(self, value: SSAValue) -> list[str]:
        """The inputs of the graph that a value depends on."""
        pending, seen, found = [value], {value}, set[str]()
        while pending:
            last = pending.pop()
            if isinstance(last, BlockArgument):
                found.add(self._inputs[last.index])
                continue
            assert isinstance(last.owner, Operation)
            for item in last.owner.operands:
                if item not in seen:
                    seen.add(item)
                    pending.append(item)
        return sorted(found)

    def _compute(self, op: TensorOp) -> None:
        arrays = [self._arrays[value] for value in op.operands]
        results: Sequence[np.ndarray | None] = [None] * len(op.results)
        given = [array for array in arrays if array is not None]
        if len(given) == len(arrays):
            results = self._interpreter.run_op(op, given)
        self._arrays.update(zip(op.results, results, strict=True))

    def replace(self, block: Block) -> None:
        """Puts constants in the place of small values that are known without parameters, and
        removes operations that nothing uses.
        """
        constant = set[SSAValue]()
        for op in list(block.ops):
            if isinstance(op, ConstantOp):
                constant.update(op.results)
            elif isinstance(op, TensorOp) and all(value in constant for value in op.operands):
                constant.update(op.results)
                constant.update(self._constants_of(op))
        for op in reversed(list(block.ops)):
            unused = not any(result.uses for result in op.results)
            if isinstance(op, TensorOp | ConstantOp | ReadOp) and unused:
                op.detach()
                op.erase()

    def _constants_of(self, op: TensorOp) -> Iterator[SSAValue]:
        """Constants in the place of what an operation gives."""
        block = op.parent_block()
        assert block is not None
        for result in op.results:
            if not result.uses or not _is_small(result, MOST_KEPT):
                continue
            array = self._arrays.get(result)
            if array is None:
                continue
            made = ConstantOp.from_array(array)
            made.location = op.location
            block.insert_op_before(made, op)
            made.results[0].name_hint = result.name_hint
            result.replace_all_uses_with(made.results[0])
            yield made.results[0]


def _is_small(value: SSAValue, most: int = MOST_AT_ONCE) -> bool:
    assert isinstance(value.type, TensorType)
    return prod(value.type.get_shape()) <= most
