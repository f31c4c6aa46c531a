"""Plugins, passes of a user's own, pipelines as MLIR writes them, and mgn in stock `xdsl-opt`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import mgn
from mgn.commands import run, train
from mgn.dialects.mgn.structure import ReturnOp
from mgn.dialects.mgn.user_operations import USER_OPERATIONS, forget_operation
from mgn.driver.pipelines import PASSES, PIPELINES
from mgn.modules.files import npz_bytes
from mgn.passes.saturate import SaturateOptions, forget_rule
from mgn.passes.saturate.rules.table import BUILT_IN, RULES
from mgn.plugins import loading
from mgn.program_cache.key import NoKey, program_key
from tests.conftest import ROOT, Outcome, run_in_process

Run = Callable[..., Outcome]

CUBES = """
graph g[B = 4](x: f32[B, 8]) {
  param w: f32[8] = ones()
  y = cubed(x) * w
  return y, loss = mean(y * y)
}
"""
PLAIN = "graph g(x: f32[8]) { return y = x * x * x }"
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


def installed(folder: Path, entry: str = "mgn_cubes:register") -> None:
    """Puts the example where Python finds it, with what an installer writes beside it."""
    shutil.copy(ROOT / "tests/plugins/mgn_cubes.py", folder)
    about = folder / "mgn_cubes-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mgn-cubes\nVersion: 1.5\n")
    (about / "entry_points.txt").write_text(f"[mgn.plugins]\ncubes = {entry}\n")


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path for a plugin, whose traces are gone afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(loading, "_whole", False)
    monkeypatch.setattr(loading, "_loaded", {})
    yield tmp_path
    sys.modules.pop("mgn_cubes", None)
    for name in [name for name, rule in RULES.items() if rule not in BUILT_IN]:
        forget_rule(name)
    for name in [*USER_OPERATIONS]:
        forget_operation(name)
    for name in [name for name, row in PASSES.items() if row.own is not None]:
        mgn.forget_pass(name)


def test_a_plugin_is_there_in_every_command(plugged: Path, mgn_opt: Run) -> None:
    installed(plugged)
    program = plugged / "cubes.mgn"
    program.write_text(CUBES, encoding="utf-8")
    assert "count-cubes" in mgn_opt("--list-passes").stdout
    assert "cubes (exact" in mgn_opt("--list-rules").stdout
    shown = mgn_opt(str(program), "-p", "count-cubes{label=found}")
    assert "found = 1 : i64" in shown.stdout and "mgn.cubed(%x)" in shown.stdout
    ran = run_in_process(run.main, [str(program), "--passes", "count-cubes,default", "--report"])
    assert ran.status == 0, ran.stderr
    assert "count-cubes" in ran.stdout and "cubed" in ran.stdout
    data = plugged / "data.npz"
    data.write_bytes(npz_bytes({"x": X}))
    argv = [str(program), "--data", str(data), "--batch", "4", "--steps", "1", "--no-progress"]
    assert train.main(argv) == 0


def test_a_plugin_is_there_in_the_calls(plugged: Path) -> None:
    installed(plugged)
    (kernel,) = mgn.optimize(mgn.parse(PLAIN)).report.kernels
    assert kernel.operations == ("cubed",)
    with mgn.graph("built") as g:
        g.output(y=mgn.ops.cubed(g.input("x", "f32[4, 8]")))
    found = mgn.compile(g, passes="count-cubes,default")(x=X)["y"]
    np.testing.assert_allclose(found, X**3, rtol=1e-6)


def test_a_plugin_that_fails_is_an_error_that_names_it(
    plugged: Path, mgn_opt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(plugged, "mgn_cubes:regster")
    for _ in range(2):  # it is not taken for loaded
        with pytest.raises(mgn.MgnError, match=r"plugin 'cubes' of mgn-cubes 1\.5 fails with Attr"):
            mgn.parse(PLAIN)
    outcome = mgn_opt("--list-passes")
    assert outcome.status == 1 and "MGN_PLUGINS=off" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
    monkeypatch.setenv("MGN_PLUGINS", "off")
    assert mgn.parse(PLAIN).graphs == ("g",)


def test_a_plugin_is_a_module_or_a_function(plugged: Path) -> None:
    installed(plugged, "mgn_cubes:CountCubes.label")
    with pytest.raises(mgn.MgnError, match=r"label' is a str, and an entry point is a mod"):
        mgn.parse(PLAIN)


def test_a_plugins_files_are_a_part_of_the_key_of_what_is_compiled(plugged: Path) -> None:
    installed(plugged, "mgn_cubes")
    mgn.parse(PLAIN)
    (plugin,) = loading.loaded_plugins()
    before = plugin.digest()
    with (plugged / "mgn_cubes.py").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert plugin.digest() != before


SEEN: list[str] = []


@dataclass(frozen=True)
class Seeing(ModulePass):
    """Notes that it ran."""

    name = "seeing"

    label: str = "seen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        SEEN.append(self.label)


@dataclass(frozen=True)
class Breaking(ModulePass):
    """Takes the end of a graph away, or fails."""

    name = "breaking"

    fails: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.fails:
            raise KeyError("lost")
        next(item for item in op.walk() if isinstance(item, ReturnOp)).detach()


def test_a_registered_pass_runs_in_the_default_pipeline_at_its_place(plugged: Path) -> None:
    built_in = dict(PIPELINES)
    mgn.register_pass(before="saturate")(Seeing)
    for names in PIPELINES.values():
        assert names[names.index("seeing") + 1] == "saturate"
    SEEN.clear()
    report = mgn.optimize(mgn.parse(PLAIN)).report
    assert SEEN == ["seen"] and "seeing" in dict(report.times)
    mgn.forget_pass("seeing")
    assert built_in == PIPELINES


def test_passes_take_the_place_of_the_default_pipeline(plugged: Path) -> None:
    mgn.register_pass(Seeing)
    SEEN.clear()
    module = mgn.parse(PLAIN)
    wanted: list[str | ModulePass | type[ModulePass]]
    wanted = ["simplify,seeing{label=one}", Seeing("two"), Seeing, "saturate", "choose-schedules"]
    report = mgn.optimize(module, passes=wanted).report
    assert SEEN == ["one", "two", "seen"]
    assert "choose-schedules" not in dict(report.times) and len(report.kernels) == 1
    text = "builtin.module(seeing, unpack-blocks,simplify,saturate{fuse=false},choose-schedules,"
    text += "lower-kernels,plan-memory)"
    exe = mgn.compile(module, passes=text)
    assert len(exe.report.kernels) == 2
    assert np.array_equal(exe(x=X[0])["y"], X[0] * X[0] * X[0])
    options = SaturateOptions(fuse=False)
    assert len(mgn.compile(module, passes="default", saturation=options).report.kernels) == 2


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("simplify", "the passes leave no plan to run"),
        ("simplfy,default", "did you mean 'simplify'"),
        ("func.func(cse)", r"'func.func\(…\)' is no pipeline of mgn"),
        ("builtin.module(simplify", r"'builtin.module\(' is not closed"),
        (3, "passes are names and xDSL's ModulePass, not int"),
        ([int], "passes are names and xDSL's ModulePass, not type"),
        ([ModulePass], "the pass ModulePass has no name"),
        ([Breaking()], "pass 'breaking' leaves a module that does not verify"),
        ([Breaking(True)], "pass 'breaking' fails with KeyError: 'lost'"),
    ],
)
def test_a_wrong_pipeline_says_what_is_wrong(passes: object, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        mgn.compile(mgn.parse(PLAIN), passes=passes)  # type: ignore[arg-type]


def test_what_is_no_pass_cannot_be_registered(plugged: Path) -> None:
    class Nameless(ModulePass):
        name = "No Name"

    for found, message in (
        (int, "not int"),
        (Seeing(), "not Seeing"),
        (Nameless, "not 'No Name'"),
    ):
        with pytest.raises(mgn.MgnError, match=message):
            mgn.register_pass(found)  # type: ignore[call-overload]
    with pytest.raises(mgn.MgnError, match="the default pipeline has no 'saturating'"):
        mgn.register_pass(Seeing, after="saturating")
    mgn.register_pass(Seeing)
    with pytest.raises(mgn.MgnError, match="the name 'seeing' is taken"):
        mgn.register_pass(Seeing)
    with pytest.raises(mgn.MgnError, match="no pass was registered under the name 'simplify'"):
        mgn.forget_pass("simplify")


def test_a_place_that_only_some_pipelines_have_is_no_obstacle_for_a_pass(plugged: Path) -> None:
    PIPELINES["short"] = ("simplify",)
    try:
        mgn.register_pass(Seeing, after="saturate")
        assert PIPELINES["short"] == ("simplify",)
        assert "seeing" in PIPELINES["default"]
    finally:
        del PIPELINES["short"]


def test_the_generic_form_is_written_and_read(mgn_opt: Run) -> None:
    source = str(ROOT / "examples" / "dense.mgn")
    own = mgn_opt(source, "-p", "simplify,saturate,choose-schedules").stdout
    generic = mgn_opt(source, "--pass-pipeline", "builtin.module(simplify)", "--print-op-generic")
    assert '"mgn.matmul"(' in generic.stdout and "= mgn.matmul(" not in generic.stdout
    again = mgn_opt("-", "-p", "saturate,choose-schedules", stdin=generic.stdout)
    assert again.stdout == own
    refused = mgn_opt(source, "-t", "plan", "--mlir-print-op-generic")
    assert refused.status == 1 and "is for MLIR text, not for -t plan" in refused.stderr


def test_stock_xdsl_opt_runs_passes_of_mgn_and_of_plugins(tmp_path: Path, mgn_opt: Run) -> None:
    installed(tmp_path)
    program = tmp_path / "dense.mlir"
    program.write_text(mgn_opt(str(ROOT / "examples" / "dense.mgn")).stdout, encoding="utf-8")
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "from xdsl.tools.xdsl_opt import main; main()",
            "-p",
            "count-cubes,simplify,saturate,choose-schedules",
            str(program),
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert "fusion.kernel contraction" in found.stdout and "cubes = 0 : i64" in found.stdout


def test_what_is_compiled_with_operations_of_a_plugin_is_not_kept(plugged: Path) -> None:
    installed(plugged)
    with pytest.raises(NoKey):
        program_key(mgn.parse(CUBES).lower("g"), {})
