"""Packages from `mgn-run --emit=package` to `mgn.load_package`: the same values, no compiler."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.api import describe_device
from mgn.driver.packaging import package_graph
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import ComputeDevice, choose, list_devices
from mgn.runtime.errors import DeviceError, InputError, PackageError, WeightsError
from mgn.runtime.packages.format import Package
from mgn.runtime.packages.load import PackagedExecutable, kernels_for
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes
from tests.conftest import ROOT, Outcome, run_in_process
from tests.runtime.package_samples import affine, everything

Run = Callable[..., Outcome]
DIGITS = ROOT / "examples" / "digits"
DIGITS_GRAPH = (str(DIGITS / "digits.mgn"), "--graph", "evaluate")
DIGITS_PARAMS = ("--params", str(DIGITS / "digits.safetensors"))
X = np.random.default_rng(3).standard_normal((8, 12), np.float32)
COMPILER = {"xdsl", "egglog", "lark", "highspy"}

PROGRAM = """
graph affine[N = 3](x: f32[N, 4]) {
  param w: f32[2, 4] = normal(std = 0.5)
  param b: f32[2]
  return y = linear(x, w, b)
}
"""


@pytest.fixture
def mgn_run() -> Run:
    """Runs `mgn-run` in this process."""
    from mgn.commands.run import main

    return lambda *arguments: run_in_process(main, [str(item) for item in arguments])


@pytest.fixture
def device() -> ComputeDevice:
    """A device; the test is skipped, saying so, where there is none."""
    if not list_devices():
        pytest.skip("there is no OpenCL device")
    return choose(os.environ.get("MGN_TEST_DEVICE", "auto"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small program with parameters, as a file."""
    path = tmp_path / "affine.mgn"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits example as a package with its parameters."""
    from mgn.commands.run import main

    path = tmp_path_factory.mktemp("package") / "digits.mgnpkg"
    arguments = (*DIGITS_GRAPH, *DIGITS_PARAMS, "--emit=package", "-o", str(path))
    outcome = run_in_process(main, arguments)
    assert outcome.status == 0, outcome.stderr
    assert "14 of 14 parameters embedded" in outcome.stderr
    assert outcome.stdout == ""
    return path


def held_out() -> dict[str, np.ndarray]:
    """The inputs of the digits."""
    with np.load(DIGITS / "held_out.npz") as archive:
        return {name: archive[name] for name in archive.files}


def test_a_package_gives_what_mgn_run_gives(
    device: ComputeDevice, digits: Path, mgn_run: Run, tmp_path: Path
) -> None:
    selected = ("--device", device.index)
    inputs = ("--inputs", DIGITS / "held_out.npz", "--outputs", tmp_path / "out.npz")
    outcome = mgn_run(*DIGITS_GRAPH, *DIGITS_PARAMS, *inputs, *selected)
    assert outcome.status == 0, outcome.stderr
    exe = mgn.load_package(digits, device.index)
    found = exe(**held_out())
    with np.load(tmp_path / "out.npz") as wanted:
        assert found.keys() == set(wanted.files)
        np.testing.assert_array_max_ulp(found["accuracy"], wanted["accuracy"], 2)
    assert found["accuracy"].dtype == np.float32
    assert len(exe.params) == 14
    assert exe.run(held_out(), profile=True) == found
    assert [item.kernel for item in exe.profile] == [step.kernel for step in exe.plan.launches]


def test_loading_imports_no_part_of_the_compiler(device: ComputeDevice, digits: Path) -> None:
    code = f"""
import json, sys
import numpy as np
import mgn
exe = mgn.load_package({str(digits)!r}, {device.index!r})
out = exe(**np.load({str(DIGITS / "held_out.npz")!r}))
print(json.dumps([float(out["accuracy"]), sorted(sys.modules)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    accuracy, modules = json.loads(done.stdout.splitlines()[-1])
    assert accuracy >= 0.97
    assert not {name.split(".")[0] for name in modules} & COMPILER
    ours = {name for name in modules if name.split(".")[0] == "mgn"}
    plain = {"mgn", "mgn.codegen", "mgn.codegen.signature", "mgn.codegen.launch_plan"}
    plain |= {"mgn.diagnostics", "mgn.dialects", "mgn.dialects.block_formats"}
    plain |= {"mgn.dialects.checks", "mgn.tasks", "mgn.version"}
    assert {name for name in ours if not name.startswith("mgn.runtime")} == plain


def test_both_forms_of_the_kernels_agree(device: ComputeDevice, digits: Path) -> None:
    package = read_package(digits.read_bytes())
    assert all(kernel.source and kernel.spirv for kernel in package.kernels.values())
    if not device.accepts_spirv:
        pytest.skip(f"{device.name} takes no SPIR-V")
    sources = {name: replace(item, spirv=None) for name, item in package.kernels.items()}
    binaries = {name: replace(item, source=None) for name, item in package.kernels.items()}
    results: list[np.ndarray] = []
    for kernels, spirv in ((sources, False), (binaries, True)):
        exe = PackagedExecutable(replace(package, kernels=kernels), device, guard=True)
        assert all((kernel.il is not None) == spirv for kernel in exe.kernels.values())
        results.append(exe(**held_out())["accuracy"])
    np.testing.assert_array_max_ulp(results[0], results[1], 2)


@pytest.mark.parametrize("name", ["cpu", "nvidia-h200"])
def test_a_package_is_the_same_in_every_process(program: Path, tmp_path: Path, name: str) -> None:
    """For a device of the table, which need not be here: figures are not measured."""
    code = """
import sys
from mgn.dialects.kernel.device import DEVICES
from mgn.modules.module import load_program
from mgn.driver.packaging import package_graph
from mgn.runtime.packages.writer import package_bytes
module = load_program("mgn", open(sys.argv[1]).read(), "affine")
sys.stdout.buffer.write(package_bytes(package_graph(module.lower(), DEVICES[sys.argv[2]])))
"""
    files: list[bytes] = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(program), name]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        files.append(done.stdout)
    assert files[0] == files[1]
    package = read_package(files[0])
    assert package.plan.name == "affine" and package.kernels
    assert package.expected == {"w": ("f32", (2, 4)), "b": ("f32", (2,))}


def test_parameters_that_are_not_embedded_have_to_be_loaded(
    device: ComputeDevice, program: Path, mgn_run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "affine.mgnpkg"
    outcome = mgn_run(program, "--dim", "N=5", "--emit=package", "-o", path)
    assert outcome.status == 0, outcome.stderr
    assert "0 of 2 parameters embedded" in outcome.stderr
    assert "have to be loaded before a run; --params embeds them" in outcome.stderr
    exe = mgn.load_package(str(path), device.index)
    x = X[:5, :4].copy()
    with pytest.raises(InputError, match="2 parameters have no value: 'b', 'w'; load or set"):
        exe(x=x)
    weights = {"w": X[:2, :4].copy(), "b": np.array([1.0, -2.0], np.float32)}
    np.savez(tmp_path / "one.npz", w=weights["w"])
    with pytest.raises(WeightsError, match=r"'b' \(f32\[2\]\) is missing"):
        exe.load_params(tmp_path / "one.npz")
    np.savez(tmp_path / "all.npz", **weights, unused=X)
    assert exe.load_params(tmp_path / "all.npz") == 1
    wanted = x @ weights["w"].T + weights["b"]
    np.testing.assert_allclose(exe(x=x)["y"], wanted, rtol=1e-5, atol=1e-6)
    exe.params["b"] = np.zeros(2, np.float32)
    np.testing.assert_allclose(exe(x=x)["y"], wanted - weights["b"], rtol=1e-5, atol=1e-6)
    exe.save_params(tmp_path / "saved.safetensors")
    assert set(exe.params) == {"w", "b"}
    with pytest.raises(KeyError):
        exe.params["c"]


@pytest.mark.parametrize("rows", [0, 3])
def test_every_element_type_and_empty_tensors_come_through(
    device: ComputeDevice, tmp_path: Path, rows: int
) -> None:
    module = mgn.parse("""
        graph g[N = 0](x: f32[N, 4], b: bool[3], h: bf16[5], k: u8[7]) {
          c = full([2, 2], 3.0)
          return y = relu(x), s = sum(x), not_b = logical_not(b), hh = h + h, k, c
        }
    """)
    ir = module.lower(None, {"N": rows})
    path = tmp_path / "g.mgnpkg"
    path.write_bytes(package_bytes(package_graph(ir, describe_device(device))))
    found = mgn.load_package(path, device.index)(
        x=X[:rows, :4],
        b=np.array([True, False, True]),
        h=np.arange(5).astype(ml_dtypes.bfloat16),
        k=np.arange(7, dtype=np.uint8),
    )
    wanted = {
        "y": np.maximum(X[:rows, :4], 0),
        "not_b": np.array([False, True, False]),
        "hh": np.arange(0, 10, 2).astype(ml_dtypes.bfloat16),
        "k": np.arange(7, dtype=np.uint8),
        "c": np.full((2, 2), 3.0, np.float32),
    }
    np.testing.assert_allclose(found.pop("s"), X[:rows, :4].sum(), rtol=1e-5, atol=1e-6)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name


def test_wrong_inputs_are_named_as_ever(device: ComputeDevice) -> None:
    exe = PackagedExecutable(affine(), device, cache=KernelCache.disabled())
    scale, offset = affine().parameters["scale"], np.arange(96, dtype=np.float32)
    wanted = X * scale.reshape(8, 12) + offset.reshape(8, 12)
    np.testing.assert_allclose(exe(x=X)["y"], wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError, match="there is no input 'xs'; did you mean 'x'"):
        exe(xs=X)
    with pytest.raises(InputError, match="input 'x' has dtype float64, not float32"):
        exe(x=X.astype(np.float64))
    with pytest.raises(InputError, match="no parameter 'scael'; did you mean 'scale'"):
        exe.params["scael"] = scale


def test_what_is_no_package_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"cannot open '.*nix\.mgnpkg': no such file"):
        mgn.load_package(tmp_path / "nix.mgnpkg")
    with pytest.raises(PackageError, match="is a directory"):
        mgn.load_package(tmp_path)
    with pytest.raises(PackageError, match=r"held_out\.npz is no mgn package"):
        mgn.load_package(DIGITS / "held_out.npz")
    path = tmp_path / "cut.mgnpkg"
    path.write_bytes(package_bytes(affine())[:-8])
    with pytest.raises(PackageError, match=r"cut\.mgnpkg is damaged at byte 16: it should have"):
        mgn.load_package(path)


@pytest.mark.parametrize(
    ("package", "limits", "message"),
    [
        (affine(), {"global_mem_size": 100}, "a toy has 100 bytes, not 2176"),
        (affine(), {"max_work_group_size": 0}, "work-groups of at most 0 items; kernel 'add' nee"),
        (affine(), {"local_mem_size": -1}, "has -1 bytes of local memory"),
        (everything(), {}, "takes no SPIR-V, the only form of kernel 'multiply'"),
    ],
)
def test_a_device_that_cannot_run_a_package_is_told(
    package: Package, limits: dict[str, int], message: str
) -> None:
    roomy = {"global_mem_size": 1 << 40, "max_work_group_size": 256, "local_mem_size": 1 << 15}
    handle = SimpleNamespace(**roomy | limits)
    toy = SimpleNamespace(name="a toy", accepts_spirv=False, handle=handle)
    with pytest.raises(DeviceError, match=f"was compiled for any device, and .*{message}"):
        kernels_for(package, toy)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--emit=package"], "a package is a binary; -o model.mgnpkg names a file for it"),
        (["-o", "out.mgnpkg"], "-o takes what --emit gives; --outputs FILE.npz takes the results"),
        (["--emit=packet", "-o", "x"], "unknown stage 'packet'; did you mean 'package'?"),
        (["--emit=package", "-o", "/nowhere/x.mgnpkg"], "cannot write '/nowhere/x.mgnpkg'"),
        (["--emit=package", "-o", "x", "--params", "nix.npz"], "cannot read nix.npz"),
    ],
)
def test_a_wrong_command_line_writes_nothing(
    mgn_run: Run,
    program: Path,
    arguments: Sequence[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = mgn_run(program, *arguments)
    assert outcome.status == 1
    assert outcome.stdout == "" and "Traceback" not in outcome.stderr
    assert message in outcome.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["affine.mgn"]


AFFINE = """
graph affine[N = 3](x: f32[N, 4]) {
  param w: f32[2, 4] = normal(std = 0.5)
  param b: f32[2]
  return y = linear(x, w, b)
}
"""


def test_mgn_run_runs_a_package(mgn_run: Run, tmp_path: Path) -> None:
    program, package = tmp_path / "affine.mgn", tmp_path / "affine.mgnpkg"
    program.write_text(AFFINE, encoding="utf-8")
    weights = {"w": np.ones((2, 4), np.float32), "b": np.float32([1, -1])}
    np.savez(tmp_path / "w.npz", **weights)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "x.npz", x=x)
    given = ["--params", tmp_path / "w.npz"]
    assert mgn_run(program, "--emit=package", "-o", package, *given).status == 0
    found = tmp_path / "y.npz"
    outcome = mgn_run(package, "--inputs", tmp_path / "x.npz", "--outputs", found, "--repeat", "2")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("y: f32[3, 2] mean"), outcome.stdout
    assert "median of 2 runs" in outcome.stdout
    np.testing.assert_allclose(np.load(found)["y"], x @ weights["w"].T + weights["b"])
    drawn = mgn_run(package)
    assert drawn.status == 0 and "random input x: f32[3, 4] from normal(0, 1)" in drawn.stderr


@pytest.mark.parametrize("option", [["--graph", "g"], ["--dim", "N=3"], ["--precision", "tf32"]])
def test_options_of_compilation_do_not_go_with_a_package(mgn_run: Run, option: list[str]) -> None:
    outcome = mgn_run("digits.mgnpkg", *option)
    assert outcome.status == 1
    assert f"a package is compiled already: {option[0]} has nothing to act on" in outcome.stderr


def test_a_stage_that_is_text_can_be_written_to_a_file(
    mgn_run: Run, program: Path, tmp_path: Path
) -> None:
    printed = mgn_run(program, "--emit=plan")
    assert mgn_run(program, "--emit=plan", "-o", tmp_path / "plan.mlir").stdout == ""
    assert (tmp_path / "plan.mlir").read_text() == printed.stdout
