"""How reductions and products accumulate: the type, the first number, the bytes."""

import math
from typing import Any

import numpy as np

from mgn.dialects.types import ELEMENT_TYPES, ElementType
from mgn.passes.kernels.body import Node

GUIDE = "guiding_product"
"""The node of a product in f32 with an exponent of its own, beside one in f64."""


_NEUTRAL_INTEGERS = {
    **dict.fromkeys(("sum", "running_sum", "running_sum_in_parts"), 0),
    **dict.fromkeys(("prod", "running_product", "running_product_in_parts"), 1),
}


def is_scaled(name: str, element: ElementType) -> bool:
    """Whether a reduction is kept in this way. In f64 there are no bits to spare."""
    return name == GUIDE or (name == "prod" and element.is_float and element.bits <= 32)


def accumulator(element: ElementType) -> ElementType:
    """The type that sums of an element type are kept in: f32 for the half precisions."""
    return ELEMENT_TYPES["f32"] if element.is_float and element.bits < 32 else element


def neutral(name: str, element: ElementType) -> float | int:
    """What a reduction of nothing gives."""
    if name in _NEUTRAL_INTEGERS:
        return _NEUTRAL_INTEGERS[name]
    sign = -1 if name == "max_reduce" else 1
    if element.is_float:
        return sign * math.inf
    assert element.dtype is not None
    limits: Any = np.iinfo(element.dtype)
    return int(limits.min if sign < 0 else limits.max)


def bytes_combined(node: Node) -> int:
    """Bytes of a reduction's accumulator."""
    return 8 if is_scaled(node.name, node.element) else accumulator(node.element).bytes
