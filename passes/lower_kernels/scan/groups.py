"""Scans by groups: the work-items of a group share a part of a row, or of a few short rows.

In a trip each work-item scans some neighbouring elements in registers. What they come to is scanned
in steps that reach twice as far each, in local memory or by exchange of registers. A result is what
the trips before came to, then the work-items before, then the elements before: so its rounding
errors are few.

A trip may have several pieces of the part, one behind the other. All are read before any is
scanned, and what sub-groups come to in them meets at one barrier. Parts whose totals were found
before are scanned from the last one on: it was read last, so a cache may have it.
"""

from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.kernels.rows import row_space
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type
from mgn.passes.lower_kernels.core.scalar import combine, narrowed, start_of, widened
from mgn.passes.lower_kernels.core.sub_groups import SUB_GROUP, can_shuffle
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.lower_kernels.scan.parts import before_part, given_for_part, has_totals
from mgn.passes.schedules.scan import parts_of

AT_ONCE = 4
"""Totals of earlier parts that a work-item reads together."""


def lower_groups(job: Job) -> Launch:
    """Writes a scan kernel of groups."""
    return _Groups(job).write()


class _Groups:
    def __init__(self, job: Job) -> None:
        self.job, self.code = job, job.code
        self.space = row_space(job.body, Kind.SCAN)
        (self.scan,) = job.body.of_kind(Kind.SCAN)
        self.parts = parts_of(self.scan, self.space)
        self.width, self.vectors = job.entry("width"), job.entry("vectors")
        self.shares, self.together = job.entry("shares"), job.entry("together")
        self.items, self.pieces = self.shares * self.together, job.entry("pieces")
        self.own = self.width * self.vectors
        type = memory_type(accumulator(self.scan.element))
        self.exchanges = can_shuffle(job, self.shares, [type])
        buffers, cells = (1, self.items // SUB_GROUP) if self.exchanges else (2, self.items)
        self.memory = [self.code.local(type, cells * self.pieces) for _ in range(buffers)]
        self.nothing = start_of(self.code, self.scan, 1)

    def write(self) -> Launch:
        code, parts = self.code, self.parts
        groups = ceil_div(parts.all, self.together)
        group = code.counter(kernel.GroupIdOp, 0, groups)
        self.place = code.counter(kernel.LocalIdOp, 0, self.items)
        self.share = self.place % self.shares
        if has_totals(self.scan):
            group = group * -1 + (groups - 1)
        number = group * self.together + self.place // self.shares
        self.in_part = code.is_below(number, parts.all, 1)
        number = code.bounded(number, parts.all)
        self.row, self.part = number // parts.count, number % parts.count
        self.begin = self.part * parts.length
        trips = ceil_div(parts.length, self.shares * self.own * self.pieces)
        code.loop(0, trips, self._trip, [self._before()])
        return Launch((groups * self.items,), (self.items,))

    def _before(self) -> SSAValue:
        """What the elements before the group's part come to. Totals are added up by all its
        work-items.
        """
        code, evaluator, shares = self.code, self.job.evaluator(), self.shares
        if not has_totals(self.scan):
            first = before_part(evaluator, self.scan, self.space, self.row, self.part)
            return self.nothing if first is None else first

        def add(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
            part = code.known(turn * shares + self.share, self.parts.count)
            value = given_for_part(evaluator, self.scan, self.space, self.row, part)
            return [self._join(held[0], value)]

        turns = code.known(self.part - self.share + (shares - 1), self.parts.count + shares)
        (own,) = code.loop(0, turns // shares, add, [self.nothing], unroll=AT_ONCE)
        ((_, total),) = self._across([own])
        code.barrier()
        return total

    def _trip(self, trip: Index, held: list[SSAValue]) -> list[SSAValue]:
        """Scans what the group takes in a trip, after what came before."""
        code, piece = self.code, self.shares * self.own
        begin, before = trip * (piece * self.pieces) + self.share * self.own, held[0]
        firsts = [begin + number * piece for number in range(self.pieces)]
        scanned = [self._scanned(first) for first in firsts]
        across = self._across([sums[-1] for sums in scanned])
        for first, sums, (earlier, total) in zip(firsts, scanned, across, strict=True):
            start = self._join(before, earlier)
            for place in range(0, self.own, self.width):
                own = sums[place : place + self.width]
                self._write(first + place, [self._join(start, item) for item in own])
            before = self._join(before, total)
        code.barrier()
        return [before]

    def _scanned(self, first: Index) -> list[SSAValue]:
        """What the elements of a work-item in a piece come to, one after the other."""
        sums: list[SSAValue] = []
        for number in range(self.vectors):
            sums += self._prefixes(first + number * self.width, sums[-1] if sums else None)
        return sums

    def _prefixes(self, place: Index, before: SSAValue | None) -> list[SSAValue]:
        """What the elements of a vector come to, one after the other."""
        code, operand = self.code, self.scan.operands[0]
        element, inside = self._element(place)
        evaluator = self.job.evaluator(self.width)
        index = self.space.index_in(operand, self.row, element + lanes(self.width))
        vector = widened(code, evaluator.lanes_at(operand, index), self.scan.element)
        sums: list[SSAValue] = []
        for lane in range(self.width):
            value = code.select(inside, lane_of(code, vector, lane), self.nothing)
            before = value if before is None else self._join(before, value)
            sums.append(before)
        return sums

    def _element(self, place: Index) -> tuple[Index, SSAValue | bool]:
        """The element of the row at a place of the part, and whether the part has it."""
        code, width, length = self.code, self.width, self.space.length
        inside = code.is_below(place, self.parts.length, 1)
        element = self.begin + place
        if length % self.parts.length:
            in_row = code.is_below(element, length, 1)
            inside = code.all_of([inside, in_row])
        element = element.clamp(0, length - width)
        return code.known(element // width, length // width) * width, inside

    def _across(self, values: list[SSAValue]) -> list[tuple[SSAValue, SSAValue]]:
        """What the work-items of the row before this one come to, and what all of them do, in each
        of some pieces.
        """
        if self.shares == 1:
            return [(self.nothing, value) for value in values]
        if self.exchanges:
            return self._across_sub_groups(values)
        return self._across_memory(values)

    def _across_memory(self, values: list[SSAValue]) -> list[tuple[SSAValue, SSAValue]]:
        """The same in local memory, in which each piece has a stretch."""
        code, items, (source, target) = self.code, self.items, self.memory
        places = [self.place + number * items for number in range(self.pieces)]

        def put(memory: SSAValue) -> None:
            for place, value in zip(places, values, strict=False):
                code.store(value, memory, code.index(place))
            code.barrier()

        put(source)
        reach = 1
        while reach < self.shares:
            values = [
                self._reached(source, place, reach, value)
                for place, value in zip(places, values, strict=False)
            ]
            put(target)
            source, target = target, source
            reach *= 2
        is_first = code.is_below(self.share, 1, 1)
        found: list[tuple[SSAValue, SSAValue]] = []
        for number in range(len(values)):
            last = self.place - self.share + (number * items + self.shares - 1)
            left = self.place.clamp(1, items - 1) + (number * items - 1)
            total, before = (code.load(source, code.index(place)) for place in (last, left))
            found.append((code.select(is_first, self.nothing, before), total))
        return found

    def _across_sub_groups(self, values: list[SSAValue]) -> list[tuple[SSAValue, SSAValue]]:
        """The same, by exchange of registers; what sub-groups come to meets in local memory."""
        code, lane, (memory,) = self.code, self.place % SUB_GROUP, self.memory
        count = self.shares // SUB_GROUP
        up_to = [self._in_sub_group(value, lane) for value in values]
        for number, value in enumerate(up_to):
            cell = self.place // SUB_GROUP * self.pieces + number
            code.store(self._from_lane(value, constant(SUB_GROUP - 1)), memory, code.index(cell))
        code.barrier()
        own, first = self.share // SUB_GROUP, self.place // self.shares * count
        found: list[tuple[SSAValue, SSAValue]] = []
        for piece, value in enumerate(up_to):
            left = self._from_lane(value, lane.clamp(1, SUB_GROUP - 1) - 1)
            before = code.select(code.is_below(lane, 1, 1), self.nothing, left)
            total = earlier = self.nothing
            for number in range(count):
                part = code.load(memory, code.index((first + number) * self.pieces + piece))
                total = self._join(total, part)
                earlier = code.select(code.is_below(own, number + 1, 1), earlier, total)
            found.append((self._join(earlier, before), total))
        return found

    def _in_sub_group(self, value: SSAValue, lane: Index) -> SSAValue:
        """What the work-items of the sub-group up to this one come to."""
        code, reach = self.code, 1
        while reach < SUB_GROUP:
            left = self._from_lane(value, lane.clamp(reach, SUB_GROUP - 1) - reach)
            joined = self._join(left, value)
            value = code.select(code.is_below(lane, reach, 1), value, joined)
            reach *= 2
        return value

    def _from_lane(self, value: SSAValue, lane: Index) -> SSAValue:
        """What a work-item of the sub-group has."""
        operands = [value, self.code.index(lane)]
        op = self.code.effect(kernel.SubGroupShuffleOp, operands, result_types=[value.type])
        return op.results[0]

    def _reached(self, source: SSAValue, place: Index, reach: int, value: SSAValue) -> SSAValue:
        """What a work-item has, after what one so many before it has in local memory."""
        code = self.code

        def joined() -> list[SSAValue]:
            return [self._join(code.load(source, code.index(place - reach)), value)]

        return code.branch(code.is_below(self.share, reach, 1), lambda: [value], joined)[0]

    def _join(self, left: SSAValue, right: SSAValue) -> SSAValue:
        return combine(self.code, self.scan.name, self.scan.element, left, right)

    def _write(self, place: Index, sums: list[SSAValue]) -> None:
        """Writes the results of a vector."""
        code, job = self.code, self.job
        element, inside = self._element(place)

        def results() -> None:
            evaluator = job.evaluator(self.width)
            vector = sums[0]
            if self.width > 1:
                op = kernel.FromElementsOp(sums)
                code.block.add_op(op)
                vector = op.result
            total = narrowed(code, vector, self.scan.element)
            evaluator.given[self.scan] = lambda _: total
            there = element + lanes(self.width)
            job.write(
                evaluator,
                [
                    (n, node, self.space.index_in(node, self.row, there))
                    for n, node in enumerate(job.body.written)
                ],
            )

        code.when(code.all_of([self.in_part, inside]), results)
