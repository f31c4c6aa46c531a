"""Checks of a run: results of a graph that count what is wrong, and fail the run where it is any.

In: the name of a result. Out: whether it is such a check, and what it says. A check is an i32
scalar; its name is `mgn.check`, a number that tells it from others, and the message:

    "mgn.check 0 train.mgn:7:10: cross_entropy() has ids that are none of its 10 classes"
"""

_PREFIX = "mgn.check "


def check_name(number: int, message: str) -> str:
    """The name of the result of a check."""
    return f"{_PREFIX}{number} {message}"


def is_check(name: str) -> bool:
    """Whether a result is a check."""
    return name.startswith(_PREFIX)


def check_message(name: str, count: int) -> str:
    """What the failure of a check says."""
    _, _, message = name.removeprefix(_PREFIX).partition(" ")
    return f"{message} ({count} in all)"
