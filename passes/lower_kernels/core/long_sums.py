"""Loops that add up many terms, as nested blocks: this bounds the error of long sums.

In: a counted loop that carries sums. Out: a short loop stays as it is. A long loop becomes a loop
over blocks. The sums of a block start at zero, and are added to the sums of all blocks before. A
loop over many blocks is cut into blocks in turn.

Each term passes through a few short chains of additions, not through one as long as the loop. One
chain of n turns loses up to n units of roundoff. Blocks of B turns, nested L deep, lose up to B·L.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index, constant
from mgn.passes.kernels.long_chains import BLOCK
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import lane_count, scalar_type

Values = list[SSAValue]

WIDE_BLOCK, MOST_WIDE = 1024, 8192
"""Steps of a block, where a work-item of a GPU has many sums in registers: a second set of sums
lowers the number of work-items that run at once. A loop of at most so many steps stays one loop.
"""

UNIT_BLOCK, MOST_UNIT = 256, 1024
"""The same two of instructions of a matrix unit, each of which adds several terms to a sum."""

ADDED = frozenset({"sum", "running_sum", "running_sum_in_parts"})
"""The reductions and scans whose parts are added up. A product of many factors is as exact in one
chain as in a tree: each of its roundings is of the whole.
"""


def are_sums(nodes: Sequence[Node]) -> list[bool]:
    """Which of some reductions are sums of floats."""
    return [node.name in ADDED and node.element.is_float for node in nodes]


def long_loop(
    code: Code,
    start: Index | int,
    end: Index | int,
    body: Callable[[Index, Values], Sequence[SSAValue]],
    carried: Sequence[SSAValue],
    sums: Sequence[bool],
    unroll: int = 0,
    block: int = BLOCK,
    most: int = 0,
) -> Values:
    """A counted loop that carries values, of which `sums` says which are sums.

    The other values pass from turn to turn as in a plain loop. A loop of at most `most` turns, or
    of at most two blocks, stays one loop.
    """

    def begin(held: Values) -> Values:
        return [_nothing(code, v) if added else v for v, added in zip(held, sums, strict=True)]

    def join(before: Values, found: Values) -> Values:
        return [
            code.binary(arith.AddfOp, old, new) if added else new
            for old, new, added in zip(before, found, sums, strict=True)
        ]

    if not any(sums):
        return code.loop(start, end, body, carried, unroll=unroll)
    return loop_of_blocks(code, start, end, body, carried, begin, join, unroll, block, most)


def loop_of_blocks(
    code: Code,
    start: Index | int,
    end: Index | int,
    body: Callable[[Index, Values], Sequence[SSAValue]],
    carried: Sequence[SSAValue],
    begin: Callable[[Values], Values],
    join: Callable[[Values, Values], Values],
    unroll: int = 0,
    block: int = BLOCK,
    most: int = 0,
) -> Values:
    """A counted loop as blocks in blocks, for values that are put together in any way.

    `begin` takes the values that the blocks before have come to, and gives those that a block
    starts from. `join` takes the former and what the block came to, and gives both in one.
    """
    first = constant(start) if isinstance(start, int) else start
    last = constant(end) if isinstance(end, int) else end
    if last.high - first.low <= max(most, 2 * block):
        return code.loop(start, end, body, carried, unroll=unroll)
    turns = last - first

    def one_block(number: Index, held: Values) -> Values:
        own = first + number * block
        until = own + block
        if turns.constant % block or not turns.is_constant:
            until = own + (last - own).clamp(0, block)
        found = code.loop(own, until, body, begin(held), last.high - 1, unroll)
        return join(held, found)

    blocks = (turns + (block - 1)) // block
    return loop_of_blocks(code, 0, blocks, one_block, carried, begin, join)


def long_scan(
    code: Code,
    length: Index | int,
    add: Callable[[Index, SSAValue], SSAValue],
    write: Callable[[Index, SSAValue], None],
    start: SSAValue,
    in_blocks: bool,
    first: SSAValue | None = None,
) -> None:
    """A loop that writes running sums: each is the sum before its block plus the sum in the block.

    `add` gives a sum with the term of a turn; `write` takes the turn and the sum up to it. `start`
    is a sum of nothing, `first` what was before the loop, if anything was.
    """
    first = start if first is None else first
    if not in_blocks or (length if isinstance(length, int) else length.high) <= 2 * BLOCK:

        def short(turn: Index, held: Values) -> Values:
            total = add(turn, held[0])
            write(turn, total)
            return [total]

        code.loop(0, length, short, [first])
        return

    def step(turn: Index, held: Values) -> Values:
        before, own = held[0], add(turn, held[1])
        write(turn, code.binary(arith.AddfOp, before, own))
        return [before, own]

    def begin(held: Values) -> Values:
        return [code.binary(arith.AddfOp, *held), start]

    def join(before: Values, found: Values) -> Values:
        return [before[0], code.binary(arith.AddfOp, before[1], found[1])]

    loop_of_blocks(code, 0, length, step, [first, start], begin, join)


def _nothing(code: Code, value: SSAValue) -> SSAValue:
    """A zero of the type and lanes of a value: what a block's sum begins with."""
    assert isinstance(scalar_type(value), AnyFloat), "only floats are added up in blocks"
    return code.constant(0, scalar_type(value), lane_count(value))
