"""Products of a few rows with codes of a block format, as a GPU's work-items add them up.

A work-item reads the codes of a part of a block as words, for a few columns. It also reads the
scales and minimums that the block's elements share. In registers, bits of a word become the
mantissa of a float. This takes two simple operations for each code, and does not use the few units
that convert integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, f32, i32
from xdsl.ir import SSAValue

from mgn.dialects.block_formats import BLOCK
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index, constant, lanes
from mgn.passes.kernels.index_maps import bounded, broadcast_index
from mgn.passes.kernels.packed_codes import Digit, PackedCodes
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.long_sums import long_loop
from mgn.passes.lower_kernels.core.operand import Operand
from mgn.passes.lower_kernels.core.product import add_products, multiply_add
from mgn.passes.lower_kernels.core.pure_code import lane_of
from mgn.passes.lower_kernels.core.scalar import across_lanes, widened
from mgn.passes.lower_kernels.core.template import Job
from mgn.passes.schedules.product.few_rows import VECTOR_BYTES, FewRowsTiling

WORD = 4
"""Codes that are made floats together: those of one digit of a word's bytes."""

LONG_CHAIN = 128
"""Terms of a chain of a long walk. The sum of a chain is added to those of the chains before."""

Mantissa = tuple[int, int, int]
"""A mask of bits of a word, the bits to add so that they become a float, and what that float has
too much.
"""

_BYTES = ((0xFF, 0x4B000000, 1 << 23), (0xFF00, 0x47000000, 1 << 15))
_SIGNED = tuple((mask, bits ^ (mask & 0x8080), more + 128) for mask, bits, more in _BYTES)
_LOW = ((0x0F, 0x4B000000, 1 << 23), (0x0F00, 0x47000000, 1 << 15))
_HIGH = ((0xF0, 0x49000000, 1 << 19), (0xF000, 0x45000000, 1 << 11))

MANTISSAS: dict[Digit, tuple[Mantissa, ...]] = {
    Digit.SIGNED: _SIGNED,
    Digit.UNSIGNED: _BYTES,
    Digit.LOW: _LOW,
    Digit.HIGH: _HIGH,
}
"""How the codes of the two lower bytes of a word become floats. Where the unit of a mantissa is the
lowest bit of the code, the code is what the float has more than its power of two.
"""


def codes_of_word(code: Code, word: SSAValue, digit: Digit) -> SSAValue:
    """A digit of each byte of a word, as floats."""
    high = code.binary(arith.ShRUIOp, word, code.constant(16, i32))
    values: list[SSAValue] = []
    for half in (word, high):
        for mask, joined, more in MANTISSAS[digit]:
            bits = code.binary(arith.AndIOp, half, code.constant(mask, i32))
            bits = code.binary(arith.XOrIOp, bits, code.constant(joined, i32))
            value = code.pure(arith.BitcastOp, [bits], f32)
            values.append(code.binary(arith.SubfOp, value, code.constant(more, f32)))
    return code.joined(values)


@dataclass(frozen=True)
class PackedRows:
    """A work-item's walk along the shared axis, for all rows and some columns."""

    job: Job
    product: Product
    sizes: FewRowsTiling
    packed: PackedCodes
    batch: Indices
    share: Index
    columns: Sequence[Index]

    def totals(self) -> list[SSAValue]:
        """The sum of each row and each column over the work-item's share of the shared axis."""
        product, sizes, code = self.product, self.sizes, self.job.code
        vectors = product.depth // (sizes.width * self.packed.digits_of_byte)
        full = vectors // sizes.shares
        held = [code.constant(0, f32, WORD)] * (product.rows * sizes.across)

        def trip(number: Index, held: list[SSAValue]) -> list[SSAValue]:
            return self._added(number * sizes.shares + self.share, held)

        block = max(LONG_CHAIN * WORD // (sizes.width * self.packed.digits_of_byte), 1)
        unroll = VECTOR_BYTES // sizes.width
        held = long_loop(code, 0, full, trip, held, [True] * len(held), unroll, block=block)
        if vectors % sizes.shares:
            held = self._last(full, vectors, held)
        return [across_lanes(code, "sum", product.element, value) for value in held]

    def _last(self, trip: int, vectors: int, held: list[SSAValue]) -> list[SSAValue]:
        """The last trip, which only some of the shares have."""
        code = self.job.code
        number = self.share + trip * self.sizes.shares
        inside = code.is_below(number, vectors, 1)

        def own() -> list[SSAValue]:
            last = bounded(self.share, vectors % self.sizes.shares, 1) + trip * self.sizes.shares
            return self._added(last, held)

        return code.branch(inside, own, lambda: held)

    def _read(self, piece: Index) -> list[SSAValue]:
        """The words of each column, and what their block shares."""
        job, width = self.job, self.sizes.width
        first = self._elements(piece)[0][1]
        found: list[SSAValue] = []
        root = self.product.node.operands[1]
        for column in self.columns:
            index = self.product.right_index(self.batch, first, column)
            places = self.packed.places(root, index)
            at = places[self.packed.codes]
            bytes = job.evaluator(width).at(self.packed.codes, (*at[:-1], at[-1] + lanes(width)))
            words = VectorType(i32, [width // WORD])
            found.append(job.code.pure(vector.BitcastOp, [bytes], words))
            narrow = job.evaluator()
            found += [narrow.at(node, places[node]) for node in self.packed.shared]
        return found

    def _elements(self, piece: Index) -> list[tuple[int, Index]]:
        """The word and the first element of each four codes of a piece, digit by digit."""
        packed, width = self.packed, self.sizes.width
        byte = piece * width
        block, within = byte // packed.block_bytes, byte % packed.block_bytes
        half = BLOCK // packed.digits_of_byte
        return [
            (word, block * BLOCK + within + (digit * half + word * WORD))
            for digit in range(packed.digits_of_byte)
            for word in range(width // WORD)
        ]

    def _added(self, piece: Index, held: Sequence[SSAValue]) -> list[SSAValue]:
        """Sums with the products of a piece of each column added."""
        product, code = self.product, self.job.code
        left = Operand(self.job, product, self.batch, 0)
        read, of_column = self._read(piece), 1 + len(self.packed.shared)
        result = list(held)
        for word, k in self._elements(piece):
            rows = [left.along_depth(constant(row), k, WORD) for row in range(product.rows)]
            values: list[SSAValue] = []
            for number, column in enumerate(self.columns):
                words, *shared = read[number * of_column : (number + 1) * of_column]
                values.append(self._values(lane_of(code, words, word), shared, column, k))
            result = add_products(code, product.element, rows, values, result)
        return result

    def _values(
        self, word: SSAValue, shared: Sequence[SSAValue], column: Index, k: Index
    ) -> SSAValue:
        """Four elements of a column."""
        code, root = self.job.code, self.product.node.operands[1]
        evaluator = self.job.evaluator(WORD)
        for node, digit in self.packed.digits.items():
            evaluator.given[node] = lambda _, digit=digit: codes_of_word(code, word, digit)
        for node, value in zip(self.packed.shared, shared, strict=True):
            evaluator.given[node] = lambda _, value=value: value
        shift_and_scale(evaluator, root)
        index = self.product.right_index(self.batch, k + lanes(WORD), column)
        return widened(code, evaluator.lanes_at(root, index), root.element)


def shift_and_scale(evaluator: Evaluator, root: Node) -> None:
    """From here on the evaluator does not round a scaled code before it adds the minimum."""
    while root.name == "reshape":
        (root,) = root.operands
    if root.name != "add":
        return
    for scaled, shift in (root.operands, root.operands[::-1]):
        if scaled.name == "mul":

            def value(index: Indices, scaled: Node = scaled, shift: Node = shift) -> SSAValue:
                parts = [
                    evaluator.lanes_at(part, broadcast_index(index, part.shape))
                    for part in (*scaled.operands, shift)
                ]
                return multiply_add(evaluator.code, root.element, *parts)

            evaluator.given[root] = value
            return
