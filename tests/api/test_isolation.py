"""What uses a value from outside a kernel or a graph is refused, as xDSL's own trait refuses it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.isolation import Isolated
from mgn.dialects.kernel import FuncOp, ReturnOp

KINDS = ["sum", "branch", "module", "kernel"]


def number() -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr(1, i32))


def kernel_of(*operations: Operation) -> FuncOp:
    """A kernel without arguments."""
    return FuncOp("k", [], [1], [1], body=Region(Block([*operations, ReturnOp()])))


def branch(test: SSAValue, *operations: Operation) -> scf.IfOp:
    """A branch that computes, and gives nothing."""
    return scf.IfOp(test, [], [*operations, scf.YieldOp()])


def twice(value: SSAValue) -> arith.AddiOp:
    return arith.AddiOp(value, value)


def message_of(trait: IsolatedFromAbove, op: Operation) -> str | None:
    try:
        trait.verify(op)
    except VerifyException as error:
        return str(error)
    return None


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("place", ["inside", "another kernel", "nowhere", "around"])
def test_a_value_from_outside_is_refused_however_deep_it_is_used(depth: int, place: str) -> None:
    one, test = number(), arith.ConstantOp(IntegerAttr(1, i1))
    inner: Operation = twice(one.result)
    for _ in range(depth):
        inner = branch(test.result, inner)
    func = kernel_of(test, *([one] if place == "inside" else []), inner)
    module = ModuleOp([one, func] if place == "around" else [func])
    if place == "another kernel":
        module.body.block.add_op(kernel_of(one))
    told = message_of(Isolated(), func)
    assert (told is None) == (place == "inside")
    assert told == message_of(IsolatedFromAbove(), func)


def test_a_value_of_a_branch_that_is_used_beside_it_is_for_others_to_judge() -> None:
    one, test = number(), arith.ConstantOp(IntegerAttr(1, i1))
    func = kernel_of(test, branch(test.result, one), twice(one.result))
    assert message_of(Isolated(), func) is message_of(IsolatedFromAbove(), func) is None


def test_a_kernel_inside_another_operation_checks_itself() -> None:
    one = number()
    inner = kernel_of(twice(one.result))
    around = ModuleOp([one, inner])
    assert message_of(Isolated(), around) is None
    with pytest.raises(VerifyException, match="defined out of its"):
        inner.verify()


def test_kernels_have_the_trait() -> None:
    assert FuncOp.get_trait(IsolatedFromAbove) == Isolated()


@st.composite
def wired(draw: st.DrawFn) -> ModuleOp:
    """A module of kernels, modules and branches in one another, whose sums take any two values of
    it: ones before and behind, around, inside, beside and in other kernels.
    """
    sums: list[arith.AddiOp] = []
    test = arith.ConstantOp(IntegerAttr(1, i1))

    def operations(depth: int) -> list[Operation]:
        made: list[Operation] = []
        for kind in draw(st.lists(st.sampled_from(KINDS), max_size=4)):
            one = number()
            made.append(one)
            if kind == "sum" or depth == 0:
                sums.append(twice(one.result))
                made.append(sums[-1])
            elif kind == "branch":
                made.append(branch(test.result, *operations(depth - 1)))
            else:
                around = kernel_of if kind == "kernel" else lambda *inner: ModuleOp([*inner])
                made.append(around(*operations(depth - 1)))
        return made

    module = ModuleOp([test, *operations(3)])
    values = [op.results[0] for op in module.walk() if op.results]
    for op in sums:
        op.operands = [draw(st.sampled_from(values)) for _ in op.operands]
    return module


@settings(deadline=None)
@given(wired())
def test_values_of_any_place_are_judged_as_by_xdsl(module: ModuleOp) -> None:
    for op in module.walk():
        if op.regions:
            assert message_of(Isolated(), op) == message_of(IsolatedFromAbove(), op)
