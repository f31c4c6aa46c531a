"""How long a regular expression may look for a match in a name, before it looks.

In: a pattern. Out: whether something in it can take forever, and in how many ways its repetitions
may part a name. Python's `re` tries one way after another, and cannot be told to end.

    (a+)+      repeats what is repeated: the ways double with each character
    .*x.*y     two repetitions: as many ways as there are pairs of places
    (a|aa){9}  nine alternatives: one more choice each
"""

from collections.abc import Iterator
from importlib import import_module
from math import comb
from typing import Any

MOST_WAYS = 10**9
"""Ways in which a pattern may part a name. Most end at their first characters."""

_MANY = 64
"""Turns from which on a repetition is as one without an end; the most repetitions counted."""

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def takes_forever(pattern: str) -> bool:
    """Whether a pattern repeats without an end what has a choice: another repetition, or several
    patterns. What is possessive or atomic has one way only.
    """
    return any(
        name in _REPEATS and value[1] >= _MANY and any(_choices(value[2]))
        for name, value in _parts(_parsed(pattern))
    )


def repetitions(pattern: str) -> int:
    """How many repetitions and alternatives of a pattern a name meets, those within few turns once
    for each.
    """
    return min(_repetitions(_parsed(pattern)), _MANY)


def ways(repeated: int, length: int) -> int:
    """In how many ways so many repetitions part a name of a length."""
    return comb(length + repeated, repeated)


def _parsed(pattern: str) -> Any:
    """A pattern as the library that compiles it has it."""
    return import_module("re._parser").parse(pattern)


def _parts(parsed: Any, left_out: str | None = None) -> Iterator[tuple[str, Any]]:
    """All parts of a pattern, those within others too, but for parts of one kind."""
    for kind, value in parsed:
        if (name := str(kind)) != left_out:
            yield name, value
            for inner in _bodies(name, value):
                yield from _parts(inner, left_out)


def _choices(parsed: Any) -> Iterator[bool]:
    """True for each part of a pattern that leaves a choice to what follows."""
    for name, value in _parts(parsed, "ATOMIC_GROUP"):
        if name == "BRANCH" or _is_repeat(name, value):
            yield True


def _is_repeat(name: str, value: Any) -> bool:
    """Whether a part is a repetition that may take more turns or fewer."""
    return name in _REPEATS and value[0] != value[1]


def _repetitions(parsed: Any) -> int:
    count = 0
    for kind, value in parsed:
        name = str(kind)
        turns = int(value[1]) if name in _REPEATS and value[1] < _MANY else 1
        inner = sum(map(_repetitions, _bodies(name, value)))
        count += (name == "BRANCH" or _is_repeat(name, value)) + turns * inner
    return count


def _bodies(name: str, value: Any) -> list[Any]:
    """The patterns within a part of one."""
    if name in (*_REPEATS, "POSSESSIVE_REPEAT"):
        return [value[2]]
    if name == "ATOMIC_GROUP":
        return [value]
    if name == "BRANCH":
        return list(value[1])
    if name == "SUBPATTERN":
        return [value[3]]
    if name in ("ASSERT", "ASSERT_NOT"):
        return [value[1]]
    if name == "GROUPREF_EXISTS":
        return [item for item in value[1:] if item is not None]
    return []
