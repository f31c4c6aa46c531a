"""Tokenizers of Hugging Face.

In: a `tokenizer.json`, or the folder in which it lies. Out: a tokenizer of the `tokenizers`
library.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mgn.diagnostics import MgnError, one_line

TOKENIZER = "tokenizer.json"
_MOST_SAID = 200
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What is no error of the library: an end that was asked for. A panic of the library is its own
error, though it is no Exception either.
"""


class Encoded(Protocol):
    """A text as tokens."""

    @property
    def ids(self) -> list[int]:
        """Their numbers."""
        ...


class Tokenizer(Protocol):
    """What is asked of a tokenizer: that of `tokenizers.Tokenizer`."""

    def encode(self, sequence: str) -> Encoded:
        """A text as tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        ...


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of a file, or of a folder. MgnError where it cannot be read."""
    try:
        from tokenizers import Tokenizer as Library  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MgnError(
            "tokenizers of Hugging Face are not installed: "
            "python -m pip install 'mgn-compiler[text]' brings them"
        ) from None
    file = Path(path) / TOKENIZER if Path(path).is_dir() else Path(path)
    try:
        return Library.from_str(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MgnError(f"cannot read {file}: {error.strerror or error}") from None
    except _ENDS:
        raise
    except BaseException as error:  # the library raises plain exceptions, and panics
        said = one_line(str(error), _MOST_SAID)
        raise MgnError(f"{file} is no tokenizer of Hugging Face: {said}") from None


def encoded(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    """The tokens of a text. MgnError where it has a character for which there is none."""
    try:
        return tokenizer.encode(text).ids
    except _ENDS:
        raise
    except BaseException as error:  # the library raises plain exceptions, and panics
        said = one_line(str(error), _MOST_SAID)
        raise MgnError(f"{name}: {_refused(tokenizer, text)}: {said}") from None


def _refused(tokenizer: Tokenizer, text: str) -> str:
    """Which character a tokenizer refuses, as far as one alone is the reason."""
    for character in dict.fromkeys(text):
        try:
            tokenizer.encode(character)
        except _ENDS:
            raise
        except BaseException:
            line = text.count("\n", 0, text.index(character)) + 1
            return f"line {line}: the tokenizer has no token for {character!r}"
    return "the tokenizer refuses it"
