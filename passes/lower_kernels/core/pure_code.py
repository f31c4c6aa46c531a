"""Pure operations of a kernel: an insertion point, cheap construction, and no value twice.

In: an operation class with operands and result type. Out: its SSA value; a pure operation that
an enclosing block already holds with the same operands is not written again. Constants stand at
the head of the kernel.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial, reduce
from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.types import ElementType

INDEX = IndexType()
NO_FASTMATH = arith.FastMathFlagsAttr("none")


@lru_cache(maxsize=256)
def shaped(type: Attribute, count: int) -> Attribute:
    """The type itself for one lane, else a vector of it."""
    return type if count == 1 else VectorType(type, [count])


@lru_cache(maxsize=64)
def memory_type(element: ElementType) -> Attribute:
    """The element type that buffers and values of a tensor element type have: signless."""
    type = element.attribute
    return IntegerType(type.width.data) if isinstance(type, IntegerType) else type


def lane_count(value: SSAValue) -> int:
    """How many lanes a value has."""
    return value.type.get_shape()[0] if isinstance(value.type, VectorType) else 1


def scalar_type(value: SSAValue) -> Attribute:
    """The type of one lane."""
    return value.type.element_type if isinstance(value.type, VectorType) else value.type


class PureCode:
    """One kernel's operations as they are written: those whose value is all that they give."""

    def __init__(self, block: Block) -> None:
        self.entry = block
        self.block = block
        self.location: Any = None
        self._constants: list[Operation] = []
        self._constant_values: dict[Hashable, SSAValue] = {}
        self._known: dict[Hashable, Any] = {}
        self._entered: list[list[Hashable]] = [[]]
        self._numbers: dict[int, tuple[Attribute, int]] = {}
        self._equal: dict[Attribute, int] = {}

    def recall(self, key: Hashable) -> Any:
        """What `remember` was told in this block or one around it; None if nothing."""
        return self._known.get(key)

    def remember(self, key: Hashable, value: Any) -> None:
        """Holds until the present block ends, of a key under which there is nothing."""
        assert key not in self._known, "the value of a block around this one would be lost"
        self._entered[-1].append(key)
        self._known[key] = value

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Writes into another block; values of it are forgotten after."""
        outer, self.block = self.block, block
        with self.forgetting():
            yield
        self.block = outer

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Values that are written inside are forgotten after."""
        self._entered.append([])
        yield
        for key in self._entered.pop():
            self._known.pop(key, None)

    def effect(self, cls: type[Operation], operands: Sequence[SSAValue], **rest: Any) -> Operation:
        """An operation that must be written where it stands."""
        op = cls.create(operands=operands, **rest)
        if self.location is not None:
            op.location = self.location
        self.block.add_op(op)
        return op

    def pure(
        self, cls: type[Operation], operands: Sequence[SSAValue], type: Attribute, **properties: Any
    ) -> SSAValue:
        """The value of a pure operation, written unless it is already there."""
        number = self._number
        key = (cls, *operands, number(type), *map(number, properties.values()))
        value = self.recall(key)
        if value is None:
            op = self.effect(cls, operands, result_types=[type], properties=properties)
            value = op.results[0]
            self.remember(key, value)
        return value

    def constant(self, number: float | int, type: Attribute, count: int = 1) -> SSAValue:
        """A number of a scalar type, in every lane."""
        key = (self._number(type), count, str(number))
        if key not in self._constant_values:
            value = _number(number, type)
            if count > 1:
                lanes_type = shaped(type, count)
                value = DenseIntOrFPElementsAttr.from_list(lanes_type, [value.value.data])  # type: ignore
            op = arith.ConstantOp.create(
                result_types=[shaped(type, count)], properties={"value": value}
            )
            self._constants.append(op)
            self._constant_values[key] = op.results[0]
        return self._constant_values[key]

    def _number(self, attribute: Attribute) -> int:
        """One number for equal attributes, which are compared once: to hash one takes long."""
        known = self._numbers.get(id(attribute))
        if known is None:
            number = self._equal.setdefault(attribute, len(self._equal))
            known = self._numbers[id(attribute)] = (attribute, number)
        return known[1]

    def lane_numbers(self, count: int, type: Attribute) -> SSAValue:
        """0, 1, 2, … along the lanes."""
        return self.numbers(range(count), type)

    def numbers(self, values: Sequence[int], type: Attribute) -> SSAValue:
        """An integer in each lane."""
        key = ("numbers", tuple(values), self._number(type))
        if key not in self._constant_values:
            lanes_type = shaped(type, len(values))
            value = DenseIntOrFPElementsAttr.from_list(lanes_type, list(values))  # type: ignore
            op = arith.ConstantOp.create(result_types=[lanes_type], properties={"value": value})
            self._constants.append(op)
            self._constant_values[key] = op.results[0]
        return self._constant_values[key]

    def spread(self, value: SSAValue, count: int) -> SSAValue:
        """A scalar in every lane; a vector as it is."""
        if count == 1 or isinstance(value.type, VectorType):
            return value
        op = value.owner
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr | FloatAttr):
            return self.constant(op.value.value.data, value.type, count)
        return self.pure(vector.BroadcastOp, [value], shaped(value.type, count))

    def together(self, *values: SSAValue) -> list[SSAValue]:
        """All values with the same number of lanes."""
        count = max(lane_count(value) for value in values)
        return [self.spread(value, count) for value in values]

    def binary(self, cls: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        """`arith` on two values of one type."""
        left, right = self.together(left, right)
        if issubclass(cls, arith.FloatingPointLikeBinaryOperation):
            return self.pure(cls, [left, right], left.type, fastmath=NO_FASTMATH)
        return self.pure(cls, [left, right], left.type)

    def compare_integers(self, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """An integer comparison: an i1, or one for each lane."""
        return self._compare(kernel.CompareIntegersOp, arith.CmpiOp, predicate, left, right)

    def compare_floats(self, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """A float comparison: an i1, or one for each lane."""
        operations = kernel.CompareFloatsOp, arith.CmpfOp
        return self._compare(*operations, predicate, left, right, fastmath=NO_FASTMATH)

    def _compare(
        self,
        lanes: type[kernel.CompareIntegersOp | kernel.CompareFloatsOp],
        scalars: type[Operation],
        predicate: str,
        left: SSAValue,
        right: SSAValue,
        **properties: Any,
    ) -> SSAValue:
        """A comparison by the operation for lanes or, with its properties, the one for scalars."""
        left, right = self.together(left, right)
        if isinstance(left.type, VectorType):
            type = shaped(i1, lane_count(left))
            return self.pure(lanes, [left, right], type, predicate=StringAttr(predicate))
        number = IntegerAttr(lanes.PREDICATES.index(predicate), i64)
        return self.pure(scalars, [left, right], i1, predicate=number, **properties)

    def select(self, test: SSAValue | bool, yes: SSAValue, no: SSAValue) -> SSAValue:
        """`yes` where the test holds. A scalar test chooses between whole vectors; it may be known
        already.
        """
        if isinstance(test, bool):
            return yes if test else no
        yes, no = self.together(yes, no)
        if lane_count(test) == 1:
            return self.pure(arith.SelectOp, [test, yes, no], yes.type)
        yes, no = self.spread(yes, lane_count(test)), self.spread(no, lane_count(test))
        return self.pure(kernel.SelectOp, [test, yes, no], yes.type)

    def all_of(self, tests: Sequence[SSAValue | bool]) -> SSAValue | bool:
        """Whether all of some tests hold, which may be known already."""
        if False in tests:
            return False
        unknown = [test for test in tests if not isinstance(test, bool)]
        return reduce(partial(self.binary, arith.AndIOp), unknown) if unknown else True

    def or_zeros(self, test: SSAValue | bool, value: SSAValue) -> SSAValue:
        """A value where a test holds, and zeros elsewhere."""
        if test is True:
            return value
        return self.select(test, value, self.constant(0, scalar_type(value), lane_count(value)))

    def joined(self, values: Sequence[SSAValue]) -> SSAValue:
        """Scalars as a vector; a single one as it is."""
        if len(values) == 1:
            return values[0]
        type = shaped(values[0].type, len(values))
        return self.pure(kernel.FromElementsOp, list(values), type)

    def convert(self, kind: str, value: SSAValue, type: Attribute) -> SSAValue:
        """A cast to a scalar type, of each lane: `sitofp`, `extf`, `trunci`, …"""
        if kind in ("extf", "truncf"):
            cls = arith.ExtFOp if kind == "extf" else arith.TruncFOp
            return self.pure(cls, [value], shaped(type, lane_count(value)))
        if not isinstance(value.type, VectorType):
            return self.pure(kernel.SCALAR_CASTS[kind], [value], type)
        target = shaped(type, lane_count(value))
        return self.pure(kernel.CastOp, [value], target, kind=StringAttr(kind))


def _number(number: float | int, type: Attribute) -> IntegerAttr | FloatAttr:
    if isinstance(type, IndexType):
        return IntegerAttr(int(number), type)
    if isinstance(type, IntegerType):
        bits = type.width.data
        wrapped = int(number) & ((1 << bits) - 1)
        if bits > 1 and wrapped >= 1 << (bits - 1):
            wrapped -= 1 << bits
        return IntegerAttr(-wrapped if bits == 1 else wrapped, type)
    try:
        return FloatAttr(float(number), type)  # type: ignore
    except OverflowError:
        return FloatAttr(math.copysign(math.inf, number), type)  # type: ignore


def lane_of(code: PureCode, value: SSAValue, lane: int) -> SSAValue:
    """One lane of a vector; a scalar as it is."""
    if lane_count(value) == 1:
        return value
    return code.pure(
        vector.ExtractOp,
        [value],
        scalar_type(value),
        static_position=DenseArrayBase.from_list(i64, [lane]),
    )
