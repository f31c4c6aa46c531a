"""Tensor values inside the IR: arrays as attributes, and attributes as text that reads back bit for
bit.

In: NumPy arrays, or text. Out: `DenseIntOrFPElementsAttr`, arrays, or text such as

    dense<[1.0, 2.0]> : tensor<2xf32>
    -inf : tensor<f32>

xDSL prints infinities, nan and whole numbers of nine digits as hexadecimal floats, and reads those
back as other numbers. So a tensor that is infinite or nan everywhere is written as a word, and any
other tensor that holds such a number as a string of bytes.
"""

from io import StringIO
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mgn.dialects.types import element_of, element_of_dtype, tensor

WORDS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def dense_of(array: np.ndarray) -> DenseIntOrFPElementsAttr:
    """The attribute that holds an array; a bool is stored as 0x00 or 0xFF, as MLIR prints it."""
    array = np.asarray(array)
    element = element_of_dtype(array.dtype)
    stored = array.astype(np.uint8) * 0xFF if element.name == "bool" else array
    data = np.ascontiguousarray(stored).tobytes()
    type = cast(TensorType[AnyFloat | IntegerType], tensor(element, array.shape))
    return DenseIntOrFPElementsAttr(type, BytesAttr(data))


def array_of(value: DenseIntOrFPElementsAttr) -> np.ndarray:
    """The array that an attribute holds, read-only."""
    element = element_of(value.get_element_type())
    shape = value.get_shape()
    if element.name == "bool":
        return (np.frombuffer(value.data.data, np.uint8) != 0).reshape(shape)
    return np.frombuffer(value.data.data, element.dtype).reshape(shape)


def print_dense(printer: Printer, value: DenseIntOrFPElementsAttr) -> None:
    """Writes a tensor's value and its type."""
    array = array_of(value)
    is_float = element_of(value.get_element_type()).is_float
    word = _word_of(array) if is_float and not np.isfinite(array).all() else None
    if word is None:
        print_elements(printer, value)
        return
    printer.print_string(f"{word} : ")
    printer.print_attribute(value.type)


def print_elements(printer: Printer, value: DenseIntOrFPElementsAttr) -> None:
    """Writes `dense<…>` and its type, with bytes in the place of what xDSL reads as other values:
    hexadecimal floats, and zeros of both signs, which it writes as one number.
    """
    stream, data = StringIO(), value.data.data
    Printer(stream).print_attribute(value)
    text = stream.getvalue()
    count = len(value)
    merges = count > 0 and value.is_splat() and data != data[: len(data) // count] * count
    if not merges and not _has_hexadecimal(text):
        printer.print_string(text)
        return
    printer.print_string(f'dense<"0x{data.hex().upper()}"> : ')
    printer.print_attribute(value.type)


def _has_hexadecimal(text: str) -> bool:
    """Whether the elements of `dense<…>` are hexadecimal numbers, and no string of bytes."""
    elements = text.partition(">")[0]
    return "0x" in elements and '"' not in elements


def _word_of(array: np.ndarray) -> str | None:
    """The word for an array that holds one non-finite number everywhere."""
    for word, number in WORDS.items():
        if np.full_like(array, number).tobytes() == array.tobytes():
            return word
    return None


def parse_dense(parser: AttrParser) -> DenseIntOrFPElementsAttr:
    """Reads what `print_dense` writes, and any `dense<…>` without bare hexadecimal floats."""
    sign = "-" if parser.parse_optional_punctuation("-") else ""
    for word in ("inf", "nan"):
        if parser.parse_optional_keyword(word):
            return _everywhere(parser, float(sign + word))
    start = parser.pos
    value = parser.parse_attribute()
    if sign or not isinstance(value, DenseIntOrFPElementsAttr):
        parser.raise_error("expected dense<…> : tensor<…>, or inf, -inf or nan : tensor<…>")
    text = parser.lexer.input.content[start : parser.pos]
    if _has_hexadecimal(text) and element_of(value.get_element_type()).is_float:
        parser.raise_error('a hexadecimal float must be written as bytes, dense<"0x…">')
    return value


def _everywhere(parser: AttrParser, number: float) -> DenseIntOrFPElementsAttr:
    parser.parse_punctuation(":")
    type = parser.parse_type()
    if not isinstance(type, TensorType) or not element_of(type).is_float:
        parser.raise_error("infinities and nan need a tensor type of floats")
    return dense_of(np.full(type.get_shape(), number, element_of(type).dtype))
