"""What both targets of kernels share: the tables of built-in functions, the walk and its errors."""

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FileLineColLoc, FloatAttr, IntAttr, StringAttr, f16, f32, i1
from xdsl.ir import Block, Operation

from mgn.codegen.opencl.opencl import ROWS as OPENCL_ROWS
from mgn.dialects.kernel.builtins import DIVISIONS, EXACT_BUILTINS, ROUNDED_BUILTINS
from mgn.dialects.kernel.lanes import constant_number, element, is_bool, is_small_float, lanes
from mgn.dialects.kernel.translation import Translation
from mgn.passes.convert_kernel_to_spirv import ROWS as SPIRV_ROWS


class Counted(Translation[int]):
    """A number for each constant."""

    ERROR = ValueError
    MISSING = "has no number"


@pytest.mark.parametrize("operation", [*ROUNDED_BUILTINS, *EXACT_BUILTINS, *DIVISIONS])
def test_both_targets_have_a_row_for_every_built_in_function(operation: type[Operation]) -> None:
    assert operation in OPENCL_ROWS
    assert operation in SPIRV_ROWS


def test_a_walk_keeps_what_rows_give_and_refuses_operations_without_one() -> None:
    seven = arith.ConstantOp(FloatAttr(7.0, f32))
    double = arith.AddfOp(seven.result, seven.result)
    double.location = FileLineColLoc(StringAttr("k.mlir"), IntAttr(3), IntAttr(5))
    walk = Counted({arith.ConstantOp: lambda walk, op: 7})
    with pytest.raises(ValueError, match=r"k\.mlir:3:5: arith\.addf has no number: .*arith\.addf"):
        walk.block(Block([seven, double]))
    assert walk.value(seven.result) == 7
    assert walk.values(double) == [7, 7]


def test_constants_have_their_number_and_other_values_none() -> None:
    constant = arith.ConstantOp(FloatAttr(0.5, f16))
    assert constant_number(constant.result) == 0.5
    assert constant_number(arith.NegfOp(constant.result).result) is None
    assert (element(f16), lanes(f16), is_small_float(f16), is_bool(i1)) == (f16, 1, True, True)
