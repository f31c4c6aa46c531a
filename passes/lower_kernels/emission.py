"""Writing operations of a kernel: an insertion point, cheap construction, and no value twice.

In: an operation class with operands and result type. Out: its SSA value; a pure operation that
an enclosing block already holds with the same operands is not written again. Constants stand at
the head of the kernel.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mgn.dialects import kernel
from mgn.dialects.kernel.masks import FLOAT_PREDICATES, INTEGER_PREDICATES
from mgn.dialects.types import ElementType
from mgn.passes.lower_kernels.index import (
    Clamped,
    Counter,
    Index,
    Lane,
    Quotient,
    Remainder,
    of,
)

INDEX = IndexType()
INDEX_LIMIT = 1 << 31


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


class Code:
    """One kernel's operations as they are written."""

    def __init__(self, block: Block) -> None:
        self.entry = block
        self.block = block
        self.location: Any = None
        self.states_alignment = False
        self._constants: list[Operation] = []
        self._constant_values: dict[Hashable, SSAValue] = {}
        self._known: list[dict[Hashable, Any]] = [{}]

    def finish(self) -> None:
        """Ends the kernel: constants go to its head."""
        self.block.add_op(kernel.ReturnOp.create())
        first = self.entry.first_op
        assert first is not None
        self.entry.insert_ops_before(self._constants, first)

    def recall(self, key: Hashable) -> Any:
        """What `remember` was told in this block or one around it; None if nothing."""
        for known in reversed(self._known):
            if key in known:
                return known[key]
        return None

    def remember(self, key: Hashable, value: Any) -> None:
        """Holds until the present block ends."""
        self._known[-1][key] = value

    def forget_loads(self) -> None:
        """After a barrier, what was read must be read again."""
        for known in self._known:
            for key in [key for key in known if isinstance(key, tuple) and key[0] == "load"]:
                del known[key]

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
        self._known.append({})
        yield
        self._known.pop()

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
        key = (cls, *operands, type, *properties.values())
        value = self.recall(key)
        if value is None:
            value = self.effect(cls, operands, result_types=[type], properties=properties).results[
                0
            ]
            self._known[-1][key] = value
        return value

    def constant(self, number: float | int, type: Attribute, count: int = 1) -> SSAValue:
        """A number of a scalar type, in every lane."""
        key = (type, count, str(number))
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

    def lane_numbers(self, count: int, type: Attribute) -> SSAValue:
        """0, 1, 2, … along the lanes."""
        return self.numbers(range(count), type)

    def numbers(self, values: Sequence[int], type: Attribute) -> SSAValue:
        """An integer in each lane."""
        key = ("numbers", tuple(values), type)
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
        left, right = self.together(left, right)
        if isinstance(left.type, VectorType):
            type = shaped(i1, lane_count(left))
            name = StringAttr(predicate)
            return self.pure(kernel.CompareIntegersOp, [left, right], type, predicate=name)
        number = IntegerAttr(INTEGER_PREDICATES.index(predicate), i64)
        return self.pure(arith.CmpiOp, [left, right], i1, predicate=number)

    def compare_floats(self, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
        """A float comparison: an i1, or one for each lane."""
        left, right = self.together(left, right)
        if isinstance(left.type, VectorType):
            type = shaped(i1, lane_count(left))
            name = StringAttr(predicate)
            return self.pure(kernel.CompareFloatsOp, [left, right], type, predicate=name)
        number = IntegerAttr(FLOAT_PREDICATES.index(predicate), i64)
        return self.pure(arith.CmpfOp, [left, right], i1, predicate=number, fastmath=NO_FASTMATH)

    def select(self, test: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """`yes` where the test holds. A scalar test chooses between whole vectors."""
        yes, no = self.together(yes, no)
        if lane_count(test) == 1:
            return self.pure(arith.SelectOp, [test, yes, no], yes.type)
        yes, no = self.spread(yes, lane_count(test)), self.spread(no, lane_count(test))
        return self.pure(kernel.SelectOp, [test, yes, no], yes.type)

    def convert(self, kind: str, value: SSAValue, type: Attribute) -> SSAValue:
        """A cast to a scalar type, of each lane: `sitofp`, `extf`, `trunci`, …"""
        if kind in ("extf", "truncf"):
            cls = arith.ExtFOp if kind == "extf" else arith.TruncFOp
            return self.pure(cls, [value], shaped(type, lane_count(value)))
        if not isinstance(value.type, VectorType):
            return self.pure(kernel.SCALAR_CASTS[kind], [value], type)
        target = shaped(type, lane_count(value))
        return self.pure(kernel.CastOp, [value], target, kind=StringAttr(kind))

    # Memory

    def load(
        self, buffer: SSAValue, index: SSAValue, count: int = 1, multiple: int = 1
    ) -> SSAValue:
        """Consecutive elements of a buffer, read where the code stands.

        `multiple` is a number that is known to divide the index.
        """
        type = shaped(buffer.type.element_type, count)  # type: ignore
        cls = memref.LoadOp if count == 1 else vector.LoadOp
        op = self.effect(cls, [buffer, index], result_types=[type])
        self._align(op, buffer, count, multiple)
        return op.results[0]

    def store(self, value: SSAValue, buffer: SSAValue, index: SSAValue, multiple: int = 1) -> None:
        """Writes a scalar or a vector to consecutive elements."""
        cls = vector.StoreOp if isinstance(value.type, VectorType) else memref.StoreOp
        op = self.effect(cls, [value, buffer, index])
        self._align(op, buffer, lane_count(value), multiple)

    def prefetch(self, buffer: SSAValue, index: SSAValue, level: int, write: bool = False) -> None:
        """A hint that an element will be read or written soon."""
        properties = {"level": IntegerAttr(level, i64)} | ({"write": UnitAttr()} if write else {})
        self.effect(kernel.PrefetchOp, [buffer, index], properties=properties)

    def _align(self, op: Operation, buffer: SSAValue, count: int, multiple: int) -> None:
        """Notes that a vector in global or local memory lies at a multiple of its own size."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        private = kernel.space_of(type) is kernel.Space.PRIVATE
        if self.states_alignment and count > 1 and multiple % count == 0 and not private:
            size = count * kernel.element_bytes(type.element_type)
            op.attributes["alignment"] = IntegerAttr(size, i64)

    def private(self, type: Attribute, count: int) -> SSAValue:
        """An array of the work-item's own, made at the kernel's head."""
        op = memref.AllocaOp.create(
            result_types=[kernel.private_memory(type, count)],
            properties={"operandSegmentSizes": ALLOCA_SEGMENTS},
        )
        self._constants.append(op)
        return op.results[0]

    def local(self, type: Attribute, count: int) -> SSAValue:
        """Memory of the work-group, made at the kernel's head."""
        op = kernel.LocalAllocOp(kernel.local_memory(type, count))
        self._constants.append(op)
        return op.results[0]

    def barrier(self) -> None:
        self.effect(kernel.BarrierOp, [])
        self.forget_loads()

    # Control

    def counter(self, cls: type[Operation], dimension: int, count: int) -> Index:
        """A work-item's place, which is below a count."""
        value = self.pure(cls, [], INDEX, dimension=IntegerAttr(dimension, i64))
        return of(Counter(value, 0, count - 1))

    def loop(
        self,
        start: Index | int,
        end: Index | int,
        body: Callable[[Index, list[SSAValue]], Sequence[SSAValue]],
        carried: Sequence[SSAValue] = (),
        high: int | None = None,
        unroll: int = 0,
    ) -> list[SSAValue]:
        """A counted loop; `body` gets the counter and the carried values and returns the next.

        `high` bounds the counter where that is known better than from `end`. `unroll` asks the
        device's compiler for so many steps at a time.
        """
        low = start if isinstance(start, int) else start.low
        top = (end if isinstance(end, int) else end.high) - 1
        if high is not None:
            top = min(top, high)
        if top < low:
            return list(carried)
        if isinstance(start, int) and isinstance(end, int) and start + 1 >= end:
            return list(body(_fixed(start), list(carried)))
        bounds = [self.index(start), self.index(end), self.constant(1, INDEX)]
        block = Block(arg_types=[INDEX, *(value.type for value in carried)])
        with self.inside(block):
            counter = Counter(block.args[0], low, max(top, low))
            index = of(counter)
            results = list(body(index, list(block.args[1:])))
            self.effect(scf.YieldOp, results)
        loop = self.effect(
            scf.ForOp,
            [*bounds, *carried],
            result_types=[value.type for value in carried],
            regions=[Region(block)],
        )
        if unroll:
            loop.attributes["unroll"] = IntegerAttr(unroll, i64)
        return list(loop.results)

    def branch(
        self,
        test: SSAValue,
        yes: Callable[[], Sequence[SSAValue]],
        no: Callable[[], Sequence[SSAValue]] | None = None,
    ) -> list[SSAValue]:
        """`if`, with the results of the branch that was taken."""
        regions: list[Region] = []
        types: list[Attribute] = []
        for body in (yes, no):
            if body is None:
                regions.append(Region())
                continue
            block = Block()
            with self.inside(block):
                results = list(body())
                types = [value.type for value in results]
                self.effect(scf.YieldOp, results)
            regions.append(Region(block))
        op = self.effect(scf.IfOp, [test], result_types=types, regions=regions)
        return list(op.results)

    def when(self, test: SSAValue | bool, body: Callable[[], object]) -> None:
        """Runs a body where a test holds, which may be known already."""
        if test is True:
            body()
        elif test is not False:

            def taken() -> tuple[()]:
                body()
                return ()

            self.branch(test, taken)

    # Indices

    def index(self, index: Index | int) -> SSAValue:
        """An index that is the same in all lanes, as a scalar."""
        if isinstance(index, int):
            return self.constant(index, INDEX)
        total: SSAValue | None = None
        for atom, coefficient in sorted(index.terms, key=lambda term: term[1] < 0):
            value = self._atom(atom)
            magnitude = abs(coefficient)
            if magnitude != 1:
                value = self.pure(arith.MuliOp, [value, self.constant(magnitude, INDEX)], INDEX)
            if total is None:
                total = value
                if coefficient < 0:
                    total = self.pure(arith.SubiOp, [self.constant(0, INDEX), value], INDEX)
            else:
                cls = arith.AddiOp if coefficient > 0 else arith.SubiOp
                total = self.pure(cls, [total, value], INDEX)
        if total is None:
            return self.constant(index.constant, INDEX)
        if index.constant:
            total = self.pure(arith.AddiOp, [total, self.constant(index.constant, INDEX)], INDEX)
        return total

    def _atom(self, atom: Any) -> SSAValue:
        if isinstance(atom, Counter):
            return atom.value
        if isinstance(atom, Quotient | Remainder):
            cls = arith.DivSIOp if isinstance(atom, Quotient) else arith.RemSIOp
            divisor = self.constant(atom.divisor, INDEX)
            return self.pure(cls, [self.index(atom.inner), divisor], INDEX)
        assert isinstance(atom, Clamped)
        value = self.index(atom.inner)
        if atom.inner.low < atom.low:
            value = self.pure(arith.MaxSIOp, [value, self.constant(atom.low, INDEX)], INDEX)
        if atom.inner.high > atom.high:
            value = self.pure(arith.MinSIOp, [value, self.constant(atom.high, INDEX)], INDEX)
        return value

    def lanes_index(self, index: Index, count: int, type: Attribute | None = None) -> SSAValue:
        """An index as a vector of integers, one for each lane."""
        if type is None:
            wide = index.high >= INDEX_LIMIT or index.low < -INDEX_LIMIT
            type = i64 if wide else i32
        vector_type = shaped(type, count)
        uniform = {atom: c for atom, c in index.terms if not atom.varies}
        base = Index(tuple(uniform.items()), index.constant, 0, 0)
        scalar = self.convert("index_cast", self.index(base), type)
        total = None if base.is_constant and not base.constant else self.spread(scalar, count)
        for atom, coefficient in index.terms:
            if not atom.varies:
                continue
            value = self._lanes_atom(atom, count, type)
            if coefficient != 1:
                factor = self.constant(coefficient, type, count)
                value = self.pure(arith.MuliOp, [value, factor], vector_type)
            total = value if total is None else self.binary(arith.AddiOp, total, value)
        return self.spread(scalar, count) if total is None else total

    def _lanes_atom(self, atom: Any, count: int, type: Attribute) -> SSAValue:
        if isinstance(atom, Lane):
            return self.lane_numbers(count, type)
        if isinstance(atom, Counter):
            value = atom.value
            if scalar_type(value) != type:
                value = self.convert("extsi" if type == i64 else "trunci", value, type)
            return value
        value = self.lanes_index(atom.inner, count, type)
        if isinstance(atom, Quotient | Remainder):
            cls = arith.DivSIOp if isinstance(atom, Quotient) else arith.RemSIOp
            return self.binary(cls, value, self.constant(atom.divisor, type, count))
        value = self.binary(arith.MaxSIOp, value, self.constant(atom.low, type, count))
        return self.binary(arith.MinSIOp, value, self.constant(atom.high, type, count))

    def is_below(self, index: Index, bound: int, count: int) -> SSAValue | bool:
        """Whether an index is below a bound: known, one i1, or one for each lane."""
        known = index.below(bound)
        if isinstance(known, bool):
            return known
        index, bound = known
        if not index.varies:
            return self.compare_integers("slt", self.index(index), self.constant(bound, INDEX))
        value = self.lanes_index(index, count)
        return self.compare_integers("slt", value, self.constant(bound, scalar_type(value), count))


NO_FASTMATH = arith.FastMathFlagsAttr("none")
ALLOCA_SEGMENTS = memref.AllocaOp.build(
    operands=[[], []],
    result_types=[MemRefType(i32, [1])],
    properties={"alignment": None},
).properties["operandSegmentSizes"]


def _number(number: float | int, type: Attribute) -> IntegerAttr | FloatAttr:
    if isinstance(type, IndexType):
        return IntegerAttr(int(number), type)
    if isinstance(type, IntegerType):
        bits = type.width.data
        wrapped = int(number) & ((1 << bits) - 1)
        if bits > 1 and wrapped >= 1 << (bits - 1):
            wrapped -= 1 << bits
        return IntegerAttr(-wrapped if bits == 1 else wrapped, type)
    return FloatAttr(float(number), type)  # type: ignore


def _fixed(number: int) -> Index:
    return Index((), number, number, number)
