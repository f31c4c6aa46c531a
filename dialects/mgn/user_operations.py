"""Operations of a user's own: composites that are declared from outside.

In: a function that builds the operation from others. Out: its row in `OPERATIONS`: the language,
the builder, the rules, the e-graph and the kernels then know it. Types follow from what it builds.

    @operation("mish", ("x",), elementwise=True)
    def mish(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(x, b.tanh(b.softplus(x)))
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from mgn.diagnostics import WrongValue
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
from mgn.dialects.types import ELEMENT_TYPES

Decompose = Callable[..., SSAValue]

WORDS = frozenset(
    [
        *("const", "import", "fn", "graph", "param", "state", "scope", "for", "in", "if", "else"),
        *("return", "as", "or", "and", "not", "true", "false", "none", "inf", "nan"),
        *ELEMENT_TYPES,
    ]
)
"""Words of the language, which name no value, and element types, which a name would hide."""
STRUCTURE = frozenset({"graph", "return", "param", "read", "constant"})
"""What the dialect's other operations are called."""

USER_OPERATIONS: set[str] = set()
"""The names of the operations declared here."""
_BUILDING: set[str] = set()
"""Those whose type is being found out."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

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
    a kernel then computes it as it stands. ValueError where a name is taken or is none, or where
    the function does not take these operands and attributes.
    """
    if isinstance(cast("object", name), str) and (name in OPERATIONS or name in STRUCTURE):
        raise WrongValue(f"'{name}' is taken")
    if isinstance(operands, str) or not isinstance(cast("object", operands), Sequence):
        raise WrongValue(f"the operands of '{name}' are a sequence of names, as ('{operands}',)")
    labels = (*operands, *attributes)
    for label in cast("tuple[object, ...]", (name, *labels)):
        if not isinstance(label, str) or not NAME.fullmatch(label):
            raise WrongValue(f"{label!r} is no name")
        if label in WORDS:
            raise WrongValue(f"{label!r} is a word of the language")
    if len(set(labels)) < len(labels):
        raise WrongValue(f"two operands or attributes of '{name}' have one name")
    signature = (
        *(OperandSpec(label) for label in operands),
        *(_attribute(name, label, value) for label, value in attributes.items()),
    )

    def enter(decompose: Decompose) -> Decompose:
        try:
            inspect.signature(decompose).bind(None, *operands, **attributes)
        except TypeError as error:
            raise WrongValue(
                f"the function of '{name}' does not take its operands: {error}"
            ) from error

        def infer(*types: TensorType, **values: Any) -> TensorType:
            return _result_type(name, decompose, types, values, elementwise)

        kind = Kind.ELEMENTWISE if elementwise else Kind.COMPOSITE
        summary = inspect.cleandoc(decompose.__doc__ or f"`y = {name}({', '.join(operands)})`")
        define(OperationSpec(name, kind, summary, signature, infer, decompose=decompose))
        USER_OPERATIONS.add(name)
        return decompose

    return enter


def _attribute(name: str, label: str, default: Any) -> AttributeSpec:
    """An attribute by its default. ValueError where that is of no known kind."""
    try:
        kind = KINDS[type(default)]
        return AttributeSpec(label, kind, kind.accept(default))
    except (KeyError, TypeError) as error:
        message = f"attribute '{label}' of '{name}' has a default of no known kind"
        raise WrongValue(message) from error


def forget_operation(name: str) -> None:
    """Takes an operation back that was declared here; ValueError for any other."""
    if name not in USER_OPERATIONS:
        raise WrongValue(f"no operation was declared under the name {name!r}")
    USER_OPERATIONS.remove(name)
    del OPERATIONS[name]


def _result_type(
    name: str,
    decompose: Decompose,
    types: Sequence[TensorType],
    values: dict[str, Any],
    elementwise: bool,
) -> TensorType:
    if name in _BUILDING:
        raise ShapeError(f"{name} is built from itself")
    block = Block(arg_types=types)
    _BUILDING.add(name)
    try:
        result = cast("object", decompose(Emitter(block.add_op), *block.args, **values))
    except CallError as error:
        raise ShapeError(f"{name}: {error}") from error
    except ShapeError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        hint = "; values take no Python operators: b.mul(x, y)" * ("unsupported operand" in said)
        raise ShapeError(f"{name}: its function fails with {said}{hint}") from error
    finally:
        _BUILDING.remove(name)
    others = [
        op.spec.name
        for op in block.ops
        if isinstance(op, TensorOp) and op.spec.kind is not Kind.ELEMENTWISE
    ]
    if elementwise and others:
        raise ShapeError(f"{name} is declared elementwise, and {others[0]} is not")
    if not isinstance(result, SSAValue) or not isinstance(result.type, TensorType):
        raise ShapeError(f"{name}: its function gives no value, but {type(result).__name__}")
    met = (result, *(operand for op in block.ops for operand in op.operands))
    if not all(_is_made_in(value, block) for value in met):
        raise ShapeError(f"{name}: its function uses a value of another call")
    return result.type


def _is_made_in(value: SSAValue, block: Block) -> bool:
    return (value.owner if isinstance(value.owner, Block) else value.owner.parent) is block


def user_classes() -> list[type[TensorOp]]:
    """The operations declared here, as a dialect holds them."""
    return [OPERATIONS[name].op_class for name in sorted(USER_OPERATIONS)]
