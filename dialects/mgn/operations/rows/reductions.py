"""Core reductions. Float sums and products accumulate in f32 or wider and round once."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import AXES, BOOL
from mgn.dialects.mgn.operation import (
    NUMERIC,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.operations.elements.elementwise import in_float32
from mgn.dialects.shapes import normalise_axes, normalise_axis, reduce_shape
from mgn.dialects.types import element_of, tensor

Array = np.ndarray


def canonical_axes(x: TensorType, axis: Any, **_: Any) -> Mapping[str, Any]:
    """Reduction axes, sorted and counted from the front; none stands for all."""
    return {"axis": normalise_axes(axis, len(x.get_shape()))}


def canonical_axis(x: TensorType, *_others: TensorType, axis: int) -> Mapping[str, Any]:
    """One axis of the first operand, counted from the front."""
    return {"axis": normalise_axis(axis, len(x.get_shape()))}


def infer_reduction(x: TensorType, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    """The operand's type without the reduced axes."""
    return tensor(element_of(x), reduce_shape(x.get_shape(), axis, keepdims))


def reduction_signature(x: OperandSpec) -> tuple[OperandSpec | AttributeSpec, ...]:
    """`(x, axis = none, keepdims = false)`, which all reductions share."""
    return (x, AttributeSpec("axis", AXES, None), AttributeSpec("keepdims", BOOL, False))


def neutral_maximum(dtype: np.dtype) -> Any:
    """The neutral element of the maximum in a type."""
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf


def neutral_minimum(dtype: np.dtype) -> Any:
    """The neutral element of the minimum in a type."""
    return np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else np.inf


SHORT_SUM = 1024
"""Up to how many terms the definition adds up in their own type."""


def sums_in(dtype: np.dtype, terms: int) -> np.dtype:
    """The type in which the definition adds up: f64 for long sums in f32, of which NumPy makes one
    chain along all axes but the last.
    """
    return np.dtype(np.float64) if dtype == np.float32 and terms > SHORT_SUM else dtype


def _sum(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    terms = math.prod(x.shape[one] for one in axis)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=sums_in(x.dtype, terms))
    return total.astype(x.dtype)


FACTORS = 512
"""How many numbers from 1/2 to 1 the definition multiplies before it scales their product."""

FARTHEST = 5000
"""A power of two past which a product is infinite or 0 in every type."""


def _prod(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    if x.dtype.kind != "f":
        return np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    kept = tuple(one for one in range(x.ndim) if one not in axis)
    factors = math.prod(x.shape[one] for one in axis)
    rows = np.transpose(x, (*kept, *axis)).reshape(*(x.shape[one] for one in kept), factors)
    shape = np.sum(np.empty(x.shape, np.bool_), axis=axis, keepdims=keepdims).shape
    return _scaled_product(rows).astype(x.dtype).reshape(shape)


def _scaled_product(x: Array) -> Array:
    """The product over the last axis in f64, of which no part overflows or vanishes."""
    number, exponent = np.frexp(x.astype(np.float64))
    exponent = np.sum(exponent, axis=-1, dtype=np.int64)
    while number.shape[-1] != 1:
        missing = -number.shape[-1] % FACTORS if number.shape[-1] else FACTORS
        sides = [(0, 0)] * (number.ndim - 1) + [(0, missing)]
        number = np.pad(number, sides, constant_values=1.0)
        blocks = number.reshape(*number.shape[:-1], number.shape[-1] // FACTORS, FACTORS)
        number, carried = np.frexp(np.prod(blocks, axis=-1))
        exponent = exponent + np.sum(carried, axis=-1, dtype=np.int64)
    return np.ldexp(number[..., 0], np.clip(exponent, -FARTHEST, FARTHEST).astype(np.int32))


def _maximum(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.max(x, axis=axis, keepdims=keepdims, initial=neutral_maximum(x.dtype))


def _minimum(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.min(x, axis=axis, keepdims=keepdims, initial=neutral_minimum(x.dtype))


def _reduction(name: str, summary: str, function: Callable[..., Array]) -> OperationSpec:
    return define(
        OperationSpec(
            name,
            Kind.REDUCTION,
            f"`y = {name}(x, axis = -1, keepdims = true)`: {summary}",
            reduction_signature(OperandSpec("x", NUMERIC)),
            infer_reduction,
            evaluate=in_float32(function),
            canonical=canonical_axes,
        )
    )


SUM = _reduction("sum", "the sum over axes; 0 when empty.", _sum)
PROD = _reduction("prod", "the product over axes; 1 when empty.", _prod)
MAX = _reduction("max_reduce", "the maximum over axes; nan passes on.", _maximum)
MIN = _reduction("min_reduce", "the minimum over axes; nan passes on.", _minimum)
