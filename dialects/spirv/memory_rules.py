"""Checks of instructions that read, write or address memory, one at a time.

In: an instruction. Out: nothing, or a `VerifyException`.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.dialects.spirv.instruction import InstructionOp, defining, type_of
from mgn.dialects.spirv.shapes import Shape, require, result_shape, shape


def pointer_type(value: SSAValue) -> InstructionOp | None:
    """The pointer type of a pointer; None for another value."""
    type = type_of(value)
    return type if type is not None and type.row.name == "OpTypePointer" else None


def _pointee(operation: InstructionOp, pointer: SSAValue) -> InstructionOp | None:
    type = pointer_type(pointer)
    require(type is not None, operation, "goes through something that is no pointer")
    assert type is not None
    return defining(type.ids[0])


def _variable(operation: InstructionOp) -> None:
    assert operation.type_id is not None
    type = defining(operation.type_id)
    require(type is not None and type.row.name == "OpTypePointer", operation, "is no pointer")
    assert type is not None
    require(type.number() == operation.number(), operation, "lies in another memory than its type")


def _load(operation: InstructionOp) -> None:
    assert operation.type_id is not None
    same = _pointee(operation, operation.ids[0]) is defining(operation.type_id)
    require(same, operation, "gives another type than lies there")


def _store(operation: InstructionOp) -> None:
    pointer, value = operation.ids
    same = _pointee(operation, pointer) is type_of(value)
    require(same, operation, "writes another type than lies there")


def _steps(operation: InstructionOp, base: SSAValue, indices: list[SSAValue]) -> None:
    """Follow indices from what a pointer points to, to what the result points to."""
    type = _pointee(operation, base)
    for index in indices:
        require(shape(index).kind == "int", operation, f"indexes by {shape(index)}")
        composite = type is not None and type.row.name in ("OpTypeArray", "OpTypeVector")
        if type is not None and type.row.name == "OpTypeStruct":
            return
        require(composite, operation, "steps into a type that has no parts")
        assert type is not None
        type = defining(type.ids[0])
    assert operation.type_id is not None
    result = defining(operation.type_id)
    require(result is not None and result.row.name == "OpTypePointer", operation, "is no pointer")
    assert result is not None
    require(defining(result.ids[0]) is type, operation, "points to another type than it reaches")
    source = pointer_type(base)
    assert source is not None
    require(source.number() == result.number(), operation, "leaves the memory of its base")


def _access_chain(operation: InstructionOp) -> None:
    base, *indices = operation.ids
    _steps(operation, base, indices)


def _pointer_access_chain(operation: InstructionOp) -> None:
    base, element, *indices = operation.ids
    require(shape(element).kind == "int", operation, f"indexes by {shape(element)}")
    _steps(operation, base, indices)


def _scope_and_semantics(operation: InstructionOp, values: list[SSAValue]) -> None:
    for value in values:
        require(shape(value) == Shape("int", 32), operation, "takes 32-bit scopes and semantics")


def _atomic(operation: InstructionOp) -> None:
    result, (pointer, *rest) = result_shape(operation), operation.ids
    require(result.is_numeric and result.lanes == 1, operation, f"works on {result}")
    assert operation.type_id is not None
    same = _pointee(operation, pointer) is defining(operation.type_id)
    require(same, operation, "gives another type than lies there")
    compares = operation.row.name == "OpAtomicCompareExchange"
    controls = 3 if compares else 2
    _scope_and_semantics(operation, rest[:controls])
    for value in rest[controls:]:
        require(shape(value) == result, operation, f"takes {shape(value)} and gives {result}")


def _atomic_store(operation: InstructionOp) -> None:
    pointer, scope, semantics, value = operation.ids
    _scope_and_semantics(operation, [scope, semantics])
    same = _pointee(operation, pointer) is type_of(value)
    require(same, operation, "writes another type than lies there")


def _async_copy(operation: InstructionOp) -> None:
    scope, target, source, count, stride, event = operation.ids
    require(result_shape(operation).kind == "event", operation, "gives no event")
    _scope_and_semantics(operation, [scope])
    same = _pointee(operation, target) is _pointee(operation, source)
    require(same, operation, "copies between different types")
    fits = shape(count).kind == shape(stride).kind == "int" and shape(event).kind == "event"
    require(fits, operation, "takes a count, a stride and an event")


def _wait_events(operation: InstructionOp) -> None:
    scope, count, events = operation.ids
    _scope_and_semantics(operation, [scope, count])
    type = _pointee(operation, events)
    require(type is not None and type.row.name == "OpTypeEvent", operation, "waits for no events")


MEMORY_RULES: dict[str, Callable[[InstructionOp], None]] = {
    "variable": _variable,
    "load": _load,
    "store": _store,
    "access_chain": _access_chain,
    "pointer_access_chain": _pointer_access_chain,
    "atomic": _atomic,
    "atomic_store": _atomic_store,
    "async_copy": _async_copy,
    "wait_events": _wait_events,
}
"""Rules by the name that the table gives them."""
