"""Operations made ready for the interpreter, which computes some of them again and again.

In: an operation, a block or a graph. Out: what the interpreter asks of it in every run, found once:
attributes, types, decompositions, and where values lie. What was made ready is not to be changed
as long as it is run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from mgn.dialects.mgn.checks import Checked, checked_ids
from mgn.dialects.mgn.decompose import Decomposition, decomposition_of
from mgn.dialects.mgn.grad import EXPANDERS, grads_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import (
    ConstantOp,
    GraphOp,
    HoldsProgram,
    ParamOp,
    ReadOp,
    parameters_of,
)
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family, element_of

Array = np.ndarray
WIDE = ELEMENT_TYPES["f64"]
"""In which element type all floats are computed on request."""


class Declared(NamedTuple):
    """The type of a result, as NumPy has it: of its elements, of them in a wide run, its shape."""

    type: TensorType
    dtype: np.dtype | None
    wide: np.dtype | None
    shape: tuple[int, ...]


class Step:
    """An operation made ready: the types of its results, and how these are computed.

    A core operation has `attributes`, and those of a wide run; `is_grouped` says that its operands
    are not passed on one by one. Another operation has the `inner` block that computes it. A
    constant has its `array`; a read of a parameter with a block format has its `format`.
    """

    def __init__(self, op: Operation, parameters: Mapping[str, ParamOp] | None = None) -> None:
        self.op = op
        self.declared = [declared_type(result.type) for result in op.results]
        self.evaluate: Callable[..., Array | Sequence[Array]] | None = None
        self.inner: Steps | None = None
        self.checked: Checked | None = None
        if isinstance(op, TensorOp):
            spec = self.spec = op.spec
            self.checked = checked_ids(op)
            if spec.evaluate is None:
                self.inner = _inner(decomposition_of(op))
            else:
                self.evaluate = spec.evaluate
                self.attributes = op.values
                self.wide_attributes = {
                    name: _widened(value) for name, value in self.attributes.items()
                }
                self.is_grouped = any(item.variadic or item.optional for item in spec.operands)
                if not self.is_grouped:
                    spec.split_operands(op.operands)
        elif isinstance(op, HoldsProgram):
            self.inner = Steps(op.block, parameters=parameters)
        elif isinstance(op, ConstantOp):
            self.array = op.array
        elif isinstance(op, ReadOp):
            self.format = _block_format(op, parameters)


class Placed(NamedTuple):
    """A step of a block, and the places of its operands, of its results, and of the values that no
    later step reads.
    """

    step: Step
    operands: list[int]
    results: list[int]
    ended: list[int]


class Steps:
    """A block made ready: its steps in order, and a place for each value.

    `given` are its arguments and what it reads from outside, `returned` the places of what its
    terminator names, or of the values that are asked for.
    """

    def __init__(
        self,
        block: Block,
        returned: Sequence[SSAValue] | None = None,
        parameters: Mapping[str, ParamOp] | None = None,
    ) -> None:
        self.places: dict[SSAValue, int] = {value: n for n, value in enumerate(block.args)}
        self.given: list[SSAValue] = list(block.args)
        self.steps: list[Placed] = []
        for op in block.ops:
            operands = [self._place(value) for value in op.operands]
            if op.has_trait(IsTerminator):
                returned = op.operands
                break
            results = list(range(len(self.places), len(self.places) + len(op.results)))
            self.places.update(zip(op.results, results, strict=True))
            self.steps.append(Placed(Step(op, parameters), operands, results, []))
        self.returned = [self._place(value) for value in returned or ()]
        self._end_values()

    def _place(self, value: SSAValue) -> int:
        """Where a value lies; one that the block does not make is from outside."""
        known = self.places.get(value)
        if known is None:
            known = self.places[value] = len(self.places)
            self.given.append(value)
        return known

    def _end_values(self) -> None:
        """Notes after which step a value is read no more."""
        seen = set(self.returned)
        for placed in reversed(self.steps):
            for place in (*placed.operands, *placed.results):
                if place not in seen:
                    seen.add(place)
                    placed.ended.append(place)


class ReadyGraph:
    """A graph made ready, to be run any number of times. Its gradients are put in place."""

    def __init__(self, graph: GraphOp) -> None:
        module = _module_of(graph)
        parameters = {} if module is None else parameters_of(module)
        self.name = graph.sym_name.data
        if grads_of(graph):
            graph = graph.clone()
            for expand in EXPANDERS:
                expand(graph.block)
        self.steps = Steps(graph.block, parameters=parameters)
        self.inputs = [(name, argument.type) for name, argument in graph.named_inputs]
        self.states = [(name, argument.type) for name, argument in graph.named_states]
        self.result_names = graph.result_names
        self.written_names = graph.written_names


@lru_cache(maxsize=4096)
def _inner(decomposition: Decomposition) -> Steps:
    """The steps of a decomposition, which all operations of one signature share."""
    return Steps(decomposition.block, decomposition.results)


def declared_type(type: Attribute) -> Declared:
    """A tensor type as NumPy has it."""
    assert isinstance(type, TensorType)
    element = element_of(type)
    wide = WIDE.dtype if element.is_float else element.dtype
    return Declared(type, element.dtype, wide, type.get_shape())


def _widened(value: Any) -> Any:
    return WIDE if isinstance(value, ElementType) and value.is_float else value


def _block_format(op: ReadOp, parameters: Mapping[str, ParamOp] | None) -> str | None:
    """The block format of the parameter that is read, if it has one. A graph whose gradients were
    put in place is in no module: `parameters` are those of the one that it was copied from.
    """
    if parameters is None:
        module = _module_of(op)
        parameters = {} if module is None else parameters_of(module)
    found = parameters.get(op.parameter_name)
    element = None if found is None else element_of(found.type)
    return element.name if element is not None and element.family is Family.BLOCK else None


def _module_of(op: Operation) -> ModuleOp | None:
    """The module that an operation is in, if it is in one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    return parent
