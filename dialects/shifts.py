"""Largest elements of rows that only shift exponentials, which a sum of theirs divides:

    exp(x - max_reduce(x)) / sum(exp(x - max_reduce(x)))

Such a number need not be the largest where an element is NaN: the sum is NaN then, and with it all
that it divides. Nor does the sign of a zero matter.

In: the operations of a kernel's body, and what the kernel writes. Out: whether all of the body's
largest elements are such.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

IDENTITIES = frozenset({"identity", "stop_gradient"})
"""Operations whose result is their operand."""

MAX_REDUCE = "max_reduce"
"""The operation that gives the largest elements of rows."""

SHIFTING = frozenset({MAX_REDUCE, "sub", "exp", "sum"})
"""Operations without which no largest element only shifts."""

LARGEST, SHIFTS = "largest", "shifts"
"""What `arranged` says where it is so: `arranged {largest = "shifts"}`."""


class Step(NamedTuple):
    """An operation of a body: the name of its result, and those of its operands."""

    name: Hashable
    operation: str
    operands: tuple[Hashable, ...]


def largest_only_shift(steps: Iterable[Step], written: Iterable[Hashable]) -> bool:
    """Whether a body, operands before users, has largest elements of rows, and all only shift."""
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
    return bool(largest) and all(_only_shifts(step, made, users, results) for step in largest)


def _only_shifts(
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
