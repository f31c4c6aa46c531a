"""The registers that a work-item of a kernel needs.

In: a `kernel.func`. Out: 32-bit registers: `BESIDES`, and `SHARE` of the most words that are in use
at a time, as the kernel is written. They are at most `MOST`, and at most the registers that a group
of the kernel's own size leaves for each item: the kernel runs with so many by itself.

Without a limit, a driver's compiler takes more registers, to have more reads on their way. With the
registers said here, it moves reads to the places where their values are needed. With fewer it
writes values to memory, and a stage takes several times as long. The figures are from 211 resident
launches on an H200. Of the kernels that fit by these figures, the compiler wrote at most 300 bytes
of an item's values to memory.
"""

from itertools import accumulate
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.lanes import element, lanes
from mgn.dialects.kernel.types import Space, element_bytes, space_of

BESIDES = 48
"""Registers of a stage for places, counters and what the walk over stages keeps."""

SHARE = 0.7
"""What a compiler needs of the words that are in use as a kernel is written."""

MOST, IN_ALL = 255, 65536
"""Registers that a work-item can have, and those of a compute unit."""

_WORD = 4


def registers_of(func: FuncOp) -> int:
    """Registers of a work-item that writes next to none of its values to memory meanwhile."""
    needed = BESIDES + round(SHARE * words_in_use(func))
    return min(needed, MOST, IN_ALL // prod(func.local_sizes))


def words_in_use(func: FuncOp) -> int:
    """The most 32-bit words of a work-item's values that are in use at a time."""
    return _Lives().most_words(func.body.block)


class _Loop:
    """A loop that begins at a place of the text, and ends at one that is found later."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start


class _Lives:
    """From where to where in a kernel's text each value is in use. What a loop reads of before it
    is in use until the loop ends.
    """

    def __init__(self) -> None:
        self._place = 0
        self._loops: list[_Loop] = []
        self._born: dict[SSAValue, int] = {}
        self._last: dict[SSAValue, int | _Loop] = {}

    def most_words(self, block: Block) -> int:
        self._block(block)
        changes = [0.0] * (self._place + 2)
        for value, born in self._born.items():
            if words := _words(value):
                last = self._last.get(value, born)
                changes[born] += words
                changes[max(last.end if isinstance(last, _Loop) else last, born + 1)] -= words
        return round(max(accumulate(changes)))

    def _block(self, block: Block) -> None:
        for argument in block.args:
            self._born[argument] = self._place
        for op in block.ops:
            self._place += 1
            for operand in op.operands:
                self._use(operand)
            if isinstance(op, scf.ForOp):
                self._loops.append(_Loop(self._place))
                self._inside(op)
                self._loops.pop().end = self._place
            elif op.regions:
                self._inside(op)
            for result in op.results:
                self._born[result] = self._place

    def _inside(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        self._place += 1

    def _use(self, value: SSAValue) -> None:
        born = self._born[value]
        outside = (loop for loop in self._loops if born < loop.start)
        self._last[value] = next(outside, self._place)


def _words(value: SSAValue) -> float:
    """The words of a value; none for constants, truth values and buffers that others see."""
    kind = value.type
    if isinstance(kind, MemRefType):
        return byte_size(kind) / _WORD if space_of(kind) is Space.PRIVATE else 0
    of = element(kind)
    is_truth = isinstance(of, IntegerType) and of.width.data == 1
    if is_truth or isinstance(value.owner, arith.ConstantOp):
        return 0
    return 1 if isinstance(of, IndexType) else lanes(kind) * element_bytes(of) / _WORD
