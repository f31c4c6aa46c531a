"""Blocks of a scatter whose ids are in order, on a GPU: a group has some places along the axis.

It searches for the elements that are meant for its places (search.py), and goes over them in
chunks. A work-item combines neighbours that have one id. What crosses work-items is combined in
local memory in steps that reach twice as far each (Hillis and Steele 1986), as far as ids are
alike. Then one work-item puts what a chunk has for a place to what is there, so that the order is
always the same. Where totals of parts are there already, one of them is added for all chunks of a
part that has one id.
"""

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from mgn.passes.kernels.index import Counter, Index, of
from mgn.passes.lower_kernels.core.pure_code import INDEX
from mgn.passes.lower_kernels.core.scalar import widened
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.block_totals import BlockTotals
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.lower_kernels.scatter.search import Search


def lower_blocks(job: Job) -> Launch:
    """Writes a scatter by ids in order whose groups have blocks of places."""
    return _Blocks(job).write()


class _Blocks(BlockTotals):
    def __init__(self, job: Job) -> None:
        super().__init__(job, spare=1)
        code, self.each = self.code, job.entry("each")
        self.firsts, self.lasts = (code.local(i32, self.items) for _ in range(2))
        self.marks = code.local(i32, 2 * self.items)
        self.values = [code.local(self.type, self.items) for _ in range(2)]

    def write(self) -> Launch:
        code = self.code
        self.start()
        low, high = self._elements()
        code.barrier()
        if "part" in self.node.values:
            self._each_part(low, high)
        else:
            self._chunks(low, high)
        self.finish()
        return self.launch

    def _chunks(self, low: Index, high: Index) -> None:
        """Adds what some elements have to the totals."""
        chunk = self.items * self.each
        elements = of(Counter(self.code.index(high - low), 0, self.count))
        trips = (elements + (chunk - 1)) // chunk
        self.code.each(0, trips, lambda trip: self._chunk(low + trip * chunk, high))

    def _each_part(self, low: Index, high: Index) -> None:
        """The same by the totals of parts whose ids are all one; these have no chunks."""
        code, part = self.code, self.node.values["part"]

        def one_part(number: Index) -> None:
            begin, end = number * part, number * part + part
            first = code.binary(arith.MaxSIOp, code.index(begin), code.index(low))
            last = code.binary(arith.MinSIOp, code.index(end), code.index(high))
            is_whole = code.compare_integers("eq", code.binary(arith.SubiOp, last, first), size)
            here = of(Counter(code.binary(arith.MinSIOp, first, most), 0, self.count - 1))
            there = code.known((end - 1).clamp(0, self.count - 1), self.count)
            alike = code.compare_integers("eq", self.id(here), self.id(there))
            alike = code.binary(arith.AndIOp, alike, is_whole)
            is_first = code.is_below(self.item, 1, 1)
            code.when(code.all_of([alike, is_first]), lambda: self._add_part(number, here))
            first = code.select(alike, last, first)
            self._chunks(*(of(Counter(value, 0, self.count)) for value in (first, last)))

        size, most = (code.constant(n, INDEX) for n in (part, self.count - 1))
        code.each(low // part, (high + (part - 1)) // part, one_part)
        code.barrier()  # the total of a last part was added by one work-item, and others write it

    def _add_part(self, number: Index, element: Index) -> None:
        """Adds the total of a part to that of the place that its elements are meant for."""
        totals = self.node.operands[3]
        code, count = self.code, totals.shape[self.axis]
        if not count:
            return
        own = code.known(number.clamp(0, count - 1), count)
        value = self.job.evaluator().lanes_at(totals, self.index(own))
        key = code.convert("index_cast", self.from_first(element), i32)
        self._add(key, widened(code, value, totals.element))

    def _elements(self) -> tuple[Index, Index]:
        """Where the elements begin that are meant for the block, and where those behind do."""
        ends = (self.first, (self.first + self.block).clamp(0, self.places))
        search = Search(self.code, self.item, self.items, self.count, self.id, self.marks, 2)
        low, high = search.first_not_below(ends)
        return low, high

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
        place = of(Counter(self.code.convert("index_cast", key, INDEX), 0, self.block))
        self.add(self.code.index(place), value)

    def _read(self, element: Index, end: Index) -> tuple[SSAValue, SSAValue]:
        """The place in the block that an element is meant for, one behind it for none, and it."""
        code = self.code
        inside = code.compare_integers("slt", code.index(element), code.index(end))
        own = code.known(element.clamp(0, self.count - 1), self.count)
        key = code.binary(arith.MaxSIOp, self.from_first(own), code.constant(0, INDEX))
        key = code.binary(arith.MinSIOp, key, code.constant(self.block - 1, INDEX))
        key = code.convert("index_cast", key, i32)
        key = code.select(inside, key, code.constant(self.block, i32))
        return key, self.value(own)
