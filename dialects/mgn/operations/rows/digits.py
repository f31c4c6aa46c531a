"""Digits of keys: a long row is sorted digit by digit, the lowest first, each time stably.

The key of an element is an unsigned integer, in the order that a sort wants: zeros are one number,
NaN is the largest. A digit is some of its bits. What a sort by a digit needs to know is how often
each digit occurs in each part of a row; then every element knows where it goes.

An element whose key is less than that of the one before it in its row is a fall. A row without
falls is in order already. So what would be found of it need not be, and is not defined.

The attribute `of` is the keys' element type, which their digits depend on: it is filled in.
"""

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import BOOL, INT, STRING
from mgn.dialects.mgn.operation import (
    INTEGERS,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.rows.reductions import canonical_axis
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family, element_of, tensor

Array = np.ndarray

DIGIT_BITS = 8
"""Bits of a digit."""

MOST_BITS = 8


def key_bits(element: ElementType) -> int:
    """Bits of the key of an element type."""
    if element.is_float:
        return max(element.bits, 32)
    return 8 if element.family is Family.BOOL else element.bits


def digit_mask(element: ElementType, shift: int, bits: int) -> int:
    """What of a shifted key is a digit."""
    return (1 << min(bits, key_bits(element) - shift)) - 1


def first_number(element: ElementType) -> int:
    """What the bits of a signed number are turned by, so that their unsigned order is its own."""
    signed = element.is_float or element.family is Family.SIGNED
    return 1 << (key_bits(element) - 1) if signed else 0


def shifts_of(element: ElementType) -> list[int]:
    """Where the digits begin that tell elements of a type apart, the lowest first.

    Keys of bf16 end in 16 bits that are alike, those of f16 in 13.
    """
    first = {"bf16": 16, "f16": 13}.get(element.name, 0)
    return list(range(first, key_bits(element), DIGIT_BITS))


def keys_of(values: Array, element: ElementType, descending: bool) -> Array:
    """The keys of values."""
    wide = key_bits(element) == 64
    number, top = np.uint64 if wide else np.uint32, first_number(element)
    if not element.is_float:
        keys = values.astype(np.int64).astype(number) ^ number(top)
        return ~keys if descending else keys
    floats = values if wide else values.astype(np.float32)
    bits = (floats + floats.dtype.type(0)).view(number)
    keys = np.where(bits & number(top), ~bits, bits | number(top))
    return np.where(np.isnan(floats), ~number(0), ~keys if descending else keys)


def digits_of(values: Array, of: str, descending: bool, shift: int, bits: int) -> Array:
    """A digit of each value's key, as one of an element type."""
    element = ELEMENT_TYPES[of]
    keys = keys_of(values.astype(element.dtype), element, descending)
    mask = digit_mask(element, shift, bits)
    return (keys >> keys.dtype.type(shift) & keys.dtype.type(mask)).astype(np.int64)


def _check(keys: TensorType, shift: int, bits: int) -> None:
    if not 0 < bits <= MOST_BITS or not 0 <= shift < key_bits(element_of(keys)):
        raise ShapeError(f"a key of {element_of(keys)} has no digit of {bits} bits from {shift} on")


DIGIT = (
    AttributeSpec("axis", INT, -1),
    AttributeSpec("descending", BOOL, False),
    AttributeSpec("shift", INT, 0),
    AttributeSpec("bits", INT, DIGIT_BITS),
    AttributeSpec("of", STRING, ""),
)
PART = AttributeSpec("part", INT, 1)
FALLS = OperandSpec("falls", INTEGERS, group="falls", optional=True)
WITH_FALLS = AttributeSpec("with_falls", BOOL, False)

UNTOLD = {"digit_counts": 1, "place_digits": 3}
"""How many operands the operations have that may be told of falls, where they are not."""


def is_told(name: str, operands: int) -> bool:
    """Whether an operation of so many operands is told of falls."""
    return operands > UNTOLD.get(name, operands)


def rows_of(shape: Shape, axis: int) -> int:
    """How many rows lie along an axis."""
    return prod(size for i, size in enumerate(shape) if i != axis)


def counts_shape(shape: Shape, axis: int, bits: int, part: int, with_falls: bool = False) -> Shape:
    """The shape of how often digits occur: rows, digits, parts of a row; falls are behind them."""
    return (rows_of(shape, axis), (1 << bits) + with_falls, -(-shape[axis] // part))


def _canonical(keys: TensorType, axis: int, **_: Any) -> dict[str, Any]:
    return {**canonical_axis(keys, axis=axis), "of": element_of(keys).name}


def _check_falls(keys: TensorType, falls: TensorType | None, axis: int) -> None:
    """Raises ShapeError where falls are not those of each row."""
    wanted = (rows_of(keys.get_shape(), axis),)
    if falls is not None and falls.get_shape() != wanted:
        raise ShapeError(f"falls must be {list(wanted)}, not {list(falls.get_shape())}")


def _infer_counts(
    keys: TensorType,
    falls: TensorType | None,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
    with_falls: bool = False,
) -> TensorType:
    _check(keys, shift, bits)
    _check_falls(keys, falls, axis)
    if part < 1:
        raise ShapeError(f"part must be positive: {part}")
    return tensor("i32", counts_shape(keys.get_shape(), axis, bits, part, with_falls))


def _lines(values: Array, axis: int) -> Array:
    """Values as rows along an axis."""
    moved = np.moveaxis(values, axis, -1)
    return moved.reshape(rows_of(values.shape, axis), values.shape[axis])


def _counts(
    keys: Array,
    falls: Array | None,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
    with_falls: bool,
) -> Array:
    found = np.zeros(counts_shape(keys.shape, axis, bits, part, with_falls), np.int32)
    digits = _lines(digits_of(keys, of, descending, shift, bits), axis)
    element = ELEMENT_TYPES[of]
    whole = keys_of(keys.astype(element.dtype), element, descending)
    whole = _lines(whole & whole.dtype.type((1 << key_bits(element)) - 1), axis)
    for row, (line, own) in enumerate(zip(digits, whole, strict=True)):
        if falls is not None and not falls[row]:
            continue
        np.add.at(found[row], (line, np.arange(line.size) // part), 1)
        if with_falls:
            (places,) = np.nonzero(own[1:] < own[:-1])
            np.add.at(found[row, -1], (places + 1) // part, 1)
    return found


DIGIT_COUNTS = define(
    OperationSpec(
        "digit_counts",
        Kind.ORDER,
        "`y = digit_counts(keys, axis = -1, shift = 8, part = 64)`: how often each digit of keys "
        "occurs in each part of a row, as i32: rows, digits, parts. With `with_falls = true`, one "
        "line more says how many keys in each part are less than the one before them in the row. "
        "`falls` says how many each row has; where it has none, the result is not defined.",
        (OperandSpec("keys"), FALLS, *DIGIT, PART, WITH_FALLS),
        _infer_counts,
        evaluate=_counts,
        canonical=lambda keys, falls, axis, **_: _canonical(keys, axis),
    )
)


def _infer_sort(
    keys: TensorType,
    payload: TensorType,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
) -> TensorType:
    _check(keys, shift, bits)
    if payload.get_shape() != keys.get_shape():
        shapes = [list(type.get_shape()) for type in (keys, payload)]
        raise ShapeError(f"keys {shapes[0]} and payload {shapes[1]} differ")
    return payload


def _sort(
    keys: Array, payload: Array, axis: int, descending: bool, shift: int, bits: int, of: str
) -> Array:
    digits = digits_of(keys, of, descending, shift, bits)
    return np.take_along_axis(payload, np.argsort(digits, axis, kind="stable"), axis)


SORT_DIGITS = define(
    OperationSpec(
        "sort_digits",
        Kind.ORDER,
        "`y = sort_digits(keys, payload, axis = -1, shift = 8)`: the payload in the stable order "
        "of one digit of its keys along an axis: the `bits` from `shift` on of an unsigned "
        "integer that is in the order of the keys, NaN last.",
        (OperandSpec("keys"), OperandSpec("payload", group="payload"), *DIGIT),
        _infer_sort,
        evaluate=_sort,
        canonical=lambda keys, payload, axis, **_: _canonical(keys, axis),
    )
)


def _infer_place(
    keys: TensorType,
    payload: TensorType,
    sums: TensorType,
    falls: TensorType | None,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
) -> TensorType:
    result = _infer_sort(keys, payload, axis, descending, shift, bits, of)
    wanted = _infer_counts(keys, falls, axis, descending, shift, bits, of, part)
    if sums.get_shape() != wanted.get_shape():
        raise ShapeError(f"sums must be {list(wanted.get_shape())}, not {list(sums.get_shape())}")
    return result


def _place(
    keys: Array,
    payload: Array,
    sums: Array,
    falls: Array | None,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
) -> Array:
    found = _sort(keys, payload, axis, descending, shift, bits, of)
    if falls is None:
        return found
    line = [1 if i == axis else size for i, size in enumerate(keys.shape)]
    return np.where(falls.reshape(line) != 0, found, np.zeros((), payload.dtype))


PLACE_DIGITS = define(
    OperationSpec(
        "place_digits",
        Kind.ORDER,
        "`y = place_digits(keys, payload, sums, part = 64)`: as `sort_digits`, told how often each "
        "digit occurs in a row's parts up to each, as running sums of `digit_counts` along parts; "
        "with other sums, the order is not defined. `falls` says how many keys of each row are "
        "less than the one before them; where a row has none, the result is not defined.",
        (
            OperandSpec("keys"),
            OperandSpec("payload", group="payload"),
            OperandSpec("sums", INTEGERS, group="sums"),
            FALLS,
            *DIGIT,
            PART,
        ),
        _infer_place,
        evaluate=_place,
        canonical=lambda keys, payload, sums, falls, axis, **_: _canonical(keys, axis),
    )
)
