"""Checks of types, constants, functions, entry points and control flow, one instruction at a time.

In: an instruction. Out: nothing, or a `VerifyException`.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.dialects.spirv.enums import ENUMS
from mgn.dialects.spirv.instruction import InstructionOp, defining, type_of
from mgn.dialects.spirv.shapes import (
    FLOAT_WIDTHS,
    INTEGER_WIDTHS,
    VECTOR_LANES,
    Shape,
    require,
    result_shape,
    shape,
    shape_of_type,
)


def is_a(value: SSAValue, name: str) -> bool:
    """Whether an id is defined by an instruction of that name."""
    owner = defining(value)
    return owner is not None and owner.row.name == name


def is_type(value: SSAValue) -> bool:
    """Whether an id is a type."""
    owner = defining(value)
    return owner is not None and owner.row.name.startswith("OpType")


def _integer_type(operation: InstructionOp) -> None:
    width, signedness = operation.number(0), operation.number(1)
    require(width in INTEGER_WIDTHS, operation, f"has {width} bits")
    require(signedness == 0, operation, "has a sign, which OpenCL does not allow")


def _float_type(operation: InstructionOp) -> None:
    require(operation.number() in FLOAT_WIDTHS, operation, f"has {operation.number()} bits")


def _vector_type(operation: InstructionOp) -> None:
    component = shape_of_type(defining(operation.ids[0]))
    scalar = component.lanes == 1 and (component.is_numeric or component.kind == "bool")
    require(scalar, operation, f"has components of {component}")
    require(operation.number() in VECTOR_LANES, operation, f"has {operation.number()} lanes")


def _array_type(operation: InstructionOp) -> None:
    element, length = operation.ids
    require(is_type(element), operation, "has elements of no type")
    owner = defining(length)
    positive = owner is not None and owner.row.name == "OpConstant" and owner.number() > 0
    require(positive, operation, "has a length that is no positive constant")


def _struct_type(operation: InstructionOp) -> None:
    require(all(is_type(member) for member in operation.ids), operation, "has members of no type")


def _pointer_type(operation: InstructionOp) -> None:
    require(is_type(operation.ids[0]), operation, "points to no type")


def _function_type(operation: InstructionOp) -> None:
    require(all(is_type(part) for part in operation.ids), operation, "is made of other than types")
    void = any(is_a(part, "OpTypeVoid") for part in operation.ids[1:])
    require(not void, operation, "takes void")


def _truth(operation: InstructionOp) -> None:
    result = result_shape(operation)
    require(result == Shape("bool", 1), operation, f"gives {result}")


def _constant(operation: InstructionOp) -> None:
    result, bits = result_shape(operation), operation.number()
    require(result.is_numeric and result.lanes == 1, operation, f"gives {result}")
    require(bits >> result.bits == 0, operation, f"does not fit {result.bits} bits")


def _constant_composite(operation: InstructionOp) -> None:
    for part in operation.ids:
        owner = defining(part)
        constant = owner is not None and owner.row.name.startswith(("OpConstant", "OpUndef"))
        require(constant, operation, "holds a part that is no constant")
    result = result_shape(operation)
    if result.lanes == 1:
        return
    require(len(operation.ids) == result.lanes, operation, f"has {len(operation.ids)} parts")
    lane = Shape(result.kind, result.bits)
    require(all(shape(part) == lane for part in operation.ids), operation, f"is no {result}")


def _function(operation: InstructionOp) -> None:
    owner = defining(operation.ids[0])
    typed = owner is not None and owner.row.name == "OpTypeFunction"
    require(typed, operation, "has a type that is no function's")
    assert owner is not None
    require(owner.ids[0] is operation.type_id, operation, "returns another type than it says")


def _call(operation: InstructionOp) -> None:
    callee = defining(operation.ids[0])
    called = callee is not None and callee.row.name == "OpFunction"
    require(called, operation, "calls something that is no function")
    assert callee is not None
    signature = defining(callee.ids[0])
    if signature is None:
        return
    wanted = [defining(part) for part in signature.ids[1:]]
    given = [type_of(argument) for argument in operation.ids[1:]]
    require(wanted == given, operation, "gives arguments of other types than the function takes")
    require(signature.ids[0] is operation.type_id, operation, "expects another type of result")


def _entry_point(operation: InstructionOp) -> None:
    require(is_a(operation.ids[0], "OpFunction"), operation, "names no function")
    for variable in operation.ids[1:]:
        require(is_a(variable, "OpVariable"), operation, "lists an interface of no variable")


def _execution_mode(operation: InstructionOp) -> None:
    require(is_a(operation.ids[0], "OpFunction"), operation, "names no function")
    sizes = operation.literals[1:]
    local_size = operation.number() == ENUMS["ExecutionMode"].by_name["LocalSize"].value
    positive = all(isinstance(size, int) and size > 0 for size in sizes)
    require(positive or not local_size, operation, "has a size that is not positive")


def _phi(operation: InstructionOp) -> None:
    values, labels = operation.ids[::2], operation.ids[1::2]
    require(len(values) == len(labels) > 0, operation, "lacks pairs of a value and its block")
    require(all(is_a(label, "OpLabel") for label in labels), operation, "names no block")
    require(len(set(labels)) == len(labels), operation, "names a block twice")
    assert operation.type_id is not None
    same = all(type_of(value) is defining(operation.type_id) for value in values)
    require(same, operation, "joins values of different types")


def _branch(operation: InstructionOp) -> None:
    require(all(is_a(label, "OpLabel") for label in operation.ids), operation, "goes to no block")


def _branch_conditional(operation: InstructionOp) -> None:
    condition, *labels = operation.ids
    require(shape(condition) == Shape("bool", 1), operation, f"branches on {shape(condition)}")
    require(all(is_a(label, "OpLabel") for label in labels), operation, "goes to no block")
    weights = len(operation.literals)
    require(weights in (0, 2), operation, f"has {weights} weights")


DECLARATION_RULES: dict[str, Callable[[InstructionOp], None]] = {
    "integer_type": _integer_type,
    "float_type": _float_type,
    "vector_type": _vector_type,
    "array_type": _array_type,
    "struct_type": _struct_type,
    "pointer_type": _pointer_type,
    "function_type": _function_type,
    "truth": _truth,
    "constant": _constant,
    "constant_composite": _constant_composite,
    "function": _function,
    "call": _call,
    "entry_point": _entry_point,
    "execution_mode": _execution_mode,
    "phi": _phi,
    "branch": _branch,
    "branch_conditional": _branch_conditional,
}
"""Rules by the name that the table gives them."""
