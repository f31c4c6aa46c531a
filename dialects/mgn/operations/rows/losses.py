"""Losses: what training minimises. Half precision is computed in f32 and rounded once.

`reduction` is "mean" (over all rows or elements, nan where there is none), "sum" or "none".
"""

import math
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import FLOAT, INT, STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.checks import CHECK
from mgn.dialects.mgn.composite import composite, element_type_of, in_single_precision, shape_of
from mgn.dialects.mgn.operation import FLOATS, INTEGERS, AttributeSpec, OperandSpec
from mgn.dialects.mgn.operations.elements.elementwise import infer_broadcast
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import counting_type, element_of, tensor

REDUCTION = AttributeSpec("reduction", STRING, "mean")
IGNORE_INDEX = AttributeSpec("ignore_index", INT, None)
PAIR = (OperandSpec("x", FLOATS), OperandSpec("target", FLOATS))


def _reduced_shape(shape: Shape, reduction: str) -> Shape:
    if reduction not in ("mean", "sum", "none"):
        raise ShapeError(f'reduction must be "mean", "sum" or "none", not "{reduction}"')
    return shape if reduction == "none" else ()


def _reduce(b: Emitter, x: SSAValue, reduction: str) -> SSAValue:
    if reduction == "none":
        return x
    return b.mean(x) if reduction == "mean" else b.sum(x)


def counted_rows(b: Emitter, labels: SSAValue, ignored: int | None) -> SSAValue | None:
    """Which rows have another label than one; None where all have."""
    if ignored is None:
        return None
    element = element_type_of(labels)
    assert element.dtype is not None
    limits = np.iinfo(element.dtype)
    return b.ne(labels, ignored) if limits.min <= ignored <= limits.max else None


def _reduce_but(
    b: Emitter, rows: SSAValue, labels: SSAValue, reduction: str, ignored: int | None
) -> SSAValue:
    """The same of rows but those with one label."""
    counted = counted_rows(b, labels, ignored)
    if counted is None:
        return _reduce(b, rows, reduction)
    total = _reduce(b, b.where(counted, rows, 0.0), "none" if reduction == "none" else "sum")
    if reduction != "mean":
        return total
    return b.div(total, b.sum(b.cast(counted, element_type_of(rows))))


def _infer_pair(x: TensorType, target: TensorType, reduction: str, **_: Any) -> TensorType:
    shape = infer_broadcast(x, target).get_shape()
    return tensor(element_of(x), _reduced_shape(shape, reduction))


def _infer_classes(
    x: TensorType, labels: TensorType, reduction: str, ignore_index: int | None, check: bool
) -> TensorType:
    shape, ids = x.get_shape(), labels.get_shape()
    if not shape:
        raise ShapeError("a row of classes needs rank 1 or more")
    wanted = shape if element_of(labels).is_float else shape[:-1]
    if ids != wanted:
        raise ShapeError(f"labels must have shape {list(wanted)}, not {list(ids)}")
    if not element_of(labels).is_float and shape[-1] == 0:
        raise ShapeError("class ids need at least one class")
    if element_of(labels).is_float and ignore_index is not None:
        raise ShapeError("ignore_index is a class id, and labels are probabilities")
    if element_of(labels).is_float and check:
        raise ShapeError("check is of class ids, and labels are probabilities")
    return tensor(element_of(x), _reduced_shape(shape[:-1], reduction))


def _at_label(b: Emitter, x: SSAValue, labels: SSAValue) -> SSAValue:
    """The element of each row at its class id; an id outside them is clamped, as in gather."""
    classes = shape_of(x)[-1]
    wide = counting_type(classes, element_type_of(labels))
    ids = b.clamp(b.cast(labels, wide), min=0.0, max=float(classes - 1))
    column = b.iota((classes,), axis=0, T=wide)
    hit = b.eq(b.expand_dims(ids, axis=-1), column)
    return b.sum(b.where(hit, x, 0.0), axis=-1)


@composite(
    "cross_entropy",
    (
        OperandSpec("logits", FLOATS),
        OperandSpec("labels", FLOATS | INTEGERS, group="labels"),
        REDUCTION,
        IGNORE_INDEX,
        CHECK,
    ),
    _infer_classes,
)
@in_single_precision
def cross_entropy(
    b: Emitter,
    logits: SSAValue,
    labels: SSAValue,
    reduction: str,
    ignore_index: int | None,
    check: bool,
) -> SSAValue:
    """`loss = cross_entropy(logits, labels)`: minus the log-probability of each row's label.

    Shape: logits `[…, C]`; labels are class ids `[…]` or probabilities `[…, C]`. A scalar, or `[…]`
    with reduction "none". An id outside the classes is clamped; with `check = true` it fails the
    run. Rows whose id is `ignore_index` give 0, and the mean is over the others. Error: labels of
    another shape.
    """
    total = b.logsumexp(logits, axis=-1, keepdims=True)
    if element_type_of(labels).is_float:
        rows = b.sum(b.mul(labels, b.sub(total, logits)), axis=-1)
    else:
        rows = b.sub(b.squeeze(total, axis=-1), _at_label(b, logits, labels))
    return _reduce_but(b, rows, labels, reduction, ignore_index)


@composite(
    "nll",
    (
        OperandSpec("x", FLOATS),
        OperandSpec("labels", INTEGERS, group="labels"),
        REDUCTION,
        IGNORE_INDEX,
        CHECK,
    ),
    _infer_classes,
)
@in_single_precision
def nll(
    b: Emitter,
    x: SSAValue,
    labels: SSAValue,
    reduction: str,
    ignore_index: int | None,
    check: bool,
) -> SSAValue:
    """`loss = nll(x, labels)`: minus the element of each row of log-probabilities at its label.

    Shape: x `[…, C]`, labels class ids `[…]`. A scalar, or `[…]` with reduction "none". An id
    outside the classes is clamped; with `check = true` it fails the run. Rows whose id is
    `ignore_index` give 0, and the mean is over the others. Error: labels of another shape.
    """
    return _reduce_but(b, b.neg(_at_label(b, x, labels)), labels, reduction, ignore_index)


@composite("bce", (*PAIR, REDUCTION), _infer_pair)
@in_single_precision
def bce(b: Emitter, x: SSAValue, target: SSAValue, reduction: str) -> SSAValue:
    """`loss = bce(x, target)`: binary cross-entropy of probabilities x.

    Shape: both broadcast; a scalar unless reduction is "none". Logarithms are at least -100, as in
    PyTorch.
    """
    positive = b.mul(target, b.max(b.log(x), -100.0))
    negative = b.mul(b.sub(1.0, target), b.max(b.log1p(b.neg(x)), -100.0))
    return _reduce(b, b.neg(b.add(positive, negative)), reduction)


@composite("bce_with_logits", (*PAIR, REDUCTION), _infer_pair)
@in_single_precision
def bce_with_logits(b: Emitter, x: SSAValue, target: SSAValue, reduction: str) -> SSAValue:
    """`loss = bce_with_logits(x, target)`: binary cross-entropy of sigmoid(x), without overflow.

    Shape: both broadcast; a scalar unless reduction is "none".
    """
    return _reduce(b, b.sub(b.softplus(x), b.mul(x, target)), reduction)


@composite("mse", (*PAIR, REDUCTION), _infer_pair)
@in_single_precision
def mse(b: Emitter, x: SSAValue, target: SSAValue, reduction: str) -> SSAValue:
    """`loss = mse(x, target)`: the squared difference.

    Shape: both broadcast; a scalar unless reduction is "none".
    """
    difference = b.sub(x, target)
    return _reduce(b, b.mul(difference, difference), reduction)


@composite("l1", (*PAIR, REDUCTION), _infer_pair)
@in_single_precision
def l1(b: Emitter, x: SSAValue, target: SSAValue, reduction: str) -> SSAValue:
    """`loss = l1(x, target)`: the absolute difference.

    Shape: both broadcast; a scalar unless reduction is "none".
    """
    return _reduce(b, b.abs(b.sub(x, target)), reduction)


def _infer_huber(x: TensorType, target: TensorType, reduction: str, delta: float) -> TensorType:
    if not (delta > 0 and math.isfinite(delta)):
        raise ShapeError(f"delta must be positive, not {delta}")
    return _infer_pair(x, target, reduction)


@composite("huber", (*PAIR, REDUCTION, AttributeSpec("delta", FLOAT, 1.0)), _infer_huber)
@in_single_precision
def huber(b: Emitter, x: SSAValue, target: SSAValue, reduction: str, delta: float) -> SSAValue:
    """`loss = huber(x, target, delta = 1.0)`: half the squared difference, linear beyond delta.

    Shape: both broadcast; a scalar unless reduction is "none". Error: a delta that is not positive.
    Huber 1964 (doi:10.1214/aoms/1177703732).
    """
    distance = b.abs(b.sub(x, target))
    square = b.mul(b.mul(distance, distance), 0.5)
    line = b.mul(b.sub(distance, 0.5 * delta), delta)
    return _reduce(b, b.where(b.le(distance, delta), square, line), reduction)
