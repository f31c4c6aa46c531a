"""Element types: one row for each type of the language, with its IR type and its NumPy type.

In: a name of the language (`f32`), an IR type, or a NumPy dtype. Out: the row that describes it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from mgn.dialects.block_formats import BLOCK, BLOCK_FORMATS
from mgn.dialects.shapes import ShapeError


class Family(StrEnum):
    """What arithmetic an element type has."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    BLOCK = "block"


@irdl_attr_definition
class BlockFormatType(ParametrizedAttribute, TypeAttribute):
    """A block format of a parameter: 32 elements share a scale along the reduction axis.

    Example: `tensor<64x64x!mgn.block<"q8_0">>`.
    """

    name = "mgn.block"
    format: StringAttr = param_def()


@dataclass(frozen=True)
class ElementType:
    """One element type. `dtype` is None for the block formats, which NumPy does not have."""

    name: str
    attribute: Attribute
    dtype: np.dtype | None
    bits: int
    family: Family

    @property
    def bytes(self) -> int:
        """Size in a buffer, in bytes; a bool takes one."""
        return max(self.bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.family is Family.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.family in (Family.SIGNED, Family.UNSIGNED)


def _unsigned(bits: int) -> IntegerType:
    return IntegerType(bits, Signedness.UNSIGNED)


ELEMENT_TYPES: dict[str, ElementType] = {
    row.name: row
    for row in (
        ElementType("f64", Float64Type(), np.dtype(np.float64), 64, Family.FLOAT),
        ElementType("f32", Float32Type(), np.dtype(np.float32), 32, Family.FLOAT),
        ElementType("f16", Float16Type(), np.dtype(np.float16), 16, Family.FLOAT),
        ElementType("bf16", BFloat16Type(), np.dtype(ml_dtypes.bfloat16), 16, Family.FLOAT),
        ElementType("i64", IntegerType(64), np.dtype(np.int64), 64, Family.SIGNED),
        ElementType("i32", IntegerType(32), np.dtype(np.int32), 32, Family.SIGNED),
        ElementType("i16", IntegerType(16), np.dtype(np.int16), 16, Family.SIGNED),
        ElementType("i8", IntegerType(8), np.dtype(np.int8), 8, Family.SIGNED),
        ElementType("u32", _unsigned(32), np.dtype(np.uint32), 32, Family.UNSIGNED),
        ElementType("u16", _unsigned(16), np.dtype(np.uint16), 16, Family.UNSIGNED),
        ElementType("u8", _unsigned(8), np.dtype(np.uint8), 8, Family.UNSIGNED),
        ElementType("bool", IntegerType(1), np.dtype(np.bool_), 1, Family.BOOL),
        *(
            ElementType(name, BlockFormatType(StringAttr(name)), None, format.bits, Family.BLOCK)
            for name, format in BLOCK_FORMATS.items()
        ),
    )
}

MOST_AXES = 64
"""Of a tensor: as many as NumPy's arrays have."""

LARGEST_BYTES = 2**63 - 1
"""Of a tensor, empty axes left out: offsets and counts of all its elements fit an i64."""

_BY_ATTRIBUTE = {row.attribute: row for row in ELEMENT_TYPES.values()}
_BY_DTYPE = {row.dtype: row for row in ELEMENT_TYPES.values() if row.dtype is not None}

BY_DTYPE_NAME = {dtype.name: row for dtype, row in _BY_DTYPE.items()}
"""Element types by the names that NumPy and PyTorch share: `float32`, `bfloat16`, `bool`."""


def element_of(type: Attribute) -> ElementType:
    """The row of an element type, or of a tensor's element type. KeyError where there is none."""
    if isinstance(type, TensorType):
        return _BY_ATTRIBUTE[type.element_type]
    return _BY_ATTRIBUTE[type]


def largest_number(element: ElementType) -> int:
    """The largest number of an integer type."""
    return (1 << (element.bits - (element.family is Family.SIGNED))) - 1


def counting_type(largest: int, *others: ElementType) -> str:
    """The type in which to count as far as a number, and with the integers of other types: i32, or
    i64 where that is too narrow.
    """
    i32 = ELEMENT_TYPES["i32"]
    tops = (largest, *(largest_number(element) for element in others))
    return "i32" if max(tops) <= largest_number(i32) else "i64"


def element_of_dtype(dtype: np.dtype) -> ElementType:
    """The row of a NumPy dtype. KeyError where mgn has no such element type."""
    return _BY_DTYPE[np.dtype(dtype)]


def tensor(element: ElementType | str, shape: tuple[int, ...] | list[int]) -> TensorType:
    """The tensor type of an element type and a static shape. ShapeError where it is too large."""
    row = ELEMENT_TYPES[element] if isinstance(element, str) else element
    if any(size < 0 for size in shape):
        raise ShapeError(f"a shape cannot be negative: {list(shape)}")
    return _tensor(row.attribute, tuple(shape))


@lru_cache(maxsize=4096)
def _tensor(element: Attribute, shape: tuple[int, ...]) -> TensorType:
    """Equal types are one object, which is soon compared."""
    type = TensorType(element, shape)
    check_size(type)
    return type


def static_element(type: TensorType) -> ElementType:
    """The element type of a tensor that mgn knows, of a static shape. Raises ShapeError."""
    if any(size < 0 for size in type.get_shape()):
        raise ShapeError(f"{type} has no static shape")
    try:
        return element_of(type)
    except KeyError:
        raise ShapeError(f"{type.element_type} is not an element type of mgn") from None


def tensor_bytes(type: TensorType) -> int:
    """How large a tensor is in a buffer."""
    return math.prod(type.get_shape()) * element_of(type).bytes


def check_size(type: TensorType) -> None:
    """ShapeError where a tensor is none of mgn's, or has more bytes than 64-bit indices count."""
    element = static_element(type)
    if len(type.get_shape()) > MOST_AXES:
        raise ShapeError(f"a tensor has at most {MOST_AXES} axes, not {len(type.get_shape())}")
    if math.prod(size for size in type.get_shape() if size) * element.bytes > LARGEST_BYTES:
        raise ShapeError(f"{spelling(type)} is too large: over 2**63 bytes")
    if element.family is Family.BLOCK and (not type.get_shape() or type.get_shape()[-1] % BLOCK):
        raise ShapeError(
            f"{spelling(type)}: the last axis is of whole blocks, {BLOCK} elements each"
        )


def value_type(type: TensorType) -> TensorType:
    """The type of the values that a parameter stands for: f32 for a block format, else its own."""
    if element_of(type).family is Family.BLOCK:
        return tensor("f32", type.get_shape())
    return type


def spelling(type: Attribute) -> str:
    """A tensor type as the language writes it: `f32[2, 3]`."""
    row = element_of(type)
    if not isinstance(type, TensorType):
        return row.name
    return f"{row.name}[{', '.join(str(size) for size in type.get_shape())}]"
