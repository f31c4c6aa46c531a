"""Rows of comparison and selection: operation class → SPIR-V instructions."""

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import is_bool
from mgn.dialects.kernel.masks import FLOAT_PREDICATES, INTEGER_PREDICATES
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row

ON_INTEGERS: dict[str, str] = {
    "eq": "OpIEqual",
    "ne": "OpINotEqual",
    "slt": "OpSLessThan",
    "sle": "OpSLessThanEqual",
    "sgt": "OpSGreaterThan",
    "sge": "OpSGreaterThanEqual",
    "ult": "OpULessThan",
    "ule": "OpULessThanEqual",
    "ugt": "OpUGreaterThan",
    "uge": "OpUGreaterThanEqual",
}

ON_BOOLS: dict[str, tuple[str, bool, bool]] = {
    "eq": ("OpLogicalEqual", False, False),
    "ne": ("OpLogicalNotEqual", False, False),
    "slt": ("OpLogicalAnd", False, True),
    "sle": ("OpLogicalOr", False, True),
    "sgt": ("OpLogicalAnd", True, False),
    "sge": ("OpLogicalOr", True, False),
    "ult": ("OpLogicalAnd", True, False),
    "ule": ("OpLogicalOr", True, False),
    "ugt": ("OpLogicalAnd", False, True),
    "uge": ("OpLogicalOr", False, True),
}
"""The instruction, and whether its left and right side are inverted. A signed true is -1."""

ON_FLOATS: dict[str, str] = {
    "oeq": "OpFOrdEqual",
    "ogt": "OpFOrdGreaterThan",
    "oge": "OpFOrdGreaterThanEqual",
    "olt": "OpFOrdLessThan",
    "ole": "OpFOrdLessThanEqual",
    "one": "OpFOrdNotEqual",
    "ord": "OpOrdered",
    "ueq": "OpFUnordEqual",
    "ugt": "OpFUnordGreaterThan",
    "uge": "OpFUnordGreaterThanEqual",
    "ult": "OpFUnordLessThan",
    "ule": "OpFUnordLessThanEqual",
    "une": "OpFUnordNotEqual",
    "uno": "OpUnordered",
}


def _predicate(operation: Any, names: tuple[str, ...]) -> str:
    """The name of a comparison's predicate; `arith` numbers its predicates."""
    if isinstance(operation.predicate, StringAttr):
        return operation.predicate.data
    return names[operation.predicate.value.data]


def _compare_integers(c: Converter, operation: Any) -> SSAValue:
    b, shape = c.builder, c.shape(operation.lhs.type)
    truth = shape.as_kind("bool", 1)
    predicate = _predicate(operation, INTEGER_PREDICATES)
    left, right = c.values(operation)
    if not is_bool(operation.lhs.type):
        return b.emit(ON_INTEGERS[predicate], truth, left, right)
    name, invert_left, invert_right = ON_BOOLS[predicate]
    left = b.emit("OpLogicalNot", truth, left) if invert_left else left
    right = b.emit("OpLogicalNot", truth, right) if invert_right else right
    return b.emit(name, truth, left, right)


def _compare_floats(c: Converter, operation: Any) -> SSAValue:
    truth: Shape = c.shape(operation.lhs.type).as_kind("bool", 1)
    predicate = _predicate(operation, FLOAT_PREDICATES)
    if predicate in ("true", "false"):
        return c.builder.constant(truth, predicate == "true")
    return c.builder.emit(ON_FLOATS[predicate], truth, *c.values(operation))


def _select(c: Converter, operation: Any) -> SSAValue:
    condition, yes, no = c.values(operation)
    shape = c.shape(operation.result.type)
    if shape.lanes > 1 and c.shape(operation.cond.type).lanes == 1:
        mask = shape.as_kind("bool", 1)
        condition = c.builder.emit("OpCompositeConstruct", mask, *[condition] * shape.lanes)
    return c.builder.emit("OpSelect", shape, condition, yes, no)


COMPARISON_ROWS: dict[type[Operation], Row] = {
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    kernel.CompareIntegersOp: _compare_integers,
    kernel.CompareFloatsOp: _compare_floats,
    kernel.SelectOp: _select,
}
