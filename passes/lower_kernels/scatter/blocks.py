"""Blocks of a scatter whose ids are in order, on a GPU: a group has some places along the axis.

It finds by bisection which elements are meant for its places, and goes over them in chunks. A
work-item combines neighbours that have one id. What crosses work-items is combined in local memory
in steps that reach twice as far each (Hillis and Steele 1986), as far as ids are alike. Then one
work-item puts what a chunk has for a place to what is there, so that the order is always the same.
"""

from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices
from mgn.passes.kernels.index import Counter, Index, delinearised, of
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import INDEX, memory_type
from mgn.passes.lower_kernels.core.scalar import narrowed, widened
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.joining import join


def lower_blocks(job: Job) -> Launch:
    """Writes a scatter by ids in order whose groups have blocks of places."""
    return _Blocks(job).write()


class _Blocks:
    def __init__(self, job: Job) -> None:
        self.job, self.code = job, job.code
        (self.node,) = job.body.of_kind(Kind.SCATTER)
        self.x, self.ids, self.src = self.node.operands
        self.axis, self.shape = self.node.values["axis"], self.node.shape
        self.places, self.count = self.shape[self.axis], self.src.shape[self.axis]
        self.items, self.each = job.entry("items"), job.entry("each")
        self.block = job.entry("block")
        code, type = self.code, memory_type(accumulator(self.node.element))
        self.totals = code.local(type, self.block + 1)
        self.firsts, self.lasts = (code.local(i32, self.items) for _ in range(2))
        self.values = [code.local(type, self.items) for _ in range(2)]

    def write(self) -> Launch:
        code, axis = self.code, self.axis
        blocks = ceil_div(self.places, self.block)
        others = (*self.shape[:axis], *self.shape[axis + 1 :])
        groups = prod(others) * blocks
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.item = code.counter(kernel.LocalIdOp, 0, self.items)
        self.row = delinearised(group // blocks, others)
        self.first = group % blocks * self.block
        own = ceil_div(self.block, self.items)
        for step in range(own):
            self._start(self.item + step * self.items)
        low, high = self._elements()
        code.barrier()
        chunk = self.items * self.each
        elements = of(Counter(code.index(high - low), 0, self.count))
        trips = (elements + (chunk - 1)) // chunk
        code.each(0, trips, lambda trip: self._chunk(low + trip * chunk, high))
        for step in range(own):
            self._finish(self.item + step * self.items)
        return Launch((groups * self.items,), (self.items,))

    def _index(self, place: Index) -> Indices:
        return (*self.row[: self.axis], place, *self.row[self.axis :])

    def _id(self, element: Index) -> SSAValue:
        """The id of an element, inside the axis, as an i32."""
        evaluator = self.job.evaluator()
        value = evaluator.at(self.ids, self._index(element))
        named = clamped_id(evaluator, self.ids, value, self.places - 1)
        return self.code.convert("index_cast", named, i32)

    def _elements(self) -> tuple[Index, Index]:
        """Where the elements begin that are meant for the block, and where those behind do."""
        code, one = self.code, self.code.constant(1, i32)
        ends = (self.first, (self.first + self.block).clamp(0, self.places))
        wanted = [code.convert("index_cast", code.index(end), i32) for end in ends]
        start = [code.constant(number, i32) for number in (0, self.count)] * 2

        def turn(_: Index, held: list[SSAValue]) -> list[SSAValue]:
            found: list[SSAValue] = []
            for target, low, high in zip(wanted, held[::2], held[1::2], strict=True):
                middle = code.binary(arith.AddiOp, low, high)
                middle = code.binary(arith.ShRUIOp, middle, one)
                last = code.constant(self.count - 1, i32)
                place = code.binary(arith.MinSIOp, middle, last)
                place = code.convert("index_cast", place, INDEX)
                value = self._id(of(Counter(place, 0, self.count - 1)))
                below = code.compare_integers("slt", value, target)
                is_open = code.compare_integers("slt", low, high)
                below = code.binary(arith.AndIOp, below, is_open)
                behind = code.binary(arith.AddiOp, middle, one)
                found += [code.select(below, behind, low), code.select(below, high, middle)]
            return found

        found = code.loop(0, self.count.bit_length(), turn, start)
        low, high = (code.convert("index_cast", found[n], INDEX) for n in (0, 2))
        return (of(Counter(low, 0, self.count)), of(Counter(high, 0, self.count)))

    def _start(self, place: Index) -> None:
        """Puts what is at a place before into the total of the place."""
        code = self.code

        def put() -> None:
            there = code.known((self.first + place).clamp(0, self.places - 1), self.places)
            value = self.job.evaluator().lanes_at(self.x, self._index(there))
            value = widened(code, value, self.node.element)
            code.store(value, self.totals, code.index(place))

        code.when(code.is_below(place, self.block, 1), put)

    def _finish(self, place: Index) -> None:
        """Writes the results of a place."""
        code, job = self.code, self.job

        def put() -> None:
            there = code.known(self.first + place, self.places)
            total = code.load(self.totals, code.index(code.bounded(place, self.block)))
            total = narrowed(code, total, self.node.element)
            evaluator = job.evaluator()
            evaluator.given[self.node] = lambda _: total
            job.write_at(evaluator, lambda _: self._index(there))

        inside = code.all_of(
            [
                code.is_below(place, self.block, 1),
                code.is_below(self.first + place, self.places, 1),
            ]
        )
        code.when(inside, put)

    # Chunks

    def _chunk(self, begin: Index, end: Index) -> None:
        """Adds what a chunk of elements has to the totals."""
        code = self.code
        read = [self._read(begin + self.item * self.each + n, end) for n in range(self.each)]
        (first, value), *rest = read
        last, head, none = first, value, code.constant(0, i1)
        splits = none
        for key, item in rest:
            differs = code.compare_integers("ne", key, last)
            is_inner = code.binary(arith.AndIOp, differs, splits)
            code.when(is_inner, lambda last=last, value=value: self._add(last, value))
            head = code.select(splits, head, value)
            splits = code.binary(arith.OrIOp, splits, differs)
            value = code.select(differs, item, join(code, self.node, value, item))
            last = key
        own = code.index(self.item)
        code.store(first, self.firsts, own)
        code.store(last, self.lasts, own)
        value = self._across(last, value)
        left = code.index(self.item.clamp(1, self.items - 1) - 1)
        before, there = code.load(self.lasts, left), code.load(self.values[0], left)
        goes_on = code.compare_integers("eq", before, first)
        alone = code.is_below(self.item, 1, 1)
        head = code.select(
            alone, head, code.select(goes_on, join(code, self.node, there, head), head)
        )
        code.when(splits, lambda: self._add(first, head))
        right = code.index((self.item + 1).clamp(0, self.items - 1))
        ends = code.compare_integers("ne", code.load(self.firsts, right), last)
        is_last = code.compare_integers("eq", own, code.constant(self.items - 1, INDEX))
        ends = code.binary(arith.OrIOp, ends, is_last)
        code.when(ends, lambda: self._add(last, value))
        code.barrier()

    def _across(self, key: SSAValue, value: SSAValue) -> SSAValue:
        """What the work-items up to this one have for its last place, also in local memory."""
        code, own = self.code, self.code.index(self.item)
        source, target = self.values
        code.store(value, source, own)
        code.barrier()
        reach = 1
        while reach < self.items:
            left = code.index(self.item.clamp(reach, self.items - 1) - reach)
            alike = code.compare_integers("eq", code.load(self.lasts, left), key)
            joined = join(code, self.node, code.load(source, left), value)
            found = code.select(alike, joined, value)
            value = code.select(code.is_below(self.item, reach, 1), value, found)
            code.store(value, target, own)
            code.barrier()
            source, target = target, source
            reach *= 2
        self.values = [source, target]
        return value

    def _add(self, key: SSAValue, value: SSAValue) -> None:
        """Adds to the total of a place of the block."""
        code = self.code
        place = code.index(of(Counter(code.convert("index_cast", key, INDEX), 0, self.block)))
        code.store(join(code, self.node, code.load(self.totals, place), value), self.totals, place)

    def _read(self, element: Index, end: Index) -> tuple[SSAValue, SSAValue]:
        """The place in the block that an element is meant for, one behind it for none, and it."""
        code = self.code
        inside = code.compare_integers("slt", code.index(element), code.index(end))
        own = code.known(element.clamp(0, self.count - 1), self.count)
        first = code.convert("index_cast", code.index(self.first), i32)
        key = code.binary(arith.SubiOp, self._id(own), first)
        key = code.binary(arith.MaxSIOp, key, code.constant(0, i32))
        key = code.binary(arith.MinSIOp, key, code.constant(self.block - 1, i32))
        key = code.select(inside, key, code.constant(self.block, i32))
        value = self.job.evaluator().lanes_at(self.src, self._index(own))
        return key, widened(code, value, self.node.element)
