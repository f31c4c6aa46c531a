"""Comparisons of integers and of floats: their predicates, and their text."""

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr

from mgn.codegen.opencl.expression import (
    EQUALITY,
    RELATION,
    Expression,
    call,
    infix,
    prefix,
)
from mgn.codegen.opencl.values import as_mask, unsigned
from mgn.codegen.opencl.writer import Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import is_bool, is_vector

INTEGER_PREDICATES: dict[str, tuple[str, int, bool]] = {
    "eq": ("==", EQUALITY, False),
    "ne": ("!=", EQUALITY, False),
    "slt": ("<", RELATION, False),
    "sle": ("<=", RELATION, False),
    "sgt": (">", RELATION, False),
    "sge": (">=", RELATION, False),
    "ult": ("<", RELATION, True),
    "ule": ("<=", RELATION, True),
    "ugt": (">", RELATION, True),
    "uge": (">=", RELATION, True),
}
"""`cmpi` predicate → operator, precedence, unsigned. Their order is MLIR's numbering."""

FLOAT_PREDICATES: dict[str, tuple[str, bool]] = {
    "false": ("false", False),
    "oeq": ("==", False),
    "ogt": (">", False),
    "oge": (">=", False),
    "olt": ("<", False),
    "ole": ("<=", False),
    "one": ("islessgreater", False),
    "ord": ("isordered", False),
    "ueq": ("islessgreater", True),
    "ugt": ("<=", True),
    "uge": ("<", True),
    "ult": (">=", True),
    "ule": (">", True),
    "une": ("!=", False),
    "uno": ("isunordered", False),
    "true": ("true", False),
}
"""`cmpf` predicate → operator or function, negated. Their order is MLIR's numbering."""


def predicate_of(operation: Any) -> str:
    """The name of a comparison's predicate; `arith` numbers its predicates."""
    if isinstance(operation.predicate, StringAttr):
        return operation.predicate.data
    names = INTEGER_PREDICATES if isinstance(operation, arith.CmpiOp) else FLOAT_PREDICATES
    return list(names)[operation.predicate.value.data]


def compare_integers(
    writer: Writer, operation: arith.CmpiOp | kernel.CompareIntegersOp
) -> Expression:
    """The text of a comparison of integers or bools: a bool, or a mask where they are vectors."""
    type = operation.lhs.type
    operator, precedence, is_unsigned = INTEGER_PREDICATES[predicate_of(operation)]
    left, right = writer.values(operation)
    if is_bool(type) and not is_vector(type):
        if not is_unsigned and precedence == RELATION:
            left, right = right, left  # a signed true is -1, below false
    elif is_unsigned:
        left, right = unsigned(writer, operation.lhs), unsigned(writer, operation.rhs)
    return as_mask(writer, type, infix(left, operator, right, precedence))


def compare_floats(writer: Writer, operation: arith.CmpfOp | kernel.CompareFloatsOp) -> Expression:
    """The text of a comparison of floats: a bool, or a mask where they are vectors."""
    type = operation.lhs.type
    operator, negated = FLOAT_PREDICATES[predicate_of(operation)]
    left, right = writer.values(operation)
    if operator in ("true", "false"):
        if is_vector(type):
            operator = "-1" if operator == "true" else "0"
        return writer.types.splat(operation.result.type, Expression(operator))
    if operator.startswith("is"):
        comparison = call(operator, left, right)
    else:
        precedence = EQUALITY if operator in ("==", "!=") else RELATION
        comparison = infix(left, operator, right, precedence)
    return as_mask(writer, type, prefix("!", comparison) if negated else comparison)
