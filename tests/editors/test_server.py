"""`mgn-lsp` as an editor meets it: a process that is spoken to over stdio by a client of pygls."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from mgn.commands.lsp import main
from mgn.frontend.format_mgn import format_text
from mgn.frontend.syntax.source import Source
from mgn.lsp.outline import TOKEN_TYPES
from tests.conftest import ROOT, run_in_process
from tests.editors.editor import Editor
from tests.fuzz.bad_inputs.text_mutations import mutate, tokens_of

PARTS = "// Twice as much.\nfn twice(x, by: int = 2) { return x * by }\nconst D = 4\n"
MAIN = """\
import "parts.mgn"

graph g[B = 2](x: f32[B, D]) {
  param w: f32[D, D] = he_normal()
  y = twice(x @ w, by = 3)
  return y
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a folder")
    (folder / "parts.mgn").write_text(PARTS, encoding="utf-8")
    (folder / "main.mgn").write_text(MAIN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def editor(folder: Path) -> Iterator[Editor]:
    editor = Editor(folder, pause=0)
    yield editor
    assert editor.messages == []
    assert editor.stop() == 0


@pytest.fixture
def uri(editor: Editor, folder: Path) -> Iterator[str]:
    """A text of its own for each test, in the folder of the others."""
    uri = (folder / "text.mgn").as_uri()
    yield uri
    if uri in editor.versions:
        editor.close(uri)


def spot(text: str, mark: str, along: int = 0) -> tuple[int, int]:
    """Line and character, in UTF-16, of the first piece of a text that is alike."""
    before = text[: text.index(mark) + along]
    line = before.count("\n")
    return line, len(before[before.rfind("\n") + 1 :].encode("utf-16-le")) // 2


def covered(text: str, where: types.Range) -> str:
    """The piece of a text of which a range in UTF-16 speaks."""
    lines = [line.encode("utf-16-le") for line in text.split("\n")]
    assert where.start.line == where.end.line
    row = lines[where.start.line]
    return row[2 * where.start.character : 2 * where.end.character].decode("utf-16-le")


@pytest.mark.parametrize("name", ["bert.mgn", "digits/digits.mgn", "models/lenet.mgn"])
def test_examples_open_without_diagnostics(editor: Editor, name: str) -> None:
    path = ROOT / "examples" / name
    assert editor.check(path.as_uri(), path.read_text(encoding="utf-8")) == []
    editor.close(path.as_uri())


def test_all_errors_and_warnings_come_at_once_each_with_its_piece_of_text(
    editor: Editor, uri: str
) -> None:
    text = (
        "fn f(x) { return x * wieght }\n"
        'graph g(x: f32[4]) {\n  /* 😀 */ y = rleu(x) + ("é😀" + zz)\n  z = = 3\n  b = x + (\n'
        '  for i in 0..2 { param w: f32[4] as "w" = ones(); x = x * w }\n  return f(x), v = q\n}\n'
    )
    found = editor.check(uri, text)
    pieces = {covered(text, item.range): item for item in found}
    assert pieces.keys() >= {"wieght", "rleu", "zz", "=", "("}
    assert "did you mean 'relu'?" in pieces["rleu"].message
    assert all(item.source == "mgn" for item in found)
    text = 'graph g(x: f32[4]) {\n  for i in 0..2 { param w: f32[4] as "é" = ones(); x = x * w }'
    (warning,) = editor.check(uri, text + "\n  return x\n}\n")
    assert warning.severity is types.DiagnosticSeverity.Warning
    assert covered(text, warning.range) == "w" and "all turns of the loop" in warning.message


def test_a_note_stands_where_it_belongs(editor: Editor, uri: str) -> None:
    text = "fn f(x) { return x @ x }\ngraph g(x: f32[2, 3]) { return y = f(x) }\n"
    (error,) = editor.check(uri, text)
    (note,) = error.related_information or []
    assert note.location.uri == uri and note.message == "called from here"
    assert (note.location.range.start.line, note.location.range.start.character) == (1, 35)


def test_errors_of_an_import_stand_at_the_import_while_both_are_edited(
    editor: Editor, folder: Path
) -> None:
    main_uri, parts_uri = (folder / "main.mgn").as_uri(), (folder / "parts.mgn").as_uri()
    assert editor.check(main_uri, MAIN) == []
    editor.published.pop(main_uri)
    (own,) = editor.check(parts_uri, PARTS + "const E = (1\n")
    (error,) = editor.diagnostics(main_uri)
    assert covered(MAIN, error.range) == '"parts.mgn"' and own.message in error.message
    (note,) = error.related_information or []
    assert note.location.uri == parts_uri and note.location.range.start.line == 3
    editor.published.pop(main_uri)
    editor.close(parts_uri)
    assert editor.diagnostics(main_uri) == []
    editor.close(main_uri)


def test_names_are_explained_found_and_renamed_across_files(editor: Editor, folder: Path) -> None:
    uri, parts_uri = (folder / "main.mgn").as_uri(), (folder / "parts.mgn").as_uri()
    assert editor.check(uri, MAIN) == []
    for mark, said in (
        ("x @ w", "x: f32[2, 4]"),
        ("w, by", "param w: f32[4, 4]"),
        ("w, by", "Declared: `param w: f32[D, D] = he_normal()`"),
        ("w, by", "External name: `w`"),
        ("x @ w", "Declared: `x: f32[B, D]`"),
        ("y = ", "y: f32[2, 4]"),
        ("y\n", "y: f32[2, 4]"),
        ("D, D", "D = 4"),
        ("B = 2", "B = 2"),
        ("twice", "fn twice(x, by: int = 2)"),
        ("twice", "Twice as much."),
        ("twice", "Here: `f32[2, 4]`"),
        ("by = 3", "by: int = 2"),
        ("he_normal", "he_normal()"),
        ("f32", "a float of 32 bits"),
        ("return", "the results"),
    ):
        assert said in editor.hover(uri, spot(MAIN, mark)), mark
    places = [
        editor.at(types.DefinitionParams, types.TEXT_DOCUMENT_DEFINITION, uri, spot(MAIN, mark))
        for mark in ("twice", "by = 3", "D, D", '"parts.mgn"', "w, by", "he_normal")
    ]
    found = [item and (item.uri == parts_uri, item.range.start.line) for item in places]
    assert found == [(True, 1), (True, 1), (True, 2), (True, 0), (False, 3), None]
    assert places[1].range.start.character == PARTS.split("\n")[1].index("by")
    context = types.ReferenceContext(include_declaration=True)
    method = types.TEXT_DOCUMENT_REFERENCES
    where = spot(MAIN, "D, D")
    rows = editor.at(types.ReferenceParams, method, uri, where, context=context)
    assert sorted((item.uri == uri, item.range.start.line) for item in rows) == [
        *((False, 2), (True, 2), (True, 3), (True, 3))
    ]
    edit = editor.at(
        types.RenameParams, types.TEXT_DOCUMENT_RENAME, uri, spot(MAIN, "by"), new_name="factor"
    )
    assert {key: len(value) for key, value in edit.changes.items()} == {uri: 1, parts_uri: 2}
    with pytest.raises(JsonRpcException, match="'twice' is a fn already"):
        editor.at(
            types.RenameParams, types.TEXT_DOCUMENT_RENAME, uri, spot(MAIN, "D"), new_name="twice"
        )
    editor.close(uri)


def test_a_renamed_parameter_and_result_keep_what_is_known_outside(
    editor: Editor, uri: str
) -> None:
    text = "graph g(x: f32[2]) {\n  param y: f32[2] = ones()\n  return y\n}\n"
    editor.check(uri, text)
    edit = editor.at(
        types.RenameParams, types.TEXT_DOCUMENT_RENAME, uri, spot(text, "y"), new_name="z"
    )
    rows = sorted(edit.changes[uri], key=lambda item: (item.range.start.line, item.range.start))
    assert [item.new_text for item in rows] == ["z", ' as "y"', "y = z"]


def test_hints_show_the_types_of_what_is_bound(editor: Editor, uri: str) -> None:
    text = (
        "fn f(x, n: int) { return x * n }\ngraph g(x: f32[2, 3]) {\n  y = f(x.T, 1)\n  return y\n}"
    )
    editor.check(uri, text)
    where = types.Range(types.Position(0, 0), types.Position(9, 0))
    params = types.InlayHintParams(types.TextDocumentIdentifier(uri), where)
    rows = editor.ask(types.TEXT_DOCUMENT_INLAY_HINT, params)
    found = [(item.position.line, item.position.character, item.label) for item in rows]
    assert found == [(0, 6, ": f32[3, 2]"), (2, 3, ": f32[3, 2]")]


def labels(editor: Editor, uri: str, text: str) -> dict[str, types.CompletionItem]:
    """What is offered at the end of a text."""
    editor.write(uri, text)
    where = spot(text, text, len(text))
    found = editor.at(types.CompletionParams, types.TEXT_DOCUMENT_COMPLETION, uri, where)
    return {item.label: item for item in found}


def test_what_is_offered_fits_where_the_cursor_stands(editor: Editor, uri: str) -> None:
    head = 'import "parts.mgn"\nconst A = 1\ngraph g[B = 1](x: f32[B]) {\n  h = x\n  '
    found = labels(editor, uri, head + "y = sof")
    assert found["softmax"].detail == "softmax(x, axis = -1)"
    assert "along an axis" in found["softmax"].documentation.value  # type: ignore
    assert {"x", "h", "A", "B", "twice", "D", "relu", "grad", "true"} <= found.keys()
    assert not {"g", "return", "graph", "axis = "} & found.keys()
    assert {"return", "for", "param", "h"} <= labels(editor, uri, head).keys()
    found = labels(editor, uri, head + "y = softmax(h, ax")
    assert found["axis = "].insert_text == "axis = "
    assert "by = " in labels(editor, uri, head + "y = twice(h, ")
    assert set(labels(editor, uri, head + "y = h.")) == {"T", "shape"}
    assert "he_normal" in labels(editor, uri, head + "param w: f32[2] = ")
    assert {"f32", "bf16", "q8_0", "int"} <= labels(editor, uri, head + "param w: ").keys()
    assert set(labels(editor, uri, 'import "')) == {"main.mgn", "parts.mgn"}
    assert set(labels(editor, uri, "con")) == {"const", "fn", "graph", "import", "param", "state"}
    assert labels(editor, uri, head + "// so") == {}


def test_a_call_shows_its_arguments_while_it_is_typed(editor: Editor, uri: str) -> None:
    def shown(text: str) -> tuple[str, str]:
        editor.write(uri, 'import "parts.mgn"\ngraph g(x: f32[4]) {\n  ' + text)
        where = (2, 2 + len(text))
        method = types.TEXT_DOCUMENT_SIGNATURE_HELP
        found = editor.at(types.SignatureHelpParams, method, uri, where)
        label, active = found.signatures[0].label, found.active_parameter
        begin, end = found.signatures[0].parameters[active].label
        return label, label[begin:end]

    assert shown("y = softmax(x, ") == ("softmax(x, axis = -1)", "axis = -1")
    assert shown("y = conv2d(x, w, groups = (")[1] == "groups = 1"
    assert shown("y = twice(relu(x), by = ") == ("twice(x, by: int = 2)", "by: int = 2")
    assert shown("param w: f32[2] = normal(std = ")[1] == "std = 1.0"


def test_the_outline_and_the_colours_name_what_there_is(editor: Editor, uri: str) -> None:
    text = "const A = 1\nfn f(x) {\n  state é\n  param w: f32[A]\n  return x }\n"
    editor.write(uri, text)
    params: Any = types.DocumentSymbolParams(types.TextDocumentIdentifier(uri))
    rows = editor.ask(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, params)
    assert [(item.name, item.range.end.line) for item in rows] == [("A", 0), ("f", 4)]
    assert [item.name for item in rows[1].children] == ["w"]
    params = types.SemanticTokensParams(types.TextDocumentIdentifier(uri))
    data = editor.ask(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, params).data
    line = character = 0
    found: list[tuple[str, str]] = []
    for down, along, length, kind, _ in zip(*[iter(data)] * 5, strict=True):
        line, character = line + down, along if down else character + along
        name = text.split("\n")[line][character : character + length]
        found.append((name, TOKEN_TYPES[kind]))
    assert ("A", "enumMember") in found and ("f32", "type") in found and ("w", "property") in found


def test_a_text_is_formatted_unless_it_has_errors(editor: Editor, uri: str) -> None:
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    params = types.DocumentFormattingParams(types.TextDocumentIdentifier(uri), options)
    text = "// 😀\r\ngraph g(x:f32[4]){\r\ny=x*2 // é\r\nreturn y}"
    editor.write(uri, text)
    (edit,) = editor.ask(types.TEXT_DOCUMENT_FORMATTING, params)
    assert edit.new_text == format_text(Source(text))
    assert (edit.range.start, edit.range.end) == (types.Position(0, 0), types.Position(3, 9))
    editor.write(uri, edit.new_text)
    assert not editor.ask(types.TEXT_DOCUMENT_FORMATTING, params)
    editor.write(uri, "const A=(1")
    assert editor.ask(types.TEXT_DOCUMENT_FORMATTING, params) is None


def test_a_misspelled_name_can_be_mended(editor: Editor, uri: str) -> None:
    text = "graph g(x: f32[4]) { /* 😀 */ y = rleu(x); return y }"
    (error,) = editor.check(uri, text)
    context = types.CodeActionContext([error])
    document = types.TextDocumentIdentifier(uri)
    params = types.CodeActionParams(document, error.range, context)
    (action,) = editor.ask(types.TEXT_DOCUMENT_CODE_ACTION, params)
    (edit,) = action.edit.changes[uri]
    assert (covered(text, edit.range), edit.new_text) == ("rleu", "relu")


def test_windows_line_ends_do_not_shift_places(editor: Editor, uri: str) -> None:
    text = "graph g(x: f32[4]) {\r\n\r\n  // é😀\r\n  y = x +\r\n    zz\r\n  return y\r\n}\r\n"
    (error,) = editor.check(uri, text)
    assert covered(text, error.range) == "zz" and error.range.start.line == 4


def test_sizes_that_nobody_bound_come_from_the_settings(editor: Editor, uri: str) -> None:
    text = "graph g[S](x: f32[S, 3]) {\n  y = x.T\n  return y }"
    assert editor.check(uri, text) == []
    assert "f32[3, 64]" in (said := editor.hover(uri, (1, 2))) and "mgn.dims" in said
    editor.published.pop(uri)
    settings = types.DidChangeConfigurationParams({"mgn": {"dims": {"S": 5}, "pause": 0}})
    editor.tell(types.WORKSPACE_DID_CHANGE_CONFIGURATION, settings)
    editor.diagnostics(uri)
    assert "f32[3, 5]" in editor.hover(uri, (1, 2))


def test_texts_that_are_cut_off_or_changed_are_answered(editor: Editor, uri: str) -> None:
    rng = random.Random(4)
    paths = [ROOT / "examples" / name for name in ("digits/digits.mgn", "models/parts.mgn")]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    pool = [tokens_of(text) for text in sources]
    for number in range(12):
        text = rng.choice(sources)
        text = mutate(rng, text, pool) if number % 2 else text[: rng.randrange(len(text))]
        for item in editor.check(uri, text):
            assert "internal error" not in item.message
        where = (rng.randrange(60), rng.randrange(100))
        editor.hover(uri, where)
        for kind, method in (
            (types.CompletionParams, types.TEXT_DOCUMENT_COMPLETION),
            (types.SignatureHelpParams, types.TEXT_DOCUMENT_SIGNATURE_HELP),
            (types.DefinitionParams, types.TEXT_DOCUMENT_DEFINITION),
            (types.DocumentHighlightParams, types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT),
            (types.PrepareRenameParams, types.TEXT_DOCUMENT_PREPARE_RENAME),
        ):
            editor.at(kind, method, uri, where)


def test_a_text_that_changes_again_and_again_is_looked_at_as_it_is_in_the_end(
    editor: Editor, uri: str
) -> None:
    for number in range(30):
        editor.write(uri, f"const A = B{number}\n")
    (error,) = editor.diagnostics(uri)
    assert "'B29'" in error.message


def test_without_pygls_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] == "pygls" or name in ("mgn.lsp.features", "mgn.lsp.server"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    outcome = run_in_process(main, [])
    assert outcome.status == 1
    assert outcome.stderr.startswith("error: the language server needs pygls") and (
        "[lsp]" in outcome.stderr
    )
