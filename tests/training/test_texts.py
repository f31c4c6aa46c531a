"""Texts as examples: every window of tokens, and errors that say what is wrong."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mgn.diagnostics import MgnError
from mgn.training.data.batches import ArrayBatches, InputTypes
from mgn.training.data.texts import is_text, text_examples

INPUTS: InputTypes = {"text": ("i32", (2, 4))}


class Letters:
    """A tokenizer of small letters."""

    def encode(self, sequence: str) -> SimpleNamespace:
        if not set(sequence) <= set("abcdefghij\n"):
            raise ValueError("no such letter")
        return SimpleNamespace(ids=[ord(item) for item in sequence])

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abcdefghij")
    return path


def spelled(windows: np.ndarray) -> list[str]:
    return ["".join(map(chr, row)) for row in windows]


def test_training_takes_every_window_and_an_evaluation_every_token_once(text: Path) -> None:
    windows = text_examples(text, Letters(), INPUTS)["text"]
    assert (windows.dtype, windows.shape) == (np.int32, (7, 4))
    assert spelled(windows)[::3] == ["abcd", "defg", "ghij"]
    assert spelled(text_examples(text, Letters(), INPUTS, None)["text"]) == spelled(windows)[::3]
    batches = ArrayBatches({"text": windows}, INPUTS, seed=3)
    seen = [row for batch in batches.epoch(0) for row in spelled(batch["text"])]
    assert len(seen) == len(set(seen)) == 6
    assert set(seen) < set(spelled(windows))


def test_windows_are_views_of_one_array(text: Path) -> None:
    windows = text_examples(text, Letters(), INPUTS)["text"]
    assert windows.strides == (4, 4)
    assert not windows.flags.owndata


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": ("f32", (2, 4))}, "one input takes rows of tokens.*'x' f32"),
        ({"text": ("i32", (4,))}, "rows of tokens"),
        ({**INPUTS, "labels": ("i32", (2,))}, "'labels' i32"),
        ({"text": ("i32", (2, 11))}, "10 tokens, and a window has 11"),
    ],
)
def test_a_graph_that_takes_no_windows_is_told(text: Path, inputs: InputTypes, said: str) -> None:
    with pytest.raises(MgnError, match=said):
        text_examples(text, Letters(), inputs)


def test_a_character_without_a_token_is_named_with_its_line(text: Path) -> None:
    text.write_text("abc\nabZ")
    with pytest.raises(MgnError, match="line 2: the tokenizer has no token for 'Z': no such"):
        text_examples(text, Letters(), INPUTS)


def test_a_token_that_is_too_large_and_a_file_that_is_no_text_are_told(text: Path) -> None:
    class Large(Letters):
        def encode(self, sequence: str) -> SimpleNamespace:
            return SimpleNamespace(ids=[300] * 9)

    with pytest.raises(MgnError, match="token 300 has no room in u8"):
        text_examples(text, Large(), {"text": ("u8", (2, 4))})
    text.write_bytes(b"ab\xff")
    with pytest.raises(MgnError, match="no text in UTF-8: byte 2"):
        text_examples(text, Letters(), INPUTS)
    with pytest.raises(MgnError, match="cannot read"):
        text_examples(text.parent / "none.txt", Letters(), INPUTS)


def test_the_name_says_what_is_a_text() -> None:
    assert is_text("a.TXT") and not is_text("a.npz")
