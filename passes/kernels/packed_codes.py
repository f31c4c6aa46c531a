"""The right operand of a product as codes of a block format: what is read, and what each byte says.

In: a product whose right operand is computed on the way from a parameter of a block format. Out:
`PackedCodes`: the array of codes, the values that a byte's digits stand for, and what all elements
of a block share.
"""

from dataclasses import dataclass
from enum import Enum

from mgn.dialects.block_formats import BLOCK
from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import INPUT, SPLAT, Indices, Node
from mgn.passes.kernels.index_maps import MOVES, broadcast_index
from mgn.passes.kernels.product import Product, is_unpacked


class Digit(Enum):
    """Which bits of a byte are a code."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class PackedCodes:
    """The codes of a right operand: the input that holds them, the nodes that are their values, and
    those that have one value for each block.
    """

    codes: Node
    digits: dict[Node, Digit]
    shared: tuple[Node, ...]

    @property
    def digits_of_byte(self) -> int:
        return len(self.digits)

    @property
    def block_bytes(self) -> int:
        """Bytes of a block's codes."""
        return BLOCK // self.digits_of_byte

    def places(self, root: Node, index: Indices) -> dict[Node, Indices]:
        """Where the code is, and what its block shares, of an element of the right operand: of one
        in the first digits of a block.
        """
        found: dict[Node, Indices] = {}
        pending = [(root, index)]
        while pending:
            node, index = pending.pop()
            if node in self.shared or node is self.codes:
                found[node] = index
            elif node.name in MOVES:
                pending.append((node.operands[0], MOVES[node.name](node, index)))
            elif node.name == "concat":
                pending.append((node.operands[0], index))
            else:
                pending += [(x, broadcast_index(index, x.shape)) for x in node.operands]
        return found


def packed_codes(product: Product) -> PackedCodes | None:
    """The codes of a product's right operand, if it is of a block format and lies along the shared
    axis.
    """
    right = product.node.operands[1]
    along = product.right_runs_along_depth and product.depth % BLOCK == 0
    single = accumulator(product.element).name == "f32"
    if not along or not single or not is_unpacked(right):
        return None
    digits, shared, codes = dict[Node, Digit](), dict[Node, None](), set[Node]()
    pending = [right]
    while pending:
        node = pending.pop()
        source = _codes_under(node)
        if source is None:
            if node.name not in (SPLAT, "full"):
                shared[node] = None
            continue
        digit = _digit(node)
        if digit is not None:
            digits[node] = digit
            codes.add(source)
        elif node.kind is Kind.ELEMENTWISE or node.name == "reshape" or _joins_digits(node):
            pending.extend(node.operands)
        else:
            return None
    if len(codes) != 1 or not _is_whole(right, list(digits.values()), list(shared)):
        return None
    return PackedCodes(codes.pop(), digits, tuple(shared))


def bytes_of(digit: Node) -> Node:
    """The unsigned bytes that a digit of 4 bits is computed from, in its shape."""
    if digit.name == "floor":
        (scaled,) = digit.operands
        return _cast_of(_whole_under(scaled, 1 / 16))
    return _cast_of(digit.operands[0])


def _cast_of(byte: Node | None) -> Node:
    """What a byte as a float is cast from."""
    assert byte is not None
    return byte.operands[0]


def _is_whole(right: Node, digits: list[Digit], shared: list[Node]) -> bool:
    """Whether digits are those of a byte, and all else is the same for all elements of a block."""
    known = ({Digit.SIGNED}, {Digit.UNSIGNED}, {Digit.LOW, Digit.HIGH})
    alike = all(node.count * BLOCK == right.count and node.shape[-1] == 1 for node in shared)
    return alike and set(digits) in known


def _joins_digits(node: Node) -> bool:
    """Whether the low digits of a block come before its high ones."""
    last = node.name == "concat" and node.values["axis"] == len(node.shape) - 1
    return last and [_digit(part) for part in node.operands] == [Digit.LOW, Digit.HIGH]


def _codes_under(node: Node) -> Node | None:
    """The bytes that a value is computed from, if any."""
    pending = [node]
    while pending:
        item = pending.pop()
        if item.name == INPUT and item.element.bits == 8:
            return item
        pending.extend(item.operands)
    return None


def _digit(node: Node) -> Digit | None:
    """Which digit of a byte a value is."""
    if node.name == "cast" and node.element.name == "f32":
        (source,) = node.operands
        while source.name == "reshape":
            (source,) = source.operands
        if source.name == INPUT and source.element.name in ("i8", "u8"):
            return Digit.SIGNED if source.element.name == "i8" else Digit.UNSIGNED
    if node.name == "floor" and _whole_under(node.operands[0], 1 / 16) is not None:
        return Digit.HIGH
    if node.name == "sub":
        byte, rest = node.operands
        high = _scaled(rest, 16)
        if high is not None and _digit(high) is Digit.HIGH:
            same = _whole_under(high.operands[0], 1 / 16) is byte
            return Digit.LOW if same else None
    return None


def _whole_under(node: Node, factor: float) -> Node | None:
    """The unsigned byte that a value is a multiple of."""
    byte = _scaled(node, factor)
    return byte if byte is not None and _digit(byte) is Digit.UNSIGNED else None


def _scaled(node: Node, factor: float) -> Node | None:
    """What a value is a multiple of."""
    if node.name != "mul":
        return None
    for value, number in (node.operands, node.operands[::-1]):
        if number.name in (SPLAT, "full") and number.values["value"] == factor:
            return value
    return None
