"""Text to tokens, by the terminals of the grammar.

In: Lark's terminals and a text. Out: tokens with their places, those that the grammar ignores left
out. Lines without tokens, however many, are part of the line end before them: blank lines and
comments cost next to nothing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from mgn.frontend.syntax.ast import Place

LINE_END = "_NL"
_IGNORED = "IGNORED"


class Token(str):
    """A piece of the text, with the name of its terminal and its place."""

    __slots__ = ("column", "line", "type", "value")

    type: str
    line: int
    column: int
    value: Any
    """What the parser makes of the token; a token that stands for more holds that."""

    @property
    def place(self) -> Place:
        """Line and column, from 1."""
        return self.line, self.column


def token_at(place: Place, type: str, value: Any = "") -> Token:
    """A token that the text does not have; `value` is its text, or what it stands for."""
    token = Token(value if isinstance(value, str) else "")
    token.type, token.value = type, value
    token.line, token.column = place
    return token


class Lexer:
    """Cuts a text at the first terminal that matches, in Lark's order of them."""

    def __init__(self, terminals: Iterable[Any], ignored: Iterable[str]) -> None:
        ordered = sorted(terminals, key=_rank)
        patterns = {item.name: item.pattern for item in ordered if item.pattern is not None}
        skipped = "|".join(patterns[name].to_regexp() for name in ignored)
        name_like = re.compile(patterns["NAME"].to_regexp())
        self._keywords = {
            pattern.value: name
            for name, pattern in patterns.items()
            if pattern.type == "str" and name_like.fullmatch(pattern.value)
        }
        left_out = {*ignored, *self._keywords.values(), LINE_END}
        line_end = patterns[LINE_END].to_regexp()
        branches = [
            f"(?P<{_IGNORED}>(?:{skipped})++)",
            f"(?P<{LINE_END}>{line_end}(?:{line_end}|{skipped})*+)",
            *(f"(?P<{n}>{p.to_regexp()})" for n, p in patterns.items() if n not in left_out),
        ]
        self._pattern = re.compile("|".join(branches))

    def tokens(self, text: str) -> Iterator[Token]:
        """The tokens of a text in order. Every text can be cut: what is odd has a terminal."""
        line, line_start = 1, 0
        keywords = self._keywords
        for match in self._pattern.finditer(text):
            kind = match.lastgroup or _IGNORED
            if kind == _IGNORED:
                begin, end = match.span()
                lines = text.count("\n", begin, end)
            else:
                token = Token(match.group())
                begin = match.start()
                token.type = keywords.get(token, kind) if kind == "NAME" else kind
                token.line, token.column = line, begin - line_start + 1
                token.value = token
                yield token
                if kind != LINE_END and kind != "OPEN_COMMENT":
                    continue
                end = match.end()
                lines = text.count("\n", begin, end)
            if lines:
                line += lines
                line_start = text.rfind("\n", begin, end) + 1


def _rank(terminal: Any) -> tuple[int, int, int, str]:
    """Lark's order: by priority, then the longest first."""
    pattern = terminal.pattern
    return -terminal.priority, -pattern.max_width, -len(pattern.value), terminal.name
