"""What a text declares, for the list beside it, and what each of its names is, for its colours.

In: a `Reading`. Out: rows of an outline, and pieces with the kind of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mgn.frontend.syntax.ast import Place
from mgn.lsp.operation_help import operation_help, type_help
from mgn.lsp.symbols import Kind, Occurrence, Reading, Role, Symbol

TOKEN_TYPES = ("function", "parameter", "variable", "property", "type", "enumMember")
"""The kinds of pieces that the protocol knows."""

TOKEN_MODIFIERS = ("declaration", "readonly", "defaultLibrary")

_OF_KIND = {
    Kind.CONST: "enumMember",
    Kind.DIMENSION: "enumMember",
    Kind.FN: "function",
    Kind.GRAPH: "function",
    Kind.PARAM: "property",
    Kind.STATE: "property",
    Kind.INPUT: "parameter",
    Kind.FORMAL: "parameter",
}
_OF_LANGUAGE = frozenset({Role.CALLS, Role.INITIALISES, Role.IS_TYPE})
_READ_ONLY = frozenset({Kind.CONST, Kind.DIMENSION})
_SHOWN_INSIDE = frozenset({Kind.PARAM, Kind.STATE, Kind.DIMENSION, Kind.INPUT})


@dataclass(frozen=True)
class Row:
    """A declaration, with those inside it."""

    symbol: Symbol
    begin: Place
    end: Place
    inside: tuple["Row", ...] = ()


@dataclass(frozen=True)
class Piece:
    """A name, what it is, and a bit for each modifier."""

    place: Place
    length: int
    type: int
    modifiers: int


def outline(reading: Reading) -> Iterator[Row]:
    """The declarations of a text."""
    for symbol in sorted(reading.globals.values(), key=lambda item: item.place):
        yield _row(symbol)


def pieces(reading: Reading) -> list[Piece]:
    """The names of a text in order, as far as it is known what they are."""
    found = [piece for item in reading.occurrences if (piece := _piece(item)) is not None]
    return sorted(found, key=lambda piece: piece.place)


def _row(symbol: Symbol) -> Row:
    inside = tuple(_row(item) for item in symbol.members if item.kind in _SHOWN_INSIDE)
    begin = min(symbol.statement, symbol.place)
    name_end = (symbol.place[0], symbol.place[1] + len(symbol.name))
    return Row(symbol, begin, max(symbol.end, name_end), inside)


def _piece(item: Occurrence) -> Piece | None:
    kind = _type_of(item)
    if kind is None:
        return None
    modifiers = 1 if item.role is Role.DECLARES else 0
    if item.symbol is not None and item.symbol.kind in _READ_ONLY:
        modifiers |= 2
    if item.role in _OF_LANGUAGE and item.symbol is None and _is_known(item.name):
        modifiers |= 4
    return Piece(item.place, len(item.name), TOKEN_TYPES.index(kind), modifiers)


def _is_known(name: str) -> bool:
    """Whether the language itself has a name."""
    return operation_help(name) is not None or type_help(name) is not None


def _type_of(item: Occurrence) -> str | None:
    if item.role in (Role.CALLS, Role.INITIALISES):
        return "function"
    if item.role is Role.IS_TYPE:
        return "type"
    if item.role is Role.IS_MEMBER:
        return "property"
    if item.role in (Role.NAMES_ARGUMENT, Role.NAMES_RESULT):
        return "parameter"
    if item.symbol is None:
        return None
    return _OF_KIND.get(item.symbol.kind, "variable")
