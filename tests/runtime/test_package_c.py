"""The example in C: it builds without warnings, gives what `mgn-run` gives, and survives damage."""

import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.packaging import package_graph
from mgn.runtime.devices import list_devices
from mgn.runtime.icd import find_intel_library
from mgn.runtime.launching.ptx import completed
from mgn.runtime.packages.format import Package
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes
from tests.conftest import ROOT, run_in_process
from tests.runtime.package_samples import affine, everything
from tests.runtime.test_package_format import mutated, repaired

EXAMPLE = ROOT / "examples" / "embed_c"
DIGITS = ROOT / "examples" / "digits"
MUTATIONS = 600
PAGE = os.sysconf("SC_PAGE_SIZE")


def compile_c(source: Path, target: Path, *options: str) -> Path:
    """A program or library from C99; the test is skipped where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    warnings = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1")
    command = [compiler, *warnings, "-o", str(target), str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built example."""
    folder = tmp_path_factory.mktemp("embed_c")
    return compile_c(EXAMPLE / "run_package.c", folder / "run_package", "-ldl")


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OpenCL library that runs nothing and checks what it is handed."""
    folder = tmp_path_factory.mktemp("fake")
    source = Path(__file__).with_name("fake_opencl.c")
    return compile_c(source, folder / "libfake.so", "-shared", "-fPIC")


def opencl_library() -> tuple[str, str]:
    """A library, and the selector of its first device; the test is skipped where there is none."""
    if not list_devices():
        pytest.skip("there is no OpenCL device")
    intel = find_intel_library()
    return ("libOpenCL.so.1", "0:0") if intel is None else (str(intel), "Intel")


def run(
    runner: Path, library: str | Path, *arguments: str | Path, spirv: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs the example with an OpenCL library."""
    environment = {**os.environ, "OPENCL_LIBRARY": str(library)}
    if spirv:
        environment["FAKE_SPIRV"] = "1"
    command = [runner, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, timeout=60
    )


@pytest.mark.parametrize("form", ["spirv", "source"])
def test_the_digits_come_out_as_from_mgn_run(runner: Path, tmp_path: Path, form: str) -> None:
    from mgn.commands.run import main

    library, selector = opencl_library()
    common = (
        *(str(DIGITS / "digits.mgn"), "--graph", "evaluate", "--device", selector),
        *("--params", str(DIGITS / "digits.safetensors")),
    )
    path, results = tmp_path / "digits.mgnpkg", tmp_path / "results.bin"
    packaged = run_in_process(main, [*common, "--emit=package", "-o", str(path)])
    assert packaged.status == 0, packaged.stderr
    inputs = ("--inputs", str(DIGITS / "held_out.npz"), "--outputs", str(tmp_path / "out.npz"))
    assert run_in_process(main, [*common, *inputs]).status == 0
    if form == "source":
        package = read_package(path.read_bytes())
        kernels = {name: replace(item, spirv=None) for name, item in package.kernels.items()}
        path.write_bytes(package_bytes(replace(package, kernels=kernels)))
    with np.load(DIGITS / "held_out.npz") as archive:
        for name in archive.files:
            archive[name].tofile(tmp_path / f"{name}.bin")
    files = [f"{name}={tmp_path / name}.bin" for name in ("images", "labels")]
    done = run(runner, library, path, *files, "-o", results)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as wanted:
        found = np.fromfile(results, np.float32)
        np.testing.assert_array_max_ulp(found, wanted["accuracy"].reshape(1), 2)
        assert done.stdout == f"accuracy: f32[] {float(wanted['accuracy']):g}\n"


def test_parameters_come_from_files_like_inputs(runner: Path, tmp_path: Path) -> None:
    library, _ = opencl_library()
    path, results = tmp_path / "affine.mgnpkg", tmp_path / "y.bin"
    path.write_bytes(package_bytes(affine(embedded=False)))
    random_numbers = np.random.default_rng(1)
    x, scale = random_numbers.random((2, 96), np.float32)
    x.tofile(tmp_path / "x.bin")
    scale.tofile(tmp_path / "scale.bin")
    missing = run(runner, library, path, f"x={tmp_path}/x.bin")
    assert missing.returncode == 1
    assert "'scale' is missing: scale=FILE gives its 384 bytes" in missing.stderr
    given = (f"x={tmp_path}/x.bin", f"scale={tmp_path}/scale.bin")
    done = run(runner, library, path, *given, "-o", results)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("y: f32[8, 12] ")
    wanted = x * scale + np.arange(96, dtype=np.float32)
    np.testing.assert_allclose(np.fromfile(results, np.float32), wanted, rtol=1e-6)


def test_what_is_wrong_is_said(runner: Path, fake: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mgnpkg"
    path.write_bytes(package_bytes(affine()))
    (tmp_path / "x.bin").write_bytes(bytes(380))
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        ((), "usage: run_package FILE.mgnpkg"),
        ((tmp_path / "nix",), "cannot open"),
        ((EXAMPLE / "README.md",), "is no mgn package"),
        ((path,), "'x' is missing: x=FILE gives its 384 bytes"),
        ((path, f"x={tmp_path}/x.bin"), "x has 380 bytes, not 384"),
        ((path, "-o", "/nowhere/results"), "cannot write '/nowhere/results'"),
    ]
    for arguments, message in cases:
        done = run(runner, fake, *arguments)
        assert done.returncode == 1 and done.stdout == ""
        assert message in done.stderr
    path.write_bytes(package_bytes(affine())[:-1])
    assert "is damaged" in run(runner, fake, path).stderr
    path.write_bytes(package_bytes(affine()))
    assert "no OpenCL in 'libm.so.6'" in run(runner, "libm.so.6", path).stderr
    assert "no.so' (OPENCL_LIBRARY)" in run(runner, tmp_path / "no.so", path).stderr


def paged(package: Package) -> bytes:
    """A package that fills whole pages, so that a read behind its end leaves the mapping."""
    for length in range(2 * PAGE):
        data = package_bytes(replace(package, device="d" * length))
        if len(data) % PAGE == 0:
            return data
    raise AssertionError("no length of a name fills a page")


@pytest.mark.parametrize("spirv", [True, False])
def test_damage_never_crashes_the_reader_in_c(
    runner: Path, fake: Path, tmp_path: Path, spirv: bool
) -> None:
    """With the checksum made to fit, so that it is the reader's own checks that are tried."""
    sample = paged(everything() if spirv else affine())
    chance = random.Random(7)
    path, x = tmp_path / "m.mgnpkg", tmp_path / "x.bin"
    x.write_bytes(bytes(384))
    path.write_bytes(sample)
    whole = run(runner, fake, path, f"x={x}", spirv=spirv)
    assert whole.returncode == 0, whole.stderr
    said: set[str] = set()
    for _ in range(MUTATIONS // 2):
        path.write_bytes(repaired(bytearray(mutated(chance, sample))))
        done = run(runner, fake, path, f"x={x}", spirv=spirv)
        assert done.returncode in (0, 1), (done.returncode, done.stderr)
        said.update(re.findall(r"run_package: (damaged: [a-z ]{6}|.{9})", done.stderr))
    assert len(said) > 6


def test_ptx_is_completed_as_in_python(runner: Path, fake: Path, tmp_path: Path) -> None:
    package = affine()
    source = "#ifndef MGN_PTX\n#error\n#endif\n// ptx target sm_90a\n// ptx shared m 32768 147456\n"
    kernels = {
        name: replace(item, source=replace(item.source, source=source))
        for name, item in package.kernels.items()
        if item.source is not None
    }
    ptx = (
        ".version 8.8\n.target sm_90, texmode_independent\n"
        "\t.shared .align 1024 .b8 f_$_m[32768];\n.shared .align 4 .b8 other[32768];\n"
        "\t// begin inline asm\n\t// @ptx { // of a product\n// @ptx wgmma.fence;\n\t// end\n"
    )
    path, x = tmp_path / "a.mgnpkg", tmp_path / "x.bin"
    path.write_bytes(package_bytes(replace(package, kernels=kernels)))
    x.write_bytes(bytes(384))
    environment = {**os.environ, "OPENCL_LIBRARY": str(fake), "FAKE_PTX": ptx}
    command = [str(runner), str(path), f"x={x}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(completed(source, ptx)) == len(kernels)


def test_the_readme_names_what_is_there() -> None:
    text = (EXAMPLE / "README.md").read_text()
    for name in re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE):
        assert (EXAMPLE / name).is_file()
    lines = (EXAMPLE / "run_package.c").read_text().splitlines()
    assert len(lines) < 220, "the README says about 200"


def test_states_begin_with_their_first_values(runner: Path, tmp_path: Path) -> None:
    library, _ = opencl_library()
    text = """graph g(x: f32[3]) {
      state a: f32[3] = constant(2)
      state b: f32[3]
      a <- a * x
      b <- b + a
      return a = a, b = b
    }"""
    package = package_graph(mgn.parse(text).lower(), DEVICES["cpu"])
    path, results = tmp_path / "g.mgnpkg", tmp_path / "y.bin"
    path.write_bytes(package_bytes(package))
    np.array([1, 2, 3], np.float32).tofile(tmp_path / "x.bin")
    done = run(runner, library, path, f"x={tmp_path}/x.bin", "-o", results)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a: f32[3] 2 4 6\nb: f32[3] 2 4 6\n"
