"""Tiles for products by groups whose numbers pass through registers on their way to local memory.

In: an operand that cannot be copied as it lies. It is computed, or is to be rounded to tf32, or is
not aligned, or runs along the other axis than the matrix unit reads. Out: its values, read while
the blocks before are multiplied, and later their stores, always of a whole chunk.

The unit reads 32-bit numbers along the shared axis only. Where memory runs along the other axis, a
work-item reads a square of numbers, and stores it transposed. Neighbours read neighbouring squares,
so that they share lines of memory. Each pair of work-items begins with another line of local
memory, so that stores have no bank conflicts.
"""

from functools import cached_property

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mgn.dialects import kernel
from mgn.passes.kernels.index import Index, lanes
from mgn.passes.lower_kernels.core.pure_code import lane_of, memory_type, shaped
from mgn.passes.lower_kernels.staging.pieces import Pieces
from mgn.passes.lower_kernels.staging.tensor_panels import Panel
from mgn.passes.schedules.product.operand_copies import lies_in_memory


class StagedPanel(Panel):
    """A panel that work-items read in pieces: a chunk each, or a square of as many chunks."""

    @cached_property
    def by_depth(self) -> bool:
        return self.name == "tf32" or self.runs_by_depth

    @property
    def transposed(self) -> bool:
        """Whether lines of local memory run along another axis than memory."""
        return self.by_depth and not self.runs_by_depth

    @cached_property
    def pieces(self) -> Pieces:
        count = self.lines * self.along // (self.sizes.chunk if self.transposed else 1)
        return Pieces(self.code, count, self.sizes.items, self.place)

    @property
    def held(self) -> int:
        """How many chunks a work-item holds."""
        return self.pieces.turns * (self.sizes.chunk if self.transposed else 1)

    def _place_of(self, number: Index) -> tuple[Index, Index]:
        """The first line of a piece, and its chunk."""
        if not self.transposed:
            return number // self.along, number % self.along
        squares = self.lines // self.sizes.chunk
        return number % squares * self.sizes.chunk, number // squares

    def hold(self, block: Index) -> list[SSAValue]:
        """The chunks of a block that this work-item stores later."""
        chunks: list[SSAValue] = []
        for turn in range(self.pieces.turns):
            line, chunk = self._place_of(self.pieces.number(turn))
            start = chunk * self.sizes.chunk
            if not self.transposed:
                chunks.append(self._packed(self._chunk(block, line, start)))
                continue
            rows = [self._chunk(block, start + k, line) for k in range(self.sizes.chunk)]
            for own in range(self.sizes.chunk):
                chunks.append(self.code.joined([lane_of(self.code, row, own) for row in rows]))
        return chunks

    def _packed(self, chunk: SSAValue) -> SSAValue:
        """A chunk, packed: unpacked, a bf16 number takes a register of 32 bits."""
        if self.name != "bf16":
            return chunk
        return self.code.pure(kernel.PackOp, [chunk], shaped(i32, self.sizes.chunk // 2))

    def put(self, block: Index, stage: Index, chunks: list[SSAValue]) -> None:
        """Stores the chunks of a block in a stage."""
        code, each = self.code, len(chunks) // self.pieces.turns
        for turn in range(self.pieces.turns):
            line, chunk = self._place_of(self.pieces.number(turn))
            first = line // (2 * each) % each

            def store(
                turn: int = turn, line: Index = line, chunk: Index = chunk, first: Index = first
            ) -> None:
                own = chunks[turn * each : (turn + 1) * each]
                for n, value in enumerate(self._rotated(own, first)):
                    place = stage + self.spot(chunk, line + (first + n) % each)
                    value = self._finished(value, block, line, chunk)
                    code.store(value, self.memory, code.index(place), self.sizes.chunk)

            self.pieces.inside(turn, store)

    def _rotated(self, values: list[SSAValue], first: Index) -> list[SSAValue]:
        """The same values, rotated to begin with a certain one."""
        step = 1
        while step < len(values):
            bit = self.code.index(first // step % 2)
            odd = self.code.compare_integers("sgt", bit, self.code.index(0))
            values = [
                self.code.select(odd, values[(n + step) % len(values)], value)
                for n, value in enumerate(values)
            ]
            step *= 2
        return values

    def _chunk(self, block: Index, line: Index, start: Index) -> SSAValue:
        """A chunk along memory, read in as many parts as its alignment asks for."""
        parts = [self._part(block, line, start + n) for n in range(0, self.sizes.chunk, self.width)]
        if len(parts) == 1:
            return parts[0]
        each = [lane_of(self.code, part, n) for part in parts for n in range(self.width)]
        return self.code.joined(each)

    def _part(self, block: Index, line: Index, start: Index) -> SSAValue:
        """Neighbouring numbers, as they lie in memory or as they are computed."""
        line, start, _ = self._absolute(block, line, start)
        if self._in_memory:
            source = self.source(line, start, self.width)
            buffer, first = self.job.inputs[source.node.number], source.index.at_lane(0)
            value = self.code.load(buffer, self.code.index(first), self.width, first.multiple)
            return self.code.or_zeros(self.is_there(source), value)
        return self.computed(line, start, self.width)

    @property
    def _in_memory(self) -> bool:
        return lies_in_memory(self.node, self.name)

    def _finished(self, value: SSAValue, block: Index, line: Index, chunk: Index) -> SSAValue:
        """A chunk as it is stored: rounded, with zeros past the shared axis."""
        code, count = self.code, self.sizes.chunk
        if self.name == "tf32" and self._in_memory:
            value = code.pure(kernel.RoundTf32Op, [value], value.type)
        if self.name == "bf16":
            value = code.pure(kernel.UnpackOp, [value], shaped(memory_type(self.element), count))
        if self.product.depth % self.sizes.depth == 0:
            return value
        k = block * self.sizes.depth + (chunk * count + lanes(count) if self.by_depth else line)
        return code.or_zeros(code.is_below(k, self.product.depth, count), value)
