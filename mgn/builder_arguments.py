"""What the calls of the builder are given, checked; and where they stand in the caller's file.

In: the arguments of a call. Out: types, names and arrays, or a DiagnosticsError that
points at the line of the caller.
"""

import linecache
import os
import re
import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, TensorType

from mgn.diagnostics import Diagnostic, DiagnosticsError
from mgn.dialects.mgn.build import suggestion
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of_dtype, tensor
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import as_array

_TYPE = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[([\d\s,]*)\])?\s*\Z")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PARTS = ("frontend", "dialects")
_HERE = Path(__file__).resolve().parent
_OWN_FOLDERS = tuple(
    f"{folder}{os.sep}"
    for folder in (_HERE, *(base / part for base in (_HERE, _HERE.parent) for part in _PARTS))
)


def tensor_type(type: str | TensorType) -> TensorType:
    """A type as the language writes it: `f32[2, 3]`."""
    if isinstance(type, TensorType):
        return type
    match = _TYPE.match(type) if isinstance(type, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if match is None:
        fail(f"{type!r:.80} is no tensor type; write it as 'f32[2, 3]'")
    name, sizes = match.groups()
    if name not in ELEMENT_TYPES:
        fail(f"unknown element type '{name}'{suggestion(name, list(ELEMENT_TYPES))}")
    try:
        return tensor(name, [int(size) for size in (sizes or "").split(",") if size.strip()])
    except (ShapeError, ValueError) as error:
        fail(str(error))


def element_type(value: Any) -> ElementType | None:
    """An element type by name or NumPy dtype."""
    if value is None or isinstance(value, ElementType):
        return value
    if isinstance(value, str) and value in ELEMENT_TYPES:
        return ELEMENT_TYPES[value]
    try:
        return element_of_dtype(np.dtype(value))
    except (KeyError, TypeError, ValueError):
        fail(f"there is no element type {value!r:.80}")


def checked_name(name: Any, what: str) -> str:
    """A name that the language can spell. DiagnosticsError where it is none."""
    if not NAME.match(checked_text(name, what)):
        fail(f"{name!r:.80} is no name for {what}")
    return name


def checked_text(name: Any, what: str) -> str:
    """A name that is a text, and not empty. DiagnosticsError where it is none."""
    if not isinstance(name, str) or not name or not name.isprintable():
        fail(f"{name!r:.80} is no name for {what}")
    return name


def array_of(value: Any) -> np.ndarray:
    """Numbers, nested lists or an array as an array. DiagnosticsError where they are none."""
    try:
        return as_array(value)
    except InputError as error:
        fail(f"a constant {error}")


# ---- the caller's place


def _caller() -> tuple[str, int, int]:
    """File, line and column of the nearest frame outside mgn."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frame = frame.f_back
    if frame is None:
        return "<python>", 0, 0
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    column = positions[2] if positions is not None else None
    return frame.f_code.co_filename, frame.f_lineno, (column or 0) + 1


def location() -> FileLineColLoc:
    """The caller's place as operations carry it."""
    file, line, column = _caller()
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def fail(message: str) -> NoReturn:
    """Raises a DiagnosticsError at the caller's line."""
    file, line, column = _caller()
    source = linecache.getline(file, line).rstrip("\n") or None
    raise DiagnosticsError([Diagnostic(message, file, line, column, source)]) from None
