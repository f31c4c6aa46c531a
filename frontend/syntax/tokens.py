"""Between lexer and parser: where statements end, and brackets that always balance.

In: the lexer's tokens, line ends and unreadable text among them. Out: tokens in which every
statement is followed by one `_NL`, every bracket is closed, and text that was reported here is a
`BROKEN` token.
"""

from collections.abc import Callable, Iterable, Iterator

from mgn.frontend.syntax.ast import NESTING_LIMIT, Place
from mgn.frontend.syntax.lexer import Token, token_at

Report = Callable[[Place, str], None]

CONTINUES = frozenset(
    [
        *("COMMA", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AT", "POWER", "COMPARE"),
        *("AND", "OR", "NOT", "EQUAL", "WRITE", "RANGE", "COLON", "DOT"),
    ]
)
"""After these a line end is not the end of a statement."""

TOP_LEVEL = frozenset({"FN", "GRAPH", "IMPORT", "CONST"})
"""Statements that stand at the top level only: inside a block they show that a brace is missing."""

OPENS_STATEMENT = TOP_LEVEL | {"PARAM", "STATE", "SCOPE", "FOR", "IF", "RETURN"}
"""Keywords that no expression holds: inside a bracket they show that it was not closed."""

KEYWORDS = OPENS_STATEMENT | {"IN", "AS", "ELSE", "AND", "OR", "NOT"}
"""Words that are no values, and cannot be names."""

FOLLOWS_NAME = frozenset({"COLON", "EQUAL", "WRITE", "COMMA", "RPAR", "RSQB", "DOT"})
"""What never stands behind a keyword: there, it was meant to be a name."""

CLOSES = {"LPAR": "RPAR", "LSQB": "RSQB"}
SPELLING = {"LPAR": "(", "LSQB": "[", "RPAR": ")", "RSQB": "]", "LBRACE": "{", "RBRACE": "}"}


_LOGICAL = "; compile-time values take '{}', tensors logical_{}(…)"
OTHER_LANGUAGES = {
    "#": "; a comment begins with //",
    "'": '; a text stands in "…"',
    "?": "; a value of two is where(c, a, b), or if … { … } else { … } when compiling",
    "!": _LOGICAL.format("not", "not"),
    **dict.fromkeys(("&", "&&"), _LOGICAL.format("and", "and")),
    **dict.fromkeys(("|", "||"), _LOGICAL.format("or", "or")),
    "^": "; a power is **",
}
"""What other languages write, and what is said instead of it."""


class TooDeep(Exception):
    """Brackets or blocks nested beyond the limit; the place is where."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place


def end_statements(tokens: Iterable[Token], report: Report) -> Iterator[Token]:
    """The tokens that the parser sees; what is wrong with them is reported once, here."""
    return _Filter(report).run(tokens)


class _Filter:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.brackets: list[Token] = []
        self.braces: list[Token] = []
        self.last = "_NL"
        self.begins_line = True
        self.odd: tuple[Token, int] | None = None  # a statement's keyword, so many brackets deep
        self.pending: Token | None = None

    def run(self, tokens: Iterable[Token]) -> Iterator[Token]:
        last = None
        for token in tokens:
            if last is not None:
                yield from self._token(self._no_name(last, token))
                self.begins_line = last.type in ("_NL", "SEMICOLON")
            last = token
        if last is not None:
            yield from self._token(last)
        yield from self._end(last)

    def _no_name(self, token: Token, following: Token) -> Token:
        """The token; a broken one for a keyword that stands where a name does."""
        if token.type not in KEYWORDS or following.type not in FOLLOWS_NAME:
            return token
        self.report(token.place, keyword_message(token))
        return token_at(token.place, "BROKEN", "")

    def _token(self, token: Token) -> Iterator[Token]:
        kind = token.type
        if kind == "_NL" or kind == "SEMICOLON":
            yield from self._line_end(token)
            return
        if self.brackets and kind in OPENS_STATEMENT and not self.begins_line:
            self.odd = self.odd or (token, len(self.brackets))
            yield self._emit(token_at(token.place, "BROKEN", ""))
            return
        if self.brackets and (kind in OPENS_STATEMENT or kind in ("LBRACE", "RBRACE")):
            yield from self._unclosed_brackets(token)
        if self.pending is not None:
            # A brace on a line of its own, and `else`, go on with the statement before.
            if kind != "LBRACE" and not (kind == "ELSE" and self.last == "RBRACE"):
                yield self._emit(self.pending)
            self.pending = None
        if kind in TOP_LEVEL and self.braces and token.column == 1:
            yield from self._unclosed_braces(token, f"'}}' is missing before '{token}'")
        if kind in CLOSES:
            self._enter(self.brackets, token)
        elif kind in ("RPAR", "RSQB"):
            token = self._close_bracket(token)
        elif kind == "LBRACE":
            self._enter(self.braces, token)
        elif kind == "RBRACE":
            yield from self._close_brace(token)
            return
        elif kind in ("RUBBISH", "OPEN_STRING", "OPEN_COMMENT"):
            token = self._unreadable(token)
        yield self._emit(token)

    def _emit(self, token: Token) -> Token:
        self.last = token.type
        return token

    def _enter(self, stack: list[Token], token: Token) -> None:
        stack.append(token)
        if len(stack) > NESTING_LIMIT:
            raise TooDeep(token.place)

    def _line_end(self, token: Token) -> Iterator[Token]:
        if token.type == "_NL" and (self.brackets or self.last in CONTINUES):
            return
        if self.brackets:
            yield from self._unclosed_brackets(token)
        if self.last not in ("_NL", "LBRACE") and self.pending is None:
            self.pending = token_at(token.place, "_NL", "\n")

    def _unclosed_brackets(self, at: Token) -> Iterator[Token]:
        opened = self.brackets[-1]
        self.report(opened.place, f"'{opened}' is never closed")
        self.odd = None
        yield token_at(opened.place, "BROKEN", "")
        self.brackets.clear()
        if self.pending is None and at.type in OPENS_STATEMENT:
            self.pending = token_at(at.place, "_NL", "\n")
        self.last = "BROKEN"

    def _unclosed_braces(self, at: Token, message: str) -> Iterator[Token]:
        self.report(at.place, message)
        while self.braces:
            yield from self._close_brace(token_at(at.place, "RBRACE", "}"))
            if self.pending is not None:
                yield self._emit(self.pending)
                self.pending = None

    def _close_bracket(self, token: Token) -> Token:
        if not self.brackets:
            self.report(token.place, f"'{token}' closes nothing")
            return token_at(token.place, "BROKEN", "")
        opened = self.brackets.pop()
        if self.odd is not None and len(self.brackets) < self.odd[1]:
            keyword, self.odd = self.odd[0], None
            self.report(keyword.place, f"'{keyword}' cannot stand inside '{opened}'")
        if CLOSES[opened.type] == token.type:
            return token
        self.report(token.place, f"'{token}' does not close '{opened}'")
        return token_at(token.place, "BROKEN", "")

    def _close_brace(self, token: Token) -> Iterator[Token]:
        if not self.braces:
            self.report(token.place, "'}' closes nothing")
            yield self._emit(token_at(token.place, "BROKEN", ""))
            return
        self.braces.pop()
        if self.last not in ("_NL", "LBRACE"):
            yield self._emit(token_at(token.place, "_NL", "\n"))
        yield self._emit(token)
        self.pending = token_at(token.place, "_NL", "\n")

    def _unreadable(self, token: Token) -> Token:
        self.report(token.place, _unreadable_message(token))
        return token_at(token.place, "BROKEN", "")

    def _end(self, last: Token | None) -> Iterator[Token]:
        if last is None:
            return
        if self.brackets:
            yield from self._unclosed_brackets(last)
        if self.pending is None and self.last not in ("_NL", "LBRACE"):
            self.pending = token_at(last.place, "_NL", "\n")
        if self.pending is not None:
            yield self._emit(self.pending)
            self.pending = None
        if self.braces:
            opened = self.braces[-1]
            yield from self._unclosed_braces(opened, "'{' is never closed")


def keyword_message(token: Token) -> str:
    """What is said of a keyword that stands where a name does."""
    return f"'{token}' is a word of the language, and cannot be a name"


def _unreadable_message(token: Token) -> str:
    if token.type == "OPEN_STRING":
        return "the text is never closed: '\"' is missing"
    if token.type == "OPEN_COMMENT":
        return "the comment is never closed: '*/' is missing"
    shown = str(token[:10])
    codes = "" if shown.isprintable() else f" (U+{ord(token[0]):04X})"
    return f"'{shown}' cannot stand here{codes}{OTHER_LANGUAGES.get(shown, '')}"
