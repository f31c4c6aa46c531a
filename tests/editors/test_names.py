"""What the server knows of a text: names, types, messages, cursors; without the protocol."""

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp

from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.dialects.mgn.structure import GraphOp, ReadOp
from mgn.dialects.types import spelling
from mgn.frontend.observed import MOST_VALUES, Cancelled, observe
from mgn.frontend.program import parse
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.parser import parse_text
from mgn.frontend.syntax.source import Source
from mgn.lsp.completion import completions, signature
from mgn.lsp.cursor import Wanted, cursor_at
from mgn.lsp.documents import Document, Documents, Target
from mgn.lsp.hover import hints, hover, values_at
from mgn.lsp.outline import outline, pieces
from mgn.lsp.positions import Positions
from mgn.lsp.problems import problems_of
from mgn.lsp.reader import read_names
from mgn.lsp.renaming import rename
from mgn.lsp.symbols import Kind, Role, Symbol
from tests.conftest import ROOT
from tests.fuzz.bad_inputs.text_mutations import mutate, tokens_of

EXAMPLES = {
    str(path.relative_to(ROOT)): path for path in sorted((ROOT / "examples").rglob("*.mgn"))
}
LARGE = {
    "examples/llama.mgn",
    *(f"examples/models/{name}.mgn" for name in ("unet", "whisper", "mobilenet_v2", "gemma2")),
}
"""Those whose modules take long to make."""

SMALL = [name for name, path in EXAMPLES.items() if path.stat().st_size < 1700]


def opened(path: Path, text: str) -> tuple[Documents, Document]:
    """A text as an editor has it open, when the compiler has looked at it."""
    documents = Documents()
    document = Document(path.as_uri(), path, text)
    documents.open[document.uri] = document
    document.observed = documents.observe(document, text, Event())
    document.observed_text = text
    return documents, document


def text_of(name: str) -> str:
    """An example with few layers: more of them are alike."""
    text = EXAMPLES[name].read_text(encoding="utf-8")
    return re.sub(r"(LAYERS|num_hidden_layers|BLOCKS) = \d+", r"\1 = 2", text)


def lowered(text: str, path: Path) -> ModuleOp:
    """The module that the compiler makes of a text."""
    return parse(text, str(path), path).lower()


def types_by_place(module: ModuleOp, file: str) -> dict[tuple[int, int], set[str]]:
    """The types of what operations give, by the place of the text that they come from."""
    found: dict[tuple[int, int], set[str]] = {}
    for op in module.walk():
        place = op.location
        if isinstance(place, FileLineColLoc) and place.filename.data == file and op.results:
            key = place.line.data, place.column.data
            found.setdefault(key, set()).add(spelling(op.results[0].type))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_names_have_the_types_that_the_compiler_infers(name: str) -> None:
    path, text = EXAMPLES[name], text_of(name)
    documents, document = opened(path, text)
    assert document.observed is not None and not document.observed.diagnostics
    if document.observed.trial or "graph" not in text or name in LARGE:
        return
    module = lowered(text, path)
    reading = documents.reading(document.source)
    at = {item.place: item for item in reading.occurrences}
    made = types_by_place(module, str(path))
    block, _ = parse_text(document.source)
    checked = 0
    for node in ast.walk(block):
        if not isinstance(node, ast.Assign) or len(node.names) > 1:
            continue
        call, place = node.values[0], node.names[0][1]
        if isinstance(call, ast.Call) and call.place in made and call.name != "split":
            seen = values_at(documents, document, at[place])
            assert set(seen) <= made[call.place] and seen, f"{node.names[0]}"
            found = hover(documents, document, place)
            assert found is not None and all(item in found.text for item in seen[:4])
            checked += 1
    for graph in (op for op in module.ops if isinstance(op, GraphOp)):
        symbol = reading.globals[graph.sym_name.data]
        given = [values_at(documents, document, one.occurrences[0])[0] for one in symbol.formals]
        assert given == [spelling(type) for type in graph.body.block.arg_types]
    for op in module.walk():
        if isinstance(op, ReadOp) and isinstance(op.location, FileLineColLoc):
            place = op.location.line.data, op.location.column.data
            if op.location.filename.data == str(path):
                values = values_at(documents, document, at[place])
                assert spelling(op.result.type) in values or len(values) > MOST_VALUES
    assert checked or len(text) < 1200


def texts() -> list[str]:
    """Texts to be broken."""
    return [text_of(name) for name in SMALL]


def broken(count: int) -> Iterator[tuple[int, str]]:
    """Texts that were cut off or changed, with their numbers."""
    rng = random.Random(8)
    pool = [tokens_of(text) for text in texts()]
    for number in range(count):
        text = rng.choice(texts())
        if number % 3 == 0:
            yield number, text[: rng.randrange(len(text))]
        else:
            yield number, mutate(rng, text, pool)


def test_a_broken_text_has_the_errors_of_the_compiler_and_all_answers() -> None:
    path = ROOT / "examples" / "models" / "none.mgn"
    rng = random.Random(9)
    for number, text in broken(21):
        errors: list[object] = []
        try:
            parse(text, str(path), path)
        except DiagnosticsError as error:
            errors = [item for item in error.diagnostics if "defines nothing" not in item.message]
        documents, document = opened(path, text)
        observed = document.observed
        assert observed is not None
        assert [item for item in observed.diagnostics if item.severity == "error"] == errors
        reading = documents.reading(document.source)
        for problem in problems_of(observed, reading):
            assert problem.begin < problem.end
        positions = Positions(text)
        for _ in range(6):
            offset = rng.randrange(len(text) + 1)
            place = positions.place_at(offset)
            hover(documents, document, place)
            completions(documents, document, offset, place)
            signature(documents, document, offset)
        list(hints(documents, document, 1, 1000))
        list(outline(reading))
        assert pieces(reading) == sorted(pieces(reading), key=lambda item: item.place), number


def test_reading_stops_where_nobody_waits() -> None:
    stop = Event()
    stop.set()
    documents = Documents()
    document = Document("file:///none.mgn", None, "graph g() { x = 1 }")
    with pytest.raises(Cancelled):
        documents.observe(document, document.text, stop)


def test_places_are_those_of_the_protocol_in_every_encoding() -> None:
    text = '/* 😀é */ x = "ß😀" + y\r\n\r\n😀\rz\n\ud800a'
    for encoding in ("utf-8", "utf-16", "utf-32"):
        positions = Positions(text, encoding)
        for offset in range(len(text) + 1):
            if text[offset - 1 : offset + 1] == "\r\n":
                continue
            line, character = positions.position_at(offset)
            assert positions.offset(line, character) == offset
            assert positions.position(positions.place_at(offset)) == (line, character)
    assert Positions(text).position_at(text.index("y")) == (0, 22)
    assert Positions(text, "utf-8").position_at(text.index("y")) == (0, 28)
    assert Positions(text).position_at(text.index("z")) == (3, 0)
    assert Positions(text).place(99, 99) == (4, 3)
    assert Positions(text).place(0, 10_000) == (1, 22)


NAMES = """\
const A = 2
fn f(x, n: int = A) {
  param w: f32[n] as "w{n}" = ones()
  if n == 2 { y = x * w
    x = y } else { y = x }
  return x
}
graph g[A = 3](x: f32[A]) {
  y = f(x, n = A)
  for i in 0..A { scope "{i}" { y = f(y, n = A) } }
  return y, z = y
}
"""


def test_names_mean_what_the_language_says() -> None:
    reading = read_names(NAMES)
    meant = {
        (item.name, item.place[0]): item.symbol.place[0]
        for item in reading.occurrences
        if item.symbol is not None
    }
    expected = {("A", 2): 1, ("A", 8): 8, ("A", 9): 8, ("n", 3): 2, ("n", 9): 2, ("n", 10): 2}
    expected |= {("f", 9): 2, ("x", 5): 2, ("x", 9): 8, ("y", 10): 9, ("i", 10): 10, ("y", 11): 9}
    assert {key: meant[key] for key in expected} == expected
    ys = [item.symbol for item in reading.occurrences if item.name == "y" and item.place[0] < 6]
    assert len({id(symbol) for symbol in ys}) == 2
    visible = [symbol.name for symbol in reading.visible((10, 1))]
    assert visible == ["A", "x", "y", "A", "f", "g"]


def test_a_parameter_shows_what_files_of_weights_call_it() -> None:
    text = (
        "fn f(x) {\n  param w: f32[4] = ones()\n  state s: f32[4]\n  return x * w + s\n}\n"
        'graph g(x: f32[4]) { for i in 0..6 { scope "l.{i}" { x = f(x) } }\n return x }'
    )
    documents, document = opened(ROOT / "names.mgn", text)
    for place, name in (((2, 9), "w"), ((4, 14), "w"), ((4, 18), "s")):
        found = hover(documents, document, place)
        names = ", ".join(f"`l.{i}.{name}`" for i in range(4))
        assert found is not None and f"External name: {names}, … (6)" in found.text


def symbols_of(text: str) -> list[Symbol]:
    """What a text declares."""
    found = [item.symbol for item in read_names(text).occurrences if item.role is Role.DECLARES]
    return [item for item in found if item is not None]


@pytest.mark.parametrize("name", ["examples/models/vit.mgn", "examples/digits/digits.mgn"])
def test_a_program_is_the_same_by_other_names(name: str) -> None:
    path = EXAMPLES[name]
    text = text_of(name)
    module = lowered(text, path)
    symbols = symbols_of(text)
    for number, symbol in enumerate(symbols):
        if symbol.kind in (Kind.GRAPH, Kind.INPUT) or number % 8:
            continue
        documents, document = opened(path, text)
        target = Target(symbols_of(text)[number], document.source)
        (edits,) = rename(documents, target, "another_name", []).values()
        positions = Positions(text)
        changed = text
        for edit in sorted(edits, key=lambda item: item.begin, reverse=True):
            begin = positions.offset(*positions.position(edit.begin))
            end = positions.offset(*positions.position(edit.end))
            changed = changed[:begin] + edit.text + changed[end:]
        assert lowered(changed, path).is_structurally_equivalent(module), symbol.name


def test_a_name_that_is_taken_or_is_none_is_refused() -> None:
    documents, document = opened(ROOT / "names.mgn", NAMES)
    reading = documents.reading(document.source)
    target = Target(reading.globals["f"], document.source)
    for name, said in (
        ("2x", "is no name"),
        ("for", "is a word"),
        ("f32", "is a word"),
        ("relu", "is an operation"),
        ("g", "is a graph already"),
        ("y", "in line 4"),
        ("é", "is no name"),
    ):
        with pytest.raises(MgnError, match=said):
            rename(documents, target, name, [])


@pytest.mark.parametrize(
    ("before", "wanted", "word"),
    [
        ("", Wanted.DECLARATION, ""),
        ("const A = 1\ngr", Wanted.DECLARATION, "gr"),
        ("graph g(x: f", Wanted.TYPE, "f"),
        ("fn f(x: ", Wanted.TYPE, ""),
        ("fn f(x) {\n  re", Wanted.STATEMENT, "re"),
        ("fn f(x) { y = re", Wanted.EXPRESSION, "re"),
        ("fn f(x) { y = x.", Wanted.MEMBER, ""),
        ("fn f(x) { y = x[1:", Wanted.EXPRESSION, ""),
        ("fn f(x) { param w: f32[2] = he", Wanted.INITIALISER, "he"),
        ("fn f(x) { // re", Wanted.NOTHING, ""),
        ("fn f(x) { y = 1 /* re", Wanted.NOTHING, ""),
        ('fn f(x) { y = "re', Wanted.NOTHING, ""),
        ('fn f(x) { y = "a//b{re', Wanted.EXPRESSION, "re"),
        ('import "pa', Wanted.FILE, "pa"),
        ("fn ", Wanted.NOTHING, ""),
        ("fn f(x) { y = 12", Wanted.NOTHING, ""),
    ],
)
def test_the_cursor_knows_what_is_wanted(before: str, wanted: Wanted, word: str) -> None:
    found = cursor_at(before + " after", len(before))
    assert (found.wanted, found.word) == (wanted, word)


def test_a_call_knows_its_argument() -> None:
    for before, expected in (
        ("fn f(x) { y = softmax(", ("softmax", 0, None)),
        ("fn f(x) { y = softmax(f(a, b)[1, 2],\n  ", ("softmax", 1, None)),
        ("fn f(x) { y = softmax(x, axis = (1 + ", ("softmax", 1, "axis")),
        ("fn f(x) { y = softmax(concat([x, ", ("concat", 0, None)),
    ):
        call = cursor_at(before, len(before)).call
        assert call is not None and (call.name, call.position, call.argument) == expected


@pytest.mark.usefixtures("without_old_objects")
def test_a_long_text_is_read_in_time_in_proportion_to_its_length() -> None:
    def seconds(count: int) -> float:
        body = "".join(f"  x = relu(x) * {number}.0  // one of many\n" for number in range(count))
        text = f"graph g(x: f32[4]) {{\n{body}  return x\n}}\n"
        began = time.process_time()
        reading = read_names(text)
        assert reading.at((count // 2, 12)) is not None
        assert cursor_at(text, len(text) // 2).wanted is not None
        return time.process_time() - began

    seconds(100)
    short, long = (min(seconds(count) for _ in range(3)) for count in (2_400, 9_600))
    assert long < 8 * short


def test_sizes_that_nobody_bound_are_tried_without_errors() -> None:
    text = "graph g[S](x: f32[S, 3]) { y = reshape(x, [7, -1]); z = x.T; return z, y }"
    seen = observe(Source(text))
    assert not seen.diagnostics and seen.trial == {"S": 64}
    place = (1, text.index("z = ") + 1)
    assert seen.at("<input>", place) == ["f32[3, 64]"]
    seen = observe(Source(text), {"S": 8})
    assert len(seen.diagnostics) == 1 and seen.at("<input>", place) == ["f32[3, 8]"]
