"""`mgn.compile` and `mgn-opt` run the same passes in the same way, and give the same kernels."""

import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.kernel.device import DEVICES
from mgn.driver.compilation import compile_graph, optimize_graph
from mgn.driver.pipelines import PIPELINES, parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.modules.mlir_text import parse_mlir, print_mlir

ATTENTION = """graph g(q: f32[512, 64], k: f32[512, 64], v: f32[512, 64]) {
  return y = softmax(q @ k.T * 0.125, axis = 1) @ v
}"""
DEVICE = DEVICES["nvidia-h200"]


def lowered() -> ModuleOp:
    """The program, for the device."""
    module = mgn.parse(ATTENTION).lower()
    module.attributes["mgn.device"] = DEVICE.to_attribute()
    return module


def passes_with(precision: str) -> str:
    """The inference pipeline as `mgn-opt` takes it."""
    rounding = f"convert-precision{{precision={precision}}}"
    return ",".join(PIPELINES["inference"]).replace("convert-precision", rounding)


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
def test_the_command_and_the_call_choose_the_same_kernels(precision: str) -> None:
    by_call, by_command = lowered(), lowered()
    optimize_graph(by_call, DEVICE, precision=precision)
    text = passes_with(precision).partition(",choose-schedules")[0]
    run_passes(parse_passes(text), by_command, make_context())
    assert print_mlir(by_call) == print_mlir(by_command)


@pytest.mark.parametrize("precision", ["f32", "tf32"])
def test_the_command_and_the_call_lower_to_the_same_program(precision: str) -> None:
    by_call, by_command = lowered(), lowered()
    compile_graph(by_call, DEVICE, precision=precision)
    run_passes(parse_passes(passes_with(precision)), by_command, make_context())
    assert print_mlir(by_call) == print_mlir(by_command)


def test_passes_may_be_run_in_two_runs_with_text_between() -> None:
    whole, first = lowered(), lowered()
    text = passes_with("tf32").partition(",choose-schedules")[0]
    run_passes(parse_passes(text), whole, make_context())
    begun, _, rest = text.rpartition(",")
    run_passes(parse_passes(begun), first, make_context())
    second = parse_mlir(print_mlir(first), make_context())
    run_passes(parse_passes(rest), second, make_context())
    assert print_mlir(second) == print_mlir(whole)
