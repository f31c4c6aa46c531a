"""Who may import whom: DESIGN's table, read from every file's imports."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

STANDARD = sys.stdlib_module_names
NUMERIC = {"numpy", "ml_dtypes"}

ALLOWED: dict[str, set[str]] = {
    "dialects": {"xdsl", *NUMERIC, "mgn.dialects", "mgn.diagnostics"},
    "frontend": {"xdsl", *NUMERIC, "lark", "mgn.dialects", "mgn.diagnostics", "mgn.frontend"},
    "passes": {"xdsl", *NUMERIC, "mgn.dialects", "mgn.diagnostics", "mgn.passes"},
    "codegen": {"xdsl", *NUMERIC, "mgn.dialects", "mgn.diagnostics", "mgn.codegen"},
    "runtime": {
        *NUMERIC,
        "pyopencl",
        "platformdirs",
        "safetensors",
        "mgn.codegen.device_barrier",
        "mgn.codegen.signature",
        "mgn.codegen.launch_plan",
        "mgn.diagnostics",
        "mgn.dialects.block_formats",
        "mgn.dialects.checks",
        "mgn.runtime",
        "mgn.tasks",
        "mgn.version",
    },
    "mgn": {"xdsl", *NUMERIC, "mgn"},
}
"""What the files of each folder may import, besides the standard library."""

EXTRA = {
    "passes/saturate": {"egglog", "highspy"},
    "passes/rematerialise": {"highspy"},
    "mgn": {"z3"},
    "mgn/training": {"safetensors"},
    "mgn/distributed": {"mpi4py"},
    "mgn/text": {"tokenizers"},
    "mgn/lsp": {"lsprotocol", "pygls"},
    "mgn/onnx_backend.py": {"onnx"},
}
"""What the files of one folder, or one file, may import besides."""

LAYERS: dict[str, set[str]] = {
    "passes/kernels": {"schedules", "arrangements", "saturate", "lower_kernels"},
    "passes/schedules": {"arrangements", "saturate", "lower_kernels"},
    "passes/arrangements": {"saturate", "lower_kernels"},
    "passes/lower_kernels": {"arrangements", "saturate", "schedules.choose_schedules"},
    "passes/saturate": {"lower_kernels", "schedules.choose_schedules"},
}
"""What of `mgn.passes` the files of a sub-package never import, in functions neither: bodies of
kernels come first, then schedules, then arrangements and what prices them; what lowers kernels sees
bodies and schedules alone.
"""

ORDERED: dict[str, tuple[str, ...]] = {
    "passes/lower_kernels": (
        "core",
        "staging",
        "reduction",
        "scan",
        "scatter",
        "order",
        "update",
        "recurrence",
        "product",
        "attention",
        "attention_gradient",
        "pointwise",
    ),
    "passes/saturate": (
        "encoding",
        "rules",
        "egraph",
        "prices",
        "candidates",
        "horizontal_fusion",
        "extraction",
        "explain",
        "sharing",
        "layouts",
    ),
}
"""The sub-packages of a pass, in an order in which each imports from itself and those before it."""

SLOW = {"egglog", "highspy", "mpi4py", "pyopencl", "tokenizers", "torch", "z3"}
"""Packages that are imported inside functions only: they take long, or may be missing."""

FILES = sorted(path for folder in ALLOWED for path in (ROOT / folder).rglob("*.py"))


@dataclass(frozen=True)
class Statement:
    """An import: the module, the names that are taken from it, and where it stands."""

    module: str
    names: tuple[str, ...]
    line: int
    at_the_top: bool


@cache
def statements(text: str) -> tuple[Statement, ...]:
    """The imports of a source, also those in functions, and for types alone."""
    tree = ast.parse(text)
    found: list[Statement] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            top = node in tree.body
            found += [Statement(item.name, (), node.lineno, top) for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            names = tuple(item.name for item in node.names)
            found.append(Statement(node.module or "", names, node.lineno, node in tree.body))
    return tuple(found)


def imports_of(path: Path, at_the_top: bool = False) -> Iterator[tuple[str, int]]:
    """The modules that a file imports, with their lines; only at its top, if asked for."""
    for item in statements(path.read_text(encoding="utf-8")):
        if at_the_top and not item.at_the_top:
            continue
        parts = item.names if item.module == "mgn" else ()
        for module in [f"mgn.{name}" for name in parts] or [item.module]:
            yield module, item.line


def is_allowed(module: str, allowed: set[str]) -> bool:
    """Whether a module is one of the allowed ones or lies in one."""
    return module.split(".")[0] in STANDARD or any(
        module == name or module.startswith(f"{name}.") for name in allowed
    )


def allowed_for(path: Path) -> set[str]:
    """What a file may import."""
    relative = path.relative_to(ROOT)
    found = set(ALLOWED[relative.parts[0]])
    for folder, more in EXTRA.items():
        if relative.is_relative_to(folder):
            found |= more
    return found


OURS = {"mgn", "benchmarks", "tests", "distributions"}
"""The packages of the checkout, of which those beside `mgn` are run by hand."""


@pytest.mark.parametrize("folder", sorted(OURS))
def test_every_module_of_ours_that_is_imported_is_there(folder: str) -> None:
    missing = [
        f"{path.relative_to(ROOT)}, line {line}: {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, line in imports_of(path)
        if name.split(".")[0] in OURS
        for place in [ROOT.joinpath(*name.split("."))]
        if not place.is_dir() and not place.with_suffix(".py").exists()
    ]
    assert not missing


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_its_folder_may(path: Path) -> None:
    allowed = allowed_for(path)
    foreign = [
        f"line {line}: {name}" for name, line in imports_of(path) if not is_allowed(name, allowed)
    ]
    assert not foreign
    at_the_top = [name for name, _ in imports_of(path, at_the_top=True)]
    assert not [name for name in at_the_top if name.split(".")[0] in SLOW]


@pytest.mark.parametrize("folder", LAYERS)
def test_a_sub_package_imports_only_layers_below_it(folder: str) -> None:
    above = {f"mgn.passes.{name}" for name in LAYERS[folder]}
    found = {
        f"{path.name}:{line}: {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, line in imports_of(path)
        if any(name == module or name.startswith(f"{module}.") for module in above)
    }
    assert not found


@pytest.mark.parametrize("folder", ORDERED)
def test_sub_packages_import_only_those_before_them(folder: str) -> None:
    whole, order = f"mgn.{folder.replace('/', '.')}", ORDERED[folder]
    inside = {path.name for path in (ROOT / folder).iterdir() if (path / "__init__.py").is_file()}
    assert inside == set(order)
    for number, name in enumerate(order):
        below = {f"{whole}.{item}" for item in order[: number + 1]}
        for path in sorted((ROOT / folder / name).rglob("*.py")):
            for module, line in imports_of(path):
                if module == whole or module.startswith(f"{whole}."):
                    assert is_allowed(module, below), f"{path.name}:{line}: {module}"


def module_of(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    inside = parts[1:] if parts[0] == "mgn" else parts
    return ".".join(["mgn", *inside]).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def modules_imported(path: Path) -> set[str]:
    """The modules of mgn that a file imports: also in functions, and for types alone."""
    found: set[str] = set()
    for item in statements(path.read_text(encoding="utf-8")):
        parts = {f"{item.module}.{name}" for name in item.names}
        inside = parts & MODULES.keys()
        found |= inside | ({item.module} if not parts or len(inside) < len(parts) else set())
    return found & MODULES.keys() - {module_of(path)}


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes of a cycle, from one to itself; none where there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_files_do_not_import_one_another_in_a_circle() -> None:
    assert not cycle_in({name: modules_imported(path) for name, path in MODULES.items()})


APART = {
    "mgn.diagnostics",
    "mgn.codegen.signature",
    "mgn.codegen.launch_plan",
    "mgn.dialects.block_formats",
    "mgn.dialects.checks",
    "mgn.tasks",
    "mgn.version",
}
"""Files that folders below theirs may import, as the table says: each counts as a folder."""


def folder_of(module: str) -> str:
    """The folder in which a module lies."""
    return module if module in APART else str(MODULES[module].parent.relative_to(ROOT))


def test_folders_do_not_import_one_another_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        if path.name == "__init__.py":  # which offers what its sub-packages hold
            continue
        found = {folder_of(module) for module in modules_imported(path) if module != "mgn"}
        graph.setdefault(folder_of(name), set()).update(found - {folder_of(name)})
    assert not cycle_in(graph)


def test_a_circle_is_found_wherever_its_imports_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = "def f():\n    from mgn.dialects import types\n"
    typed = "if TYPE_CHECKING:\n    from mgn.dialects.types import ElementType\n"
    for text in (lazy, typed, "import mgn.dialects.types\n"):
        monkeypatch.setattr(Path, "read_text", lambda *_, text=text, **__: text)
        assert modules_imported(MODULES["mgn.dialects.shapes"]) == {"mgn.dialects.types"}
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not cycle_in({"a": {"b", "c"}, "b": {"c"}})


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some code."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def test_importing_mgn_loads_no_heavy_package() -> None:
    assert not loaded_after("import mgn") & {"egglog", "pyopencl", "xdsl", "numpy", "lark"}


def test_optimizing_loads_no_opencl() -> None:
    code = 'import mgn\nmgn.optimize(mgn.parse("graph g(x: f32[4]) { y = relu(x)\\n return y }"))'
    loaded = loaded_after(code)
    assert "egglog.bindings" in loaded
    assert not loaded & {"egglog", "pyopencl"}


@pytest.mark.parametrize("name", ["passes", "dialects", "codegen", "runtime", "frontend"])
def test_a_subpackage_can_be_imported_on_its_own(name: str) -> None:
    loaded = loaded_after(f"import mgn.{name}")
    assert f"mgn.{name}" in loaded
    assert not loaded & {"egglog", "pyopencl"}


def test_no_test_module_changes_where_modules_are_found() -> None:
    """One that puts tests/ there hides examples/ from those that are collected after it."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert not [path for path in paths if "sys.path." in path.read_text(encoding="utf-8")]
