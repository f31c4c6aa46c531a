"""What is known of a value in a program for a longer size, beside the same in one for a shorter.

Both programs come from one graph. The longer's value has the shorter's in its leading corner, where
it *agrees*; what lies outside of the corner is padding. Of the padding, and of the values, there
are facts:

    ANYTHING      no fact
    FINITE        neither an infinity nor NaN, as long as nothing overflows
    exactly(c)    each element is c
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.shapes import Shape
from mgn.dialects.types import element_of


class Differs(Exception):
    """A result of the longer program is not known to hold that of the shorter; says why."""


@dataclass(frozen=True)
class Fact:
    """What each of some elements is."""

    finite: bool
    value: Any = None

    def __or__(self, other: "Fact") -> "Fact":
        """What is so of elements of which the one or the other is."""
        if self == other:
            return self
        return FINITE if self.finite and other.finite else ANYTHING


ANYTHING, FINITE = Fact(False), Fact(True)


def exactly(value: Any) -> Fact:
    """Each element is this number."""
    if isinstance(value, float) and math.isnan(value):
        return ANYTHING
    return Fact(math.isfinite(value), value)


def any_of(facts: Iterable[Fact]) -> Fact:
    """What is so of elements that may be of several kinds."""
    found = list(facts)
    result = found[0]
    for item in found[1:]:
        result |= item
    return result


@dataclass(frozen=True)
class Known:
    """A value's shapes in both programs, and what is known.

    `inside` is of the corner; `slabs` has for each axis whose sizes differ what is known of all
    elements beyond the shorter size. `problem` says why the corner is not known to agree.
    """

    long: Shape
    short: Shape
    inside: Fact = ANYTHING
    slabs: Mapping[int, Fact] = field(default_factory=dict[int, Fact])
    problem: str | None = None

    @property
    def padded(self) -> list[int]:
        """The axes whose sizes differ."""
        return [axis for axis, size in enumerate(self.long) if size != self.short[axis]]

    @property
    def everywhere(self) -> Fact:
        """What is so of each element."""
        return any_of([self.inside, *self.slabs.values()])

    def at(self, axis: int) -> Fact:
        """What is so of the elements that lie beyond the shorter size of the result's axis that is
        this one here; of all elements where the axis has one size.
        """
        return self.slabs.get(axis, self.everywhere)

    def with_facts(self, fact: Fact) -> "Known":
        """The same, where this is so of each element."""
        return replace(self, inside=fact, slabs=dict.fromkeys(self.padded, fact))


@dataclass(frozen=True)
class Beside:
    """One operation in both programs, and what is known of its operands."""

    long: TensorOp
    short: TensorOp
    operands: Sequence[Known]

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.long.spec.name

    @property
    def values(self) -> dict[str, Any]:
        """The attributes in the longer program."""
        return self.long.values

    @property
    def results(self) -> list[Known]:
        """The results, of which nothing is known but that all agree. Differs where one is smaller
        in the longer program, or of another rank.
        """
        pairs = zip(self.long.results, self.short.results, strict=True)
        return [paired(long, short) for long, short in pairs]

    @property
    def is_same(self) -> bool:
        """Whether no operand and no result has an axis whose sizes differ."""
        return not any(item.padded for item in (*self.operands, *self.results))

    def grouped(self) -> list[Any]:
        """What is known of the operands, as the signature groups them."""
        return self.long.spec.split_operands(list(self.operands))


def paired(long: SSAValue, short: SSAValue) -> Known:
    """A value that agrees. Differs where that cannot be."""
    shapes = shape_of(long), shape_of(short)
    if len(shapes[0]) != len(shapes[1]) or element_of(long.type) != element_of(short.type):
        raise Differs("it has other types at other sizes")
    if any(size < other for size, other in zip(*shapes, strict=True)):
        raise Differs("an axis of it gets shorter as the size grows")
    fact = ANYTHING if element_of(long.type).is_float else FINITE
    return Known(*shapes).with_facts(fact)


def shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor."""
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())
