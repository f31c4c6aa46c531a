"""xDSL's own folder and its `canonicalize` pass work on `mgn` operations, as `simplify` does."""

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.folder import Folder
from xdsl.ir import Block, Operation
from xdsl.transforms.canonicalize import CanonicalizePass

from mgn.dialects.dense import dense_of
from mgn.dialects.mgn.fold import KEPT, LARGEST_FOLDED
from mgn.dialects.mgn.structure import ConstantOp, MgnConstants, graphs_of
from mgn.passes.simplify import SimplifyPass
from tests.dialects.case import Case, Source
from tests.dialects.operation_cases import CASES
from tests.support.programs import call, context, evaluate, parse

PROGRAM = """
mgn.graph @g("x" = %x : tensor<4x2xf32>) -> ("y" : tensor<4x2xf32>) {
  %0 = mgn.constant dense<4.0> : tensor<f32>
  %1 = mgn.sqrt(%0) : tensor<f32>
  %2 = mgn.constant dense<1.0> : tensor<f32>
  %3 = mgn.mul(%x, %2) : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %4 = mgn.reshape(%3) shape = [4, 2] : tensor<4x2xf32>
  %5 = mgn.add(%4, %1) : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  mgn.return %5 : tensor<4x2xf32>
}
"""


def body(module: ModuleOp) -> list[Operation]:
    """The operations of a module's graph, without its return."""
    (graph,) = graphs_of(module)
    return list(graph.block.ops)[:-1]


def test_canonicalize_folds_what_simplify_folds() -> None:
    canonical, simple = parse(PROGRAM), parse(PROGRAM)
    CanonicalizePass().apply(context(), canonical)
    SimplifyPass().apply(context(), simple)
    canonical.verify()
    assert str(canonical) == str(simple)
    constant, add = body(canonical)
    assert isinstance(constant, ConstantOp) and constant.array == np.float32(2)
    (graph,) = graphs_of(canonical)
    assert list(add.operands) == [graph.block.args[0], constant.results[0]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operation_on_constants_folds_to_what_the_interpreter_computes(case: Case) -> None:
    arguments, keywords = case.arguments(Source(np.float32)), dict(case.keywords)
    (first, *_) = call(Block(), case.name, *arguments, **keywords)
    op = first.owner
    assert isinstance(op, Operation)
    folded = Folder(context()).try_fold(op)
    large = any(math.prod(value.type.get_shape()) > LARGEST_FOLDED for value in op.results)
    if case.name in KEPT or not op.operands or large:
        assert folded is None
        return
    assert folded is not None
    expected = evaluate(case.name, *arguments, **keywords)
    for value, wanted in zip(folded[0], expected, strict=True):
        assert isinstance(value.owner, ConstantOp) and value.type in op.result_types
        assert value.owner.array.dtype == wanted.dtype
        assert value.owner.array.tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_a_large_result_is_not_folded() -> None:
    small, large = np.zeros(LARGEST_FOLDED, np.int8), np.zeros(LARGEST_FOLDED + 1, np.int8)
    folder = Folder(context())
    for array, is_folded in ((small, True), (large, False)):
        (result,) = call(Block(), "neg", array)
        assert isinstance(result.owner, Operation)
        assert (folder.try_fold(result.owner) is not None) is is_folded


def test_the_body_of_a_kernel_is_not_folded() -> None:
    module = parse("""
      mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
        %y = fusion.kernel pointwise (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
          %0 = mgn.identity(%a) : tensor<4xf32>
          fusion.return %0 : tensor<4xf32>
        }
        mgn.return %y : tensor<4xf32>
      }
    """)
    before = str(module)
    CanonicalizePass().apply(context(), module)
    assert str(module) == before


def test_a_constant_of_another_type_is_not_made() -> None:
    value = dense_of(np.zeros(3, np.float32))
    made = MgnConstants().materialize_constant(value, value.type)
    assert isinstance(made, ConstantOp) and made.value == value
    other = dense_of(np.zeros(3, np.float64)).type
    assert MgnConstants().materialize_constant(value, other) is None
