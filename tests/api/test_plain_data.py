"""What is read as plain data has the types that its class says, or is refused."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from mgn.program_cache.plain_data import NotPlain, plain, restored


@dataclass(frozen=True)
class Inner:
    """A part."""

    name: str
    pair: tuple[str, float]


@dataclass
class Whole:
    """One field of every kind."""

    number: int
    flag: bool
    share: float
    inner: tuple[Inner, ...] = ()
    counts: Counter[str] = field(default_factory=Counter[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    maybe: Inner | None = None
    pairs: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])


PART = Inner("x", ("y", 0.5))
WHOLE = Whole(3, True, 2.0, (PART, PART), Counter("aab"), {"s": 1.5}, PART, [("z", 1.0)])


def test_what_was_made_plain_comes_back_equal() -> None:
    assert restored(Whole, plain(WHOLE)) == WHOLE
    found = restored(Whole, plain(Whole(1, False, 0.0)))
    assert found == Whole(1, False, 0.0) and type(found.counts) is Counter


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, True),
        (0, 1 << 62),
        (0, "3"),
        (1, 1),
        (2, 1),
        (3, {}),
        (3, [["x", ["y"]]]),
        (3, [["x", ["y", 0.5], 1]]),
        (4, {"a": 1.5}),
        (4, [["a", 1]]),
        (5, {"s": None}),
        (6, [None, ["y", 0.5]]),
        (7, [["z"]]),
    ],
)
def test_a_value_of_another_type_is_refused(place: int, value: Any) -> None:
    data = plain(WHOLE)
    data[place] = value
    with pytest.raises(NotPlain):
        restored(Whole, data)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", [len], 1j])
def test_what_has_no_plain_form_is_not_written(value: object) -> None:
    with pytest.raises(NotPlain):
        plain(value)
