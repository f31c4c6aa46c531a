"""Answers as the protocol writes them.

In: what `hover.py`, `completion.py` and their like give, and the positions of a text. Out: the
protocol's types.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from lsprotocol import types

from mgn.frontend.syntax.ast import Place
from mgn.lsp.completion import Item, Signature
from mgn.lsp.outline import Piece, Row
from mgn.lsp.positions import Positions
from mgn.lsp.problems import Problem, Related
from mgn.lsp.renaming import Edit
from mgn.lsp.symbols import Kind

SOURCE = "mgn"
"""Who says what an editor shows."""

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
_SYMBOLS = {
    Kind.CONST: types.SymbolKind.Constant,
    Kind.DIMENSION: types.SymbolKind.Constant,
    Kind.FN: types.SymbolKind.Function,
    Kind.GRAPH: types.SymbolKind.Class,
    Kind.PARAM: types.SymbolKind.Field,
    Kind.STATE: types.SymbolKind.Property,
    Kind.INPUT: types.SymbolKind.Variable,
}
_ITEMS = {
    "function": types.CompletionItemKind.Function,
    "keyword": types.CompletionItemKind.Keyword,
    "type": types.CompletionItemKind.Class,
    "member": types.CompletionItemKind.Property,
    "argument": types.CompletionItemKind.Property,
    "file": types.CompletionItemKind.File,
    "const": types.CompletionItemKind.Constant,
    "dimension": types.CompletionItemKind.Constant,
    "param": types.CompletionItemKind.Field,
    "state": types.CompletionItemKind.Field,
}


def range_of(positions: Positions, begin: Place, end: Place) -> types.Range:
    """A range of the protocol."""
    return types.Range(
        types.Position(*positions.position(begin)), types.Position(*positions.position(end))
    )


def markdown(text: str) -> types.MarkupContent:
    """A text for readers."""
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def uri_of(path: Path | str) -> str:
    """The URI of a file; a text that has none is called by its URI."""
    return path.resolve().as_uri() if isinstance(path, Path) else path


def diagnostic(
    positions: Positions, problem: Problem, places: Sequence[tuple[Related, types.Location]]
) -> types.Diagnostic:
    """An error or a warning; `places` are those of its notes."""
    related = [
        types.DiagnosticRelatedInformation(location, note.message) for note, location in places
    ]
    return types.Diagnostic(
        range=range_of(positions, problem.begin, problem.end),
        message=problem.message,
        severity=_SEVERITY.get(problem.severity, types.DiagnosticSeverity.Error),
        source=SOURCE,
        related_information=related or None,
    )


def document_symbol(positions: Positions, row: Row) -> types.DocumentSymbol:
    """A row of an outline."""
    symbol = row.symbol
    name_end = (symbol.place[0], symbol.place[1] + len(symbol.name))
    return types.DocumentSymbol(
        name=symbol.name,
        kind=_SYMBOLS.get(symbol.kind, types.SymbolKind.Variable),
        range=range_of(positions, row.begin, row.end),
        selection_range=range_of(positions, symbol.place, name_end),
        detail=symbol.head or None,
        children=[document_symbol(positions, item) for item in row.inside],
    )


def completion_item(item: Item) -> types.CompletionItem:
    """A word that fits."""
    return types.CompletionItem(
        label=item.label,
        kind=_ITEMS.get(item.kind, types.CompletionItemKind.Variable),
        detail=item.detail or None,
        documentation=markdown(item.text) if item.text else None,
        insert_text=item.inserted or None,
        sort_text=f"{item.rank}{item.label}",
    )


def signature_help(found: Signature) -> types.SignatureHelp:
    """A call that is being typed."""
    known = found.help
    labels: list[types.ParameterInformation] = []
    begin = len(known.name) + 1
    for argument in known.arguments:
        end = begin + len(argument.text)
        labels.append(
            types.ParameterInformation(
                (begin, end), markdown(argument.kind) if argument.kind else None
            )
        )
        begin = end + 2
    active = found.active if found.active is not None else len(labels)
    about = markdown(known.text) if known.text else None
    signature = types.SignatureInformation(known.signature, about, labels, active)
    return types.SignatureHelp([signature], 0, active)


def text_edits(positions: Positions, edits: Iterable[Edit]) -> list[types.TextEdit]:
    """Edits of one text."""
    return [types.TextEdit(range_of(positions, item.begin, item.end), item.text) for item in edits]


def semantic_tokens(positions: Positions, pieces: Sequence[Piece]) -> types.SemanticTokens:
    """The pieces of a text, each relative to the one before."""
    rows = [(*positions.position(item.place), item) for item in pieces]
    data: list[int] = []
    for before, row in pairwise([(0, 0, None), *rows]):
        line, character, piece = row
        assert piece is not None
        down = line - before[0]
        along = character if down else character - before[1]
        data += [down, along, piece.length, piece.type, piece.modifiers]
    return types.SemanticTokens(data)
