"""A program as plain data, which can be built, printed, cut down and run again.

In: leaves (inputs, parameters, constants, each with its array) and steps (an operation's name with
operands and attributes, as the language calls it). Out: a module of one graph, its `.mgn` text, and
Python that repeats a run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.types import element_of_dtype, tensor

Operand = int | float | tuple[int, ...]
"""The number of a value; a literal, which is a float; or the numbers of a list's values."""

SHOWN_ELEMENTS = 64
"""Arrays of at most so many elements are written out."""


@dataclass(frozen=True)
class Leaf:
    """A value that is given: `kind` is input, param or constant."""

    number: int
    kind: str
    array: np.ndarray

    @property
    def name(self) -> str:
        """Its name in the program's text."""
        return f"{'w' if self.kind == 'param' else 'x'}{self.number}"


@dataclass(frozen=True)
class Step:
    """A call of an operation; `numbers` are those of its results."""

    numbers: tuple[int, ...]
    name: str
    operands: tuple[Operand, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the values that it reads."""
        return tuple(reads_of(self.operands))


def reads_of(operands: Sequence[Operand]) -> Iterator[int]:
    """The numbers of the values among operands."""
    for operand in operands:
        if isinstance(operand, tuple):
            yield from operand
        elif not isinstance(operand, float):
            yield operand


@dataclass(frozen=True)
class Program:
    """Leaves, steps in order, and the numbers of the values that are returned."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(step.name for step in self.steps))

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The arrays of the inputs by name."""
        return {leaf.name: leaf.array for leaf in self.leaves if leaf.kind == "input"}

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The arrays of the parameters by name."""
        return {leaf.name: leaf.array for leaf in self.leaves if leaf.kind == "param"}

    def live(self) -> "Program":
        """The same without what no output needs."""
        wanted = set(self.outputs)
        steps: list[Step] = []
        for step in reversed(self.steps):
            if wanted & set(step.numbers):
                steps.append(step)
                wanted |= set(step.reads)
        leaves = tuple(leaf for leaf in self.leaves if leaf.number in wanted)
        return replace(self, leaves=leaves, steps=tuple(reversed(steps)))

    def build(self) -> ModuleOp:
        """A module of one graph. ShapeError or CallError where a step does not fit its operands."""
        types = {
            leaf.number: tensor(element_of_dtype(leaf.array.dtype), leaf.array.shape)
            for leaf in self.leaves
        }
        inputs = [leaf for leaf in self.leaves if leaf.kind == "input"]
        block = Block(arg_types=[types[leaf.number] for leaf in inputs])
        emitter = Emitter(block.add_op)
        values: dict[int, SSAValue] = dict(
            zip((leaf.number for leaf in inputs), block.args, strict=True)
        )
        for leaf in self.leaves:
            if leaf.kind == "param":
                read = ReadOp(leaf.name, types[leaf.number])
                block.add_op(read)
                values[leaf.number] = read.result
            elif leaf.kind == "constant":
                values[leaf.number] = emitter.constant_array(np.array(leaf.array, order="C"))
        for step in self.steps:
            values.update(zip(step.numbers, call(emitter, step, values), strict=True))
        block.add_op(ReturnOp([values[number] for number in self.outputs]))
        results = [f"y{n}" for n in range(len(self.outputs))]
        graph = GraphOp("g", [leaf.name for leaf in inputs], results, Region(block))
        declared = [
            ParamOp(leaf.name, types[leaf.number], None)
            for leaf in self.leaves
            if leaf.kind == "param"
        ]
        module = ModuleOp([*declared, graph])
        module.verify()
        return module

    def text(self) -> str:
        """The program in the language."""
        from mgn.frontend.print_mgn import print_mgn

        return print_mgn(self.build())

    def snippet(self, call: str) -> str:
        """Python that compiles the program by a call of `mgn.compile`'s form and runs it."""
        lines = ["import ml_dtypes, mgn, numpy as np", f'text = """\n{self.text().strip()}\n"""']
        lines.append(f"exe = {call}")
        given = [leaf for leaf in self.leaves if leaf.kind != "constant"]
        for leaf in given:
            place = f'exe.params["{leaf.name}"]' if leaf.kind == "param" else leaf.name
            lines.append(f"{place} = {written(leaf.array)}")
        arguments = ", ".join(f"{name}={name}" for name in self.inputs)
        return "\n".join([*lines, f"print(exe({arguments}))"])


def call(emitter: Emitter, step: Step, values: dict[int, SSAValue]) -> tuple[SSAValue, ...]:
    """The results of a step's operation, added through an emitter."""
    operands: list[Any] = []
    for operand in step.operands:
        if isinstance(operand, tuple):
            operands.append([values[number] for number in operand])
        else:
            operands.append(operand if isinstance(operand, float) else values[operand])
    spec = OPERATIONS[step.name]
    if spec.operands and spec.operands[0].starred:
        operands = operands[0]
        equation, *_ = (value for name, value in step.attributes if name == "equation")
        result = emitter.call(step.name, equation, *operands)
    else:
        named = {item.name: value for item, value in zip(spec.operands, operands, strict=False)}
        result = emitter.call(step.name, **named, **dict(step.attributes))
    return result if isinstance(result, tuple) else (result,)


def written(array: np.ndarray) -> str:
    """An array as a Python expression: its bits where it is small."""
    if array.size > SHOWN_ELEMENTS:
        return f"...  # {array.dtype} {list(array.shape)}, as the seed draws it"
    dtype = "ml_dtypes.bfloat16" if array.dtype.kind == "V" or "bf" in array.dtype.name else ""
    dtype = dtype or f"np.{array.dtype.name.replace('bool', 'bool_')}"
    if array.dtype.kind in "iub":
        return f"np.array({array.tolist()}, {dtype})"
    bits = array.view(f"u{array.dtype.itemsize}")
    values = f"np.array({bits.tolist()}, np.{bits.dtype.name}).view({dtype})"
    return f"{values}  # {array.astype(np.float64).tolist()}"
