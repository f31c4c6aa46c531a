"""Operations of a user's own: composites that are declared from outside.

In: a function that builds the operation from others. Out: its row in `OPERATIONS`: the language,
the builder, the rules, the e-graph and the kernels then know it. Types follow from what it builds.

    @operation("mish", ("x",), elementwise=True)
    def mish(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(x, b.tanh(b.softplus(x)))
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from mgn.dialects.mgn.attributes import BOOL, FLOAT, INT, INTS, STRING, AttributeKind
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.operation import (
    OPERATIONS,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    TensorOp,
    define,
)
from mgn.dialects.shapes import ShapeError

Decompose = Callable[..., SSAValue]

USER_OPERATIONS: set[str] = set()
"""The names of the operations declared here."""

KINDS: dict[type, AttributeKind] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STRING,
    tuple: INTS,
}
"""The kind of an attribute by the type of its default."""


def operation(
    name: str, operands: Sequence[str], *, elementwise: bool = False, **attributes: Any
) -> Callable[[Decompose], Decompose]:
    """Declares an operation that means what the decorated function builds.

    `attributes` have their defaults. An elementwise one may only be built from elementwise ones;
    a kernel then computes it as it stands. ValueError where the name is taken or is none.
    """
    if not name.isidentifier() or name in OPERATIONS:
        raise ValueError(f"'{name}' is taken" if name in OPERATIONS else f"'{name}' is no name")
    for label, default in attributes.items():
        if type(default) not in KINDS:
            raise ValueError(f"attribute '{label}' of '{name}' has a default of no known kind")
    signature = (
        *(OperandSpec(label) for label in operands),
        *(AttributeSpec(label, KINDS[type(value)], value) for label, value in attributes.items()),
    )

    def enter(decompose: Decompose) -> Decompose:
        def infer(*types: TensorType, **values: Any) -> TensorType:
            return _result_type(name, decompose, types, values, elementwise)

        kind = Kind.ELEMENTWISE if elementwise else Kind.COMPOSITE
        summary = inspect.cleandoc(decompose.__doc__ or f"`y = {name}({', '.join(operands)})`")
        define(OperationSpec(name, kind, summary, signature, infer, decompose=decompose))
        USER_OPERATIONS.add(name)
        return decompose

    return enter


def forget_operation(name: str) -> None:
    """Takes an operation back that was declared here; KeyError for any other."""
    USER_OPERATIONS.remove(name)
    del OPERATIONS[name]


def _result_type(
    name: str,
    decompose: Decompose,
    types: Sequence[TensorType],
    values: dict[str, Any],
    elementwise: bool,
) -> TensorType:
    block = Block(arg_types=types)
    try:
        result = decompose(Emitter(block.add_op), *block.args, **values)
    except CallError as error:
        raise ShapeError(f"{name}: {error}") from error
    others = [
        op.spec.name
        for op in block.ops
        if isinstance(op, TensorOp) and op.spec.kind is not Kind.ELEMENTWISE
    ]
    if elementwise and others:
        raise ShapeError(f"{name} is declared elementwise, and {others[0]} is not")
    assert isinstance(result.type, TensorType)
    return result.type
