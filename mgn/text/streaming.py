"""Text from tokens as they come: whole characters only, and nothing of a text that ends it.

In: ids, one after another, and what decodes a list of them. Out: pieces of text.
"""

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"
"""What decoders give for bytes that are no character yet."""

CONTEXT = 8
"""Tokens before the first that are decoded with it: some begin with a space only after others."""


class TextStream:
    """Pieces of text: `push(id)` gives what is certain by now, `finish()` the rest.

    `is_done` says that a text of `stops` has come; it and what follows is not given.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        prompt: Sequence[int] = (),
        stops: Sequence[str] = (),
    ) -> None:
        self._decode = decode
        self._ids = list(prompt[-CONTEXT:])
        self._start, self._said = 0, len(self._ids)
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.is_done = False

    def push(self, token: int) -> str:
        """The text that is certain with one token more."""
        if self.is_done:
            return ""
        self._ids.append(token)
        text = self._new_text()
        if text.endswith(BROKEN):
            return ""
        self._start, self._said = self._said, len(self._ids)
        return self._certain(text)

    def finish(self) -> str:
        """What is left when no token follows; bytes of half a character are dropped."""
        if self.is_done:
            return ""
        rest = self._certain(self._new_text().rstrip(BROKEN))
        held, self._held = self._held, ""
        self.is_done = True
        return rest + held

    def _new_text(self) -> str:
        """What the tokens say that are not said yet."""
        before = self._decode(self._ids[self._start : self._said])
        return self._decode(self._ids[self._start :])[len(before) :]

    def _certain(self, text: str) -> str:
        """What of a text, after what is held back, can be no part of a stop."""
        text = self._held + text
        ends = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if ends:
            self._held, self.is_done = "", True
            return text[: min(ends)]
        kept = max((_begun(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _begun(text: str, stop: str) -> int:
    """The characters at the end of a text with which a stop begins."""
    counts = range(min(len(text), len(stop) - 1), 0, -1)
    return next((count for count in counts if text.endswith(stop[:count])), 0)
