"""What a reader wants to know of a name: its type and shape, where it comes from, what it does.

In: a place in a document. Out: Markdown, or the hints that stand behind names.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgn.frontend.observed import MOST_VALUES
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.parser import lexer
from mgn.frontend.syntax.source import Source
from mgn.lsp.documents import Document, Documents, Target
from mgn.lsp.operation_help import (
    KEYWORDS,
    MEMBERS,
    Help,
    initialiser_help,
    operation_help,
    type_help,
)
from mgn.lsp.symbols import Kind, Occurrence, Role, Symbol

_DECLARED = frozenset({Kind.PARAM, Kind.STATE, Kind.INPUT})
_TENSOR = re.compile(r"[a-z]\w*\[")
_COMMENT = re.compile(r"\s*//\s?(.*)")


@dataclass(frozen=True)
class Hover:
    """Markdown about a piece of the text."""

    begin: Place
    end: Place
    text: str


@dataclass(frozen=True)
class Hint:
    """What stands behind a place, though it is not in the text."""

    place: Place
    text: str


def hover(documents: Documents, document: Document, place: Place) -> Hover | None:
    """What is known of what stands at a place; None where nothing is."""
    source = document.source
    found = documents.reading(source).at(place)
    if found is None:
        return _keyword(source, place)
    text = _about(documents, document, found)
    return Hover(found.place, found.end, text) if text else None


def hints(documents: Documents, document: Document, first: int, last: int) -> Iterator[Hint]:
    """The types of the tensors that names are bound to in some lines."""
    for item in documents.reading(document.source).occurrences:
        symbol = item.symbol
        if symbol is None or not first <= item.place[0] <= last:
            continue
        binds = item.role in (Role.DECLARES, Role.BINDS) and symbol.kind is Kind.VARIABLE
        takes = item.role is Role.DECLARES and symbol.kind is Kind.FORMAL and ":" not in symbol.head
        values = values_at(documents, document, item) if binds or takes else []
        tensors = [value for value in values if _TENSOR.match(value)]
        if tensors:
            yield Hint(item.end, f": {tensors[0]}{' | …' if len(values) > 1 else ''}")


def values_at(documents: Documents, document: Document, item: Occurrence) -> Sequence[str]:
    """What the compiler saw where a name stands, or where it was declared: for this text, or for
    another that imports it.
    """
    symbol = item.symbol
    places = [item.place]
    if symbol is not None and item.role is not Role.CALLS:
        places += [symbol.statement, symbol.place]
    for observed, file in documents.observations(document):
        for place in places:
            if seen := observed.at(file, place):
                return seen
    return ()


def comment_above(source: Source, place: Place) -> str:
    """The lines of a comment that ends above a line."""
    lines: list[str] = []
    number = place[0] - 1
    while (found := _COMMENT.fullmatch(source.line(number) or "")) is not None:
        lines.append(found[1])
        number -= 1
    return "\n".join(reversed(lines))


def _about(documents: Documents, document: Document, item: Occurrence) -> str:
    if item.role is Role.IS_TYPE:
        return type_help(item.name) or ""
    if item.role is Role.IS_MEMBER:
        return _joined(MEMBERS.get(item.name, ""), _values(documents, document, item))
    if item.role is Role.INITIALISES:
        return _helped(initialiser_help(item.name))
    target = documents.target(document.source, item)
    if item.role is Role.NAMES_ARGUMENT and target is None:
        return _argument(item)
    if item.role is Role.CALLS and (target is None or target.symbol.kind is not Kind.FN):
        return _joined(_helped(operation_help(item.name)), _values(documents, document, item))
    if target is not None:
        return _symbol(documents, document, item, target)
    if item.role is Role.NAMES_RESULT:
        return f"`{item.name}`: the name of a result."
    return type_help(item.name) or ""


def _symbol(documents: Documents, document: Document, item: Occurrence, target: Target) -> str:
    symbol = target.symbol
    if symbol.kind in (Kind.FN, Kind.GRAPH):
        code, values = symbol.head, _values(documents, document, item)
    else:
        code, values = _declaration(documents, document, item, symbol), _trial(document)
    owner = symbol.scope.owner
    where = f" of `{owner.name}`" if owner is not None else ""
    if target.source.name != document.name:
        where += f", from `{target.source.name}`"
    about = comment_above(target.source, symbol.place) if symbol.is_global else ""
    declared = symbol.head if symbol.kind in _DECLARED and symbol.head != code else ""
    declared = f"Declared: `{declared}`" if declared else ""
    keys = _keys(documents, document, target)
    return _joined(f"```mgn\n{code}\n```", f"{symbol.kind}{where}", declared, keys, about, values)


def _keys(documents: Documents, document: Document, target: Target) -> str:
    """What files of weights call a parameter or a state."""
    place = target.symbol.place
    for observed, file in documents.observations(document):
        own = target.source.name == document.name
        names = list(observed.keys.get((file if own else target.source.name, place), ()))
        if names:
            told = ", ".join(f"`{name}`" for name in names[:MOST_VALUES])
            more = f", … ({len(names)})" if len(names) > MOST_VALUES else ""
            return f"External name: {told}{more}"
    return ""


def _declaration(documents: Documents, document: Document, item: Occurrence, symbol: Symbol) -> str:
    """`x: f32[2, 3]` or `n = 3`; what the text declares where the compiler saw nothing."""
    values = values_at(documents, document, item)
    if not values:
        return symbol.head or item.name
    name = item.name
    if symbol.kind in (Kind.PARAM, Kind.STATE):
        name = f"{symbol.kind} {name}"
    sign = ":" if all(map(_TENSOR.match, values)) else " ="
    return f"{name}{sign} {_alternatives(values)}"


def _alternatives(values: Sequence[str]) -> str:
    told = " or ".join(values[:MOST_VALUES])
    return f"{told} or …" if len(values) > MOST_VALUES else told


def _values(documents: Documents, document: Document, item: Occurrence) -> str:
    """What a call gives."""
    values = values_at(documents, document, item)
    return f"Here: `{_alternatives(values)}`" if values else ""


def _trial(document: Document) -> str:
    """Says which sizes are those of nobody."""
    trial = document.fresh.trial if document.fresh is not None else {}
    sizes = ", ".join(f"{name} = {size}" for name, size in trial.items())
    return f"*Seen with {sizes}; the setting `mgn.dims` gives another size.*" if sizes else ""


def _argument(item: Occurrence) -> str:
    """An argument of an operation or initialiser."""
    for known in (operation_help(item.callee or ""), initialiser_help(item.callee or "")):
        for argument in known.arguments if known is not None else ():
            if argument.name == item.name:
                return f"```mgn\n{argument.text}\n```\n\n{argument.kind}, of `{item.callee}`"
    return ""


def _helped(known: Help | None) -> str:
    return "" if known is None else f"```mgn\n{known.signature}\n```\n\n{known.text}"


def _keyword(source: Source, place: Place) -> Hover | None:
    line = source.line(place[0]) or ""
    for token in lexer().tokens(line):
        end = token.column + len(token)
        if token.column <= place[1] <= end and str(token) in KEYWORDS:
            begin = (place[0], token.column)
            return Hover(begin, (place[0], end), KEYWORDS[str(token)])
    return None


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
