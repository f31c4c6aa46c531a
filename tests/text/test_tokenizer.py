"""Tokenizers that are damaged: each is read or is an error of ours, whatever the library makes of
it.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mgn
from mgn.text.tokenizer import Encoded, encoded, load_tokenizer
from tests.text.folders import make_tokenizer

VALUES = (None, 0, -1, 1 << 64, 0.5, True, "", "F4", "é" * 99, [], {}, [[]])


def changed(value: Any, dice: random.Random) -> Any:
    """A value with one other, or one less, somewhere within."""
    if not value or not isinstance(value, dict | list) or dice.random() < 0.2:
        return dice.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = dice.choice(keys)
    if dice.random() < 0.2:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        kept = [(name, item) for name, item in items if name != key]
        return dict(kept) if isinstance(value, dict) else [item for _, item in kept]
    found: Any = value.copy()
    found[key] = changed(found[key], dice)
    return found


def test_a_damaged_tokenizer_is_read_or_is_our_error(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    make_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    assert encoded(load_tokenizer(path), "a dark", "the prompt")
    dice, refused = random.Random(5), 0
    for _ in range(400):
        path.write_text(json.dumps(changed(content, dice)))
        try:
            encoded(load_tokenizer(path), "a dark 🌧", "the prompt")
        except mgn.MgnError as error:
            refused += 1
            assert len(str(error)) < 1000
    assert refused > 100


def test_where_the_library_panics_the_file_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    make_tokenizer(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["continuing_subword_prefix"] = "F4"
    path.write_text(json.dumps(content))
    with pytest.raises(mgn.MgnError, match=r"tokenizer\.json is no tokenizer of Hugging Face"):
        load_tokenizer(path)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_end_that_is_asked_for_is_no_error_of_the_library(end: type[BaseException]) -> None:
    class Ended:
        """A tokenizer that is ended while it is at work, or fails and is ended after that."""

        def __init__(self, failures: int) -> None:
            self.failures = failures

        def encode(self, sequence: str) -> Encoded:
            self.failures -= 1
            raise ValueError(sequence) if self.failures >= 0 else end

        def decode(self, ids: Sequence[int]) -> str:
            raise end

    for failures in (0, 1):
        with pytest.raises(end):
            encoded(Ended(failures), "a dark", "the prompt")
