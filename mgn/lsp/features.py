"""What the language server answers, a handler for each request of the protocol.

In: a request. Out: the answer, as `hover.py`, `completion.py`, `outline.py` and `renaming.py` give
it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.frontend.format_mgn import format_parsed, format_text
from mgn.lsp import convert
from mgn.lsp.completion import completions, signature
from mgn.lsp.documents import Document, Target
from mgn.lsp.hover import hints, hover
from mgn.lsp.outline import TOKEN_MODIFIERS, TOKEN_TYPES, outline, pieces
from mgn.lsp.renaming import rename
from mgn.lsp.server import Server
from mgn.lsp.symbols import Occurrence, Role

REQUEST_FAILED = -32803
LONG = 10.0
"""Seconds that hints wait for the compiler."""


def make_server() -> Server:
    """A server with all its answers."""
    server = Server()
    for name, handler, options in _HANDLERS:
        server.feature(name, options)(handler)
    return server


# ---- texts


def _initialize(server: Server, params: types.InitializeParams) -> None:
    _set_options(server, params.initialization_options)


def _configured(server: Server, params: types.DidChangeConfigurationParams) -> None:
    settings: Any = params.settings
    inner: Any = settings.get("mgn", settings) if isinstance(settings, dict) else None
    _set_options(server, inner)
    server.look_at_all()


def _set_options(server: Server, options: Any) -> None:
    """What the editor's settings say: `{"dims": {"S": 128}, "pause": 0.1}`; others stay."""
    given: dict[str, Any] = options if isinstance(options, dict) else {}
    dims: Any = given.get("dims")
    if isinstance(dims, dict):
        sizes: dict[Any, Any] = dims
        server.documents.dims = {
            str(name): size for name, size in sizes.items() if type(size) is int and size >= 0
        }
    pause: Any = given.get("pause")
    if isinstance(pause, int | float) and 0 <= pause <= 60:
        server.pause = float(pause)


def _did_open(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    server.opened(item.uri, item.text, item.version)


def _did_change(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    item = params.text_document
    text = server.workspace.get_text_document(item.uri).source
    server.opened(item.uri, text, item.version)


def _did_close(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


def _did_save(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    document = server.documents.open.get(params.text_document.uri)
    if document is not None:
        server.file_changed(document)


def _files_changed(server: Server, _: types.DidChangeWatchedFilesParams) -> None:
    server.look_at_all()


def _shutdown(server: Server, *_: Any) -> None:
    server.stop_all()


# ---- what is known of a name


async def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    document = await server.ready(params.text_document.uri)
    if document is None:
        return None
    found = hover(server.documents, document, server.place(document, params.position))
    if found is None:
        return None
    where = convert.range_of(server.positions_in(document), found.begin, found.end)
    return types.Hover(convert.markdown(found.text), where)


async def _hints(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    document = await server.ready(params.text_document.uri, LONG)
    if document is None:
        return []
    first = server.place(document, params.range.start)[0]
    last = server.place(document, params.range.end)[0]
    positions = server.positions_in(document)
    return [
        types.InlayHint(
            types.Position(*positions.position(item.place)), item.text, types.InlayHintKind.Type
        )
        for item in hints(server.documents, document, first, last)
    ]


def _definition(server: Server, params: types.DefinitionParams) -> types.Location | None:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return None
    place = server.place(document, params.position)
    reading = server.documents.reading(document.source)
    for name, begin, end in reading.imports:
        if begin <= place <= end and document.path is not None:
            path = document.path.parent / name
            start = types.Range(types.Position(0, 0), types.Position(0, 0))
            return types.Location(server.uri_of(path), start) if path.is_file() else None
    target = _target(server, document, params.position)
    if target is None:
        return None
    symbol = target.symbol
    end = (symbol.place[0], symbol.place[1] + len(symbol.name))
    uri = server.uri_of(target.source.path or target.source.name)
    positions = server.positions(target.source, uri)
    return types.Location(uri, convert.range_of(positions, symbol.place, end))


def _occurrence(server: Server, document: Document, position: types.Position) -> Occurrence | None:
    place = server.place(document, position)
    return server.documents.reading(document.source).at(place)


def _target(server: Server, document: Document, position: types.Position) -> Target | None:
    found = _occurrence(server, document, position)
    return server.documents.target(document.source, found) if found is not None else None


def _references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    document = server.documents.open.get(params.text_document.uri)
    target = _target(server, document, params.position) if document is not None else None
    if target is None:
        return []
    return [
        location
        for role, location in _places(server, target)
        if role is not Role.DECLARES or params.context.include_declaration
    ]


def _places(server: Server, target: Target) -> Iterator[tuple[Role, types.Location]]:
    for file, items in server.documents.occurrences(target, server.folders).items():
        uri = server.uri_of(file)
        positions = server.positions(_source(server, target, file), uri)
        for item in items:
            where = convert.range_of(positions, item.place, item.end)
            yield item.role, types.Location(uri, where)


def _source(server: Server, target: Target, file: Path | str) -> Any:
    """The text of a file in which a symbol is named."""
    own = target.source.path or target.source.name
    return target.source if file == own else server.documents.source_of(Path(file))


def _highlights(
    server: Server, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    document = server.documents.open.get(params.text_document.uri)
    found = _occurrence(server, document, params.position) if document is not None else None
    if document is None or found is None or found.symbol is None:
        return []
    kinds = types.DocumentHighlightKind
    positions = server.positions_in(document)
    return [
        types.DocumentHighlight(
            convert.range_of(positions, item.place, item.end),
            kinds.Write if item.role in (Role.DECLARES, Role.BINDS) else kinds.Read,
        )
        for item in found.symbol.occurrences
    ]


# ---- what changes the text


def _can_rename(server: Server, params: types.PrepareRenameParams) -> types.Range | None:
    document = server.documents.open.get(params.text_document.uri)
    if document is None or _target(server, document, params.position) is None:
        return None
    found = _occurrence(server, document, params.position)
    assert found is not None
    return convert.range_of(server.positions_in(document), found.place, found.end)


def _rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit | None:
    document = server.documents.open.get(params.text_document.uri)
    target = _target(server, document, params.position) if document is not None else None
    if target is None:
        return None
    try:
        edits = rename(server.documents, target, params.new_name, server.folders)
    except MgnError as error:
        raise JsonRpcException(str(error), REQUEST_FAILED) from error
    changes: dict[str, list[types.TextEdit]] = {}
    for file, items in edits.items():
        uri = server.uri_of(file)
        positions = server.positions(_source(server, target, file), uri)
        changes[uri] = convert.text_edits(positions, items)
    return types.WorkspaceEdit(changes)


def _format(server: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return None
    try:
        is_sound = document.fresh is not None and not document.fresh.unit.has_syntax_errors
        text = (format_parsed if is_sound else format_text)(document.source)
    except DiagnosticsError:  # the errors are shown in the text
        return None
    if text == document.text:
        return []
    positions = server.positions_in(document)
    end = types.Position(*positions.position_at(len(document.text)))
    return [types.TextEdit(types.Range(types.Position(0, 0), end), text)]


def _actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    document = server.documents.open.get(uri)
    if document is None or document.fresh is None:
        return []
    positions = server.positions_in(document)
    actions: list[types.CodeAction] = []
    for problem in server.problems.get(uri, []):
        where = convert.range_of(positions, problem.begin, problem.end)
        apart = where.end < params.range.start or params.range.end < where.start
        if problem.meant is None or apart:
            continue
        edit = types.WorkspaceEdit({uri: [types.TextEdit(where, problem.meant)]})
        kind = types.CodeActionKind.QuickFix
        actions.append(
            types.CodeAction(f"Change to '{problem.meant}'", kind, is_preferred=True, edit=edit)
        )
    return actions


def _complete(server: Server, params: types.CompletionParams) -> list[types.CompletionItem]:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return []
    positions = server.positions_in(document)
    offset = positions.offset(params.position.line, params.position.character)
    found = completions(server.documents, document, offset, positions.place_at(offset))
    return [convert.completion_item(item) for item in found]


def _signature(server: Server, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return None
    position = params.position
    offset = server.positions_in(document).offset(position.line, position.character)
    found = signature(server.documents, document, offset)
    return convert.signature_help(found) if found is not None else None


# ---- the whole text


def _symbols(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return []
    positions = server.positions_in(document)
    rows = outline(server.documents.reading(document.source))
    return [convert.document_symbol(positions, row) for row in rows]


def _tokens(server: Server, params: types.SemanticTokensParams) -> types.SemanticTokens:
    document = server.documents.open.get(params.text_document.uri)
    if document is None:
        return types.SemanticTokens([])
    found = pieces(server.documents.reading(document.source))
    return convert.semantic_tokens(server.positions_in(document), found)


_HANDLERS: tuple[tuple[str, Any, Any], ...] = (
    (types.INITIALIZE, _initialize, None),
    (types.WORKSPACE_DID_CHANGE_CONFIGURATION, _configured, None),
    (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, _files_changed, None),
    (types.TEXT_DOCUMENT_DID_OPEN, _did_open, None),
    (types.TEXT_DOCUMENT_DID_CHANGE, _did_change, None),
    (types.TEXT_DOCUMENT_DID_CLOSE, _did_close, None),
    (types.TEXT_DOCUMENT_DID_SAVE, _did_save, None),
    (types.SHUTDOWN, _shutdown, None),
    (types.TEXT_DOCUMENT_HOVER, _hover, None),
    (types.TEXT_DOCUMENT_INLAY_HINT, _hints, None),
    (types.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (types.TEXT_DOCUMENT_REFERENCES, _references, None),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights, None),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, _can_rename, None),
    (types.TEXT_DOCUMENT_RENAME, _rename, types.RenameOptions(prepare_provider=True)),
    (types.TEXT_DOCUMENT_FORMATTING, _format, None),
    (
        types.TEXT_DOCUMENT_CODE_ACTION,
        _actions,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    ),
    (
        types.TEXT_DOCUMENT_COMPLETION,
        _complete,
        types.CompletionOptions(trigger_characters=[".", ":", '"', "{"]),
    ),
    (
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        _signature,
        types.SignatureHelpOptions(trigger_characters=["(", ","]),
    ),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        _tokens,
        types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS)),
    ),
)
"""Each request or notification with its handler, and what the server says that it can."""
