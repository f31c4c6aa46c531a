"""Scatters by ids in order but for their lowest bits, on a GPU: a sub-group has a bucket of places.

A group searches for where the elements of its buckets begin (search.py). Then each sub-group goes
over those of its own, 32 at a time. Its work-items add them to totals in local memory, those that
meet at a place one after the other. So a place gets its elements in their order, on every run.

A long bucket has whole parts, whose totals `bucket_totals` has found before: by sub-groups too, one
for each part.
"""

from collections.abc import Callable
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, f32, i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Counter, Index, delinearised, of
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.movement import clamped_id
from mgn.passes.lower_kernels.core.pure_code import INDEX, memory_type
from mgn.passes.lower_kernels.core.scalar import narrowed, widened
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scatter.block_totals import BlockTotals
from mgn.passes.lower_kernels.scatter.joining import join
from mgn.passes.lower_kernels.scatter.runs import adds_floats, whole_parts
from mgn.passes.lower_kernels.scatter.search import Search
from mgn.passes.schedules.product.matrix_tiles import SUB_GROUP

AT_ONCE = 4
"""Parts whose totals are read together."""

LARGEST_ID = (1 << 31) - 1
"""The largest id of a bucket."""

Read = Callable[[Index], tuple[Index, SSAValue]]


def lower_buckets(job: Job) -> Launch:
    """Writes a scatter whose sub-groups have buckets of places."""
    return _Buckets(job).write()


def lower_bucket_totals(job: Job) -> Launch:
    """Writes the totals of parts of buckets."""
    return _PartTotals(job).write()


def bucket_total(code: Code, evaluator: Evaluator, node: Node, index: Indices) -> SSAValue:
    """The total of a place of a part's bucket, by one work-item, which goes over the part."""
    ids, src = node.operands
    axis, part, bucket = node.values["axis"], node.values["part"], 1 << node.values["bits"]
    number, place = index[axis] // bucket, index[axis] % bucket
    size = code.constant(bucket, INDEX)

    def index_of(element: Index) -> Indices:
        return (*index[:axis], element, *index[axis + 1 :])

    def id(element: Index) -> SSAValue:
        return clamped_id(evaluator, ids, evaluator.at(ids, index_of(element)), LARGEST_ID)

    def step(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        element = number * part + turn
        names = code.compare_integers(
            "eq", code.binary(arith.RemSIOp, id(element), size), code.index(place)
        )
        value = widened(code, evaluator.lanes_at(src, index_of(element)), node.element)
        return [code.select(names, join(code, node, held[0], value), held[0])]

    ends = [code.binary(arith.DivSIOp, id(number * part + end), size) for end in (0, part - 1)]
    zero = code.constant(0, memory_type(accumulator(node.element)), evaluator.lanes)
    return code.branch(
        code.compare_integers("eq", *ends),
        lambda: long_loop(code, 0, part, step, [zero], [adds_floats(node)]),
        lambda: [zero],
    )[0]


class _Additions:
    """What sub-groups add to totals in local memory: some elements of each work-item at a time.

    `places` of the totals are a sub-group's own, which begin at its number times so many.
    """

    def __init__(self, code: Code, item: Index, totals: SSAValue, places: int, each: int) -> None:
        self.code, self.totals, self.places, self.each = code, totals, places, each
        self.lane, self.first = item % SUB_GROUP, item // SUB_GROUP * places
        memory = totals.type
        assert isinstance(memory, MemRefType)
        self.marks = code.local(i32, memory.get_shape()[0])

    def each_cell(self, body: Callable[[Index], None]) -> None:
        """Does something for each of a work-item's own cells, by its place in the bucket."""
        for place, is_own in self.own_places:
            self.code.when(is_own, lambda place=place: body(place))

    @property
    def own_places(self) -> list[tuple[Index, SSAValue | bool]]:
        """Some places in the bucket for each work-item, and whether they are its own."""
        code, places = self.code, self.places
        wanted = [self.lane + step * SUB_GROUP for step in range(ceil_div(places, SUB_GROUP))]
        return [(code.bounded(place, places), code.is_below(place, places, 1)) for place in wanted]

    def clear_marks(self) -> None:
        """Says that nobody has had a turn yet. A barrier has to follow."""
        none = self.code.constant(-1, i32)
        self.each_cell(lambda p: self.code.store(none, self.marks, self.code.index(self.first + p)))

    def add(
        self,
        begin: Index,
        end: Index,
        limit: int,
        read: Read,
        turn: SSAValue,
    ) -> SSAValue:
        """Adds the elements from `begin` to `end`, which are below a limit. `read` gives an
        element's place in the bucket, and the element. Out: the turns there were.
        """
        code, chunk = self.code, SUB_GROUP * self.each

        def one_chunk(trip: Index, held: list[SSAValue]) -> list[SSAValue]:
            places = [begin + trip * chunk + (self.lane + n * SUB_GROUP) for n in range(self.each)]
            found = [self._read(place, end, limit, read) for place in places]
            (turn,) = held
            for cell, value in found:
                operands = [value, self.totals, cell, self.marks, turn]
                turn = code.effect(kernel.AddInOrderOp, operands, result_types=[i32]).results[0]
            return [turn]

        count = of(Counter(code.index(end - begin), 0, limit))
        trips = (count + (chunk - 1)) // chunk
        return code.loop(0, trips, one_chunk, [turn])[0]

    def _read(
        self,
        element: Index,
        end: Index,
        limit: int,
        read: Read,
    ) -> tuple[SSAValue, SSAValue]:
        """The cell that an element is added to, below 0 for none, and the element."""
        code = self.code
        inside = code.compare_integers("slt", code.index(element), code.index(end))
        place, value = read(code.known(element.clamp(0, limit - 1), limit))
        cell = code.index(self.first + place)
        return code.select(inside, cell, code.constant(-1, INDEX)), value

    def place_of(self, id: SSAValue) -> Index:
        """The place in a bucket that an id, an index of at least 0, names: its lowest bits."""
        lowest = self.code.constant(self.places - 1, INDEX)
        return of(Counter(self.code.binary(arith.AndIOp, id, lowest), 0, self.places - 1))


class _Buckets(BlockTotals):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        values = self.node.values
        self.part, self.bucket = values["part"], 1 << values["bits"]
        self.sums = self.node.operands[3]
        each = job.entry("each")
        self.added = _Additions(self.code, self.item, self.totals, self.bucket, each)
        self.buckets = self.items // SUB_GROUP
        self.ends = self.code.local(i32, self.buckets + 1)

    def write(self) -> Launch:
        code, count, part = self.code, self.count, self.part
        self.start()
        low, high = self._elements()
        self.added.clear_marks()
        begin, stop, left, right = whole_parts(code, low, high, part, count)
        if count >= part:
            self._add_parts(begin, stop, count // part)
        code.barrier()

        def one_side(side: Index, held: list[SSAValue]) -> list[SSAValue]:
            is_left = code.is_below(side, 1, 1)
            sides = zip((low, left), (right, high), strict=True)
            first, last = (
                of(Counter(code.select(is_left, code.index(one), code.index(other)), 0, count))
                for one, other in sides
            )
            return [self.added.add(first, last, count, self._read, held[0])]

        code.loop(0, 2, one_side, [code.constant(0, i32)])
        code.barrier()
        self.finish()
        return self.launch

    def _elements(self) -> tuple[Index, Index]:
        """Where the elements of the sub-group's bucket begin and end."""
        code, items = self.code, self.items
        numbers = [
            (self.first + bucket * self.bucket).clamp(0, self.places)
            for bucket in range(self.buckets + 1)
        ]
        marks, needed = self.added.marks, items * len(numbers)
        if needed > self.block:
            marks = code.local(i32, needed)
        search = Search(code, self.item, items, self.count, self.id, marks, len(numbers))
        found = search.first_not_below(numbers)

        def put() -> None:
            for bucket, end in enumerate(found):
                own = code.convert("index_cast", code.index(end), i32)
                code.store(own, self.ends, code.index(bucket))

        code.when(code.is_below(self.item, 1, 1), put)
        code.barrier()
        bucket = self.item // SUB_GROUP
        low, high = (self._end(bucket + n) for n in range(2))
        return low, high

    def _end(self, number: Index) -> Index:
        """Where the elements of a bucket begin."""
        code = self.code
        end = code.load(self.ends, code.index(number))
        end = code.binary(arith.MaxSIOp, end, code.constant(0, i32))
        end = code.binary(arith.MinSIOp, end, code.constant(self.count, i32))
        return of(Counter(code.convert("index_cast", end, INDEX), 0, self.count))

    def _add_parts(self, begin: Index, end: Index, parts: int) -> None:
        """Adds the totals of whole parts to those of the bucket's places."""
        code, evaluator, own_places = self.code, self.job.evaluator(), self.added.own_places

        def one_part(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            found: list[SSAValue] = []
            for (place, _), total in zip(own_places, held, strict=True):
                own = code.known(number, parts) * self.bucket + place
                value = evaluator.lanes_at(self.sums, self.index(own))
                value = widened(code, value, self.sums.element)
                found.append(code.binary(arith.AddfOp, total, value))
            return found

        nothing = [code.constant(-0.0, f32)] * len(own_places)
        found = code.loop(begin, end, one_part, nothing, unroll=AT_ONCE)

        def put(place: Index, total: SSAValue) -> None:
            cell = code.index(self.added.first + place)
            code.store(
                code.binary(arith.AddfOp, code.load(self.totals, cell), total), self.totals, cell
            )

        for (place, is_own), total in zip(own_places, found, strict=True):
            code.when(is_own, lambda place=place, total=total: put(place, total))

    def _read(self, element: Index) -> tuple[Index, SSAValue]:
        return self.added.place_of(self.id(element)), self.value(element)


class _PartTotals:
    def __init__(self, job: Job) -> None:
        self.job, self.code = job, job.code
        (self.node,) = job.body.of_kind(Kind.SCATTER)
        self.ids, self.src = self.node.operands
        values, shape = self.node.values, self.node.shape
        self.axis, self.part, self.bucket = values["axis"], values["part"], 1 << values["bits"]
        self.count, self.items = self.src.shape[self.axis], job.entry("items")
        self.parts, own = self.count // self.part, self.items // SUB_GROUP
        others = (*shape[: self.axis], *shape[self.axis + 1 :])
        along = ceil_div(self.parts, own)
        self.groups = prod(others) * along
        group = self.code.counter(kernel.GroupIdOp, 0, self.groups)
        self.item = self.code.counter(kernel.LocalIdOp, 0, self.items)
        self.row = delinearised(group // along, others)
        self.number = group % along * own + self.item // SUB_GROUP
        self.totals = self.code.local(f32, own * self.bucket)
        each = job.entry("each")
        self.added = _Additions(self.code, self.item, self.totals, self.bucket, each)

    def write(self) -> Launch:
        code, count, added = self.code, self.count, self.added
        nothing = code.constant(0.0, f32)
        added.each_cell(lambda p: code.store(nothing, self.totals, code.index(added.first + p)))
        added.clear_marks()
        code.barrier()
        begin = code.bounded(self.number, self.parts) * self.part
        ends = [self._bucket_of(begin), self._bucket_of(begin + (self.part - 1))]
        alike = code.compare_integers("eq", *ends)
        alike = code.all_of([alike, code.is_below(self.number, self.parts, 1)])
        stop = code.select(alike, code.index(begin + self.part), code.index(begin))

        def read(element: Index) -> tuple[Index, SSAValue]:
            value = self.job.evaluator().lanes_at(self.src, self._index(element))
            return added.place_of(self._id(element)), widened(code, value, self.node.element)

        added.add(begin, of(Counter(stop, 0, count)), count, read, code.constant(0, i32))
        code.barrier()
        code.when(code.is_below(self.number, self.parts, 1), lambda: added.each_cell(self._put))
        return Launch((self.groups * self.items,), (self.items,))

    def _index(self, place: Index) -> Indices:
        """An element of the group's row."""
        return (*self.row[: self.axis], place, *self.row[self.axis :])

    def _id(self, element: Index) -> SSAValue:
        evaluator = self.job.evaluator()
        value = evaluator.at(self.ids, self._index(element))
        return clamped_id(evaluator, self.ids, value, LARGEST_ID)

    def _bucket_of(self, element: Index) -> SSAValue:
        """The bucket that an element is meant for."""
        size = self.code.constant(self.bucket, INDEX)
        return self.code.binary(arith.DivSIOp, self._id(element), size)

    def _put(self, place: Index) -> None:
        """Writes the total of a place."""
        code, job = self.code, self.job
        evaluator = job.evaluator()
        total = code.load(self.totals, code.index(self.added.first + place))
        total = narrowed(code, total, self.node.element)
        evaluator.given[self.node] = lambda _: total
        there = code.bounded(self.number, self.parts) * self.bucket + place
        job.write_at(evaluator, lambda _: self._index(there))
