"""Text that follows a prompt, in pieces as they come.

In: a program with graphs `prefill` and `decode`, a tokenizer, and a prompt. Out: an iterator of
pieces of text; put together they are the text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mgn.program import Program
from mgn.text.configuration import ending_ids
from mgn.text.generation import generate
from mgn.text.streaming import TextStream
from mgn.text.tokenizer import Tokenizer, encoded, load_tokenizer


def generate_text(
    lm: Program,
    tokenizer: Tokenizer | str | Path,
    prompt: str,
    *,
    stop: str | Sequence[str] = (),
    **options: Any,
) -> Iterator[str]:
    """The text that a model writes after a prompt, up to one of the texts of `stop`.

    `tokenizer` is one of the `tokenizers` library, or the path of its file or folder; then a token
    that the configuration beside it calls the end ends the text too. The other options are those
    of `mgn.generate`.
    """
    if isinstance(tokenizer, str | Path):
        options.setdefault("stop_ids", ending_ids(tokenizer))
        tokenizer = load_tokenizer(tokenizer)
    ids = encoded(tokenizer, prompt, "the prompt")
    stream = TextStream(tokenizer.decode, ids, [stop] if isinstance(stop, str) else stop)
    return pieces(generate(lm, ids, **options), stream)


def pieces(tokens: Iterator[int], stream: TextStream) -> Iterator[str]:
    """The text of tokens: a piece for each that makes one."""
    for token in tokens:
        if piece := stream.push(token):
            yield piece
        if stream.is_done:
            return
    if piece := stream.finish():
        yield piece
