"""Kernels hand activations over in half precision, and every number is what it was."""

import numpy as np
from xdsl.dialects.builtin import StringAttr

import mgn
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.types import element_of
from mgn.passes.saturate.narrow_results import narrow_results
from tests.passes.test_store_activations import DECODER
from tests.support.programs import parse

KERNELS = """
mgn.graph @g("x" = %x: tensor<4x8xf32>) -> ("y" : tensor<8x4xf32>, "z" : tensor<4x8xf32>) {
  %a, %b = fusion.kernel pointwise (%0 = %x : tensor<4x8xf32>)
      -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %1 = mgn.exp(%0) : tensor<4x8xf32>
    %2 = mgn.cast(%1) T = bf16 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %3 = mgn.cast(%2) T = f32 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %4 = mgn.reshape(%3) shape = [8, 4] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %5 = mgn.neg(%0) : tensor<4x8xf32>
    %14 = mgn.reshape(%5) shape = [8, 4] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    fusion.return %4, %14 : tensor<8x4xf32>, tensor<8x4xf32>
  }
  %y = fusion.kernel pointwise (%6 = %a : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
    %7 = mgn.tanh(%6) : tensor<8x4xf32>
    fusion.return %7 : tensor<8x4xf32>
  }
  %z = fusion.kernel pointwise (%8 = %b : tensor<8x4xf32>) -> (tensor<4x8xf32>) {
    %9 = mgn.reshape(%8) shape = [32] : (tensor<8x4xf32>) -> tensor<32xf32>
    %10 = mgn.cast(%9) T = bf16 : (tensor<32xf32>) -> tensor<32xbf16>
    %11 = mgn.cast(%10) T = f32 : (tensor<32xbf16>) -> tensor<32xf32>
    %12 = mgn.reshape(%11) shape = [4, 8] : (tensor<32xf32>) -> tensor<4x8xf32>
    %13 = mgn.abs(%12) : tensor<4x8xf32>
    fusion.return %13 : tensor<4x8xf32>
  }
  mgn.return %y, %z : tensor<8x4xf32>, tensor<4x8xf32>
}
"""


def kernels_of(graph: GraphOp) -> list[FusedKernelOp]:
    return [op for op in graph.block.ops if isinstance(op, FusedKernelOp)]


def test_what_its_kernel_or_all_of_its_readers_round_is_handed_over_in_two_bytes() -> None:
    module = parse(KERNELS)
    (graph,) = graphs_of(module)
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    before = Interpreter({}).run(graph, {"x": x})
    narrow_results(graph, StringAttr("bf16"))
    module.verify()
    first, *readers = kernels_of(graph)
    assert [element_of(item.type).name for item in first.outputs] == ["bf16", "bf16"]
    assert [element_of(item.operands[0].type).name for item in readers] == ["bf16", "bf16"]
    after = Interpreter({}).run(graph, {"x": x})
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_what_one_reader_needs_in_full_stays_as_it_is() -> None:
    text = KERNELS.replace("32xbf16", "32xf16").replace("(%9) T = bf16", "(%9) T = f16")
    module = parse(text)
    (graph,) = graphs_of(module)
    narrow_results(graph, StringAttr("bf16"))
    assert [element_of(item.type).name for item in kernels_of(graph)[0].outputs] == ["bf16", "f32"]


def test_no_kernel_of_a_decoder_hands_over_an_activation_in_four_bytes() -> None:
    """Tables of angles, which no activation goes into, and statistics of rows are left."""
    found = mgn.optimize(
        mgn.parse(DECODER.replace("0..2", "0..1")), device="nvidia-h200", precision="bf16-stored"
    )
    (graph,) = graphs_of(found.module)
    wide = [
        value
        for op in kernels_of(graph)
        for value in op.outputs
        if element_of(value.type).name == "f32"
        and value.type.get_shape()[-1] > 1  # type: ignore[attr-defined]
        and any(isinstance(use.operation, FusedKernelOp) for use in value.uses)
    ]
    assert all(not op.operands or _is_table(value) for value in wide for op in [value.owner])
    said = {item.element: item.tensors for item in found.report.handed_over}
    assert said["bf16"] >= len(found.report.kernels) - 1 >= 5
    assert "kernels hand over" in str(found.report)


def _is_table(value: object) -> bool:
    """Whether a value's kernel reads no activation."""
    return all(not isinstance(item.owner, FusedKernelOp) for item in value.owner.operands)  # type: ignore[attr-defined]
