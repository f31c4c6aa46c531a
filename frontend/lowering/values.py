"""Compile-time values: what they are called in messages, and arithmetic on them.

In: Python numbers, bools, strings and lists, as expressions of the language give them. Out: the
same, or a `ValueFault` that says what does not fit. Integers keep to 64 bits; `/` of two integers
truncates, as for tensors.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import BoundCall
from mgn.dialects.mgn.operation import Family, Kind
from mgn.dialects.types import ElementType, spelling
from mgn.frontend.lowering.lists import Poison, ValueFault, extent_of, joined_items

LONGEST_TEXT = 10_000
LARGEST = 2**64


POISON: Final = Poison()


@dataclass(frozen=True)
class StateRef:
    """What the name of a state is bound to: each use of the name reads the state."""

    name: str
    type: TensorType


def is_number(value: Any) -> bool:
    """Whether a value is a compile-time number or bool."""
    return isinstance(value, bool | int | float)


def holds_poison(value: Any) -> bool:
    """Whether a value, or an item of a list, has an error."""
    return extent_of(value).poisoned


def describe(value: Any) -> str:
    """What a value is, for a message: `a tensor f32[2, 3]`, `the integer 3`."""
    if isinstance(value, SSAValue):
        return f"a tensor {spelling(value.type)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"the integer {value}"
    if isinstance(value, float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{value[:40]}"'
    if isinstance(value, ElementType):
        return f"the element type {value.name}"
    if isinstance(value, tuple):
        return "a list of 1 value" if len(value) == 1 else f"{len(value)} values"
    return "none" if value is None else "a list"


def fold_binary(symbol: str, left: Any, right: Any, most_items: int) -> Any:
    """The value of an arithmetic operator on compile-time values; a list has so many items."""
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        return _bounded_text(left + right)
    if symbol == "+" and isinstance(left, list) and isinstance(right, list):
        return joined_items(left, right, most_items)
    taken = all(is_number(item) and not isinstance(item, bool) for item in (left, right))
    if not taken or symbol == "@":
        raise ValueFault(f"'{symbol}' does not take {describe(left)} and {describe(right)}")
    try:
        return _bounded(_ARITHMETIC[symbol](left, right))
    except ZeroDivisionError as error:
        raise ValueFault("division by zero") from error
    except OverflowError as error:
        raise ValueFault(f"the result of '{symbol}' is too large") from error


def fold_unary(symbol: str, operand: Any) -> Any:
    """The value of `-`, `+` or `not` on a compile-time value."""
    if symbol == "not":
        return not condition(operand, "'not'")
    if isinstance(operand, bool) or not isinstance(operand, int | float):
        raise ValueFault(f"'{symbol}' does not take {describe(operand)}")
    return -operand if symbol == "-" else operand


def fold_compare(symbol: str, left: Any, right: Any) -> bool:
    """The value of a comparison of compile-time values."""
    if symbol in ("==", "!="):
        equal = left == right and isinstance(left, str) == isinstance(right, str)
        return equal if symbol == "==" else not equal
    both_texts = isinstance(left, str) and isinstance(right, str)
    if not both_texts and not (is_number(left) and is_number(right)):
        raise ValueFault(f"'{symbol}' does not take {describe(left)} and {describe(right)}")
    return _ORDER[symbol](left, right)


def condition(value: Any, where: str) -> bool:
    """A compile-time bool. Numbers and lists are none: a comparison says what is meant."""
    if not isinstance(value, bool):
        raise ValueFault(f"{where} needs a compile-time true or false, not {describe(value)}")
    return value


def text_of(value: Any) -> str:
    """A value between braces in a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueFault(f"a text can hold numbers and texts, not {describe(value)}")
    return str(value)


def _bounded_text(value: str) -> str:
    if len(value) > LONGEST_TEXT:
        raise ValueFault(f"a text may have {LONGEST_TEXT} characters")
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, complex):
        raise ValueFault("the result is not a real number")
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise ValueFault("an integer must fit 64 bits")
    return value


def _divide(left: float, right: float) -> float:
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _power(left: float, right: float) -> float:
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
        raise OverflowError
    return left**right


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": operator.mod,
    "**": _power,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fold_call(call: BoundCall) -> int | float | bool | None:
    """The value of an elementwise core operation on numbers alone, or None: left to run time."""
    spec = call.spec
    operands: Sequence[Any] = call.operands
    if spec.kind is not Kind.ELEMENTWISE or spec.evaluate is None or call.attributes:
        return None
    if not all(is_number(value) for value in operands):
        return None
    exact = all(isinstance(value, int) for value in operands)
    if exact and Family.SIGNED not in spec.operands[0].accepts:
        exact = Family.BOOL in spec.operands[0].accepts
    dtype = np.float64 if not exact else np.int64
    if all(isinstance(value, bool) for value in operands):
        if Family.BOOL not in spec.operands[0].accepts:
            return None
        dtype = np.bool_
    elif exact and any(abs(value) >= 2**31 for value in operands):
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(spec.evaluate(*(np.asarray(value, dtype) for value in operands))).item()
    if isinstance(result, int) and not isinstance(result, bool) and abs(result) >= 2**62:
        return None
    return result
