"""What can be typed at the cursor, and what the call takes that is being typed.

In: a document and an index into its text. Out: `Item`s, and the signature of a call.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mgn.dialects.mgn.initialiser import INITIALISERS
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.lowering.calls import COMPILE_TIME
from mgn.frontend.syntax.ast import Place
from mgn.lsp.cursor import Call, Cursor, Wanted, cursor_at
from mgn.lsp.documents import Document, Documents, Target
from mgn.lsp.hover import comment_above
from mgn.lsp.operation_help import (
    KEYWORDS,
    MEMBERS,
    Argument,
    Help,
    initialiser_help,
    operation_help,
    operation_names,
    type_help,
)
from mgn.lsp.symbols import Kind, Symbol

_DECLARATIONS = ("const", "fn", "graph", "import", "param", "state")
_STATEMENTS = ("for", "if", "param", "return", "scope", "state")
_VALUES = ("and", "false", "inf", "nan", "none", "not", "or", "true")
_MOST_FILES = 200


@dataclass(frozen=True)
class Item:
    """A word that fits. `kind` says what it is; `inserted` is what is typed, if not the label."""

    label: str
    kind: str
    detail: str = ""
    text: str = ""
    inserted: str = ""
    rank: int = 1


@dataclass(frozen=True)
class Signature:
    """A call with its arguments, of which `active` is being typed."""

    help: Help
    active: int | None


def completions(documents: Documents, document: Document, index: int, place: Place) -> list[Item]:
    """What fits at the cursor, each word once, the nearest meaning first."""
    cursor = cursor_at(document.text, index)
    found: dict[str, Item] = {}
    for item in _items(documents, document, cursor, place):
        found.setdefault(item.label, item)
    return list(found.values())


def signature(documents: Documents, document: Document, index: int) -> Signature | None:
    """The call in which the cursor stands."""
    call = cursor_at(document.text, index).call
    known = _help(documents, document, call.name) if call is not None else None
    if call is None or known is None:
        return None
    names = [item.name for item in known.arguments]
    if call.argument is not None:
        active = names.index(call.argument) if call.argument in names else None
        return Signature(known, active)
    return Signature(known, call.position if call.position < len(names) else None)


def _items(
    documents: Documents, document: Document, cursor: Cursor, place: Place
) -> Iterator[Item]:
    wanted = cursor.wanted
    if wanted is Wanted.MEMBER:
        yield from (Item(name, "member", "", text) for name, text in MEMBERS.items())
    elif wanted is Wanted.TYPE:
        yield from (Item(name, "type", "", type_help(name) or "") for name in _types())
    elif wanted is Wanted.FILE:
        yield from _files(document)
    elif wanted is Wanted.INITIALISER:
        yield from (_call(initialiser_help(name)) for name in INITIALISERS)
    elif wanted is Wanted.DECLARATION:
        yield from (Item(name, "keyword", "", KEYWORDS[name]) for name in _DECLARATIONS)
    elif wanted in (Wanted.STATEMENT, Wanted.EXPRESSION):
        if cursor.call is not None:
            yield from _arguments(documents, document, cursor.call)
        yield from _names(documents, document, place)
        yield from (_call(operation_help(name)) for name in operation_names())
        words = (*_STATEMENTS, *_VALUES) if wanted is Wanted.STATEMENT else _VALUES
        yield from (Item(name, "keyword", "", KEYWORDS[name]) for name in words)
        yield from (Item(name, "type", "", type_help(name) or "") for name in ELEMENT_TYPES)


def _types() -> Iterator[str]:
    yield from (*ELEMENT_TYPES, *COMPILE_TIME)


def _call(known: Help | None) -> Item:
    assert known is not None
    return Item(known.name, "function", known.signature, known.text, rank=2)


def _arguments(documents: Documents, document: Document, call: Call) -> Iterator[Item]:
    """The arguments of a call that can be named."""
    known = _help(documents, document, call.name)
    for item in known.arguments if known is not None and call.argument is None else ():
        yield Item(f"{item.name} = ", "argument", item.text, item.kind, f"{item.name} = ", 0)


def _names(documents: Documents, document: Document, place: Place) -> Iterator[Item]:
    """The names of the program that a place sees."""
    source = document.source
    for symbol in documents.reading(source).visible(place):
        if symbol.kind is not Kind.GRAPH:
            yield _named(document, Target(symbol, source))
    for target in documents.targets(source).values():
        if target.symbol.kind is not Kind.GRAPH:
            yield _named(document, target)


def _named(document: Document, target: Target) -> Item:
    symbol = target.symbol
    kind = "function" if symbol.kind is Kind.FN else str(symbol.kind)
    observed = document.observed
    values = observed.at(target.source.name, symbol.statement) if observed is not None else ()
    detail = symbol.head or (values[0] if values else str(symbol.kind))
    about = comment_above(target.source, symbol.place) if symbol.is_global else ""
    return Item(symbol.name, kind, detail, about, rank=0 if not symbol.is_global else 1)


def _files(document: Document) -> Iterator[Item]:
    """The files beside a document that it could import."""
    if document.path is None:
        return
    for path in sorted(document.path.parent.glob("*.mgn"))[:_MOST_FILES]:
        if path != document.path:
            yield Item(path.name, "file")


def _help(documents: Documents, document: Document, name: str) -> Help | None:
    """How a function of the program, an operation or an initialiser is called."""
    target = documents.targets(document.source).get(name)
    if target is not None and target.symbol.kind is Kind.FN:
        return _help_of(target.symbol, comment_above(target.source, target.symbol.place))
    return operation_help(name) or initialiser_help(name)


def _help_of(symbol: Symbol, about: str) -> Help:
    arguments = tuple(Argument(item.name, item.head or item.name) for item in symbol.formals)
    return Help(symbol.name, arguments, about)
