"""Text comes in whole characters, and ends before a text that ends it."""

import random
from collections.abc import Sequence

import pytest

from mgn.text.streaming import TextStream

TEXT = "déjà vu — 雨夜 🌧, and so on: a\ufffdb"


def decode(ids: Sequence[int]) -> str:
    """Tokens are bytes."""
    return bytes(ids).decode("utf-8", "replace")


def written(text: str, stops: Sequence[str] = (), prompt: str = "é") -> list[str]:
    stream = TextStream(decode, list(prompt.encode()), stops)
    found: list[str] = []
    for token in text.encode():
        found.append(stream.push(token))
        if stream.is_done:
            break
    return [*found, stream.finish()]


def test_pieces_are_whole_characters_and_together_the_text() -> None:
    pieces = written(TEXT)
    assert "".join(pieces) == TEXT
    assert all(piece in TEXT for piece in pieces)
    assert max(map(len, pieces)) <= 2


def test_half_a_character_at_the_end_is_dropped_and_one_in_the_middle_is_told() -> None:
    stream = TextStream(decode)
    assert [stream.push(token) for token in "a雨".encode()[:-1]] == ["a", "", ""]
    assert stream.finish() == ""
    stream = TextStream(decode)
    said = [stream.push(token) for token in b"a\xe9b"]
    assert "".join([*said, stream.finish()]) == "a\ufffdb"


def test_a_space_that_only_stands_between_words_is_not_lost() -> None:
    """As SentencePiece decodes: a space before each word but the first."""
    words = ["Once", "upon", "a", "time"]
    stream = TextStream(lambda ids: " ".join(words[item] for item in ids), [0])
    assert [stream.push(item) for item in (1, 2, 3)] == [" upon", " a", " time"]


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one. two", ["."], "one"),
        ("one.\n\ntwo", ["\n\n", "x"], "one."),
        ("aaab", ["aab"], "a"),
        ("a<e<end>", ["<end>"], "a<e"),
        ("a<en", ["<end>"], "a<en"),
        ("雨夜", ["夜"], "雨"),
        ("no stop", ["", "xyz"], "no stop"),
        ("first second", ["second", "first"], ""),
    ],
)
def test_a_text_ends_before_a_stop(text: str, stops: list[str], expected: str) -> None:
    assert "".join(written(text, stops)) == expected


def test_stops_are_found_wherever_they_begin() -> None:
    dice = random.Random(3)
    for _ in range(500):
        text = "".join(dice.choice("ab") for _ in range(dice.randrange(12)))
        stops = ["".join(dice.choice("ab") for _ in range(dice.randrange(1, 5))) for _ in "12"]
        places = [place for stop in stops if (place := text.find(stop)) >= 0]
        found = "".join(written(text, stops))
        ended = min(
            (text.find(stop) + len(stop) for stop in stops if stop in text), default=len(text)
        )
        cut = text[:ended]
        firsts = [cut.find(stop) for stop in stops if stop in cut]
        assert found == (text[: min(firsts)] if places else text)
