"""A text of the language in one style; comments stay, and so does where the author broke lines.

In: a source without syntax errors. Out: its text with one space where one belongs, and at most one
blank line in a row. Lines are indented by two spaces for each block, and by four where they go on
with an open bracket. A statement has a line, except in blocks that stand on one line. The tokens
are the same, and so is the program.

    graph g(x:f32[4]){y=x*2;return y}     graph g(x: f32[4]) { y = x * 2; return y }
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.dialects.garbage import collector_paused
from mgn.frontend.syntax.lexer import LINE_END, Token
from mgn.frontend.syntax.parser import lexer, parse_text
from mgn.frontend.syntax.source import Source
from mgn.frontend.syntax.tokens import CONTINUES, end_statements

INDENT = 2

_BETWEEN = re.compile(r"(//[^\n]*)|(/\*[\s\S]*?\*/)|\n")
_OPERAND_ENDS = frozenset(
    {"NAME", "INT", "FLOAT", "STRING", "RPAR", "RSQB", "TRUE", "FALSE", "NONE", "INF", "NAN"}
)
_COMMENT, _BLOCK_COMMENT, _UNARY, _SLICE = "LINE_COMMENT", "BLOCK_COMMENT", "UNARY", "SLICE"
_COMMENTS = frozenset({_COMMENT, _BLOCK_COMMENT})
_TIGHT = frozenset({"DOT", "RANGE", _SLICE})
"""What takes no space on either side."""


@dataclass(slots=True)
class _Piece:
    """A token or a comment, and how many lines end between the piece before and this one."""

    type: str
    text: str
    breaks: int
    on_one_line: bool = False
    """Of a brace: whether its block stands on one line."""


@dataclass(slots=True)
class _Open:
    """An open bracket or block, with the indentation that its end has on a line of its own."""

    piece: _Piece
    indent: int
    step: int = 2 * INDENT
    """How far its lines go in; less where it ends the line, so that all of it stands below."""

    @property
    def is_block(self) -> bool:
        return self.piece.type == "LBRACE"


def format_text(source: Source) -> str:
    """The text in its style. DiagnosticsError where it has syntax errors."""
    _, errors = parse_text(source)
    if errors:
        raise DiagnosticsError(errors)
    return format_parsed(source)


def format_parsed(source: Source) -> str:
    """The style of a text that is known to have no syntax errors."""
    text = source.text
    with collector_paused():
        pieces, meaning = _read(text)
        made = _Layout(pieces).text()
        kept = _read(made)[1] == meaning
    if not kept:
        raise MgnError(f"{source.name} was not formatted: a fault in mgn would have changed it")
    first = text.find("\n")
    return made.replace("\n", "\r\n") if first > 0 and text[first - 1] == "\r" else made


def _read(text: str) -> tuple[list[_Piece], list[tuple[str, str]]]:
    """The pieces of a text, and what formatting keeps: the statements' tokens, the comments."""
    tokens = list(lexer().tokens(text))
    pieces = _pieces(text, tokens)
    statements = end_statements(tokens, lambda place, message: None)
    meaning = [(item.type, str(item)) for item in statements]
    meaning += [(item.type, item.text) for item in pieces if item.type in _COMMENTS]
    return pieces, meaning


def _pieces(text: str, tokens: Sequence[Token]) -> list[_Piece]:
    """The tokens and comments of a text; line ends are counted alone."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    pieces: list[_Piece] = []
    end = 0
    for token in tokens:
        if token.type == LINE_END:
            continue
        begin = starts[token.line - 1] + token.column - 1
        between = text[end:begin]
        breaks = _comments(between, pieces) if between and between != " " else 0
        pieces.append(_Piece(token.type, str(token), breaks))
        end = begin + len(token)
    _comments(text[end:], pieces)
    _mark_blocks(pieces)
    return pieces


def _comments(between: str, pieces: list[_Piece]) -> int:
    """Adds the comments of what stands between tokens; gives the line ends behind the last."""
    breaks = 0
    for found in _BETWEEN.finditer(between):
        line, block = found.groups()
        if line is None and block is None:
            breaks += 1
            continue
        kind = _COMMENT if block is None else _BLOCK_COMMENT
        lines = [item.rstrip() for item in found.group().split("\n")]
        pieces.append(_Piece(kind, "\n".join(lines), breaks))
        breaks = 0
    return breaks


def _mark_blocks(pieces: Sequence[_Piece]) -> None:
    """Says of each pair of braces whether its block stands on one line."""
    opened: list[tuple[_Piece, int]] = []
    line = 0
    for piece in pieces:
        line += piece.breaks
        if piece.type == "LBRACE":
            opened.append((piece, line))
        elif piece.type == "RBRACE" and opened:
            brace, began = opened.pop()
            brace.on_one_line = piece.on_one_line = began == line
        line += piece.text.count("\n")


class _Layout:
    """One walk over the pieces of a text."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self.pieces = pieces
        self.written: list[str] = []
        self.open: list[_Open] = []
        self.indent = 0
        self.last = ""
        """The type of the token before, comments left out."""
        self.ended = False
        """Whether a semicolon stood here that a line end replaces."""

    def text(self) -> str:
        """The whole text, which ends with a line end where it is not empty."""
        before: _Piece | None = None
        skipped = 0
        for piece, after in self._with_next():
            if piece.type == "SEMICOLON" and not self._is_kept(after):
                self.ended = True
                skipped += piece.breaks
                continue
            piece.breaks += skipped
            skipped = 0
            self._classify(piece)
            if before is not None:
                self._separate(before, piece, after)
            self.written.append(piece.text)
            self._follow(piece)
            before = piece
        return "".join(self.written) + "\n" if self.written else ""

    def _with_next(self) -> Iterator[tuple[_Piece, _Piece | None]]:
        """Each piece with the next one that is no semicolon."""
        after: _Piece | None = None
        rows: list[tuple[_Piece, _Piece | None]] = []
        for piece in reversed(self.pieces):
            rows.append((piece, after))
            after = after if piece.type == "SEMICOLON" else piece
        return reversed(rows)

    def _is_kept(self, after: _Piece | None) -> bool:
        """Whether a semicolon stays: between two statements of a block on one line."""
        if not self._on_one_line() or after is None or after.type == "RBRACE":
            return False
        return self.last not in ("LBRACE", "RBRACE", "SEMICOLON")

    def _on_one_line(self) -> bool:
        return any(item.is_block and item.piece.on_one_line for item in self.open)

    def _classify(self, piece: _Piece) -> None:
        """Tells signs from operators, and the colon of a slice from that of a type."""
        if piece.type in ("MINUS", "PLUS") and self.last not in _OPERAND_ENDS:
            piece.type = _UNARY
        elif piece.type == "COLON" and self.open and self.open[-1].piece.type == "LSQB":
            piece.type = _SLICE

    def _follow(self, piece: _Piece) -> None:
        """Keeps count of brackets and of the token before."""
        kind = piece.type
        if kind == "LBRACE":
            self.open.append(_Open(piece, self._statement_indent()))
        elif kind in ("LPAR", "LSQB"):
            self.open.append(_Open(piece, self.indent))
        elif kind in ("RPAR", "RSQB", "RBRACE"):
            self.open.pop()
        if kind not in _COMMENTS:
            self.last = kind

    # ---- lines

    def _separate(self, before: _Piece, piece: _Piece, after: _Piece | None) -> None:
        if not self._begins_line(before, piece, after):
            self.written.append(self._space(before, piece))
            return
        in_bracket = bool(self.open) and not self.open[-1].is_block
        behind_brace = before.type in _COMMENTS and before.breaks == 0 and self.last == "LBRACE"
        beside_brace = before.type == "LBRACE" or piece.type == "RBRACE" or behind_brace
        blank = piece.breaks > 1 and not in_bracket and not beside_brace
        if before.type in ("LPAR", "LSQB"):
            self.open[-1].step = INDENT
        self.indent = self._indent_of(piece)
        self.written.append("\n\n" if blank else "\n")
        self.written.append(" " * self.indent)
        self.ended = False

    def _begins_line(self, before: _Piece, piece: _Piece, after: _Piece | None) -> bool:
        if self._on_one_line():
            return False
        if before.type == _COMMENT:
            return True
        if piece.type in _COMMENTS and piece.breaks == 0:
            ends_line = piece.type == _COMMENT or after is None or after.breaks > 0
            if ends_line:
                return False
        if before.type == "LBRACE" or piece.type == "RBRACE":
            return (before.type, piece.type) != ("LBRACE", "RBRACE")
        if piece.type == "LBRACE" or (piece.type == "ELSE" and before.type == "RBRACE"):
            return False
        return self.ended or before.type == "RBRACE" or piece.breaks > 0

    def _statement_indent(self) -> int:
        blocks = [item for item in self.open if item.is_block]
        return blocks[-1].indent + INDENT if blocks else 0

    def _indent_of(self, piece: _Piece) -> int:
        if self.open and not self.open[-1].is_block:
            closes = piece.type in ("RPAR", "RSQB")
            return self.open[-1].indent + (0 if closes else self.open[-1].step)
        if piece.type == "RBRACE":
            return self.open[-1].indent
        goes_on = self.last in CONTINUES or self.last == _SLICE
        return self._statement_indent() + (INDENT if goes_on else 0)

    # ---- spaces

    def _space(self, before: _Piece, piece: _Piece) -> str:
        if piece.type == _COMMENT:
            return "  "
        if _is_tight(before.type, piece.type):
            return "" if _stays_apart(before.text, piece.text) else " "
        return " "


def _is_tight(before: str, after: str) -> bool:
    """Whether nothing stands between two pieces of a line."""
    if after in ("RPAR", "RSQB", "COMMA", "SEMICOLON") or before in ("LPAR", "LSQB", _UNARY):
        return True
    if before in ("COMMA", "SEMICOLON") or before in _COMMENTS or after in _COMMENTS:
        return False
    if before in _TIGHT or after in _TIGHT or after == "COLON":
        return True
    if after == "LPAR":
        return before in ("NAME", "RSQB")
    if after == "LSQB":
        return before in _OPERAND_ENDS
    return (before, after) == ("LBRACE", "RBRACE")


@lru_cache(maxsize=4096)
def _stays_apart(before: str, after: str) -> bool:
    """Whether two tokens are read as they are where nothing stands between them."""
    if before[-1] in "([{" or after[0] in ")]},;":
        return True
    return [str(item) for item in lexer().tokens(before + after)] == [before, after]
