"""Folding: an operation that is one of its operands, or whose operands are all constants.

In: an operation. Out: what replaces its results, bit for bit equal to them: values that are there
already, or arrays computed by the interpreter in the value's own type. Nothing is created here:
`simplify` and, through `TensorOp.fold`, xDSL's own folder make the constants.

    %0 = mgn.mul(%x, %one) : …       is %x, where %one holds 1.0
    %1 = mgn.sqrt(%two) : …          is dense<1.41421354>
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.dialects.dense import dense_of
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import FOLDERS, TensorOp
from mgn.dialects.mgn.structure import ConstantOp, GraphOp
from mgn.dialects.shapes import element_count

LARGEST_FOLDED = 4096
"""Elements of the largest constant that folding makes."""

KEPT = frozenset({"broadcast_to", "stop_gradient"})
"""Operations that are not computed: one costs nothing, the other means something to training."""

Fold = Callable[[TensorOp, dict[str, Any]], "SSAValue | None"]


def defining(value: SSAValue, name: str) -> TensorOp | None:
    """The operation of that name which makes a value."""
    op = value.owner
    return op if isinstance(op, TensorOp) and op.spec.name == name else None


def scalar_constant(value: SSAValue) -> Any:
    """The number that a scalar constant holds, or None."""
    op = value.owner
    return op.array[()] if isinstance(op, ConstantOp) and op.array.ndim == 0 else None


def _operand(op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    return op.operands[0]


def _unchanged(op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """An operation that only moves elements, to where they are already."""
    x = op.operands[0]
    same = x.type == op.results[0].type
    return x if same and _MOVES_NOTHING[op.spec.name](shape_of(x), values) else None


_MOVES_NOTHING: dict[str, Callable[[Sequence[int], dict[str, Any]], bool]] = {
    "cast": lambda shape, values: True,
    "reshape": lambda shape, values: True,
    "broadcast_to": lambda shape, values: True,
    "slice": lambda shape, values: True,
    "pad": lambda shape, values: True,
    "concat": lambda shape, values: True,
    "transpose": lambda shape, values: list(values["perm"]) == sorted(values["perm"]),
    "flip": lambda shape, values: all(shape[axis] <= 1 for axis in values["axis"]),
}


def _same_twice(op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """An operation that is its own inverse, applied twice."""
    inner = defining(op.operands[0], op.spec.name)
    return None if inner is None else inner.operands[0]


def _neutral(side: int, number: float) -> Fold:
    """An operation with a scalar operand that leaves the other one as it is, bit for bit."""

    def drop(op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
        value = scalar_constant(op.operands[side])
        if value is None or value != number or np.signbit(value) != np.signbit(number):
            return None
        other = op.operands[1 - side]
        return other if other.type == op.results[0].type else None

    return drop


def _integer_zero(op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """x + 0 of integers; for floats it would turn -0.0 into 0.0."""
    value = scalar_constant(op.operands[1])
    x = op.operands[0]
    kept = x.type == op.results[0].type and element_type_of(x).is_integer
    return x if kept and value is not None and value == 0 else None


FOLDS: dict[str, tuple[Fold, ...]] = {
    "identity": (_operand,),
    **dict.fromkeys(_MOVES_NOTHING, (_unchanged,)),
    "neg": (_same_twice,),
    "logical_not": (_same_twice,),
    "add": (_integer_zero, _neutral(1, -0.0)),
    "sub": (_neutral(1, 0.0),),
    "mul": (_neutral(1, 1.0),),
    "div": (_neutral(1, 1.0),),
}
"""By operation: when its result is a value that is there already."""


def existing_value(op: Operation) -> SSAValue | None:
    """The value, there already, that an operation's one result equals."""
    if not isinstance(op, TensorOp):
        return None
    folds = FOLDS.get(op.spec.name, ())
    values = op.values if folds else {}
    for fold in folds:
        value = fold(op, values)
        if value is not None:
            return value
    return None


def constant_results(op: Operation) -> Sequence[np.ndarray] | None:
    """The results of an operation on constants, where they are small enough to be kept."""
    if not isinstance(op, TensorOp) or not op.operands or op.spec.name in KEPT:
        return None
    known = [constant for value in op.operands if (constant := _known(value)) is not None]
    if len(known) < len(op.operands) or any(map(_is_large, op.results)):
        return None
    shapes = map(shape_of, op.operands)
    arrays = [np.broadcast_to(constant.array, s) for constant, s in zip(known, shapes, strict=True)]
    return Interpreter().run_op(op, arrays)


def _known(value: SSAValue) -> ConstantOp | None:
    """The constant that a value is, or that is broadcast to its few elements."""
    broadcast = defining(value, "broadcast_to")
    if broadcast is not None and not _is_large(value):
        (value,) = broadcast.operands
    return value.owner if isinstance(value.owner, ConstantOp) else None


def _is_large(value: SSAValue) -> bool:
    assert isinstance(value.type, TensorType)
    return element_count(value.type.get_shape()) > LARGEST_FOLDED


def fold(op: TensorOp) -> Sequence[SSAValue | Attribute] | None:
    """What replaces an operation's results, as xDSL asks; None in the body of a kernel."""
    around = op.parent_op()
    if around is not None and not isinstance(around, GraphOp):
        return None
    value = existing_value(op)
    if value is not None:
        return [value]
    arrays = constant_results(op)
    return None if arrays is None else [dense_of(array) for array in arrays]


FOLDERS.append(fold)
