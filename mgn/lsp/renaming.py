"""Another name for a symbol, so that all that is known outside stays: keys of weights, results.

In: a symbol and a name. Out: the edits of each file, or an MgnError that says why not.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from mgn.diagnostics import MgnError, one_line
from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.strings import quote
from mgn.lsp.documents import Documents, Target
from mgn.lsp.operation_help import KEYWORDS, operation_help
from mgn.lsp.symbols import Kind, Occurrence, Symbol

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Edit:
    """Text that takes the place of a piece of the text."""

    begin: Place
    end: Place
    text: str


def rename(
    documents: Documents, target: Target, name: str, folders: list[Path]
) -> dict[Path | str, list[Edit]]:
    """The edits that give a symbol another name. MgnError where it cannot have that."""
    symbol = target.symbol
    if name == symbol.name:
        return {}
    found = documents.occurrences(target, folders)
    _check(documents, target, name)
    edits = {file: [_edit(item, symbol, name) for item in items] for file, items in found.items()}
    if symbol.external_place is not None:
        place = symbol.external_place
        added = Edit(place, place, f" as {quote(symbol.name)}")
        edits[target.source.path or target.source.name].append(added)
    return edits


def _edit(item: Occurrence, symbol: Symbol, name: str) -> Edit:
    owner = symbol.scope.owner
    names_result = item.is_result and (owner is None or owner.kind is Kind.GRAPH)
    return Edit(item.place, item.end, f"{item.name} = {name}" if names_result else name)


def _check(documents: Documents, target: Target, name: str) -> None:
    """MgnError where something else has the name, or nothing can."""
    shown = one_line(name)
    if _NAME.fullmatch(name) is None:
        raise MgnError(f"'{shown}' is no name: it has ASCII letters, digits and _ alone")
    if name in KEYWORDS or name in ELEMENT_TYPES:
        raise MgnError(f"'{shown}' is a word of the language")
    symbol, reading = target.symbol, documents.reading(target.source)
    if symbol.kind is Kind.FN and operation_help(name) is not None:
        raise MgnError(f"'{shown}' is an operation")
    taken = documents.targets(target.source).get(name)
    if taken is not None:
        raise MgnError(f"'{shown}' is a {taken.symbol.kind} already")
    for item in reading.occurrences:
        other = item.symbol
        if item.name != name or other is None or other is symbol:
            continue
        if symbol.is_global or other.scope.owner is symbol.scope.owner:
            raise MgnError(f"'{shown}' is a {other.kind} already, in line {other.place[0]}")
