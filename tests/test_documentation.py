"""The documentation's examples are run, and public names have docstrings."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_in_process

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SOURCES = sorted(
    path
    for folder in ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
    for path in (ROOT / folder).rglob("*.py")
)
_BLOCK = re.compile(r"^```(?P<language>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[object]:
    """The code blocks of a language, as parameters named by document and line."""
    found: list[object] = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            if match["language"] == language:
                line = text.count("\n", 0, match.start()) + 2
                found.append(pytest.param(match["text"], id=f"{document.name}:{line}"))
    return found


@pytest.mark.parametrize("text", blocks("mgn"))
def test_an_mgn_block_compiles_to_kernels(text: str) -> None:
    import mgn

    module = mgn.parse(text)
    for graph in module.graphs:
        assert mgn.optimize(module, graph).report.kernels


@pytest.mark.parametrize("text", blocks("python"))
def test_a_python_block_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mgn.dialects.mgn.user_operations import USER_OPERATIONS, forget_operation
    from mgn.passes.saturate import rules

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
        pattern = ".*?".join(re.escape(piece) for piece in shown.strip().split("…"))
        assert re.search(pattern, outcome.stdout, re.DOTALL), outcome.stdout


def main_of(command: str):
    """The main function of a command line."""
    from mgn.commands import opt, run

    return {"mgn-opt": opt.main, "mgn-run": run.main}[command.split()[0]]


def test_documents_name_files_that_exist() -> None:
    for document in DOCUMENTS:
        text = _BLOCK.sub("", document.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (ROOT / target).exists(), f"{document.name}: {target}"


def public_definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Public classes and functions of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    missing = [node.name for node in public_definitions(tree) if not ast.get_docstring(node)]
    assert not missing
