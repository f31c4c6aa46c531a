"""What rules may ask of a match, and what they may compute from its attributes: two tables.

In: `Operand`s (a value's type and, where it is one, its constant) and attribute values. Out: true
or false, or an attribute value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType

from mgn.dialects.types import ElementType, Family, element_of


@dataclass(frozen=True)
class Operand:
    """What a predicate sees of a matched value. `constant` is set where the rule asks
    `constant(x)`.
    """

    type: TensorType
    constant: float | None = None

    @property
    def element(self) -> ElementType:
        return element_of(self.type)


_MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
_EXPONENT = {"f64": 11, "f32": 8, "f16": 5, "bf16": 8}


def _holds_all(wide: ElementType, narrow: ElementType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if wide == narrow:
        return True
    if narrow.is_float:
        return (
            wide.is_float
            and _MANTISSA[wide.name] >= _MANTISSA[narrow.name]
            and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
        )
    if narrow.family is Family.BOOL:
        return wide.is_float or wide.is_integer
    if wide.is_float:
        return narrow.bits <= _MANTISSA[wide.name]
    if wide.family is Family.SIGNED:
        return wide.bits > narrow.bits or (
            narrow.family is Family.SIGNED and wide.bits >= narrow.bits
        )
    return (
        wide.family is Family.UNSIGNED
        and narrow.family is Family.UNSIGNED
        and wide.bits >= narrow.bits
    )


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _power_of_two(x: Operand) -> bool:
    value = x.constant
    return value is not None and math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


PREDICATES: dict[str, Callable[..., bool]] = {
    "constant": lambda x: x.constant is not None,
    "scalar": lambda x: x.type.get_shape() == (),
    "nonzero": lambda x: x.constant not in (None, 0) and math.isfinite(x.constant),
    "finite": lambda x: x.constant is not None and math.isfinite(x.constant),
    "power_of_two": _power_of_two,
    "floating": lambda x: x.element.is_float,
    "wide": lambda x: x.element.name in ("f32", "f64"),
    "integer": lambda x: x.element.is_integer,
    "same_type": lambda x, y: x.type == y.type,
    "matrix": lambda x: len(x.type.get_shape()) >= 2,
    "swaps_last_two": _swaps_last_two,
    "identity_permutation": lambda perm: perm == tuple(range(len(perm))),
    "holds_all": lambda element, x: _holds_all(element, x.element),
    "same_axes": lambda left, right: left == right,
}
"""Predicates by name. Arguments are matched values as `Operand`, or attribute values."""


def _compose(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of transposing by `first`, then by `second`."""
    return tuple(first[axis] for axis in second)


ATTRIBUTE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "compose": _compose,
}
"""What right sides may compute from attribute values."""
