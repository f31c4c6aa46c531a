"""Writing a kernel: memory, control flow and indices around its pure operations.

In: buffers, places and bodies. Out: operations that stand where they were asked for; what was read
is read again only after a barrier.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, UnitAttr, VectorType, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Clamped, Counter, Index, Lane, Quotient, Remainder, of
from mgn.passes.lower_kernels.core.pure_code import INDEX, PureCode, lane_count, scalar_type, shaped

INDEX_LIMIT = 1 << 31
"""The first number that 32 bits do not hold."""
ALLOCA_SEGMENTS = memref.AllocaOp.build(
    operands=[[], []],
    result_types=[MemRefType(i32, [1])],
    properties={"alignment": None},
).properties["operandSegmentSizes"]


class Code(PureCode):
    """One kernel as it is written."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.states_alignment = False

    def finish(self) -> None:
        """Ends the kernel: constants go to its head."""
        self.block.add_op(kernel.ReturnOp.create())
        first = self.entry.first_op
        assert first is not None
        self.entry.insert_ops_before(self._constants, first)

    # Memory

    def forget_loads(self) -> None:
        """After a barrier, what was read must be read again."""
        for key in [key for key in self._known if isinstance(key, tuple) and key[0] == "load"]:
            del self._known[key]

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

    def await_stages(self) -> None:
        """A stage of a resident launch waits here for earlier ones. What was read before may be
        kept: a stage waits before its kernel where any of that is written.
        """
        self.effect(kernel.AwaitStagesOp, [])

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

    def each(
        self, start: Index | int, end: Index | int, body: Callable[[Index], object], unroll: int = 0
    ) -> None:
        """A counted loop that carries nothing."""

        def step(number: Index, _: list[SSAValue]) -> tuple[()]:
            body(number)
            return ()

        self.loop(start, end, step, unroll=unroll)

    def each_own(
        self, item: Index, block: int, count: int, body: Callable[[Index], object]
    ) -> None:
        """Runs a body for each of the `block` numbers, of so many, that a work-item has."""
        trips: Index | int = block
        if count % block:
            trips = (item * -block + count).clamp(0, block)
        self.each(0, trips, lambda step: body(self.known(item * block + step, count)))

    def branch(
        self,
        test: SSAValue | bool,
        yes: Callable[[], Sequence[SSAValue] | None],
        no: Callable[[], Sequence[SSAValue] | None] | None = None,
    ) -> list[SSAValue]:
        """`if`, with the results of the branch that was taken; the test may be known already."""
        if isinstance(test, bool):
            taken = yes if test else no
            return list(taken() or ()) if taken is not None else []
        regions: list[Region] = []
        types: list[Attribute] = []
        for body in (yes, no):
            if body is None:
                regions.append(Region())
                continue
            block = Block()
            with self.inside(block):
                results = list(body() or ())
                types = [value.type for value in results]
                self.effect(scf.YieldOp, results)
            regions.append(Region(block))
        op = self.effect(scf.IfOp, [test], result_types=types, regions=regions)
        return list(op.results)

    def when(self, test: SSAValue | bool, body: Callable[[], None]) -> None:
        """Runs a body where a test holds, which may be known already."""
        self.branch(test, body)

    # Indices

    def known(self, index: Index, limit: int) -> Index:
        """An index that is below a limit, though its parts need not tell."""
        return of(Counter(self.index(index), 0, limit - 1))

    def exclusive_or(self, index: Index, other: Index, limit: int) -> Index:
        """Two indices, bit by bit one or the other, which is known to be below a limit."""
        if other.is_constant and other.constant == 0:
            return index
        value = self.pure(arith.XOrIOp, [self.index(index), self.index(other)], INDEX)
        known = self.recall(("exclusive or", value))
        if known is None:
            known = of(Counter(value, 0, limit - 1))
            self.remember(("exclusive or", value), known)
        return known

    def bounded(self, index: Index, limit: int) -> Index:
        """An index brought below a limit, and known to be."""
        if index.high < limit and index.low >= 0:
            return index
        return self.known(index.clamp(0, limit - 1), limit)

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
        """An index as a vector of integers, one for each lane: of a type, which need not hold the
        steps on the way, or else of i32 where that holds all of them.
        """
        needed = self.index_type(index)
        if type is None:
            type = needed
        if type == i32 and needed == i64:
            return self.convert("trunci", self.lanes_index(index, count, i64), i32)
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

    @staticmethod
    def index_type(index: Index) -> Attribute:
        """The narrowest type that holds an index and the steps on the way to it."""
        low, high = index.reach
        return i32 if low >= -INDEX_LIMIT and high < INDEX_LIMIT else i64

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

    def is_within(self, index: Index, size: int) -> SSAValue | bool:
        """Whether an index, alike in all lanes, is of an axis: known, or an i1. A negative number
        without its sign is larger than any size.
        """
        if index.low >= 0:
            return self.is_below(index, size, 1)
        if index.high < 0 or index.low >= size:
            return False
        return self.compare_integers("ult", self.index(index), self.constant(size, INDEX))


def _fixed(number: int) -> Index:
    return Index((), number, number, number)
