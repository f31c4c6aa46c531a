"""Tokenizers of Hugging Face, and the tokens with which a model ends.

In: a `tokenizer.json`, or the folder in which it lies. Out: a tokenizer of the `tokenizers`
library; and what `generation_config.json` and `config.json` beside it say of the model.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from mgn.diagnostics import MgnError, one_line

TOKENIZER = "tokenizer.json"
_CONFIGURATIONS = ("generation_config.json", "config.json")
_MOST_SAID = 200


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
    except Exception as error:  # the library raises plain exceptions
        said = one_line(str(error), _MOST_SAID)
        raise MgnError(f"{file} is no tokenizer of Hugging Face: {said}") from None


def encoded(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    """The tokens of a text. MgnError where it has a character for which there is none."""
    try:
        return tokenizer.encode(text).ids
    except Exception as error:  # the library raises plain exceptions
        said = one_line(str(error), _MOST_SAID)
        raise MgnError(f"{name}: {_refused(tokenizer, text)}: {said}") from None


def _refused(tokenizer: Tokenizer, text: str) -> str:
    """Which character a tokenizer refuses, as far as one alone is the reason."""
    for character in dict.fromkeys(text):
        try:
            tokenizer.encode(character)
        except Exception:
            line = text.count("\n", 0, text.index(character)) + 1
            return f"line {line}: the tokenizer has no token for {character!r}"
    return "the tokenizer refuses it"


def ending_ids(path: str | Path) -> frozenset[int]:
    """The tokens that end a text, by what lies beside a tokenizer: none where nothing says so."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    for name in _CONFIGURATIONS:
        found = _ids(_read_json(folder / name).get("eos_token_id"))
        if found:
            return found
    return frozenset()


def configured_sizes(path: str | Path) -> dict[str, int]:
    """The whole numbers of the `config.json` beside a tokenizer by name: sizes of a model. Flags
    are 0 or 1. Those in an object of the file count where the file has none of their name itself,
    as `rope_theta` in `rope_parameters`.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    content = _read_json(folder / _CONFIGURATIONS[-1])
    inner = [value for value in content.values() if isinstance(value, dict)]
    found: dict[str, int] = {}
    for items in (*cast(list[dict[str, Any]], inner), content):
        for name, value in items.items():
            if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
                found[name] = int(value)
    return found


def _ids(value: Any) -> frozenset[int]:
    listed = value if isinstance(value, list) else [value]
    return frozenset(item for item in listed if type(item) is int)


def _read_json(path: Path) -> dict[str, Any]:
    """A file's object; an empty one where there is no file. MgnError where it is no JSON."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise MgnError(f"cannot read {path}: {one_line(str(error), _MOST_SAID)}") from None
    return content if isinstance(content, dict) else {}
