"""`mgn-run`: results, random and given arrays, files, reports, and messages for bad input."""

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType

import mgn
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn import initialiser, structure
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import tensor
from mgn.modules.initialisers import INITIALISERS, initial_value
from mgn.modules.module import load_program
from mgn.modules.sampling import sample_inputs
from mgn.runtime.measurement import figures
from tests.conftest import ROOT, Outcome, run_in_process

Run = Callable[..., Outcome]
DIGITS = ROOT / "examples" / "digits"

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

    return lambda *arguments, stdin="": run_in_process(main, [str(a) for a in arguments], stdin)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program of most tests, as a file."""
    path = tmp_path / "affine.mgn"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def device() -> None:
    """Skips where there is no OpenCL device, and says so."""
    from mgn.runtime.devices import list_devices

    if not list_devices():
        pytest.skip("there is no OpenCL device")


def one_screen(outcome: Outcome) -> bool:
    """A failure without a traceback and without a result."""
    return (
        outcome.status == 1
        and outcome.stdout == ""
        and "Traceback" not in outcome.stderr
        and 0 < len(outcome.stderr.splitlines()) < 25
    )


@pytest.mark.usefixtures("device")
def test_the_digits_are_recognised(mgn_run: Run) -> None:
    outcome = mgn_run(
        DIGITS / "digits.mgn",
        *("--graph", "evaluate"),
        *("--params", DIGITS / "digits.safetensors"),
        *("--inputs", DIGITS / "held_out.npz"),
        "--report",
    )
    assert outcome.status == 0, outcome.stderr
    accuracy = float(outcome.stdout.split("mean ")[1].split()[0])
    assert accuracy >= 0.97
    for part in ("e-graph", "rules fired", "lower bound", "arena", "GFLOP/s", "roofline"):
        assert part in outcome.stdout


@pytest.mark.usefixtures("device")
def test_outputs_agree_with_the_interpreter(mgn_run: Run, program: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    inputs = {"x": random.standard_normal((7, 4), np.float32)}
    parameters = {
        "w": random.standard_normal((2, 4), np.float32),
        "b": random.standard_normal(2, np.float32),
    }
    np.savez(tmp_path / "in.npz", **inputs)
    np.savez(tmp_path / "w.npz", **parameters, unused=np.zeros(3))
    outcome = mgn_run(
        program,
        *("--dim", "N=7"),
        *("--inputs", tmp_path / "in.npz"),
        *("--params", tmp_path / "w.npz"),
        *("--outputs", tmp_path / "out.npz"),
        *("--trace", tmp_path / "trace.json"),
    )
    assert outcome.status == 0, outcome.stderr
    assert "not used by this graph: 1 array ('unused')\n" in outcome.stderr
    graph = next(structure.graphs_of(load_program("mgn", PROGRAM, "t").lower(None, {"N": 7})))
    wanted = Interpreter(parameters, wide=True).run(graph, inputs)["y"]
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-6)
        line = f"y: f32[7, 2] mean {found['y'].astype(np.float64).mean():.6g} "
    assert outcome.stdout.startswith(line)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


@pytest.mark.usefixtures("device")
def test_results_are_written_whatever_their_names_and_values(mgn_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "names.mgn"
    ends = "inf * (cast(iota([2]), f32) - 0.5)"
    path.write_text(f"graph g() {{ return file = {ends}, self = full([], 2) }}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        outcome = mgn_run(path, "--outputs", tmp_path / "out.npz")
    assert outcome.status == 0, outcome.stderr
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["file"], [-np.inf, np.inf])
        assert found["self"] == 2


@pytest.mark.usefixtures("device")
def test_names_of_a_file_do_nothing_to_a_terminal(mgn_run: Run, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    names = {name: f"{name}\x1b[31m\x07" for name in ("x", "y", "node", "graph")}
    kind = onnx.TensorProto.FLOAT
    nodes = [onnx.helper.make_node("Relu", [names["x"]], [names["y"]], name=names["node"])]
    ends = ([onnx.helper.make_tensor_value_info(names[name], kind, [2, 3])] for name in ("x", "y"))
    made = onnx.helper.make_model(onnx.helper.make_graph(nodes, names["graph"], *ends))
    onnx.save(made, tmp_path / "named.onnx")
    outcome = mgn_run(tmp_path / "named.onnx", "--report")
    assert outcome.status == 0, outcome.stderr
    assert "random input x\ufffd[31m" in outcome.stderr
    assert "y\ufffd[31m\ufffd: f32[2, 3]" in outcome.stdout
    assert not {"\x1b", "\x07"} & {*outcome.stdout, *outcome.stderr}


@pytest.mark.usefixtures("device")
def test_random_runs_say_what_was_drawn_and_repeat(mgn_run: Run, program: Path) -> None:
    first, second = mgn_run(program, "--seed", "3"), mgn_run(program, "--seed", "3")
    assert first.status == 0, first.stderr
    assert first.stdout == second.stdout
    assert mgn_run(program, "--seed", "4").stdout != first.stdout
    assert "random input x: f32[3, 4] from normal(0, 1)" in first.stderr
    assert "drawn from normal(0, 0.02), having no initialiser: b (1 in all)" in first.stderr


@pytest.mark.usefixtures("device")
def test_a_run_in_training_is_a_step(mgn_run: Run, program: Path, tmp_path: Path) -> None:
    text = """
    graph fit(x: f32[3]) {
      param w: f32[3] = zeros()
      return far = mean((w - x) * (w - x))
    }"""
    program.write_text(text)
    np.savez(tmp_path / "x.npz", x=np.float32([1, -2, 3]))
    given = [program, "--mode", "training", "--loss", "far", "--inputs", tmp_path / "x.npz"]
    once = mgn_run(*given, "--repeat", "2")
    assert once.status == 0, once.stderr
    assert once.stdout.startswith("far: f32[] mean 4.66667 ")
    assert "state optimizer.step: i32[] mean 1 " in once.stdout
    assert "state optimizer.w.first: f32[3] mean " in once.stdout
    shown = mgn_run(*given, "--emit", "mgn")
    assert "optimizer.w.second" in shown.stdout


def test_saturation_takes_the_options_of_the_pass(mgn_run: Run, program: Path) -> None:
    for options, kernels in (("", 1), ("rules=exact time=2", 2), ("fuse=False", 2)):
        outcome = mgn_run(program, "--emit", "fusion", "--saturation", options)
        assert outcome.stdout.count("fusion.kernel") == kernels


def test_what_parameters_alone_decide_is_kept_or_computed_in_each_run(
    mgn_run: Run, tmp_path: Path
) -> None:
    program = tmp_path / "product.mgn"
    product = "param w: f32[64, 64]\n return y = x @ tanh(w @ w)"
    program.write_text(f"graph g(x: f32[64, 64]) {{ {product} }}")
    for options, kept in ((), True), (("--prepare", "on"), True), (("--prepare", "off"), False):
        outcome = mgn_run(program, "--emit", "plan", "--saturation", "time=2", *options)
        assert ("plan.prepare" in outcome.stdout) == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "training"], "graph 'affine' has no output 'loss' to train; it has y"),
        (["--mode", "training", "--loss", "y"], "the loss 'y' is f32[3, 2], not a float scalar"),
        (["--mode", "training", "--emit", "package", "-o", "a"], "a graph for inference"),
        (["--target", "spir-v"], "invalid choice: 'spir-v'"),
        (["--precision", "f8"], "invalid choice: 'f8'"),
        (["--graph", "afine"], "there is no graph 'afine'"),
        (["--dim", "M=4"], "there is no dimension 'M'"),
        (["--dim", "N=-1"], "dimension 'N' cannot be -1"),
        (["--device", "abacus"], "no OpenCL device matches 'abacus'"),
        (["--inputs", "nowhere.npz"], "nowhere.npz"),
        (["--params", "nowhere.txt"], "parameters are read from .safetensors, .npz, .gguf"),
        (["--emit", "fushion"], "did you mean 'fusion'?"),
        (["--emit", "plan", "--device", "abacus"], "compiles for these, too: nvidia-h200"),
        (["--outputs", "out.txt"], "--outputs takes a file name that ends in .npz"),
        (["--dim", "N=99999999999"], "the inputs of graph 'affine' take 1490 GiB, and"),
        (["--dim", "N=4", "--dim", "N=5"], "--dim gives 'N' two sizes"),
        (["--trace", "nowhere/t.json"], "cannot write 'nowhere/t.json'"),
        (["--emit", "mlir", "--outputs", "o.npz"], "--outputs needs a run, and --emit stops"),
        (["--saturation", "rules=foo"], "no class of rules 'foo'; there are exact"),
        (["--saturation", "rules=" + "f" * 9999], f"rules '{'f' * 80}…'; there are exact"),
        (["--saturation", "time=-1"], "--saturation: time takes a number of seconds, not '-1'"),
        (["--saturation", "fuse=maybe"], "--saturation: fuse takes true or false, not 'maybe'"),
        (["--saturation", "tme=1"], "--saturation knows no 'tme'; did you mean 'time'?"),
        (
            ["--saturation", "rules=exact,time=2"],
            "--saturation takes NAME=VALUE, with spaces between several, such as "
            "'rules=exact time=2', not 'rules=exact,time=2'; the names are rules, time, extract",
        ),
        (["--saturation", "},simplify{"], "--saturation takes NAME=VALUE, with spaces between"),
        (["--repeat", "0"], "--repeat takes a number of at least 1"),
    ],
)
@pytest.mark.usefixtures("device")
def test_a_wrong_command_line_says_what_is_wrong(
    mgn_run: Run, program: Path, arguments: list[str], message: str
) -> None:
    outcome = mgn_run(program, *arguments)
    assert one_screen(outcome), outcome.stderr
    assert message in outcome.stderr


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "fault", ["truncated", "missing", "misshaped", "dtype", "rubbish", "empty"]
)
def test_bad_arrays_are_named(mgn_run: Run, program: Path, tmp_path: Path, fault: str) -> None:
    w, b = np.ones((2, 4), np.float32), np.ones(2, np.float32)
    arrays = {
        "missing": {"w": w},
        "misshaped": {"w": w.T.copy(), "b": b},
        "dtype": {"w": w.astype(np.int64), "b": b},
    }.get(fault, {"w": w, "b": b})
    path = tmp_path / "w.npz"
    np.savez(path, **arrays)
    data = path.read_bytes()
    replaced = {"truncated": data[: len(data) // 2], "rubbish": bytes(range(256)), "empty": b""}
    path.write_bytes(replaced.get(fault, data))
    outcome = mgn_run(program, "--params", path)
    assert outcome.status == 1
    assert "Traceback" not in outcome.stderr
    assert "w.npz" in outcome.stderr


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("mgn", "graph affine("),
        ("mlir", "mgn.linear"),
        ("simplified", "mgn.linear"),
        ("fusion", "fusion.kernel contraction"),
        ("scheduled", "schedule {"),
        ("kernel", "kernel.func"),
        ("plan", "plan.program @affine"),
        ("opencl", "__kernel"),
    ],
)
def test_every_stage_can_be_printed(mgn_run: Run, program: Path, stage: str, text: str) -> None:
    outcome = mgn_run(program, f"--emit={stage}")
    assert outcome.status == 0, outcome.stderr
    assert text in outcome.stdout


@pytest.mark.usefixtures("device")
def test_devices_are_listed_with_selectors(mgn_run: Run) -> None:
    outcome = mgn_run("--list-devices", "-v")
    assert outcome.status == 0
    assert outcome.stdout.startswith("0:0")
    for item in fields(Device):
        assert item.name == "name" or f"     {item.name} " in outcome.stdout
    assert "GFLOP/s" in outcome.stdout and "GB/s" in outcome.stdout


@pytest.mark.usefixtures("device")
def test_devices_are_measured_again_where_that_is_asked(
    mgn_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    known = cache(figures.describe)

    def describe(device: Any, *, again: bool = False) -> dict[str, Any]:
        asked.append(again)
        return known(device)

    monkeypatch.setattr(figures, "describe", describe)
    listed = mgn_run("--list-devices", "-v")
    assert mgn_run("--list-devices", "--probe").stdout == listed.stdout
    assert asked == [False] * (len(asked) // 2) + [True] * (len(asked) // 2)
    refused = mgn_run("--probe")
    assert one_screen(refused) and "--probe goes with --list-devices" in refused.stderr


@pytest.mark.usefixtures("device")
def test_a_listed_description_says_what_was_overridden(
    mgn_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    path.write_text('{"bandwidth": 5e9}')
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    outcome = mgn_run("--list-devices", "-v")
    assert re.search(r"bandwidth +5 GB/s  \(from MGN_DEVICE_FIGURES\)", outcome.stdout)
    path.write_text('{"bandwidth": 0}')
    refused = mgn_run("--list-devices", "-v")
    assert one_screen(refused) and "bandwidth must be a number above 0, not 0" in refused.stderr


def test_without_a_device_the_message_names_the_extra(
    mgn_run: Run, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgn.runtime.devices.list_devices", list)
    monkeypatch.setattr("mgn.runtime.devices.find_intel_library", lambda: None)
    for arguments in ([program], ["--list-devices"]):
        outcome = mgn_run(*arguments)
        assert one_screen(outcome)
        assert "pip install 'mgn-compiler[cpu]'" in outcome.stderr


def test_indices_are_drawn_within_the_axis_they_index() -> None:
    text = """
    graph g(ids: i32[1000], flat: i64[1000], free: i32[1000], flags: bool[1000]) {
      param table: f32[7, 2] = ones()
      rows = embedding(reshape(ids, [10, 100]), table)
      logits = full([1000, 3], 0.0)
      return rows, loss = cross_entropy(logits, cast(flat, i32)), free = free + 1, flags
    }
    """
    graph = next(structure.graphs_of(load_program("mgn", text, "t").lower()))
    samples = sample_inputs(graph, 0)
    assert set(np.unique(samples["ids"].array)) == set(range(7))
    assert set(np.unique(samples["flat"].array)) == set(range(3))
    assert samples["free"].array.max() > 50
    assert set(np.unique(samples["flags"].array)) == {False, True}
    assert samples["ids"].array.dtype == np.int32
    assert "below 7, the axis that it indexes" in samples["ids"].description


def parameter(name: str, type: TensorType, function: str, *values: float) -> structure.ParamOp:
    """A parameter with an initialiser."""
    return structure.ParamOp(name, type, initialiser.InitialiserAttr.of(function, *values))


def test_every_initialiser_has_its_mean_and_spread() -> None:
    assert set(INITIALISERS) == set(initialiser.INITIALISERS)
    type = tensor("f32", [200, 300])
    wanted = {
        "zeros": ((), 0.0, 0.0),
        "ones": ((), 1.0, 0.0),
        "constant": ((2.5,), 2.5, 0.0),
        "uniform": ((-1.0, 3.0), 1.0, 4.0 / np.sqrt(12.0)),
        "normal": ((0.5, 2.0), 0.5, 2.0),
        "glorot_uniform": ((), 0.0, np.sqrt(2.0 / 500.0)),
        "glorot_normal": ((), 0.0, np.sqrt(2.0 / 500.0)),
        "he_uniform": ((), 0.0, np.sqrt(2.0 / 300.0)),
        "he_normal": ((), 0.0, np.sqrt(2.0 / 300.0)),
    }
    for function, (values, mean, std) in wanted.items():
        drawn = initial_value(parameter("w", type, function, *values), 0)
        assert drawn.dtype == np.float32
        assert drawn.mean() == pytest.approx(mean, abs=5 * std / np.sqrt(drawn.size)), function
        assert drawn.std() == pytest.approx(std, rel=0.02, abs=1e-12), function


def test_a_range_wider_than_its_type_is_drawn_whole() -> None:
    drawn = initial_value(parameter("w", tensor("f32", [1000]), "uniform", -3e38, 3e38), 0)
    assert drawn.min() < -2e38 and drawn.max() > 2e38 and np.isfinite(drawn).all()


def test_an_integer_constant_keeps_every_digit() -> None:
    drawn = initial_value(parameter("n", tensor("i64", [2]), "constant", 2.0**53 - 1), 0)
    assert drawn.tolist() == [2**53 - 1] * 2


def test_a_parameter_is_drawn_from_its_own_name_and_the_seed() -> None:
    type = tensor("f32", [16])
    first = initial_value(parameter("a", type, "normal", 0.0, 1.0), 1)
    np.testing.assert_array_equal(first, initial_value(parameter("a", type, "normal", 0.0, 1.0), 1))
    for name, seed in (("b", 1), ("a", 2)):
        other = initial_value(parameter(name, type, "normal", 0.0, 1.0), seed)
        assert not np.array_equal(first, other)


def test_the_report_is_written_as_json(program: Path, tmp_path: Path, mgn_run: Run) -> None:
    path = tmp_path / "report.json"
    outcome = mgn_run(program, "--report-json", path)
    assert outcome.status == 0, outcome.stderr
    report = json.loads(path.read_text())
    assert report["schema"] == 1 and report["graph"] == "affine"
    kernels = report["kernels"]
    assert kernels and all(item["seconds"] > 0 and item["roofline_seconds"] > 0 for item in kernels)
    assert report["seconds"]["measured"] == pytest.approx(sum(k["seconds"] for k in kernels))
    assert report["extraction"]["choices"][0]["chosen"]["price"] > 0
    assert {item["name"] for item in report["steps"]} >= {"saturate", "build"}
    assert {"bandwidth", "rates", "name"} <= report["device"].keys()
    shown = mgn_run(program, "--report-json", "-", "--report", "--repeat", 2)
    assert json.loads(shown.stdout).keys() == report.keys()
    assert "] mean " in shown.stderr and "median of 2 runs" in shown.stderr
    refused = mgn_run(program, "--report-json", tmp_path)
    assert refused.status == 1 and "it is a directory" in refused.stderr
    module = mgn.parse(program.read_text())
    known = mgn.optimize(module).report
    assert json.loads(known.to_json()) == known.to_dict()
    assert known.to_dict().keys() == report.keys()
