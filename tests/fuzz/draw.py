"""A program being drawn: values that exist, and ways to get one of a wanted type.

In: a random generator and a flavour. Out: `Draw`, to which makers of operations add steps; its
`program` is what came of them.
"""

import math
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family, element_of, tensor
from tests.fuzz.program import Leaf, Operand, Program, Step, call
from tests.fuzz.values import EMPTY, Shape, draw_array, draw_shape

FLOAT_ELEMENTS = ("f32", "f32", "f32", "f32", "f16", "bf16", "f64")
INTEGER_ELEMENTS = ("i32", "i32", "i64", "i16", "i8", "u32", "u16", "u8")
MOST_ELEMENTS = 120_000
"""Of a value that a step makes."""

CONSTANT_ELEMENTS = 64
"""Of a constant, which stands in the program's text."""


class Draw:
    """Values by number, of which steps make more. `tame` programs keep to what is finite. `empty`
    is how often an axis has no element.
    """

    def __init__(self, rng: random.Random, flavour: str, size: int, empty: float = EMPTY) -> None:
        self.rng, self.flavour, self.size, self.empty = rng, flavour, size, empty
        self.arrays = np.random.default_rng(rng.getrandbits(64))
        self.leaves: list[Leaf] = []
        self.steps: list[Step] = []
        self.values: dict[int, SSAValue] = {}
        self._block = Block()
        self._emitter = Emitter(self._block.add_op)
        self.float_element = rng.choice(FLOAT_ELEMENTS)
        self.integer_element = rng.choice(INTEGER_ELEMENTS)

    # ---- what is known of a value

    def element(self, number: int) -> ElementType:
        """The element type of a value."""
        return element_of(self.values[number].type)

    def shape(self, number: int) -> Shape:
        """The shape of a value."""
        type = self.values[number].type
        assert isinstance(type, TensorType)
        return tuple(type.get_shape())

    # ---- new values

    def leaf(self, element: str, shape: Shape, flavour: str | None = None) -> int:
        """A new input, parameter or constant."""
        array = draw_array(self.arrays, element, shape, flavour or self.flavour)
        kinds = ("input", "input", "input", "param", "constant")
        kind = self.rng.choice(kinds if array.size <= CONSTANT_ELEMENTS else kinds[:4])
        return self.given(array, kind)

    def given(self, array: np.ndarray, kind: str = "input") -> int:
        """A leaf with this array."""
        number = len(self.values)
        self.leaves.append(Leaf(number, kind, array))
        element = next(row for row in ELEMENT_TYPES.values() if row.dtype == array.dtype)
        block = Block(arg_types=[tensor(element, array.shape)])
        self.values[number] = block.args[0]
        return number

    def ids(self, shape: Shape, size: int) -> int:
        """A leaf of ids into an axis of a size, a few of them outside."""
        element = self.rng.choice(("i32", "i32", "i64", "i16", "u8", "u32"))
        limits = np.iinfo(ELEMENT_TYPES[element].dtype)  # type: ignore
        outside = 2 if self.rng.random() < 0.3 else 0
        low, high = max(-outside, int(limits.min)), min(size + outside, int(limits.max))
        array = self.arrays.integers(low, max(high, low + 1), shape)
        return self.given(array.astype(ELEMENT_TYPES[element].dtype))

    def step(self, name: str, *operands: Operand, **attributes: Any) -> int:
        """The first result of a new step. ShapeError or CallError where it does not fit."""
        return self.steps_of(name, *operands, **attributes)[0]

    def steps_of(self, name: str, *operands: Operand, **attributes: Any) -> tuple[int, ...]:
        """All results of a new step."""
        before = len(self.values)
        step = Step((), name, operands, tuple(attributes.items()))
        results = call(self._emitter, step, self.values)
        numbers = tuple(range(before, before + len(results)))
        sizes = [math.prod(result.type.get_shape()) for result in results]  # type: ignore
        if sum(sizes) > MOST_ELEMENTS or any(len(r.type.get_shape()) > 7 for r in results):  # type: ignore
            raise ShapeError("too large for a fuzzed program")
        self.steps.append(Step(numbers, name, operands, step.attributes))
        self.values.update(zip(numbers, results, strict=True))
        return numbers

    def mark(self) -> tuple[int, int, int]:
        """What there is, for `forget`."""
        return len(self.values), len(self.leaves), len(self.steps)

    def forget(self, mark: tuple[int, int, int]) -> None:
        """Takes back what was made since a mark."""
        values, leaves, steps = mark
        for number in [number for number in self.values if number >= values]:
            del self.values[number]
        del self.leaves[leaves:], self.steps[steps:]

    # ---- values of a wanted type

    def among(self, families: Iterable[Family], least_rank: int = 0) -> int:
        """A value of one of these families, of at least a rank: one that exists, or a leaf."""
        wanted = frozenset(families)
        known = [
            number
            for number in self.values
            if self.element(number).family in wanted and len(self.shape(number)) >= least_rank
        ]
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known[-3:] if self.rng.random() < 0.8 else known)
        shape = draw_shape(self.rng, self.size, self.empty)
        while len(shape) < least_rank:
            shape = (*shape, self.rng.choice((1, 2, 3, 5, 8, 17)))
        return self.leaf(self.element_name(wanted), shape)

    def element_name(self, families: Iterable[Family]) -> str:
        """An element type of one of these families: the program's own, most of the time."""
        wanted = frozenset(families)
        kept = self.rng.random() < 0.7
        if Family.FLOAT in wanted and (len(wanted) == 1 or self.rng.random() < 0.6):
            return self.float_element if kept else self.rng.choice(FLOAT_ELEMENTS)
        if wanted == {Family.BOOL}:
            return "bool"
        names = [name for name in INTEGER_ELEMENTS if ELEMENT_TYPES[name].family in wanted]
        if not names:
            return "f32" if Family.FLOAT in wanted else "bool"
        return self.integer_element if kept and self.integer_element in names else (
            self.rng.choice(names)
        )  # fmt: skip

    def value(self, element: str, shape: Shape) -> int:
        """A value of exactly this type: one that exists, one made of another, or a leaf."""
        same = [
            number
            for number in self.values
            if self.shape(number) == shape and self.element(number).name == element
        ]
        if same and self.rng.random() < 0.7:
            return self.rng.choice(same)
        count = math.prod(shape)
        alike = [
            number
            for number in self.values
            if math.prod(self.shape(number)) == count and self.element(number).name == element
        ]
        if alike and self.rng.random() < 0.5:
            return self.step("reshape", self.rng.choice(alike), shape=list(shape))
        return self.leaf(element, shape)

    def fitting(self, element: str, shape: Shape) -> int:
        """A value that broadcasts to a shape."""
        known = [
            number
            for number in self.values
            if self.element(number).name == element and broadcasts(self.shape(number), shape)
        ]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        part = tuple(1 if self.rng.random() < 0.25 else size for size in shape)
        if self.rng.random() < 0.3:
            part = part[self.rng.randint(0, len(part)) :]
        return self.value(element, part) if part == shape else self.leaf(element, part)

    def literal(self, element: ElementType) -> float:
        """A number that an element type holds."""
        if element.is_float:
            return self.rng.choice((0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 0.1, 1e-5, 100.0))
        return float(self.rng.choice((0, 1, 2, 3, 5, 7)))

    # ---- what keeps values finite

    def bounded(self, number: int) -> int:
        """The value, or in a tame program often its tanh: at most 1."""
        return self.step("tanh", number) if self._guards(number) else number

    def positive(self, number: int) -> int:
        """The value, or in a tame program often more than 0.25."""
        if not self._guards(number):
            return number
        return self.step("add", self.step("abs", number), 0.25)

    def _guards(self, number: int) -> bool:
        share = 0.85 if self.flavour == "tame" else 0.3
        return self.element(number).is_float and self.rng.random() < share

    def program(self) -> Program:
        """The program; its results are values that no step reads, and sometimes another."""
        made = [number for step in self.steps for number in step.numbers]
        read = {number for step in self.steps for number in step.reads}
        unread = [number for number in made if number not in read]
        outputs = unread[-4:]
        if self.rng.random() < 0.3:
            outputs += [number for number in [self.rng.choice(made)] if number not in outputs]
        if self.rng.random() < 0.02:
            outputs.append(self.rng.choice(list(self.values)))
        return Program(tuple(self.leaves), tuple(self.steps), tuple(outputs)).live()


def broadcasts(part: Shape, whole: Shape) -> bool:
    """Whether a shape broadcasts to another."""
    return len(part) <= len(whole) and all(
        one in (1, other) for one, other in zip(part[::-1], whole[::-1], strict=False)
    )


REFUSALS = (ShapeError, CallError)
"""What a step raises that does not fit its operands."""
