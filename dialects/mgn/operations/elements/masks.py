"""Composites that compare indices: triangles of a matrix and one-hot rows. And a choice by which
what is not chosen is not read.
"""

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import ELEMENT, INT
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import BOOLS, INTEGERS, AttributeSpec, Kind, OperandSpec
from mgn.dialects.mgn.operations.elements.elementwise import infer_where
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ElementType, counting_type, tensor

PICK = "pick"
"""The elementwise composite that is no `where` to templates: they read what it picks alone."""

TRIANGLE = (OperandSpec("x"), AttributeSpec("k", INT, 0))


def _infer_triangle(x: TensorType, k: int) -> TensorType:
    if len(x.get_shape()) < 2:
        raise ShapeError("a triangle needs rank 2 or more")
    return x


def _indices(b: Emitter, x: SSAValue, k: int) -> tuple[Any, Any]:
    """Column indices `[1, N]`, and row indices `[M, 1]` moved by k; no further than past x."""
    *_, rows, columns = shape_of(x)
    k = max(-rows, min(k, columns))
    wide = counting_type(rows + columns)
    row = b.iota((rows, 1), axis=0, T=wide)
    return b.iota((1, columns), axis=1, T=wide), b.add(row, k) if k else row


@composite("tril", TRIANGLE, _infer_triangle)
def tril(b: Emitter, x: SSAValue, k: int) -> SSAValue:
    """`y = tril(x, k = 0)`: x on and below diagonal k of its last two axes, 0 above.

    Shape: that of x. Error: rank below 2.
    """
    column, row = _indices(b, x, k)
    return b.where(b.le(column, row), x, 0)


@composite("triu", TRIANGLE, _infer_triangle)
def triu(b: Emitter, x: SSAValue, k: int) -> SSAValue:
    """`y = triu(x, k = 0)`: x on and above diagonal k of its last two axes, 0 below.

    Shape: that of x. Error: rank below 2.
    """
    column, row = _indices(b, x, k)
    return b.where(b.ge(column, row), x, 0)


def _infer_one_hot(ids: TensorType, classes: int, T: ElementType) -> TensorType:
    if classes < 0:
        raise ShapeError("the number of classes must not be negative")
    return tensor(T, (*ids.get_shape(), classes))


@composite(
    "one_hot",
    (
        OperandSpec("ids", INTEGERS),
        AttributeSpec("classes", INT),
        AttributeSpec("T", ELEMENT, "f32"),
    ),
    _infer_one_hot,
)
def one_hot(b: Emitter, ids: SSAValue, classes: int, T: ElementType) -> SSAValue:
    """`y = one_hot(ids, 10, T = f32)`: rows that are 1 at their id and 0 elsewhere.

    Shape: that of ids with a last axis of `classes`. An id outside the classes gives a row of
    zeros.
    """
    wide = counting_type(classes, element_type_of(ids))
    row = b.expand_dims(b.cast(ids, wide), axis=-1)
    return b.cast(b.eq(row, b.iota((classes,), axis=0, T=wide)), T)


@composite(
    PICK,
    (OperandSpec("condition", BOOLS, group="condition"), OperandSpec("a"), OperandSpec("b")),
    infer_where,
    Kind.ELEMENTWISE,
)
def pick(b: Emitter, condition: SSAValue, a: SSAValue, other: SSAValue) -> SSAValue:
    """`y = pick(c, a, b)`: what `where` gives, for a condition that hardly varies.

    Shape: all broadcast. What is not picked is not read, where all elements that a work-item
    computes together have one condition. Prices expect that it mostly holds.
    """
    return b.where(condition, a, other)
