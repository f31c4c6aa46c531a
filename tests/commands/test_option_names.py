"""What a message tells a user to give: an option where a command runs, an argument in Python."""

import re
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.commands.options.errors import guarded
from mgn.commands.run import main as run
from mgn.commands.train import main as train
from mgn.diagnostics import MgnError, argument_name
from mgn.runtime.checkpoints.renaming import prefix_hint
from mgn.runtime.weights import save_params
from tests.conftest import run_in_process

UNSIZED = "graph g[S](x: f32[S]) { return x }"


def test_a_name_is_an_option_only_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise MgnError(f"{argument_name('clip_norm')} is wrong")

    assert argument_name("clip_norm") == "clip_norm"
    assert guarded(fail) == 1
    assert capsys.readouterr().err == "error: --clip-norm is wrong\n"
    assert argument_name("clip_norm") == "clip_norm"


def test_a_dimension_without_a_size(tmp_path: Path) -> None:
    path = tmp_path / "unsized.mgn"
    path.write_text(UNSIZED)
    said = run_in_process(run, [str(path)]).stderr
    assert "bind it with --dim S=N\n" in said and "dims" not in said
    with pytest.raises(MgnError, match=re.escape('bind it with dims={"S": N}')) as caught:
        mgn.compile(mgn.parse_file(path))
    assert "--dim" not in str(caught.value)


def test_dimensions_of_an_onnx_model_without_a_size(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    sizes = ["batch size", "Dimension.0", "a=b"]
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes) for name in "xy"
    ]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    said = run_in_process(run, [str(path)]).stderr
    assert "; --dim 'batch size=N' --dim Dimension.0=N --dim a=b=N gives them one" in said
    given = "; dims = {'batch size': …, 'Dimension.0': …, 'a=b': …} gives them one"
    with pytest.raises(MgnError, match=re.escape(given)):
        mgn.compile(mgn.from_onnx(path))
    options = ["--dim", "batch size=2", "--dim", "Dimension.0=3", "--dim", "a=b=1"]
    outcome = run_in_process(run, [str(path), *options])
    assert "f32[2, 3, 1]" in outcome.stdout and outcome.status == 0, outcome.stderr


def test_shapes_and_constants_of_an_onnx_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper, onnx.TensorProto
    given = [
        make.make_tensor_value_info("x", kinds.FLOAT, None),
        make.make_tensor_value_info("to", kinds.INT64, [2]),
    ]
    result = make.make_tensor_value_info("y", kinds.FLOAT, None)
    node = make.make_node("Reshape", ["x", "to"], ["y"])
    path = tmp_path / "m.onnx"
    onnx.save(make.make_model(make.make_graph([node], "g", given, [result])), path)
    said = run_in_process(run, [str(path)]).stderr
    assert "input 'x' has no shape in the model; --shape x=N,N gives it one" in said
    said = run_in_process(run, [str(path), "--shape", "x=2,6"]).stderr
    assert "depends on input 'to'; --constant to=VALUE gives it a value" in said
    options = ["--shape", "x=2,6", "--constant", "to=3,4"]
    outcome = run_in_process(run, [str(path), *options])
    assert "f32[3, 4]" in outcome.stdout and outcome.status == 0, outcome.stderr
    with pytest.raises(MgnError, match=r"mgn\.from_onnx\(…, constants = \{'to': …\}\)"):
        mgn.compile(mgn.from_onnx(path, shapes={"x": [2, 6]}))
    for options, message in (
        (["--shape", "x=2,a"], "--shape takes NAME=N,N,…"),
        (["--shape", "x"], "--shape takes NAME=N,N,…"),
        (["--shape", "x=2", "--shape", "x=3"], "--shape gives 'x' two shapes"),
        (["--shape", "z=2"], "there is no input 'z'"),
        (["--constant", "to=a"], "--constant takes NAME=VALUE"),
        (["--constant", "to=3,4", "--constant", "to=3,5"], "--constant gives 'to' two values"),
        (["--shape", "x=2,6", "--constant", "to=1.5,8"], "its constant is float64"),
    ):
        outcome = run_in_process(run, [str(path), *options])
        assert outcome.status == 1 and message in outcome.stderr, (options, outcome.stderr)
    plain = tmp_path / "m.mgn"
    plain.write_text(UNSIZED)
    said = run_in_process(run, [str(plain), "--constant", "x=1"]).stderr
    assert "--shape and --constant are about inputs of an .onnx file" in said


def test_a_rule_that_would_rename() -> None:
    assert prefix_hint(["w", "b"], ["m.w", "m.b"]).startswith("rename = 'm\\.(.*)=\\1' would")


def test_a_rule_that_would_rename_in_a_command(tmp_path: Path) -> None:
    path, weights = tmp_path / "m.mgn", tmp_path / "w.safetensors"
    path.write_text("graph g(x: f32[4]) {\n  param w: f32[4]\n  return y = x * w\n}\n")
    save_params(weights, {"model.w": np.ones(4, np.float32)})
    said = run_in_process(run, [str(path), "--params", str(weights)]).stderr
    assert "--rename 'model\\.(.*)=\\1' would find 1" in said


def test_options_of_training(tmp_path: Path) -> None:
    data = tmp_path / "d.npz"
    np.savez(data, x=np.ones((6, 4), np.float32))
    path = tmp_path / "m.mgn"
    path.write_text(
        "graph g[B](x: f32[B, 4]) {\n  param w: f32[4]\n  return loss = mean(x * w)\n}\n"
    )
    given = [str(path), "--data", str(data), "--batch", "4"]
    for options, message in (
        (["--clip-norm", "-1"], "error: --clip-norm is a number above 0"),
        (["--bucket", "-1"], "error: --bucket takes a number of MiB"),
        (["--resume"], "--save FILE.safetensors"),
        (["--accumulate", "2"], "; a smaller --accumulate takes less"),
    ):
        outcome = run_in_process(train, [*given, *options])
        assert outcome.status == 1 and message in outcome.stderr, (options, outcome.stderr)
