"""A program that was compiled before is recalled, an unequal one never, and damage costs time."""

import json
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.api import describe_device
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.compilation import compile_graph
from mgn.driver.report import OptimizeReport
from mgn.passes.saturate import Rule, RuleClass, SaturateOptions, register_rule
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.rules.table import RULES
from mgn.program_cache.cache import compile_or_recall
from mgn.program_cache.entry import _Told  # pyright: ignore[reportPrivateUsage]
from mgn.program_cache.key import compiler_digest, program_key
from mgn.runtime.cache import KernelCache
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
from tests.conftest import ROOT

TEXT = """
graph g[B = 4](x: f32[B, 8]) {
  param w: f32[8, 8] as "weight" = normal(std = 0.5)
  return y = softmax(x @ w * 2.5), z = sum(x, axis = 0)
}
"""
TIED = """
graph g(x: f32[64, 96], t: i32[64]) {
  h = x
  for i in 0..3 {
    param a: f32[96, 96] as "a.{i}" = normal()
    param s: f32[96] as "s.{i}" = ones()
    n = rms_norm(h, s)
    h = h + silu(n @ a.T) * sigmoid(n) + softmax(n) * tanh(h)
  }
  loss = cross_entropy(h, t)
  return loss
}
"""
CPU = DEVICES["cpu"]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("MGN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MGN_PROGRAM_CACHE", raising=False)
    forget_choices()


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "mgn-cache" / "programs").glob("*/*"))


def key_of(text: str = TEXT, name: str = "<text>", **changes: Any) -> str:
    dims = changes.pop("dims", None)
    settings = {"device": CPU, "target": "opencl", "saturation": None} | changes
    return program_key(mgn.parse(text, name).lower("g", dims), settings)


def run(exe: mgn.Executable) -> dict[str, np.ndarray]:
    x = np.random.default_rng(3).standard_normal((4, 8), np.float32)
    return exe(x=x)


def test_an_equal_program_is_recalled_and_computes_the_same(tmp_path: Path) -> None:
    first = mgn.compile(mgn.parse(TEXT))
    second = mgn.compile(mgn.parse(TEXT))
    assert not first.report.recalled and second.report.recalled
    assert len(entries(tmp_path)) == 1
    assert second.kernels == first.kernels
    assert [item.work for item in second.report.kernels] == [
        item.work for item in first.report.kernels
    ]
    assert str(second.report.saturation) == str(first.report.saturation)
    assert "recalled in" in str(second.report) and "compiled in" in str(first.report)
    a, b = run(first), run(second)
    assert all(np.array_equal(a[name], b[name]) for name in ("y", "z"))


def test_what_is_recalled_is_what_compiling_gives() -> None:
    device = describe_device(choose("auto"))
    for _ in range(2):
        module = mgn.parse(TEXT).lower("g")
        kept = compile_or_recall(module, device, target="opencl")
        fresh = compile_graph(mgn.parse(TEXT).lower("g"), device, target="opencl")
        assert pickle.dumps(kept.plan) == pickle.dumps(fresh.plan)
        assert kept.kernels == fresh.kernels
        assert list(kept.parameters) == list(fresh.parameters) == ["weight"]
        assert kept.report.kernels == fresh.report.kernels
        assert kept.report.memory == fresh.report.memory
    assert kept.report.recalled


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "i64", "bool"])
def test_constants_of_every_kind_are_kept(element: str) -> None:
    values = np.random.default_rng(5).integers(0, 2, (3, 5)).astype(np.float32)

    def build() -> mgn.Executable:
        with mgn.graph("g") as g:
            x = g.input("x", "f32[3, 5]")
            table = ops.constant(values, element)
            g.output(y=x * ops.cast(table, "f32"))
        return mgn.compile(g)

    x = np.ones((3, 5), np.float32)
    assert np.array_equal(build()(x=x)["y"], values)
    recalled = build()
    assert recalled.report.recalled
    assert np.array_equal(recalled(x=x)["y"], values)


CHANGES: dict[str, Callable[[], str]] = {
    "a dimension": lambda: key_of(dims={"B": 5}),
    "a number": lambda: key_of(TEXT.replace("2.5", "2.75")),
    "an operation": lambda: key_of(TEXT.replace("softmax", "log_softmax")),
    "an attribute": lambda: key_of(TEXT.replace("axis = 0", "axis = 1")),
    "an operand": lambda: key_of(TEXT.replace("sum(x,", "sum(x @ w,")),
    "a parameter's name": lambda: key_of(TEXT.replace('"weight"', '"other"')),
    "an initialiser": lambda: key_of(TEXT.replace("0.5)", "0.25)")),
    "a result's name": lambda: key_of(TEXT.replace("y =", "v =")),
    "the place of an operation": lambda: key_of(f"\n{TEXT}"),
    "the file": lambda: key_of(name="other.mgn"),
    "a figure of the device": lambda: key_of(device=CPU.with_figures(bandwidth=2.5e10)),
    "a rate of the device": lambda: key_of(device=CPU.with_figures(rates={"f32": 1e11})),
    "the target": lambda: key_of(target="spirv"),
    "the classes of rules": lambda: key_of(
        saturation=SaturateOptions(classes=frozenset({RuleClass.EXACT}))
    ),
    "whether to fuse": lambda: key_of(saturation=SaturateOptions(fuse=False)),
    "an option that is new": lambda: key_of(precision="tf32"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_compiled_otherwise_has_another_key(change: str) -> None:
    assert key_of() == key_of()
    assert CHANGES[change]() != key_of()


def test_a_rule_of_the_user_has_another_key_and_acts() -> None:
    text = "graph g(x: f32[64]) { return y = tan(x) * 3.0 }"
    plain = mgn.compile(mgn.parse(text))
    before = key_of(text)
    sides = ("tan(x)", "div(sin(x), cos(x))")
    rule = Rule("tan-for-this-test", *sides, RuleClass.REASSOCIATES, "the definition of tan")
    register_rule(rule)
    try:
        assert key_of(text) != before
        assert not mgn.compile(mgn.parse(text)).report.recalled
    finally:
        del RULES[rule.name]
    assert key_of(text) == before
    again = mgn.compile(mgn.parse(text))
    assert again.report.recalled and again.kernels == plain.kernels


def test_files_of_mgn_that_differ_have_another_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "passes").mkdir()
    source = tmp_path / "passes" / "simplify.py"
    source.write_text("x = 1")
    monkeypatch.setattr(mgn, "__path__", [str(tmp_path)])
    digests: set[str] = set()
    for text in ("x = 1", "x = 2"):
        source.write_text(text)
        digests.add(compiler_digest.__wrapped__())
    source.rename(source.with_name("other.py"))
    digests.add(compiler_digest.__wrapped__())
    assert len(digests) == 3


def test_keys_are_the_same_in_every_process() -> None:
    program = (
        "from mgn.passes.saturate import SaturateOptions;"
        "from tests.api.test_program_cache import key_of;"
        "print(key_of(saturation=SaturateOptions()))"
    )
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert keys == {key_of(saturation=SaturateOptions())}


def _sealed(path: Path, data: bytes) -> None:
    assert KernelCache(path.parent.parent).store(path.stem, data)


def _changed(path: Path, change: Callable[[bytes, Any], tuple[bytes, Any]]) -> None:
    """Puts in place an entry whose package, or report, is another, and whose digest fits."""
    held = KernelCache(path.parent.parent).load(path.stem)
    assert held is not None
    data = zlib.decompress(held)
    end = 8 + int.from_bytes(data[:8], "little")
    package, report = change(data[8:end], json.loads(data[end:]))
    text = len(package).to_bytes(8, "little") + package + json.dumps(report).encode()
    _sealed(path, zlib.compress(text))


PICKLES = {
    "a module that ends the process": b"cunittest.__main__\nmain\n.",
    "a function": pickle.dumps(os.getcwd),
    "a type of NumPy": b"cnumpy\ndtype\n(V\nI00\nI01\ntR(I3\nV<\nNNNI-1\nI-1\nI0\nV\ntb.",
}


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "empty": lambda path: path.write_bytes(b""),
    "of another kind": lambda path: _sealed(path, b"rubbish"),
    "compressed rubbish": lambda path: _sealed(path, zlib.compress(b"rubbish")),
    "without end": lambda path: _sealed(path, zlib.compress(bytes(100 << 20))),
    "cut inside": lambda path: _changed(path, lambda package, report: (package[:-4], report)),
    "nested": lambda path: _changed(path, lambda package, report: (package, [[[[[[report]]]]]])),
    "of another graph": lambda path: _changed(path, lambda p, r: (p, [r[0], "other", *r[2:]])),
    "with a text for a number": lambda path: _changed(path, lambda p, r: (p, [*r[:-1], "3"])),
    "with a huge number": lambda path: _changed(path, lambda p, r: (p, [*r[:-1], 1 << 70])),
    "without a kernel's line": lambda path: _changed(path, lambda p, r: (p, [*r[:4], [], *r[5:]])),
    "without its parameter": lambda path: _changed(path, lambda p, r: (p, [[], *r[1:]])),
    "with a parameter that there is not": lambda path: _changed(
        path, lambda p, r: (p, [[*r[0], "nowhere"], *r[1:]])
    ),
    **{name: lambda path, data=data: _sealed(path, data) for name, data in PICKLES.items()},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_compiled_again_and_replaced(tmp_path: Path, damage: str) -> None:
    expected = run(mgn.compile(mgn.parse(TEXT)))
    (path,) = entries(tmp_path)
    DAMAGE[damage](path)
    again = mgn.compile(mgn.parse(TEXT))
    assert not again.report.recalled
    assert np.array_equal(run(again)["y"], expected["y"])
    assert mgn.compile(mgn.parse(TEXT)).report.recalled


def test_what_is_kept_names_nothing_that_could_be_imported(tmp_path: Path) -> None:
    mgn.compile(mgn.parse(TEXT))
    (path,) = entries(tmp_path)
    held = KernelCache(path.parent.parent).load(path.stem)
    assert held is not None and b"mgn." not in zlib.decompress(held)
    folders = ("codegen", "dialects", "frontend", "mgn", "passes", "runtime")
    for source in (item for name in folders for item in (ROOT / name).rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        assert "import pickle" not in text and "allow_pickle=True" not in text, source


def test_every_field_of_a_report_is_kept_or_is_of_one_run() -> None:
    of_one_run = {
        "device",
        "prepare_seconds",
        "times",
        "from_cache",
        "recalled",
        "measured_seconds",
        "loaded",
    }
    told = {item.name for item in fields(_Told)} - {"parameters"}
    assert told | of_one_run == {item.name for item in fields(OptimizeReport)}
    assert not told & of_one_run


def test_an_entry_under_the_key_of_another_program_is_compiled_again(tmp_path: Path) -> None:
    mgn.compile(mgn.parse(TEXT))
    (first,) = entries(tmp_path)
    other = TEXT.replace("2.5", "3.5")
    mgn.compile(mgn.parse(other))
    (second,) = (path for path in entries(tmp_path) if path != first)
    second.write_bytes(first.read_bytes())
    assert not mgn.compile(mgn.parse(other)).report.recalled


def test_a_word_that_is_neither_on_nor_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGN_PROGRAM_CACHE", "perhaps")
    with pytest.raises(DeviceError, match="MGN_PROGRAM_CACHE is on or off, not 'perhaps'"):
        mgn.compile(mgn.parse(TEXT), device="cpu")


@pytest.mark.parametrize("variable", ["MGN_PROGRAM_CACHE", "MGN_CACHE_DIR"])
def test_nothing_is_recalled_where_it_is_turned_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, "off")
    for _ in range(2):
        assert not mgn.compile(mgn.parse(TEXT)).report.recalled
    assert entries(tmp_path) == []


def test_a_choice_that_ran_out_of_time_is_not_kept(tmp_path: Path) -> None:
    hurried = SaturateOptions(time_budget=0.0)
    exe = mgn.compile(mgn.parse(TEXT), saturation=hurried)
    assert not exe.report.is_repeatable
    assert entries(tmp_path) == []


def test_a_choice_that_had_too_little_work_is_kept(tmp_path: Path) -> None:
    """Work is counted: another process would come to the same. A step of SmolLM2 in tf32, whose
    choice is within a hundredth of its bound, was compiled anew by every process.
    """
    poor = SaturateOptions(extract_budget=0.0)

    def compiled() -> OptimizeReport:
        program = mgn.parse(TIED)
        return mgn.compile(program, device="cpu", mode="training", saturation=poor).report

    report = compiled().saturation
    assert isinstance(report, SaturateReport) and report.budget_spent and not report.is_settled
    assert entries(tmp_path) != []
    assert compiled().recalled
