"""The kinds of attribute an operation can have, one row each: how its value is checked, stored and
read.

In: a Python value as the language or the Python interface gives it. Out: the xDSL attribute that
holds it, and back.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of

Pairs = tuple[tuple[int, int], ...]


class Required:
    """The default of an attribute that has none."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = Required()


@dataclass(frozen=True)
class AttributeKind:
    """How a value of this kind is accepted from Python, stored, decoded, printed and parsed.

    `accept` gives the canonical value, or raises TypeError where the value is of another kind.
    """

    name: str
    accept: Callable[[Any], Any]
    encode: Callable[[Any], Attribute]
    decode: Callable[[Any], Any]
    print: Callable[[Printer, Any], None]
    parse: Callable[[AttrParser], Any]


def _accept_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("an integer")
    if not -(2**63) <= value < 2**63:
        raise TypeError("an integer of 64 bits")
    return value


def _accept_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError:
        raise TypeError("a number that a float can hold") from None


def _accept_number(value: Any) -> int | float:
    """The number as a float, or as the integer that it is where no float holds it: 2**53 + 1.

    A bool stays one until the operation has seen that it is for tensors of bool; it is kept as
    1 or 0.
    """
    if isinstance(value, bool):
        return value
    if not isinstance(value, int):
        return _accept_float(value)
    if not -(2**63) <= value < 2**63:
        raise TypeError("a number; an integer must fit 64 bits")
    return float(value) if float(value) == value else value


def _accept_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _accept_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return value


def _accept_ints(value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("a list of integers")
    try:
        return tuple(_accept_int(item) for item in value)
    except TypeError as error:
        raise TypeError(f"a list, each item {error}") from None


def _accept_int_or_ints(value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, int | Sequence):
        raise TypeError("an integer or a list of integers")
    return (_accept_int(value),) if isinstance(value, int) else _accept_ints(value)


def _accept_pairs(value: Any) -> Pairs:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(_PAIRS)
    try:
        pairs = tuple(_accept_ints(item) for item in value)
    except TypeError:
        raise TypeError(_PAIRS) from None
    if any(len(pair) != 2 for pair in pairs):
        raise TypeError(_PAIRS)
    return tuple((pair[0], pair[1]) for pair in pairs)


_PAIRS = "a list of [low, high] pairs of integers"
PADDING_WORDS = ("same", "valid")


def _accept_padding(value: Any) -> "Pairs | str":
    """What surrounds axes: pairs, one of which stands for all axes, or a word that types resolve.

    A number is both sides of all axes, a list of numbers both sides of each.
    """
    if isinstance(value, str) and value in PADDING_WORDS:
        return () if value == "valid" else value
    if isinstance(value, bool | str) or not isinstance(value, int | Sequence):
        raise TypeError(_PADDING)
    sides = [value] if isinstance(value, int) else list(value)
    try:
        return _accept_pairs([(one, one) if isinstance(one, int) else one for one in sides])
    except TypeError:
        raise TypeError(_PADDING) from None


_PADDING = 'a number, a list of numbers or of [low, high] pairs, "same" or "valid"'


def _accept_element(value: Any) -> ElementType:
    if isinstance(value, str) and value in ELEMENT_TYPES:
        return ELEMENT_TYPES[value]
    if not isinstance(value, ElementType):
        raise TypeError("an element type such as f32")
    return value


def _print_float(printer: Printer, value: float) -> None:
    """The shortest text that reads back as the same number, with the point that MLIR asks for."""
    text = repr(value)
    mantissa, letter, exponent = text.partition("e")
    printer.print_string(f"{mantissa}.0e{exponent}" if letter and "." not in mantissa else text)


def _parse_signed(parser: AttrParser) -> int | float:
    negative = parser.parse_optional_punctuation("-") is not None
    for spelling in ("inf", "nan"):
        if parser.parse_optional_keyword(spelling):
            return -float(spelling) if negative else float(spelling)
    value = parser.parse_number()
    return -value if negative else value


def _parse_float(parser: AttrParser) -> float:
    return float(_parse_signed(parser))


def _print_number(printer: Printer, value: int | float) -> None:
    if isinstance(value, int):
        printer.print_string(str(value))
    else:
        _print_float(printer, value)


def _parse_number(parser: AttrParser) -> int | float:
    try:
        return _accept_number(_parse_signed(parser))
    except TypeError as error:
        parser.raise_error(f"expected {error}")


def _parse_ints(parser: AttrParser) -> tuple[int, ...]:
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


def _print_ints(printer: Printer, value: Sequence[int]) -> None:
    printer.print_string(f"[{', '.join(str(item) for item in value)}]")


def _print_pairs(printer: Printer, value: Pairs) -> None:
    printer.print_string(f"[{', '.join(f'[{low}, {high}]' for low, high in value)}]")


def _parse_element(parser: AttrParser) -> ElementType:
    start = parser.pos
    type = parser.parse_type()
    try:
        return element_of(type)
    except KeyError:
        parser.raise_error(f"{type} is not an element type of mgn", start, parser.pos)


def _parse_pairs(parser: AttrParser) -> Pairs:
    pairs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_ints(parser))
    return _accept_pairs(pairs)


def _encode_ints(value: Sequence[int]) -> Attribute:
    return _array_of(tuple(value))


@lru_cache(maxsize=4096)
def _array_of(value: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i64, list(value))


def _encode_number(value: int | float) -> Attribute:
    if isinstance(value, int) and not isinstance(value, bool):
        return IntegerAttr(value, i64)
    return FloatAttr(float(value), f64)


_BOOLS = (IntegerAttr(0, i1), IntegerAttr(1, i1))


INT = AttributeKind(
    "int",
    _accept_int,
    lambda value: IntegerAttr(value, i64),
    lambda attribute: attribute.value.data,
    lambda printer, value: printer.print_string(str(value)),
    lambda parser: parser.parse_integer(),
)
FLOAT = AttributeKind(
    "float",
    _accept_float,
    lambda value: FloatAttr(value, f64),
    lambda attribute: attribute.value.data,
    _print_float,
    _parse_float,
)
NUMBER = AttributeKind(
    "number",
    _accept_number,
    _encode_number,
    lambda attribute: attribute.value.data,
    _print_number,
    _parse_number,
)
BOOL = AttributeKind(
    "bool",
    _accept_bool,
    lambda value: _BOOLS[int(value)],
    lambda attribute: bool(attribute.value.data),
    lambda printer, value: printer.print_string("true" if value else "false"),
    lambda parser: parser.parse_boolean(),
)
STRING = AttributeKind(
    "str",
    _accept_string,
    StringAttr,
    lambda attribute: attribute.data,
    lambda printer, value: printer.print_string_literal(value),
    lambda parser: parser.parse_str_literal(),
)
INTS = AttributeKind(
    "ints",
    _accept_ints,
    _encode_ints,
    lambda attribute: tuple(attribute.get_values()),
    _print_ints,
    _parse_ints,
)
SHAPE = AttributeKind(
    "int or ints", _accept_int_or_ints, INTS.encode, INTS.decode, INTS.print, INTS.parse
)
AXES = AttributeKind(
    "int, ints or none", _accept_int_or_ints, INTS.encode, INTS.decode, INTS.print, INTS.parse
)
PAIRS = AttributeKind(
    "pairs",
    _accept_pairs,
    lambda value: ArrayAttr([_encode_ints(pair) for pair in value]),
    lambda attribute: tuple(tuple(pair.get_values()) for pair in attribute.data),
    _print_pairs,
    _parse_pairs,
)
PADDING = AttributeKind(
    "padding", _accept_padding, PAIRS.encode, PAIRS.decode, PAIRS.print, PAIRS.parse
)
ELEMENT = AttributeKind(
    "element type",
    _accept_element,
    lambda value: value.attribute,
    element_of,
    lambda printer, value: printer.print_attribute(value.attribute),
    _parse_element,
)


def same_value(left: Any, right: Any) -> bool:
    """Equality of attribute values in which nan equals nan, and -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        same = left == right and math.copysign(1.0, left) == math.copysign(1.0, right)
        return same or (math.isnan(left) and math.isnan(right))
    return left == right
