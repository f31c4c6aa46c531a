"""Compile-time lists: they know how much they hold, so that none grows beyond what can be handled.

In: items, lists among them. Out: a list (or, for several results, a tuple) with the count of all
that it holds, or a `ValueFault` where that passes the limit. `t = [t, t]` shares its items: sixty
lines can make a list of 2**60 of them, and nothing may walk over a list that was not counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MOST_ITEMS = 100_000
"""Items that a list may hold, with those of its lists; as many more as the text has characters."""

DEEPEST_LIST = 100
"""Lists inside lists."""


class Poison:
    """The value of an expression that has an error; nothing more is said about what uses it."""

    def __repr__(self) -> str:
        return "<error>"


class ValueFault(Exception):
    """Compile-time values that an operator does not take."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a value holds, itself included: items, lists inside lists, an error."""

    size: int = 1
    depth: int = 0
    poisoned: bool = False


class Items(list[Any]):
    """A compile-time list; it is never changed."""

    extent: Extent


class Several(tuple[Any, ...]):
    """The results of a call that gives several."""

    extent: Extent


_PLAIN = Extent()
_POISONED = Extent(poisoned=True)


def extent_of(value: Any) -> Extent:
    """What a value holds."""
    if isinstance(value, Items | Several):
        return value.extent
    if isinstance(value, list | tuple):
        return _joined(value)
    return _POISONED if isinstance(value, Poison) else _PLAIN


def items_of(values: Iterable[Any], most: int) -> Items:
    """A list of values. ValueFault where it holds more than `most`, or lists nested too deeply."""
    made = Items(values)
    made.extent = _checked(_joined(made), most)
    return made


def joined_items(left: list[Any], right: list[Any], most: int) -> Items:
    """The items of one list, then those of another. ValueFault where they are too many."""
    first, second = extent_of(left), extent_of(right)
    extent = Extent(
        first.size + second.size - 1,
        max(first.depth, second.depth),
        first.poisoned or second.poisoned,
    )
    _checked(extent, most)
    made = Items(left)
    made += right
    made.extent = extent
    return made


def several_of(values: Iterable[Any], most: int) -> Several:
    """Several results. ValueFault where they hold more than `most`, or lists nested too deeply."""
    made = Several(values)
    made.extent = _checked(_joined(made), most)
    return made


def _joined(values: Iterable[Any]) -> Extent:
    size, depth, poisoned = 1, 0, False
    for value in values:
        extent = extent_of(value)
        size += extent.size
        depth = max(depth, extent.depth)
        poisoned = poisoned or extent.poisoned
    return Extent(size, depth + 1, poisoned)


def _checked(extent: Extent, most: int) -> Extent:
    if extent.size > most:
        raise ValueFault(f"a list may hold {MOST_ITEMS:,} items, those of its lists included")
    if extent.depth > DEEPEST_LIST:
        raise ValueFault(f"lists nested more than {DEEPEST_LIST} deep")
    return extent
