"""`python -m distributions.runtime [--out dist]`: the wheel of `mgn-runtime`, which runs packages.

In: the tree. Out: a wheel with the runtime and `mgn-run` alone. It needs numpy, pyopencl and two
small packages (bf16 and a place for caches), and none of what the compiler needs.
"""

import argparse
import base64
import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "mgn-runtime"
SUMMARY = "Runs packages that mgn-compiler made, on any OpenCL device"

FILES = (
    *("mgn/__init__.py", "mgn/diagnostics.py", "mgn/py.typed", "mgn/tasks.py", "mgn/version.py"),
    *("codegen/__init__.py", "codegen/launch_plan.py", "codegen/signature.py"),
    *("dialects/__init__.py", "dialects/block_formats.py", "dialects/checks.py"),
    "dialects/random_state.py",
    *("mgn/driver/__init__.py", "mgn/driver/precision.py", "mgn/driver/quantities.py"),
    "mgn/driver/residency.py",
    *("mgn/modules/__init__.py", "mgn/modules/files.py", "mgn/modules/random_arrays.py"),
    *("mgn/commands/__init__.py", "mgn/commands/run.py"),
    *(f"mgn/commands/actions/{name}.py" for name in ("__init__", "packaged", "results")),
    *(
        f"mgn/commands/options/{name}.py"
        for name in ("__init__", "checkpoints", "errors", "parsers")
    ),
    *("mgn/commands/printing/__init__.py", "mgn/commands/printing/devices.py"),
    "runtime/**/*.py",
)
"""What of the tree is in the wheel; a folder beside `mgn` is a part of it there."""

NEEDED = ("numpy", "pyopencl", "ml-dtypes", "platformdirs", "safetensors")
EXTRAS = ("cpu", "torch")
COMMANDS = ("mgn-run",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the wheel and prints its path."""
    parser = argparse.ArgumentParser(prog="python -m distributions.runtime", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder of the wheel")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"{build(out)}\n")
    return 0


def build(out: Path) -> Path:
    """The wheel in a folder; two of one tree have the same bytes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = version_of(ROOT)
    about = f"{NAME.replace('-', '_')}-{version}.dist-info"
    content = dict(files())
    content[f"{about}/METADATA"] = metadata(project, version).encode()
    content[f"{about}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: mgn\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    scripts = "".join(f"{name} = {project['scripts'][name]}\n" for name in COMMANDS)
    content[f"{about}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    content[f"{about}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    content[f"{about}/RECORD"] = record(content, f"{about}/RECORD").encode()
    path = out / f"{NAME.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in content.items():
            wheel.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def version_of(root: Path) -> str:
    """The version of the tree."""
    found = re.search(r'^VERSION = "(.+)"$', (root / "mgn/version.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def files() -> Iterator[tuple[str, bytes]]:
    """The files by their names in the wheel; `version.py` says which distribution it is."""
    for pattern in FILES:
        paths = sorted(ROOT.glob(pattern))
        assert paths, pattern
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            data = path.read_bytes()
            if name == "mgn/version.py":
                data = data.replace(b'"mgn-compiler"', f'"{NAME}"'.encode())
            yield name if name.startswith("mgn/") else f"mgn/{name}", data


def metadata(project: dict[str, object], version: str) -> str:
    """The wheel's METADATA; what it needs has the versions that the whole has."""
    dependencies, optional = project["dependencies"], project["optional-dependencies"]
    assert isinstance(dependencies, list) and isinstance(optional, dict)
    wanted = {re.split(r"[<>=]", item)[0]: item for item in dependencies}
    lines = [
        *("Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {version}", f"Summary: {SUMMARY}"),
        *(f"License-Expression: {project['license']}", "License-File: LICENSE"),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {wanted[name]}" for name in NEEDED),
    ]
    for extra in EXTRAS:
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {item}; extra == "{extra}"' for item in optional[extra]]
    text = "It has the same files as mgn-compiler: install one of the two in an environment.\n"
    return "\n".join(lines) + f"\n\n{SUMMARY}. {text}"


def record(content: dict[str, bytes], own: str) -> str:
    """The wheel's RECORD."""
    lines: list[str] = []
    for name, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own},,\n"


if __name__ == "__main__":
    raise SystemExit(main())
