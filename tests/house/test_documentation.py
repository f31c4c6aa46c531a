"""The documentation's examples are run, and public names have docstrings."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_in_process
from tests.generated_tables import STUB, pages, renewed, stub

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST_README = 120
LONGEST_SENTENCE = 40
SOURCES = sorted(
    path
    for folder in ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
    for path in (ROOT / folder).rglob("*.py")
)
_BLOCK = re.compile(r"^```(?P<language>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def texts(language: str) -> dict[str, str]:
    """The code blocks of a language by document and line."""
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            if match["language"] == language:
                line = text.count("\n", 0, match.start()) + 2
                found[f"{document.name}:{line}"] = match["text"]
    return found


def blocks(language: str) -> list[object]:
    """The same as parameters of a test."""
    return [pytest.param(text, id=name) for name, text in texts(language).items()]


@pytest.mark.parametrize("text", blocks("mgn"))
def test_an_mgn_block_compiles_to_kernels(text: str) -> None:
    import mgn

    module = mgn.parse(text)
    for graph in module.graphs:
        assert mgn.optimize(module, graph).report.kernels


@pytest.mark.parametrize("text", blocks("python"))
def test_a_python_block_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mgn.dialects.mgn.user_operations import USER_OPERATIONS, forget_operation
    from mgn.passes.saturate.rules import table as rules

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))
    exec(compile(text, "<documentation>", "exec"), {"__name__": "documentation"})
    for name in list(USER_OPERATIONS):
        forget_operation(name)


@pytest.mark.parametrize("text", blocks("console"))
def test_a_console_block_prints_what_it_shows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that begin with `$ ` are commands; the lines below are the output, `…` any text."""
    monkeypatch.chdir(ROOT)
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        outcome = run_in_process(main_of(command), shlex.split(command)[1:])
        assert outcome.status == 0, outcome.stderr
        place = 0
        for piece in shown.strip().split("…"):
            found = outcome.stdout.find(piece, place)
            assert found >= 0, f"not printed: {piece}\n{outcome.stdout[:4000]}"
            place = found + len(piece)


def spans() -> list[str]:
    """What README and the page on usage write in their text as options of `mgn-opt`."""
    pages = (ROOT / "README.md", ROOT / "docs" / "usage.md")
    text = "".join(_BLOCK.sub("", page.read_text(encoding="utf-8")) for page in pages)
    return [
        found
        for found in re.findall(r"`(?:mgn-opt )?(-[pt] [^`]+)`", text)
        if not re.search(r" [A-Z]+$", found)
    ]


@pytest.mark.parametrize("options", spans())
def test_options_in_the_text_do_on_a_program_what_they_say(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mgn.commands import opt

    monkeypatch.chdir(tmp_path)
    Path("mlp.mgn").write_text(next(iter(texts("mgn").values())), encoding="utf-8")
    outcome = run_in_process(opt.main, ["mlp.mgn", *shlex.split(options)])
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout or Path(shlex.split(options)[-1]).stat().st_size


def main_of(command: str):
    """The main function of a command line."""
    from mgn.commands import fmt, generate, opt, run, train

    modules = {"opt": opt, "run": run, "train": train, "generate": generate, "fmt": fmt}
    commands = {f"mgn-{name}": module.main for name, module in modules.items()}
    return commands[command.split()[0]]


def test_documents_name_files_that_exist() -> None:
    for document in (*DOCUMENTS, *(ROOT / "examples").rglob("*.md")):
        text = re.sub("`[^`\n]*`", "", _BLOCK.sub("", document.read_text(encoding="utf-8")))
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_tables_of_the_pages_say_what_the_code_says() -> None:
    stale = [
        page.name for page in pages() if renewed(text := page.read_text(encoding="utf-8")) != text
    ]
    if STUB.read_text(encoding="utf-8") != stub():
        stale.append(STUB.name)
    assert not stale, "renew them by `python -m tests.generated_tables`"


def test_the_readme_is_read_in_a_few_minutes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_README


def test_pages_name_source_files_that_exist() -> None:
    """A path in code quotes, as `passes/schedules/choose.py`, is one of the checkout."""
    for document in DOCUMENTS:
        text = _BLOCK.sub("", document.read_text(encoding="utf-8"))
        for path in re.findall(r"`([a-z_]+/[\w/.-]*?[\w/])`", text):
            top = path.split("/")[0]
            if (ROOT / top).is_dir() and not (ROOT / path).exists():
                raise AssertionError(f"{document.name}: {path}")


def test_code_names_source_files_that_exist() -> None:
    """`runtime/cache.py` in code quotes is a file of the checkout, `cache.py` one of any folder."""
    files = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    names = {path.name for path in files}
    for file in files:
        for path in re.findall(r"`([\w/]+\.py)`", file.read_text(encoding="utf-8")):
            found = path in names or (ROOT / path).exists()
            assert found or file == Path(__file__), f"{file.relative_to(ROOT)}: {path}"


def public_definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Public classes and functions of a module; an overload is documented where it is defined."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        if not any(ast.unparse(item) == "overload" for item in node.decorator_list):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    missing = [node.name for node in public_definitions(tree) if not ast.get_docstring(node)]
    assert not missing


_PARAGRAPHS = re.compile(r"\n\s*\n|\n(?=\s*- )")
_SENTENCES = re.compile(r"(?<=[.:;!?])\s+(?=[A-Z`])")
_WORD = re.compile(r"[\w`'-]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a docstring; tables and IR have none."""
    for paragraph in _PARAGRAPHS.split(text):
        lines = [line.strip() for line in paragraph.splitlines()]
        if not any("  " in line or "%" in line or "```" in line for line in lines):
            yield from _SENTENCES.split(" ".join(lines))


def docstrings_of(path: Path) -> list[str]:
    """The texts that stand by themselves in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_show_bytes_as_they_are_written(path: Path) -> None:
    """A backslash of a docstring is written twice, or it makes a control character."""
    assert not [text for text in docstrings_of(path) if _CONTROL.search(text)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_of_a_docstring_is_very_long(path: Path) -> None:
    sentences = [item for text in docstrings_of(path) for item in sentences_of(text)]
    assert not [item for item in sentences if len(_WORD.findall(item)) > LONGEST_SENTENCE]


def test_a_very_long_sentence_is_found() -> None:
    words = "word " * LONGEST_SENTENCE
    assert list(sentences_of(f"A {words.strip()}. Another one.")) == [
        f"A {words.strip()}.",
        "Another one.",
    ]
