"""Places of the compiler and positions of the protocol.

In: a text. Out: the same spot in both counts. The compiler counts lines at `\\n` and characters,
both from 1; the protocol counts lines at `\\n`, `\\r\\n` and `\\r`, and units of the encoding that
client and server agreed on, from 0.
"""

import re
from bisect import bisect_right

from mgn.frontend.syntax.ast import Place

ENCODINGS: dict[str, tuple[int, ...]] = {
    "utf-8": (0x80, 0x800, 0x10000),
    "utf-16": (0x10000,),
    "utf-32": (),
}
"""The encodings of the protocol: from which characters on each takes one unit more."""


class Positions:
    """The places of one text."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self._wider = ENCODINGS[encoding]
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._client = self._lines
        if "\r" in text:
            self._client = [0, *(found.end() for found in re.finditer("\r\n|\n|\r", text))]

    def place(self, line: int, character: int) -> Place:
        """The place of a position; the nearest one where the text has no such position."""
        return self.place_at(self.offset(line, character))

    def offset(self, line: int, character: int) -> int:
        """The index into the text of a position."""
        if line >= len(self._client):
            return len(self.text)
        begin = self._client[line]
        end = self._client[line + 1] if line + 1 < len(self._client) else len(self.text)
        row = self.text[begin:end].rstrip("\r\n")
        if row.isascii():
            return begin + min(character, len(row))
        for index, letter in enumerate(row):
            character -= self._units(letter)
            if character < 0:
                return begin + index
        return begin + len(row)

    def position(self, place: Place) -> tuple[int, int]:
        """Line and character of a place, of which the line may be longer than the text's."""
        if place[0] > len(self._lines):
            return self.position_at(len(self.text))
        begin = self._lines[place[0] - 1]
        end = self._lines[place[0]] - 1 if place[0] < len(self._lines) else len(self.text)
        return self.position_at(min(begin + place[1] - 1, max(end, begin)))

    def position_at(self, offset: int) -> tuple[int, int]:
        """Line and character of an index into the text."""
        line = bisect_right(self._client, offset) - 1
        before = self.text[self._client[line] : offset]
        if before.isascii():
            return line, len(before)
        return line, sum(map(self._units, before))

    def place_at(self, offset: int) -> Place:
        """The place of an index into the text."""
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _units(self, letter: str) -> int:
        return 1 + sum(ord(letter) >= first for first in self._wider)
