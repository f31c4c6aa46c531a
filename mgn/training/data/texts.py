"""Texts as examples: every window of so many tokens is one.

In: a text, a tokenizer of Hugging Face, and the inputs of a graph, one of which takes rows of
tokens. Out: the windows by that input's name, as `mgn.training.data.batches` takes examples.

    windows = text_examples("plays.txt", "tokenizer.json", {"text": ("i32", (16, 129))})
    windows["text"].shape  # (tokens of the text - 128, 129), without a copy of any token

Training takes windows that begin at every token. An evaluation takes those that follow one another
(`apart=128` above): each begins with the last token of the one before, so that a graph that tells
each token from those before it tells every token of the text once.
"""

from pathlib import Path

import numpy as np

from mgn.diagnostics import MgnError
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.text.tokenizer import Tokenizer, encoded, load_tokenizer
from mgn.training.data.batches import InputTypes

SUFFIX = ".txt"
"""How the names of files end that are texts."""

_INTEGERS = frozenset({"i64", "i32", "i16", "u32", "u16", "u8"})


def text_examples(
    path: str | Path, tokenizer: str | Path | Tokenizer, inputs: InputTypes, apart: int | None = 1
) -> dict[str, np.ndarray]:
    """The windows of a text by the name of the one input that takes them; views of one array.

    A window begins `apart` tokens behind the one before; None has each begin with the last token of
    the one before. InputError where the graph has no such input, or the text is too short; MgnError
    where the text cannot be read, or has what no token stands for.
    """
    name, element, length = window_input(inputs, str(path))
    known = load_tokenizer(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer
    ids = tokens_of(read_text(path), known, element, str(path))
    step = max(length - 1, 1) if apart is None else apart
    return {name: windows_of(ids, length, step, str(path))}


def window_input(inputs: InputTypes, name: str) -> tuple[str, str, int]:
    """The input that takes windows, its element, and the tokens of one. InputError where there is
    none, or something beside it.
    """
    if len(inputs) == 1:
        ((found, (element, shape)),) = inputs.items()
        if element in _INTEGERS and len(shape) == 2 and shape[1]:
            return found, element, shape[1]
    listing = ", ".join(
        f"{shown(item)} {element}[{', '.join(map(str, shape))}]"
        for item, (element, shape) in inputs.items()
    )
    raise InputError(
        f"{name}: a text is for a graph whose one input takes rows of tokens, such as "
        f"'text: i32[B, S + 1]', of which the graph makes what is read and what follows; it has "
        f"{listing or 'none'}"
    )


def read_text(path: str | Path) -> str:
    """A text in UTF-8. MgnError where it cannot be read."""
    try:
        return Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise MgnError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise MgnError(f"{path} is no text in UTF-8: byte {error.start}: {error.reason}") from None


def tokens_of(text: str, tokenizer: Tokenizer, element: str, name: str) -> np.ndarray:
    """The tokens of a text, of an element type. MgnError where a part of it has no token, or a
    token's number has no room.
    """
    ids = np.asarray(encoded(tokenizer, text, name), np.int64)
    most = np.iinfo(DTYPES[element]).max
    if ids.size and ids.max() > most:
        raise InputError(f"{name}: token {ids.max()} has no room in {element}")
    return ids.astype(DTYPES[element])


def windows_of(ids: np.ndarray, length: int, apart: int = 1, name: str = "the text") -> np.ndarray:
    """All windows of `length` tokens that begin `apart` tokens after one another, as a view.
    InputError where the text is shorter than one.
    """
    if len(ids) < length:
        raise InputError(f"{name}: {len(ids)} tokens, and a window has {length}")
    return np.lib.stride_tricks.sliding_window_view(ids, length)[::apart]


def is_text(path: str | Path) -> bool:
    """Whether a path is one of a text, by its name."""
    return Path(path).suffix.lower() == SUFFIX
