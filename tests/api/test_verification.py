"""Equal operations are checked once, and a wrong one among many right ones is still found."""

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntegerAttr,
    ModuleOp,
    f32,
    i32,
)
from xdsl.ir import Operation
from xdsl.irdl import OpDef
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.structure import ConstantOp
from mgn.modules import verification
from mgn.modules.dialect_table import make_context
from mgn.modules.mlir_text import InvalidModule, check_module, parse_mlir
from mgn.modules.verification import verify_whole


def sums(count: int, wrong: int = -1) -> list[Operation]:
    """A constant, and sums of it with itself, of which one may be said to be a float."""
    one = arith.ConstantOp(IntegerAttr(1, i32))
    return [
        one,
        *(
            arith.AddiOp(one.result, one.result, result_type=f32 if n == wrong else i32)
            for n in range(count)
        ),
    ]


def test_a_wrong_operation_among_equal_ones_is_found() -> None:
    operations = sums(20, wrong=10)
    with pytest.raises(InvalidModule) as error:
        check_module(ModuleOp(operations))
    assert [item.operation for item in error.value.violations] == [operations[11]]


def test_a_wrong_property_among_equal_operations_is_found() -> None:
    operations = sums(20)
    operations[7].properties["unknown"] = IntegerAttr(1, i32)
    with pytest.raises(InvalidModule, match="'unknown'"):
        check_module(ModuleOp(operations))


def test_equal_operations_before_the_last_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Operation] = []
    plain = OpDef.verify

    def counting(self: OpDef, op: Operation) -> None:
        checked.append(op)
        plain(self, op)

    monkeypatch.setattr(OpDef, "verify", counting)
    monkeypatch.setattr(verification, "_remembered", verification._Remembered())
    module = ModuleOp(sums(20))
    verify_whole(module)
    assert len(checked) == 4
    module.verify()
    assert len(checked) == 4 + 22
    verify_whole(ModuleOp(sums(20)))
    assert len(checked) == 4 + 22 + 2  # the last sum and the module, which are not simple


def test_what_is_remembered_has_no_arrays_and_no_more_than_a_number_of_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "_remembered", verification._Remembered())
    kept = verification._remembered
    verify_whole(ModuleOp(sums(20)))
    constants = [ConstantOp.from_array(np.full(4, number, np.float32)) for number in range(20)]
    verify_whole(ModuleOp([*constants, *sums(2)]))
    assert not any(isinstance(item, DenseIntOrFPElementsAttr) for item in kept.numbers)
    assert len(kept.right) == 2
    monkeypatch.setattr(verification, "MOST_KNOWN", 3)
    for number in range(9):
        verify_whole(ModuleOp([arith.ConstantOp(IntegerAttr(number, i32)), *sums(1)]))
        assert len(kept.right) <= 3
        assert len(kept.numbers) <= 3
    with pytest.raises(VerifyException):
        verify_whole(ModuleOp([*constants_of(9), *sums(3, wrong=0)]))
    assert not kept.right
    assert not kept.numbers


def constants_of(count: int) -> list[Operation]:
    return [arith.ConstantOp(IntegerAttr(number, i32)) for number in range(count)]


def test_what_is_right_in_one_module_does_not_make_another_right() -> None:
    verify_whole(ModuleOp(sums(3)))
    with pytest.raises(InvalidModule):
        check_module(ModuleOp(sums(3, wrong=1)))
    verify_whole(ModuleOp(sums(3)))


def test_a_symbol_that_is_defined_twice_is_told_at_its_second_place() -> None:
    text = """mgn.graph @f() -> () {
  mgn.return
}
mgn.graph @g() -> () {
  mgn.return
}
mgn.graph @f() -> () {
  mgn.return
}
"""
    with pytest.raises(InvalidModule) as error:
        check_module(parse_mlir(text, make_context(), "t.mlir"))
    (found,) = error.value.violations
    assert found.message == "symbol 'f' is defined a second time"
    assert isinstance(found.operation.location, FileLineColLoc)
    assert found.operation.location.line.data == 7
