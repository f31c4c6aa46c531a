"""The TextMate grammar against the compiler's own lexer: both cut a text into the same pieces."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mgn.dialects.types import ELEMENT_TYPES
from mgn.frontend.lowering.calls import COMPILE_TIME
from mgn.frontend.syntax.parser import lexer
from mgn.lsp.operation_help import KEYWORDS, MEMBERS
from tests.conftest import ROOT

FOLDER = ROOT / "editors" / "vscode"
GRAMMAR = json.loads((FOLDER / "syntaxes" / "mgn.tmLanguage.json").read_text(encoding="utf-8"))
PROGRAMS = sorted((ROOT / "examples").rglob("*.mgn"))

SCOPES = {
    "STRING": "string",
    "INT": "constant.numeric",
    "FLOAT": "constant.numeric",
    **dict.fromkeys(("TRUE", "FALSE", "NONE", "INF", "NAN"), "constant.language"),
    **dict.fromkeys(("AND", "OR", "NOT"), "keyword.operator.logical"),
    **dict.fromkeys(("FOR", "IN", "IF", "ELSE", "RETURN", "SCOPE"), "keyword.control"),
    **dict.fromkeys(("CONST", "FN", "GRAPH", "PARAM", "STATE", "AS"), "keyword.declaration"),
    "IMPORT": "keyword.control.import",
    "WRITE": "keyword.operator.assignment",
    "EQUAL": "keyword.operator.assignment",
    "COMPARE": "keyword.operator.comparison",
    "RANGE": "keyword.operator.range",
    **dict.fromkeys(("PLUS", "MINUS", "STAR", "SLASH", "AT"), "keyword.operator.arithmetic"),
}
"""What begins the scope of each terminal."""

Rule = tuple[dict[str, Any], "re.Pattern[str]"]


@cache
def rules(name: str) -> tuple[Rule, ...]:
    """The rules of a part of the grammar, those of the parts that it includes in their place."""
    found: list[Rule] = []
    part = GRAMMAR["repository"][name]
    for rule in part["patterns"] if "match" not in part and "begin" not in part else [part]:
        if "include" in rule:
            found += rules(rule["include"].removeprefix("#"))
        else:
            found.append((rule, re.compile(rule.get("match") or rule["begin"], re.MULTILINE)))
    return tuple(found)


def colours(text: str) -> Iterator[tuple[int, int, str]]:
    """The pieces of a text with their scopes, as an editor applies rules: first place, then rank.

    Of a string or a comment that is one piece; the lines of the language do not nest further.
    """
    position = 0
    while position < len(text):
        best: tuple[re.Match[str], dict[str, Any]] | None = None
        for rule, pattern in rules("code"):
            match = pattern.search(text, position)
            if match is not None and (best is None or match.start() < best[0].start()):
                best = match, rule
        if best is None:
            return
        match, rule = best
        end = match.end()
        if "begin" in rule:
            inside = [re.compile(item["match"]) for item in rule.get("patterns", ())]
            close = re.compile(rule["end"], re.MULTILINE)
            while (last := close.match(text, end)) is None and end < len(text):
                skipped = next((m for p in inside if (m := p.match(text, end))), None)
                end = skipped.end() if skipped is not None else end + 1
            end = last.end() if last is not None else end
        for number, capture in rule.get("captures", {}).items():
            yield *match.span(int(number)), capture["name"]
        if "captures" not in rule:
            yield match.start(), end, rule["name"]
        position = max(end, position + 1)


@pytest.mark.parametrize("path", PROGRAMS[::3], ids=lambda path: path.name)
def test_a_program_has_the_pieces_that_the_lexer_gives(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    scopes = {(begin, end): scope for begin, end, scope in colours(text)}
    for token in lexer().tokens(text):
        begin = starts[token.line - 1] + token.column - 1
        wanted = SCOPES.get(token.type)
        if wanted is not None:
            assert scopes.get((begin, begin + len(token)), "").startswith(wanted), token
        elif token.type == "NAME":
            assert scopes.get((begin, begin + len(token))), token


def scope_of(text: str, piece: str) -> str:
    """The scope of a piece of a text."""
    begin = text.index(piece)
    return {(b, e): scope for b, e, scope in colours(text)}.get((begin, begin + len(piece)), "")


def test_all_words_of_the_language_have_colours() -> None:
    for word in KEYWORDS:
        assert scope_of(f" {word} ", word).startswith(("keyword", "constant.language")), word
    for name in ELEMENT_TYPES:
        assert scope_of(f"x: {name}[2]", name) == "support.type.mgn", name
    for name in COMPILE_TIME:
        assert scope_of(f"fn f(n: {name} = 1)", name) == "support.type.mgn", name
    for name in MEMBERS:
        assert scope_of(f"x.{name}", name) == "variable.other.property.mgn", name


def test_pieces_are_told_apart_by_what_stands_around_them() -> None:
    assert scope_of("y = relu(x)", "relu") == "entity.name.function.call.mgn"
    assert scope_of("y = f(x, axis = 1)", "axis") == "variable.parameter.mgn"
    assert scope_of("axis = 1", "axis") == "variable.other.mgn"
    assert scope_of("fn dense(x)", "dense") == "entity.name.function.mgn"
    assert scope_of('x = "a // {i} \\" b" + 1', '"a // {i} \\" b"') == "string.quoted.double.mgn"
    assert scope_of("/* a\n// b */ x", "/* a\n// b */") == "comment.block.mgn"
    assert scope_of("for_each = 1", "for_each") == "variable.other.mgn"
    for number in ("0x1F", "1.5", "1e-5", "12", ".5", "1_000"):
        assert scope_of(f"x = {number} * y", number).startswith("constant.numeric"), number


def test_the_extension_names_files_and_settings_that_exist() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    offered = package["contributes"]
    named = [package["main"], *(item["configuration"] for item in offered["languages"])]
    named += [item["path"] for item in offered["grammars"]]
    assert all((FOLDER / name).is_file() for name in named)
    json.loads((FOLDER / "language-configuration.json").read_text(encoding="utf-8"))
    code = (FOLDER / "extension.js").read_text(encoding="utf-8")
    settings = [name.removeprefix("mgn.") for name in offered["configuration"]["properties"]]
    assert sorted(re.findall(r'get\("(\w+)"\)', code)) == sorted(settings)
    assert offered["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
