"""Digits of keys: a long row is sorted digit by digit, the lowest first, each time stably.

The key of an element is an unsigned integer, in the order that a sort wants: zeros are one number,
NaN is the largest. A digit is some of its bits. What a sort by a digit needs to know is how often
each digit occurs in each part of a row; then every element knows where it goes.

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


def counts_shape(shape: Shape, axis: int, bits: int, part: int) -> Shape:
    """The shape of how often digits occur: rows, digits, parts of a row."""
    rows = prod(size for i, size in enumerate(shape) if i != axis)
    return (rows, 1 << bits, -(-shape[axis] // part))


def _canonical(keys: TensorType, axis: int, **_: Any) -> dict[str, Any]:
    return {**canonical_axis(keys, axis=axis), "of": element_of(keys).name}


def _infer_counts(
    keys: TensorType, axis: int, descending: bool, shift: int, bits: int, of: str, part: int
) -> TensorType:
    _check(keys, shift, bits)
    if part < 1:
        raise ShapeError(f"part must be positive: {part}")
    return tensor("i32", counts_shape(keys.get_shape(), axis, bits, part))


def _rows(values: Array, axis: int) -> Array:
    return np.moveaxis(values, axis, -1)


def _counts(
    keys: Array, axis: int, descending: bool, shift: int, bits: int, of: str, part: int
) -> Array:
    found = np.zeros(counts_shape(keys.shape, axis, bits, part), np.int32)
    digits = _rows(digits_of(keys, of, descending, shift, bits), axis)
    lines = digits.reshape(found.shape[0], digits.shape[-1])
    for row, line in enumerate(lines):
        np.add.at(found[row], (line, np.arange(line.size) // part), 1)
    return found


DIGIT_COUNTS = define(
    OperationSpec(
        "digit_counts",
        Kind.ORDER,
        "`y = digit_counts(keys, axis = -1, shift = 8, part = 64)`: how often each digit of keys "
        "occurs in each part of a row, as i32: rows, digits, parts.",
        (OperandSpec("keys"), *DIGIT, PART),
        _infer_counts,
        evaluate=_counts,
        canonical=_canonical,
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
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
) -> TensorType:
    result = _infer_sort(keys, payload, axis, descending, shift, bits, of)
    wanted = _infer_counts(keys, axis, descending, shift, bits, of, part)
    if sums.get_shape() != wanted.get_shape():
        raise ShapeError(f"sums must be {list(wanted.get_shape())}, not {list(sums.get_shape())}")
    return result


def _place(
    keys: Array,
    payload: Array,
    sums: Array,
    axis: int,
    descending: bool,
    shift: int,
    bits: int,
    of: str,
    part: int,
) -> Array:
    return _sort(keys, payload, axis, descending, shift, bits, of)


PLACE_DIGITS = define(
    OperationSpec(
        "place_digits",
        Kind.ORDER,
        "`y = place_digits(keys, payload, sums, part = 64)`: as `sort_digits`, told how often each "
        "digit occurs in a row's parts up to each, as running sums of `digit_counts` along parts; "
        "with other sums, the order is not defined.",
        (
            OperandSpec("keys"),
            OperandSpec("payload", group="payload"),
            OperandSpec("sums", INTEGERS, group="sums"),
            *DIGIT,
            PART,
        ),
        _infer_place,
        evaluate=_place,
        canonical=lambda keys, payload, sums, axis, **_: _canonical(keys, axis),
    )
)
