"""The package list against the disk, and the house rules that can be counted."""

import re
import subprocess
import tokenize
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

from tests.conftest import ROOT

SOURCE_FOLDERS = ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = sorted(path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
ALL_FILES = sorted(
    path
    for folder in (*SOURCE_FOLDERS, "tests", "filecheck", "benchmarks", "distributions", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
TRACKED = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
).stdout.splitlines()
"""The files that are kept in the repository."""
FOLDERS = {
    *SOURCE_FOLDERS,
    ".ci",
    "tests",
    "filecheck",
    "benchmarks",
    "distributions",
    "examples",
    "docs",
    "editors",
}
TOP_FILES = {
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "mkdocs.yml",
    "pyproject.toml",
}
DATA = {".npz", ".png", ".safetensors"}
TEXTS = {".c", ".css", ".h", ".js", ".json", ".lark", ".md", ".mgn", ".mlir", ".toml", ".txt"}
NAMED = {".ci/run", "mgn/py.typed", *(f"mgn/{name}" for name in SOURCE_FOLDERS)}
LONGEST_FILE = 500
MOST_FILES = 25
DEBRIS = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b|/tmp/|/work/")


def package_of(folder: Path) -> str:
    """The dotted name of a source folder."""
    parts = folder.relative_to(ROOT).parts
    return ".".join(parts if parts[0] == "mgn" else ("mgn", *parts))


def test_a_folder_holds_few_files() -> None:
    folders = [Path(name).parent for name in TRACKED if name.endswith(".py")]
    assert not {str(item) for item in folders if folders.count(item) > MOST_FILES}


def test_all_that_is_on_disk_is_packaged() -> None:
    pattern = CONFIGURATION["tool"]["setuptools"]["packages"]["find"]["include"]
    on_disk = {package_of(path.parent) for path in SOURCES}
    assert set(find_packages(str(ROOT), include=pattern)) == on_disk


def test_each_source_folder_is_part_of_the_package_by_a_link() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "mgn").iterdir() if path.is_symlink()}
    assert links == {name: Path("..", name) for name in SOURCE_FOLDERS if name != "mgn"}


def test_the_commands_can_be_called() -> None:
    from importlib import import_module

    for target in CONFIGURATION["project"]["scripts"].values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("name", CONFIGURATION["project"]["scripts"])
def test_every_command_says_its_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from importlib import import_module

    import mgn

    module = import_module(CONFIGURATION["project"]["scripts"][name].partition(":")[0])
    assert module.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{name} {mgn.__version__}\n"


@pytest.mark.parametrize("target", CONFIGURATION["project"]["scripts"].values())
def test_the_module_of_a_command_is_the_command(target: str) -> None:
    module = ROOT / Path(*target.partition(":")[0].split(".")).with_suffix(".py")
    assert module.read_text().endswith('if __name__ == "__main__":\n    sys.exit(main())\n')


def test_what_says_how_mgn_is_installed_names_the_distribution_and_an_extra() -> None:
    project = CONFIGURATION["project"]
    told = re.compile(r"pip install '(\w[\w-]*)\[([\w-]+)\]'")
    texts = [*SOURCES, *(ROOT / name for name in TRACKED if name.endswith(".md"))]
    found = [item for path in texts for item in told.findall(path.read_text(encoding="utf-8"))]
    assert len(found) > 5
    for distribution, extra in found:
        assert distribution == project["name"] and extra in project["optional-dependencies"]


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    assert text.lstrip().startswith('"""'), "a file begins with its description"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_holds_no_debris(path: Path) -> None:
    with tokenize.open(path) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                assert not DEBRIS.search(token.string), f"line {token.start[0]}"


def test_every_file_that_is_kept_has_its_place() -> None:
    for name in TRACKED:
        top, *inner = name.split("/")
        assert top in (FOLDERS if inner else TOP_FILES), name
        known = Path(name).suffix in {".py", ".pyi", *DATA, *TEXTS} or name in NAMED | TOP_FILES
        assert known, f"{name}: of no kind that is kept"


@pytest.mark.parametrize("name", [item for item in TRACKED if Path(item).suffix in TEXTS])
def test_a_text_that_is_no_python_holds_no_debris(name: str) -> None:
    found = DEBRIS.search((ROOT / name).read_text(encoding="utf-8"))
    assert not found, found
