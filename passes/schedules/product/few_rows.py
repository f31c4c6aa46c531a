"""Sizes of the groups that compute a product of a few rows on a GPU.

In: a product, a request. Out: a `FewRowsTiling`.
"""

from dataclasses import dataclass
from math import prod

from mgn.dialects.mgn.element_cost import ELEMENT_COST, FUNCTION
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_below
from mgn.passes.kernels.body import INPUT, Node
from mgn.passes.kernels.packed_codes import PackedCodes, packed_codes
from mgn.passes.kernels.product import Product, is_unpacked
from mgn.passes.schedules.core.schedule import Entries, Request

NAMES = ("own_columns", "shares", "item_columns", "width")
"""What a schedule calls the numbers of a tiling; `along` says which way memory runs, `packed`
that the right operand is codes of a block format.
"""

FEW_ROWS, FEW_FOR_UNIT = 4, 2
"""Up to how many rows a product is best done without tiles, and without a matrix unit."""

VECTOR_BYTES = 16
READ_AHEAD = 4
"""How many vectors a work-item reads of each of its columns before it needs the first."""

ITEMS, MOST_ITEMS = 256, 512
SHARES = {True: 32, False: 8}
"""Work-items that share the shared axis, where memory runs along it and where it does not."""

WORD = 4
"""Codes of a word."""

GROUPS, REDUCING_GROUPS = 2.0, 0.7
"""Groups for each compute unit, and of those that reduce rows for themselves before they multiply:
each does all of that again. Measured on an NVIDIA H200, norms of 576 to 4096 numbers and as many
times 960 to 14336 columns in bf16: 2.0 in place of 0.7 take up to 1.57 times as long.
"""

MOST_SUMS = 64
"""Numbers that a work-item adds up in its registers."""


@dataclass(frozen=True)
class FewRowsTiling:
    """A group has `own` times `shares` work-items; each has `across` columns, or vectors of them;
    where halves of the columns meet, as many of either.

    `width` elements of the right operand are read at once: bytes, where it is `packed` as codes of
    a block format.
    """

    own: int
    shares: int
    across: int
    width: int
    along: bool
    packed: bool = False

    @staticmethod
    def of(entries: Entries) -> "FewRowsTiling":
        """The tiling that a schedule says."""
        own, shares, across, width = (int(entries[name]) for name in NAMES)
        packed = bool(entries.get("packed", 0))
        return FewRowsTiling(own, shares, across, width, bool(entries["along"]), packed)

    @property
    def entries(self) -> dict[str, int]:
        """The entries of a schedule that say it."""
        numbers = (self.own, self.shares, self.across, self.width)
        found = {**dict(zip(NAMES, numbers, strict=True)), "along": int(self.along)}
        return {**found, "packed": 1} if self.packed else found

    @property
    def items(self) -> int:
        return self.own * self.shares

    @property
    def bytes_at_once(self) -> int:
        """The bytes of the right operand that a group has asked memory for at a time, about."""
        return READ_AHEAD * self.across * VECTOR_BYTES * self.items

    def steps(self, depth: int) -> int:
        """How often a work-item reads along a shared axis."""
        return ceil_div(depth, self.shares * (self.width if self.along else 1))

    @property
    def columns(self) -> int:
        """Columns of a group."""
        return self.own * self.across * (1 if self.along else self.width)


def suits_few_rows(request: Request, product: Product) -> bool:
    """Whether a product has so few rows."""
    most = FEW_FOR_UNIT if request.word("matrix") else FEW_ROWS
    return product.rows <= most and product.depth > 1


def few_rows_tiling(request: Request, product: Product, along: bool) -> FewRowsTiling:
    """Sizes that spread the columns over all compute units."""
    units = request.number("units", 1)
    wanted = GROUPS * units
    width = _width(product, along)
    groups = prod(product.batch)
    most = request.number("largest_group", ITEMS)
    items = min(most, ITEMS)
    packed = packed_codes(product) if along else None
    if packed is not None:
        return _packed_tiling(request, product, packed)
    if along:
        if request.body.of_kind(Kind.REDUCTION):
            wanted = REDUCING_GROUPS * units
        shares = min(SHARES[True], power_below(product.depth // width))
        own = max(items // shares, 1)
        while own > 4 and groups * ceil_div(product.columns, own * product.halves) < wanted:
            own //= 2
        across = 4
        while across > product.halves and (
            groups * ceil_div(product.columns, own * across) < wanted
            or product.rows * across * max(width, 4) > MOST_SUMS
        ):
            across //= 2
        return FewRowsTiling(own, shares, across, width, True)
    shares = min(SHARES[False], power_below(product.depth))
    own = items // shares
    while own > 8 and groups * ceil_div(product.columns, own * width) < wanted:
        own, shares = own // 2, shares * 2
    if groups * ceil_div(product.columns, own * width) < wanted and most >= MOST_ITEMS:
        shares *= MOST_ITEMS // ITEMS
    return FewRowsTiling(own, min(shares, power_below(product.depth)), 1, width, False)


PACKED_ITEMS, PACKED_COLUMNS = 128, 4
"""Work-items of a group that multiplies codes of a block format, and the columns that each has."""

LONG_SHARES, SHORT_SHARES, LONG_TRIPS = 32, 4, 2
"""Work-items that share the shared axis, where they go over it so many times, and where rows of
codes are shorter. Measured on an NVIDIA H200, 14336 × 4096 and 49152 × 576: what is long is best
read in pieces of 512 codes, of several digits too: neighbours then read neighbouring parts of the
left operand.
"""


def _packed_tiling(request: Request, product: Product, packed: PackedCodes) -> FewRowsTiling:
    """Sizes for codes of a block format. Columns share what is read of the left operand, of which
    several codes of a byte read more.
    """
    wanted = GROUPS * request.number("units", 1)
    bytes = product.depth // packed.digits_of_byte
    width = dividing_lanes(bytes, VECTOR_BYTES)
    long = bytes // width >= LONG_TRIPS * LONG_SHARES
    width = max(width // packed.digits_of_byte, 2 * WORD) if long else width
    vectors, across = bytes // width, PACKED_COLUMNS
    shares = min(LONG_SHARES if long else SHORT_SHARES, power_below(vectors))
    own = max(min(request.number("largest_group", PACKED_ITEMS), PACKED_ITEMS) // shares, 1)
    groups = prod(product.batch)
    while across > product.halves and (
        groups * ceil_div(product.columns, own * across) < wanted
        or product.rows * across * WORD > MOST_SUMS
    ):
        across //= 2
    while own > 4 and groups * ceil_div(product.columns, own * product.halves) < wanted:
        own, shares = own // 2, min(2 * shares, power_below(vectors))
    return FewRowsTiling(own, shares, across, width, True, True)


def _width(product: Product, along: bool) -> int:
    """Elements of the right operand in one load."""
    right = product.node.operands[1]
    held = min((node.element.bytes for node in _leaves(right)), default=4)
    held = 1 if is_unpacked(right) else held
    width = dividing_lanes(product.depth if along else product.columns, VECTOR_BYTES // held)
    while width > 1 and product.rows * width > MOST_SUMS // 2:
        width //= 2
    return width


def _leaves(node: Node) -> list[Node]:
    """The inputs of a value that hold as many elements."""
    return [item for item in _computed(node) if item.name == INPUT]


def right_bytes(product: Product) -> int:
    """The bytes of memory that the right operand is read from."""
    return sum(leaf.count * leaf.element.bytes for leaf in set(_leaves(product.node.operands[1])))


def functions_before(product: Product) -> int:
    """Functions of each element of the left operand, such as exp, which its product computes."""
    return len({node for node in _computed(product.node.operands[0]) if _is_function(node)})


def _computed(node: Node) -> list[Node]:
    """A value and those as large that it is computed from."""
    same = [operand for operand in node.operands if operand.count == node.count]
    return [node, *(item for operand in same for item in _computed(operand))]


def _is_function(node: Node) -> bool:
    cost = ELEMENT_COST.get(node.name)
    return cost is not None and cost.cpu >= FUNCTION
