"""Whole graphs with their kernels as SPIR-V: the same bits as OpenCL C, cached, chosen by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.driver.kernel_targets import choose_target
from mgn.runtime.devices import ComputeDevice, choose
from mgn.runtime.errors import BuildError
from mgn.runtime.launching.executable import Executable as DeviceExecutable
from tests.conftest import ROOT, run_in_process
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.spirv_fixture import need_spirv

PROGRAM = """
graph g(x: f32[48, 64], w: f32[64, 80], ids: i32[48], t: f16[10, 80]) {
  h = gelu(x @ w) + cast(embedding(ids, t), f32)
  return p = softmax(h), best = argmax(h, axis = -1), q = cast(h * 3.0, bf16)
}
"""
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(autouse=True)
def device(cl_queue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A device that takes SPIR-V, and a kernel cache of the test's own."""
    need_spirv(cl_queue)
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path / "cache"))


def inputs() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return {
        "x": generator.standard_normal((48, 64)).astype(np.float32),
        "w": generator.standard_normal((64, 80)).astype(np.float32),
        "ids": generator.integers(0, 10, 48).astype(np.int32),
        "t": generator.standard_normal((10, 80)).astype(np.float16),
    }


def test_both_targets_give_the_same_bits() -> None:
    results = [
        mgn.compile(mgn.parse(PROGRAM), device="cpu", target=target)(**inputs())
        for target in ("opencl", "spirv")
    ]
    assert set(results[0]) == {"p", "best", "q"}
    for name, value in results[0].items():
        np.testing.assert_array_equal(value.view(np.uint8), results[1][name].view(np.uint8))


def test_kernels_hold_words_and_no_source() -> None:
    exe = mgn.compile(mgn.parse(PROGRAM), device="cpu", target="spirv")
    for item in exe.kernels.values():
        assert item.source == "" and item.il is not None
        assert item.il[:4] == b"\x03\x02\x23\x07"


def test_a_second_compilation_takes_its_kernels_from_the_disk() -> None:
    first = mgn.compile(mgn.parse(PROGRAM), device="cpu", target="spirv")
    second = mgn.compile(mgn.parse(PROGRAM), device="cpu", target="spirv")
    other = mgn.compile(mgn.parse(PROGRAM), device="cpu", target="opencl")
    kernels = len(first.kernels)
    assert (first.report.from_cache, second.report.from_cache) == (0, kernels)
    assert other.report.from_cache == 0
    np.testing.assert_array_equal(first(**inputs())["p"], second(**inputs())["p"])


def test_auto_takes_spirv_on_a_cpu_but_for_kernels_with_hints() -> None:
    program = "graph g(a: f32[64, 128], b: f32[128, 256]) { return y = rms_norm(relu(a @ b)) }"
    exe = mgn.compile(mgn.parse(program), device="cpu")
    forms = {name.split("_")[0]: item.il is not None for name, item in exe.kernels.items()}
    assert forms == {"contraction": False, "reduction": True}


def test_auto_takes_opencl_where_the_device_is_no_cpu() -> None:
    cpu = choose("cpu")
    assert choose_target("auto", cpu) == "mixed"
    assert choose_target("auto", replace(cpu, kind="gpu")) == "opencl"
    assert choose_target("opencl", cpu) == "opencl"


class _Handle:
    """A device of OpenCL 3.0 without intermediate languages."""

    il_version = ""


def test_a_device_without_spirv_says_so() -> None:
    device = ComputeDevice("0:0", "Old", "gpu", "Platform", "1", _Handle())
    assert not device.accepts_spirv
    assert choose_target("auto", device) == "opencl"
    with pytest.raises(mgn.MgnError, match="Old takes no SPIR-V"):
        choose_target("spirv", device)
    with pytest.raises(mgn.MgnError, match="unknown target 'ptx'; there are opencl, spirv, auto"):
        mgn.compile(mgn.parse(PROGRAM), device="cpu", target="ptx")


def test_words_that_the_driver_refuses_are_a_build_error() -> None:
    exe = mgn.compile(mgn.parse(PROGRAM), device="cpu", target="spirv")
    damaged = {name: replace(item, il=(item.il or b"")[:40]) for name, item in exe.kernels.items()}
    with pytest.raises(BuildError, match="refused a kernel"):
        DeviceExecutable(exe.plan, damaged, "cpu")


def test_mgn_run_takes_a_target(tmp_path: Path) -> None:
    from mgn.commands.run import main

    arguments = [str(DIGITS / "digits.mgn"), "--graph", "evaluate", "--device", "cpu"]
    arguments += ["--params", str(DIGITS / "digits.safetensors")]
    arguments += ["--inputs", str(DIGITS / "held_out.npz")]
    lines = {
        target: run_in_process(main, [*arguments, "--target", target]).stdout
        for target in ("opencl", "spirv", "auto")
    }
    assert len(set(lines.values())) == 1
    assert lines["spirv"].startswith("accuracy: f32[] mean 0.9")


def test_mgn_run_prints_the_assembly_of_a_program() -> None:
    from mgn.commands.run import main

    arguments = [str(DIGITS / "digits.mgn"), "--graph", "evaluate", "--emit", "spirv-asm"]
    outcome = run_in_process(main, arguments)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("; SPIR-V\n; Version: 1.0\n")
    assert outcome.stdout.count("OpEntryPoint Kernel") >= 5


def test_mgn_opt_writes_a_binary_and_reads_it_back(tmp_path: Path) -> None:
    from mgn.commands.opt import main

    first, second = tmp_path / "digits.spv", tmp_path / "again.spv"
    source = [str(DIGITS / "digits.mgn"), "--graph", "evaluate", "-p", "default"]
    assert run_in_process(main, [*source, "-t", "spirv", "-o", str(first)]).status == 0
    again = [str(first), "-f", "spirv", "-t", "spirv", "-o", str(second)]
    assert run_in_process(main, again).status == 0
    assert first.read_bytes() == second.read_bytes()
    damaged = tmp_path / "damaged.spv"
    damaged.write_bytes(first.read_bytes()[:-2])
    outcome = run_in_process(main, [str(damaged)])
    assert outcome.status == 1
    assert "damaged.spv: error: SPIR-V at byte" in outcome.stderr
    outcome = run_in_process(main, [*source, "-t", "spirv"])
    assert outcome.status == 1
    assert "the result is a binary; -o names a file for it" in outcome.stderr
