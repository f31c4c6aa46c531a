"""Operands of a matrix unit: copies of their tiles to local memory, and fragments from there.

In: an operand of a product whose values are rounded to bf16, f16 or tf32, the first row or column
of its tile, a block of the shared axis. Out: asynchronous copies where the operand lies in memory
as it is; else values are computed in registers and stored. Later, the fragments of a matrix
instruction.

A tile is lines of 64 or 128 bytes. A line is a row or column with the shared axis along it, or a
step of the shared axis. The 16-byte chunks of a line are swizzled by the line's number: neither
copies nor loads of fragments have bank conflicts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.index_maps import Place
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_of
from mgn.passes.lower_kernels.core.scalar import cast
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.schedules.product.matrix_tiles import CHUNK_BYTES, LINE_CHUNKS, STEP_CHUNKS
from mgn.passes.schedules.product.operand_copies import OperandCopies

EIGHT = 8
"""Rows of a matrix in a fragment, and columns of an instruction's result."""

PAIR = 2
"""Columns of an instruction's result that a work-item holds side by side."""

LINE = 64
"""Elements of 16 bits on such a line."""


@dataclass
class Panel(OperandCopies):
    """The tile of one operand in local memory: `size` rows or columns of `limit`, from `first` on.

    `by_depth` says that lines run along the shared axis. `base` is where it begins in a stage, or
    in local memory where it is `kept`: then all its blocks lie there.
    `as_columns` says that lines which are steps lie as if they were columns, and are taken in the
    order in which a work-item holds the columns of a result: the left operand is such a result.
    `dealt` is over how many of the instruction's tiles columns are dealt, two to each in turn, so
    that a work-item's sums of these tiles are of neighbouring columns.
    """

    job: Job
    first: Index
    base: int
    memory: SSAValue
    as_columns: bool = False
    dealt: int = 1
    kept: bool = False

    @property
    def code(self) -> Code:
        return self.job.code

    def stage(self, block: Index) -> Index:
        """Where a block of the shared axis lies in local memory."""
        if self.kept:
            return block * (self.sizes.depth * self.size)
        return block % self.sizes.stages * self.sizes.stage

    @property
    def line_chunks(self) -> int:
        """Chunks of one line; a longer tile is in several parts."""
        return min(self.along, LINE_CHUNKS)

    def spot(self, chunk: Index, line: Index) -> Index:
        """Where a chunk of a line begins within a stage, in elements."""
        count = self.line_chunks
        part, inner = chunk // count, chunk % count
        swizzled = self._swizzled(inner, line)
        start = part * (self.lines * count) + line * count + swizzled
        return start * self.sizes.chunk + self.base

    def _swizzled(self, chunk: Index, line: Index) -> Index:
        """The swizzled place of a chunk in its line: its number, with bits of the line's number
        added.
        """
        count = self.line_chunks
        if self.spread and not self.as_columns:
            key = line % 4 * 2 % count  # a quarter's four steps meet in no bank
        elif count == LINE_CHUNKS:
            key = line % LINE_CHUNKS
        else:
            key = line // (LINE_CHUNKS // count) % count
        return self.code.exclusive_or(chunk, key, count)

    # Copies

    @cached_property
    def pieces(self) -> Pieces:
        """What is copied of a block at once."""
        count = self.lines * self.along * self.sizes.chunk // self.width
        return Pieces(self.code, count, self.sizes.items, self.place)

    def _piece(self, turn: int) -> tuple[Index, Index]:
        """The line and the first element along the line of a piece of the tile."""
        number = self.pieces.number(turn)
        across = self.along * self.sizes.chunk // self.width
        return number // across, number % across * self.width

    def _absolute(self, block: Index, line: Index, start: Index) -> tuple[Index, Index, Index]:
        """Line and start in the operand, and the step of the piece's first element."""
        step = block * self.sizes.depth
        if self.runs_by_depth:
            return self.first + self._own(line), step + start, step + start
        return step + line, self.first + start, step + line

    def _own(self, line: Index) -> Index:
        """Which of the tile's rows or columns is a line."""
        if self.dealt == 1:
            return line
        inner = line % (EIGHT * self.dealt)
        tile, holder = inner // EIGHT, inner % EIGHT // PAIR
        return line - inner + holder * (PAIR * self.dealt) + tile * PAIR + inner % PAIR

    def read(self, block: Index) -> list[SSAValue]:
        """The values of a block that the work-item computes. There are none where asynchronous
        copies bring the block.
        """
        if self.asynchronous:
            return []
        return [self._value(block, turn) for turn in range(self.pieces.turns)]

    def _value(self, block: Index, turn: int) -> SSAValue:
        code, width = self.code, self.width
        line, start = self._piece(turn)
        line, start, k = self._absolute(block, line, start)
        value = self.computed(line, start, width)
        return code.or_zeros(code.is_below(k, self.product.depth, 1), value)

    def computed(self, line: Index, start: Index, width: int) -> SSAValue:
        """Neighbouring numbers of a line of the operand, as local memory holds them."""
        own, step = self.bounds(line, start, width)
        value = self.job.evaluator(width).lanes_at(self.node, self.index_of(own, step))
        return cast(self.code, value, self.node.element, self.element)

    def copy(
        self,
        block: Index,
        stage: Index,
        values: list[SSAValue],
        turns: Iterable[int] | None = None,
    ) -> None:
        """Starts the asynchronous copies of a block into a stage, or stores its computed values.

        `turns` are the work-item's pieces of which this is done; all where it is None.
        """
        code = self.code
        for turn in range(self.pieces.turns) if turns is None else turns:

            def put(turn: int = turn) -> None:
                line, start = self._piece(turn)
                chunk = self.sizes.chunk
                target = stage + self.spot(start // chunk, line) + start % chunk
                if not self.asynchronous:
                    code.store(values[turn], self.memory, code.index(target), target.multiple)
                    return
                self._start_copy(block, line, start, code.index(target))

            self.pieces.inside(turn, put)

    def _start_copy(self, block: Index, line: Index, start: Index, target: SSAValue) -> None:
        code, width = self.code, self.width
        line, start, k = self._absolute(block, line, start)
        source = self.source(line, start, width, clamps=False)
        operands = [
            self.job.inputs[source.node.number],
            code.index(source.index.at_lane(0)),
            self.memory,
            target,
        ]
        own = line if self.runs_by_depth else start
        tests = [code.is_below(k, self.product.depth, 1), code.is_below(own, self.limit, 1)]
        inside = code.all_of([*tests, self.is_there(source)])
        valid = None
        if not isinstance(inside, bool):
            valid = code.select(inside, code.constant(width, INDEX), code.constant(0, INDEX))
        elif not inside:
            valid = code.constant(0, INDEX)
        code.block.add_op(kernel.CopyChunkOp(*operands, count=width, valid=valid))

    def is_there(self, place: Place) -> SSAValue | bool:
        """Whether an element of the operand is an input's, and none of the zeros around it."""
        return self.code.all_of([self.code.is_within(part, size) for part, size in place.inside])

    def start(self, own: Index) -> Index:
        """Where in a stage the tile of `kernel.group_mma` from a row or column on begins."""
        if self.by_depth:
            return own * self.sizes.depth + self.base
        return own // LINE * (self.lines * LINE) + self.base

    @property
    def part_bytes(self) -> int:
        """Bytes of a part of a tile whose lines are steps; 0 of any other."""
        return 0 if self.by_depth else self.lines * LINE_CHUNKS * CHUNK_BYTES

    # Fragments

    def fragments(
        self, stage: Index, own: Index, count: int, step: Index, sixteen: bool
    ) -> list[SSAValue]:
        """Fragments of `count` rows or columns from `own` on, for one step of the instruction.

        Each is for 16 of them, as the instruction's first operand, or for 8, as its second.
        """
        if self.spread:
            return self._numbers(stage, own, count // EIGHT, step, sixteen)
        lane = self.place % 32
        result: list[SSAValue] = []
        for part in range(count // 16):
            registers = self._matrices(stage, own + part * 16, step, lane, sixteen)
            if sixteen:
                result.append(registers)
            else:
                result += [pair_of(self.code, registers, 0), pair_of(self.code, registers, 2)]
        return result

    def operands(self, stage: Index, own: Index, count: int, step: Index) -> list[SSAValue]:
        """Fragments as the instruction takes them, of the left operand as its first."""
        fragments = self.fragments(stage, own, count, step, self.operand == 0)
        return [self.rounded(value) for value in fragments]

    @property
    def spread(self) -> bool:
        """Whether fragments are numbers of 32 bits, read from lines that are steps.

        The first operand then takes 16 rows as eight even and eight odd ones, so that the two rows
        of a work-item lie side by side.
        """
        return not self.by_depth and self.name == "tf32"

    def own_place(self, eight: Index | int, inner: Index, sixteen: bool) -> Index:
        """The row or column, in a sub-group's tile, of the n-th of a fragment's eight."""
        if self.spread and sixteen:
            return inner * 2 + eight // 2 * 16 + eight % 2
        return inner + eight * EIGHT

    def rounded(self, value: SSAValue) -> SSAValue:
        """A fragment, rounded as the instruction takes it: asynchronous copies round nothing."""
        if self.name != "tf32" or not self.asynchronous or "rounded" in self.job.schedule:
            return value
        return self.code.pure(kernel.RoundTf32Op, [value], value.type)

    def _matrices(
        self, stage: Index, own: Index, step: Index, lane: Index, sixteen: bool
    ) -> SSAValue:
        """Two by two matrices of 8 rows or columns and a chunk of the shared axis."""
        low, high = lane // 8 % 2, lane // 16
        along_own, along_k = (low, high) if sixteen else (high, low)
        if self.by_depth:
            line = own + along_own * 8 + lane % 8
            chunk = step * STEP_CHUNKS + along_k
        else:
            line = step * (STEP_CHUNKS * self.sizes.chunk) + along_k * 8 + lane % 8
            chunk = own // self.sizes.chunk + along_own
        place = stage + self.spot(chunk, line)
        op = kernel.LoadMatrixOp(self.memory, self.code.index(place), not self.by_depth)
        self.code.block.add_op(op)
        return op.result

    def _numbers(
        self, stage: Index, own: Index, eights: int, step: Index, sixteen: bool
    ) -> list[SSAValue]:
        """Fragments of 32-bit numbers whose lines are steps."""
        chunk, code, lane = self.sizes.chunk, self.code, self.place % 32
        width = 2 if sixteen else 1

        def numbers(eight: int, half: int) -> list[SSAValue]:
            own_line = lane % 4 * 2 + half if self.as_columns else lane % 4 + half * 4
            line = step * (STEP_CHUNKS * chunk) + own_line
            column = own + self.own_place(eight, lane // 4, sixteen)
            place = stage + self.spot(column // chunk, line) + column % chunk
            value = code.load(self.memory, code.index(place), width, place.multiple)
            return [lane_of(code, value, number) for number in range(width)]

        return [
            code.joined([*numbers(eight, 0), *numbers(eight, 1)])
            for eight in range(0, eights, width)
        ]


def pair_of(code: Code, value: SSAValue, first: int) -> SSAValue:
    """Two neighbouring lanes."""
    assert isinstance(value.type, VectorType)
    held = value.type.element_type
    return code.pure(
        vector.ShuffleOp,
        [value, value],
        VectorType(held, [2]),
        mask=DenseArrayBase.from_list(i64, [first, first + 1]),
    )
