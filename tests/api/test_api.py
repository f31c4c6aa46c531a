"""The Python calls: parse, optimize, compile, parameters, reports, and clear refusals."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.compilation import compile_graph
from mgn.driver.kernel_work import kernel_work
from mgn.passes.saturate import RuleClass, SaturateOptions
from mgn.runtime.devices import list_devices
from mgn.runtime.errors import InputError, WeightsError

TEXT = """
graph affine[N = 3](x: f32[N, 4]) {
  param w: f32[2, 4] = normal(std = 0.5)
  param b: f32[2]
  return y = relu(linear(x, w, b))
}
graph twice[N](x: f32[N]) { return y = x * 2.0 }
"""


@pytest.fixture
def executable() -> mgn.Executable:
    """The graph `affine` on some device; skips, saying so, where there is none."""
    if not list_devices():
        pytest.skip("there is no OpenCL device")
    return mgn.compile(mgn.parse(TEXT), "affine", {"N": 5})


def test_a_module_lists_and_lowers_its_graphs() -> None:
    module = mgn.parse(TEXT)
    assert module.graphs == ("affine", "twice")
    assert repr(module) == "Module(graph affine[N], graph twice[N])"
    assert "tensor<7xf32>" in str(module.lower("twice", {"N": 7}))
    ir = module.lower("affine")
    assert isinstance(ir, ModuleOp)
    assert mgn.Module(ir).graphs == ("affine",)
    assert repr(mgn.Module(ir)) == "Module(graph affine(x: f32[3, 4]) -> (y))"


def test_a_size_may_come_from_numpy() -> None:
    module = mgn.parse(TEXT)
    assert "tensor<7xf32>" in str(module.lower("twice", {"N": np.int64(7)}))
    with pytest.raises(mgn.DiagnosticsError, match="dimension 'N' cannot be True"):
        module.lower("twice", {"N": True})


def test_an_executable_says_what_it_takes_and_gives(executable: mgn.Executable) -> None:
    assert executable.inputs == {"x": ("f32", (5, 4))}
    (type,) = executable.outputs.values()
    assert (type.element, type.shape, type.dtype, str(type)) == (
        "f32",
        (5, 2),
        "float32",
        "f32[5, 2]",
    )
    shown = repr(executable)
    assert shown.startswith("Executable(affine(x: f32[5, 4]) -> (y: f32[5, 2]), 1 launch on ")
    assert executable.device.name in shown and "\n" not in shown


@pytest.mark.parametrize("program", [None, TEXT, 3])
def test_what_is_no_program_is_told_so(program: Any) -> None:
    with pytest.raises(mgn.MgnError, match=r"expected, as mgn\.parse gives it, not \w+$"):
        mgn.optimize(program)


def test_the_graph_must_be_clear() -> None:
    with pytest.raises(mgn.MgnError, match=r"which graph.*affine, twice; say one with graph="):
        mgn.optimize(mgn.parse(TEXT))
    with pytest.raises(mgn.DiagnosticsError, match="there is no graph 'afine'"):
        mgn.optimize(mgn.parse(TEXT), "afine")
    with pytest.raises(mgn.MgnError, match="N"):
        mgn.optimize(mgn.parse(TEXT), "twice")


def test_optimizing_reports_the_egraph_and_the_kernels() -> None:
    optimized = mgn.optimize(mgn.parse(TEXT), "affine")
    kernels = [op for op in optimized.module.walk() if isinstance(op, FusedKernelOp)]
    report = optimized.report
    assert len(kernels) == len(report.kernels) == 1
    assert report.operations_before == 2
    assert report.kernels[0].kind == "contraction"
    for part in (
        "2 operations as written became 1 kernel in each run",
        "e-graph",
        "rules fired",
        "lower bound",
    ):
        assert part in str(report)


def test_saturation_means_the_same_to_both_calls(executable: mgn.Executable) -> None:
    module = mgn.parse(TEXT)
    apart = SaturateOptions(fuse=False)
    optimized = mgn.optimize(module, "affine", saturation=apart)
    compiled = mgn.compile(module, "affine", saturation=apart)
    assert len(optimized.report.kernels) == len(compiled.report.kernels) > 1
    assert len(mgn.optimize(module, "affine").report.kernels) == len(executable.report.kernels) == 1
    with pytest.raises(TypeError, match="'saturation' takes SaturateOptions, not str") as told:
        mgn.optimize(module, "affine", saturation="rules=exact")  # pyright: ignore
    said = str(told.value)
    ((imported, example),) = re.findall(r"'(from .*)' it is such as (.*)$", said)
    names: dict[str, Any] = {}
    exec(f"{imported}\noptions = {example}", names)
    assert names["options"] == SaturateOptions(frozenset({RuleClass.EXACT}), 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_budget": -1}, "time_budget takes a number of seconds, not -1"),
        ({"time_budget": float("nan")}, "time_budget takes a number of seconds, not nan"),
        ({"extract_budget": "5"}, "extract_budget takes a number of seconds, not '5'"),
        ({"extract_budget": None}, "extract_budget takes a number of seconds, not None"),
        ({"fuse": "no"}, "fuse takes True or False, not 'no'"),
        ({"classes": "exact"}, "classes takes a frozenset of RuleClass, not 'exact'"),
        ({"classes": frozenset({"exct"})}, "classes takes a frozenset of RuleClass"),
        ({"limits": 3}, "limits takes CutLimits, not 3"),
    ],
)
def test_saturation_that_is_none_is_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        SaturateOptions(**options)


def test_the_work_of_a_kernel_is_counted_by_hand() -> None:
    optimized = mgn.optimize(mgn.parse(TEXT), "affine")
    kernel = next(op for op in optimized.module.walk() if isinstance(op, FusedKernelOp))
    work = kernel_work(kernel)
    assert work.bytes == 4 * (3 * 4 + 2 * 4 + 2 + 3 * 2)
    assert work.operations == 2 * 3 * 2 * 4 + 3 * 2 + 3 * 2
    assert work.element == "f32"
    device = DEVICES["cpu"]
    computing = work.operations / device.rate("f32")
    assert work.roofline_seconds(device) == max(device.seconds_to_move(work.bytes), computing)
    near, far = (replace(work, bytes=size) for size in (device.cache, 2 * device.cache))
    gained = device.cache / device.bandwidth / device.cache_gain
    assert near.roofline_seconds(device) == pytest.approx(gained)
    assert far.roofline_seconds(device) == pytest.approx(far.bytes / device.bandwidth)


def test_the_work_of_a_pick_is_to_read_one_of_two() -> None:
    text = "graph g(c: bool[1], x: f32[90], y: f32[90]) { return z = pick(c, x, y) }"
    optimized = mgn.optimize(mgn.parse(text))
    kernel = next(op for op in optimized.module.walk() if isinstance(op, FusedKernelOp))
    assert kernel_work(kernel).bytes == 1 + 2 * 4 * 90


def test_a_product_on_the_matrix_unit_is_held_against_the_rate_of_the_unit() -> None:
    size = 512
    text = f"graph g(a: f32[{size}, {size}], b: f32[{size}, {size}]) {{ return y = a @ b }}"
    device = DEVICES["nvidia-h200"].with_figures(bandwidth=1e30)
    seconds: dict[str, float] = {}
    for precision in ("f32", "tf32"):
        module = mgn.parse(text).lower()
        report = compile_graph(module, device, precision=precision).report
        seconds[precision] = report.roofline_seconds
    assert seconds["f32"] == pytest.approx(2 * size**3 / device.rate("f32"))
    assert seconds["tf32"] == pytest.approx(2 * size**3 / device.matrix_rates["tf32"], rel=0.01)


def test_attention_is_counted_by_the_scores_that_are_seen() -> None:
    text = """graph g(q: f32[2, 3, 8], k: f32[2, 4, 8], v: f32[2, 4, 6]) {
      return y = attention(q, k, v, heads = 2, causal = true, window = 3)
    }"""
    device = DEVICES["cpu"].with_figures(launch_cost=1.0)
    optimized = mgn.optimize(mgn.parse(text), device=device)
    kernel = next(op for op in optimized.module.walk() if isinstance(op, FusedKernelOp))
    assert kernel.kernel_kind == "attention"
    assert kernel_work(kernel).operations == 2 * (2 + 3 + 3) * (2 * 2) * (4 + 3)


def test_a_call_computes_what_numpy_computes(executable: mgn.Executable) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((5, 4), np.float32)
    executable.params["b"] = b = random.standard_normal(2, np.float32)
    w = executable.params["w"]
    np.testing.assert_allclose(
        executable(x=x)["y"], np.maximum(x @ w.T + b, 0.0), rtol=1e-5, atol=1e-6
    )
    executable.run({"x": x}, profile=True)
    assert executable.report.measured_seconds is not None
    assert len(executable.profile) == len(executable.report.kernels)


def test_a_replay_may_be_timed_by_the_device(executable: mgn.Executable) -> None:
    assert executable.replay() == []
    launches = executable.replay(profile=True)
    assert [launch.kernel for launch in launches] == [
        line.name for line in executable.report.kernels
    ]
    assert all(launch.seconds > 0 for launch in launches)


def test_parameters_are_checked_and_saved(executable: mgn.Executable, tmp_path: Path) -> None:
    assert list(executable.params) == ["w", "b"]
    assert executable.params.without_value == ["b"]
    x = np.zeros((5, 4), np.float32)
    with pytest.raises(InputError, match="'b'"):
        executable(x=x)
    with pytest.raises(InputError, match="shape"):
        executable.params["b"] = np.zeros(3, np.float32)
    with pytest.raises(InputError, match="there is no parameter"):
        executable.params["c"] = np.zeros(3, np.float32)
    with pytest.raises(KeyError):
        _ = executable.params["c"]
    executable.params["b"] = np.array([1.0, -1.0], np.float32)
    np.testing.assert_array_equal(executable(x=x)["y"], np.tile(np.float32([1.0, 0.0]), (5, 1)))
    executable.save_params(tmp_path / "w.safetensors")
    executable.params["b"] = np.zeros(2, np.float32)
    assert executable.load_params(tmp_path / "w.safetensors") == 0
    np.testing.assert_array_equal(executable.params["b"], np.float32([1.0, -1.0]))
    np.savez(tmp_path / "w.npz", w=executable.params["w"])
    with pytest.raises(WeightsError, match=r"'b'.*missing"):
        executable.load_params(tmp_path / "w.npz")


def test_inputs_that_have_no_names_are_refused(executable: mgn.Executable) -> None:
    for inputs in (None, [np.ones((3, 4), np.float32)]):
        with pytest.raises(InputError, match="inputs are arrays by name, not"):
            executable.run(inputs)  # pyright: ignore[reportArgumentType]


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mgn.nothing


def test_an_mlir_file_that_cannot_be_read_is_a_diagnostic(tmp_path: Path) -> None:
    with pytest.raises(mgn.DiagnosticsError, match="cannot read the file"):
        mgn.parse_file(tmp_path / "missing.mlir")
    (tmp_path / "binary.mlir").write_bytes(b"module {\xff}")
    with pytest.raises(mgn.DiagnosticsError, match=r"1:9: error: the file is not UTF-8"):
        mgn.parse_file(tmp_path / "binary.mlir")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mgn.graph @g( {", r"bad\.mlir:1:15: error: string literal expected"),
        ("", r"bad\.mlir:1:1: error: the file defines nothing"),
        ("\n%%%", r"bad\.mlir:2:1: error: Expected suffix identifier after '%'"),
        ('"foo.bar"() : () -> ()', r"bad\.mlir:1:10: error: Operation foo\.bar is not registered"),
        (
            'mgn.graph @g("x" = %x : tensor<2xf32>) -> ("y" : tensor<3xf32>) {\n'
            "  %0 = mgn.pad(%x) padding = [[1, 0, 3]], value = 0.0 : (tensor<2xf32>) -> "
            "tensor<3xf32>\n  mgn.return %0 : tensor<3xf32>\n}",
            r"bad\.mlir:2:\d+: error: an attribute must be a list of \[low, high\] pairs",
        ),
        ("builtin.module {" * 10_000, r"bad\.mlir:1:\d+: error: the program is nested too deep"),
        (
            'mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {\n'
            "  %y = mgn.sum(%x) axis = [3], keepdims = false : tensor<4xf32>\n"
            "  mgn.return %y : tensor<4xf32>\n}",
            r"bad\.mlir:2:3: error: .*axis",
        ),
        (
            'mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<5xf32>) {\n'
            "  mgn.return %x : tensor<4xf32>\n}",
            r"bad\.mlir:1:50: error: result 'y' is said to be tensor<5xf32>, but tensor<4xf32>",
        ),
    ],
)
def test_wrong_mlir_is_a_diagnostic_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.mlir").write_text(text)
    with pytest.raises(mgn.DiagnosticsError, match=message):
        mgn.parse_file(tmp_path / "bad.mlir")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": None}, "'device' takes a selector such as 'auto', 'cpu' or '0:0', not None"),
        ({"dims": [1]}, "'dims' takes sizes by name, such as .*, not list"),
        ({"graph": 3}, "'graph' takes the name of a graph, or a list of names, not int"),
        ({"seed": "a"}, "'seed' takes a whole number, not str"),
        ({"seed": True}, "'seed' takes a whole number, not bool"),
        ({"target": None}, "'target' takes 'opencl', 'spirv' or 'auto', not None"),
        ({"precision": 32}, "'precision' takes .*, not int"),
        ({"saturation": 3}, "'saturation' takes SaturateOptions, not int"),
        ({"tune": "long"}, "'tune' takes a number of seconds, not str"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error_that_names_it(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        mgn.compile(mgn.parse(TEXT), **{"graph": "affine", **arguments})


def test_other_calls_say_what_they_take() -> None:
    with pytest.raises(TypeError, match=r"mgn\.parse: 'text' takes the text of a program"):
        mgn.parse(None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"mgn\.parse_file: 'path' takes a path, not int"):
        mgn.parse_file(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"mgn\.optimize: 'device' takes the name of a device"):
        mgn.optimize(mgn.parse(TEXT), "affine", device=3)  # pyright: ignore[reportArgumentType]
    executable = mgn.compile(mgn.parse("graph g(self: f32[2]) { return y = -self }"), device="cpu")
    assert executable(self=np.ones(2, np.float32))["y"].tolist() == [-1, -1]
    for call in (executable.load_params, executable.save_params):
        with pytest.raises(TypeError, match=rf"{call.__name__}: 'path' takes a path, not dict"):
            call({"w": 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(mgn.MgnError, match="seed takes a number of at least 0"):
        mgn.compile(mgn.parse(TEXT), "affine", seed=-1)
    with pytest.raises(mgn.DiagnosticsError, match="there is no dimension '3'"):
        mgn.optimize(mgn.parse(TEXT), "affine", dims={3: 2})  # pyright: ignore[reportArgumentType]


def test_an_mlir_file_is_a_program_too(tmp_path: Path) -> None:
    path = tmp_path / "twice.mlir"
    path.write_text(str(mgn.Module(mgn.parse(TEXT).lower("twice", {"N": 7}))))
    assert mgn.parse_file(path).graphs == ("twice",)
    assert len(mgn.optimize(mgn.parse_file(path)).report.kernels) == 1
    with pytest.raises(mgn.MgnError, match="sizes are fixed"):
        mgn.optimize(mgn.parse_file(path), dims={"N": 8})
