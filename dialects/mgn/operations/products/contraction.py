"""The core contraction, a batched matrix product with transposed forms, and the linear layer."""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import BOOL
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, in_single_precision
from mgn.dialects.mgn.operation import (
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.elements.elementwise import in_float32
from mgn.dialects.mgn.operations.rows.reductions import sums_in
from mgn.dialects.shapes import ShapeError, broadcast_shapes
from mgn.dialects.types import element_of, tensor


def infer_matmul(a: TensorType, b: TensorType, transpose_a: bool, transpose_b: bool) -> TensorType:
    """`[…, M, K] @ […, K, N]`; a vector on either side is a row or column that is dropped again."""
    left, right = list(a.get_shape()), list(b.get_shape())
    if not left or not right:
        raise ShapeError("matmul needs operands of rank 1 or more")
    if (transpose_a and len(left) == 1) or (transpose_b and len(right) == 1):
        raise ShapeError("matmul cannot transpose a vector")
    if transpose_a:
        left[-2:] = left[:-3:-1]
    if transpose_b:
        right[-2:] = right[:-3:-1]
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ShapeError(f"matmul of {left} and {right}: inner sizes {left[-1]} and {inner} differ")
    batch = broadcast_shapes(left[:-2], right[:-2])
    rows = left[-2:-1] if len(left) > 1 else []
    columns = right[-1:] if len(right) > 1 else []
    return tensor(element_of(a), [*batch, *rows, *columns])


def _matmul(a: np.ndarray, b: np.ndarray, transpose_a: bool, transpose_b: bool) -> np.ndarray:
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    dtype = sums_in(left.dtype, left.shape[-1])
    return np.matmul(left, right, dtype=dtype).astype(left.dtype, copy=False)


def _signature() -> tuple[Any, ...]:
    return (
        OperandSpec("a", NUMERIC),
        OperandSpec("b", NUMERIC),
        AttributeSpec("transpose_a", BOOL, False),
        AttributeSpec("transpose_b", BOOL, False),
    )


MATMUL = define(
    OperationSpec(
        "matmul",
        Kind.CONTRACTION,
        "`y = a @ b` or `matmul(a, b, transpose_b = true)`: the matrix product, batches broadcast.",
        _signature(),
        infer_matmul,
        evaluate=in_float32(_matmul),
    )
)


def _infer_linear(x: TensorType, w: TensorType, b: TensorType | None) -> TensorType:
    if len(w.get_shape()) != 2:
        raise ShapeError(f"w must be [out, in], not {list(w.get_shape())}")
    result = infer_matmul(x, w, transpose_a=False, transpose_b=True)
    if b is not None and b.get_shape() != w.get_shape()[:1]:
        raise ShapeError(f"b must be [{w.get_shape()[0]}], not {list(b.get_shape())}")
    return result


@composite(
    "linear",
    (
        OperandSpec("x", NUMERIC),
        OperandSpec("w", NUMERIC),
        OperandSpec("b", NUMERIC, optional=True),
    ),
    _infer_linear,
)
def linear(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue | None) -> SSAValue:
    """`y = linear(x, w, b)`: x times the transpose of w, plus b.

    Shape: x `[…, in]`, w `[out, in]`, b `[out]` (may be left out) give `[…, out]`. Error: sizes
    that differ. Half precision is summed in f32 and rounded once, after the bias.
    """
    if bias is None:
        return b.matmul(x, w, transpose_b=True)
    return _affine(b, x, w, bias)


@in_single_precision
def _affine(b: Emitter, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
    return b.add(b.matmul(x, w, transpose_b=True), bias)
