"""Stabilising maxima of rows: the sum of the exponentials divides them again.

    exp(x - max_reduce(x)) / sum(exp(x - max_reduce(x)))

The maximum only keeps the exponentials finite. Any number of about its size would do. So the kernel
may take another one where an element is NaN: the sum is NaN then, and so is each quotient. The sign
of a zero does not matter either.

In: the operations of a kernel's body, and the values that the kernel writes. Out: whether all
maxima of the body only stabilise.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

IDENTITIES = frozenset({"identity", "stop_gradient"})
"""Operations whose result is their operand."""

MAX_REDUCE = "max_reduce"
"""The operation that gives the maximum of each row."""

STABILISED = frozenset({MAX_REDUCE, "sub", "exp", "sum"})
"""Operations without which no maximum only stabilises."""

MAXIMUM, STABILISES = "maximum", "stabilises"
"""The entry of `arranged` for such a body: `arranged {maximum = "stabilises"}`."""


class Step(NamedTuple):
    """An operation of a body: the name of its result, and those of its operands."""

    name: Hashable
    operation: str
    operands: tuple[Hashable, ...]


def maxima_only_stabilise(steps: Iterable[Step], written: Iterable[Hashable]) -> bool:
    """Whether a body, operands before users, has maxima of rows, and all of them only stabilise."""
    same: dict[Hashable, Hashable] = {}
    made: dict[Hashable, Step] = {}
    users: dict[Hashable, list[Step]] = {}
    for name, operation, given in steps:
        operands = tuple(same.get(item, item) for item in given)
        if operation in IDENTITIES:
            same[name] = operands[0]
            continue
        step = made[name] = Step(name, operation, operands)
        users[name] = []
        for item in operands:
            users.setdefault(item, []).append(step)
    results = {same.get(name, name) for name in written}
    largest = [step for step in made.values() if step.operation == MAX_REDUCE]
    return bool(largest) and all(_only_stabilises(step, made, users, results) for step in largest)


def _only_stabilises(
    largest: Step,
    made: Mapping[Hashable, Step],
    users: Mapping[Hashable, Sequence[Step]],
    results: set[Hashable],
) -> bool:
    shifted = users[largest.name]
    exponentials = [user for step in shifted for user in users[step.name]]
    if results.intersection(step.name for step in (largest, *shifted, *exponentials)):
        return False
    if not all(
        step.operation == "sub" and step.operands == (largest.operands[0], largest.name)
        for step in shifted
    ):
        return False
    return bool(exponentials) and all(
        step.operation == "exp" and _is_divided_by_sum(step, made, users) for step in exponentials
    )


def _is_divided_by_sum(
    exponential: Step, made: Mapping[Hashable, Step], users: Mapping[Hashable, Sequence[Step]]
) -> bool:
    """Whether an exponential is added up, and otherwise only multiplied with or divided by what is
    computed from that sum alone.
    """
    sums = {user.name for user in users[exponential.name] if user.operation == "sum"}
    return bool(sums) and all(
        user.name in sums
        or (
            user.operation in ("mul", "div")
            and any(
                _source(item, made) in sums for item in user.operands if item != exponential.name
            )
        )
        for user in users[exponential.name]
    )


def _source(name: Hashable, made: Mapping[Hashable, Step]) -> Hashable:
    """The value that another is the reciprocal of, or a copy."""
    while name in made and made[name].operation in ("recip", "reshape", "broadcast_to"):
        name = made[name].operands[0]
    return name
