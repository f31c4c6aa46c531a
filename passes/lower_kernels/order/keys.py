"""Keys as integers that lie in the order wanted, and records of a key and a position.

Floats are mapped to integers in the order of their values: zeros are one number, and NaN is the
largest, also where the order is descending. A record is one i64, the key before the position, where
the key has 32 bits; else two numbers. No two records of a row are equal, so that a network that is
not stable sorts them stably.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir import SSAValue

from mgn.dialects.types import ElementType, Family
from mgn.passes.kernels.index import Index
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_count, scalar_type, shaped
from mgn.passes.lower_kernels.core.scalar import is_unsigned

Record = Sequence[SSAValue]


@dataclass(frozen=True)
class Keys:
    """How elements of a type are compared."""

    code: Code
    element: ElementType
    descending: bool

    @property
    def type(self) -> IntegerType:
        return i64 if self.element.bits == 64 else i32

    def of(self, value: SSAValue) -> SSAValue:
        """The key of an element."""
        key = self._of_float(value) if self.element.is_float else self._of_integer(value)
        if self.descending:
            key = self.code.binary(arith.XOrIOp, key, self.code.constant(-1, self.type))
        if not self.element.is_float:
            return key
        return self.code.select(self._is_nan(value), self.last, key)

    @property
    def last(self) -> SSAValue:
        """The largest key."""
        return self.code.constant((1 << (self.type.width.data - 1)) - 1, self.type)

    def _of_float(self, value: SSAValue) -> SSAValue:
        code, type = self.code, self.type
        if self.element.bits == 16:
            value = code.convert("extf", value, f32)
        value = code.binary(arith.AddfOp, value, code.constant(0.0, scalar_type(value)))
        bits = code.pure(arith.BitcastOp, [value], shaped(type, lane_count(value)))
        turned = code.binary(arith.ShRSIOp, bits, code.constant(type.width.data - 1, type))
        turned = code.binary(arith.AndIOp, turned, self.last)
        return code.binary(arith.XOrIOp, bits, turned)

    def _is_nan(self, value: SSAValue) -> SSAValue:
        if self.element.bits == 16:
            value = self.code.convert("extf", value, f32)
        return self.code.compare_floats("une", value, value)

    def _of_integer(self, value: SSAValue) -> SSAValue:
        code, element = self.code, self.element
        if element.bits < 32:
            extended = is_unsigned(element) or element.family is Family.BOOL
            return code.convert("extui" if extended else "extsi", value, i32)
        if is_unsigned(element):
            return code.binary(arith.XOrIOp, value, code.constant(-(1 << 31), i32))
        return value


@dataclass(frozen=True)
class Records:
    """Records of a key and a position, as values and in arrays."""

    keys: Keys

    @property
    def packed(self) -> bool:
        return self.keys.type == i32

    @property
    def types(self) -> list[IntegerType]:
        return [i64] if self.packed else [i64, i32]

    def of(self, value: SSAValue, position: Index) -> Record:
        """The record of an element."""
        code = self.keys.code
        return self._record(
            self.keys.of(value), code.convert("index_cast", code.index(position), i32)
        )

    def absent(self) -> Record:
        """A record after those of all elements."""
        code = self.keys.code
        return self._record(self.keys.last, code.constant((1 << 31) - 1, i32))

    def _record(self, key: SSAValue, position: SSAValue) -> Record:
        if not self.packed:
            return [key, position]
        code = self.keys.code
        high = code.binary(arith.ShLIOp, code.convert("extsi", key, i64), code.constant(32, i64))
        return [code.binary(arith.OrIOp, high, code.convert("extui", position, i64))]

    def less(self, left: Record, right: Record) -> SSAValue:
        """Whether one record is before another."""
        code = self.keys.code
        if self.packed:
            return code.compare_integers("slt", left[0], right[0])
        before = code.compare_integers("slt", left[0], right[0])
        equal = code.compare_integers("eq", left[0], right[0])
        sooner = code.compare_integers("slt", left[1], right[1])
        return code.binary(arith.OrIOp, before, code.binary(arith.AndIOp, equal, sooner))

    def in_order(self, first: Record, second: Record) -> tuple[Record, Record]:
        """Two records, the one that is before the other first."""
        code, swapped = self.keys.code, self.less(second, first)
        both = list(zip(first, second, strict=True))
        low = [code.select(swapped, b, a) for a, b in both]
        return low, [code.select(swapped, a, b) for a, b in both]

    def position(self, record: Record) -> SSAValue:
        """The position of a record's element."""
        code = self.keys.code
        low = code.convert("trunci", record[0], i32) if self.packed else record[1]
        return code.convert("index_cast", low, INDEX)

    def local(self, count: int) -> Sequence[SSAValue]:
        """Arrays of a work-group for so many records."""
        return [self.keys.code.local(type, count) for type in self.types]

    def private(self, count: int) -> Sequence[SSAValue]:
        """Arrays of a work-item for so many records."""
        return [self.keys.code.private(type, count) for type in self.types]

    def load(self, arrays: Sequence[SSAValue], place: SSAValue) -> Record:
        return [self.keys.code.load(array, place) for array in arrays]

    def store(self, record: Record, arrays: Sequence[SSAValue], place: SSAValue) -> None:
        for value, array in zip(record, arrays, strict=True):
            self.keys.code.store(value, array, place)


@dataclass(frozen=True)
class LaneRecords(Records):
    """Records of as many runs side by side as vectors have lanes, each of one i64."""

    lanes: int = 1

    def positions(self, record: Record) -> SSAValue:
        """The positions of the records' elements, as a vector of i32."""
        return self.keys.code.convert("trunci", record[0], i32)

    def in_order(self, first: Record, second: Record) -> tuple[Record, Record]:
        code, pair = self.keys.code, (first[0], second[0])
        return [code.binary(arith.MinSIOp, *pair)], [code.binary(arith.MaxSIOp, *pair)]

    def load(self, arrays: Sequence[SSAValue], place: SSAValue) -> Record:
        return [self.keys.code.load(array, place, self.lanes) for array in arrays]

    def store(self, record: Record, arrays: Sequence[SSAValue], place: SSAValue) -> None:
        spread = [self.keys.code.spread(value, self.lanes) for value in record]
        super().store(spread, arrays, place)
