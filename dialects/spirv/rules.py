"""What the specification demands of one instruction: the types of its operands and its result.

In: an instruction. Out: nothing, or a `VerifyException`. `RULES` has a function for each rule that
the table names. A type is seen as a `Shape`; what an id's definition does not tell is not judged.
"""

from collections.abc import Callable

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.spirv.declaration_rules import DECLARATION_RULES
from mgn.dialects.spirv.instruction import InstructionOp, defining, type_of
from mgn.dialects.spirv.memory_rules import MEMORY_RULES
from mgn.dialects.spirv.opencl_std import BY_NUMBER
from mgn.dialects.spirv.shapes import Shape, operand_shapes, require, result_shape, shape


def _same(kind: str) -> Callable[[InstructionOp], None]:
    def rule(operation: InstructionOp) -> None:
        result = result_shape(operation)
        require(result.kind == kind, operation, f"gives {result}, not {kind}s")
        for operand in operand_shapes(operation):
            require(operand == result, operation, f"takes {operand} and gives {result}")

    return rule


def _compare(kind: str) -> Callable[[InstructionOp], None]:
    def rule(operation: InstructionOp) -> None:
        result, operands = result_shape(operation), operand_shapes(operation)
        require(result.kind == "bool", operation, f"gives {result}, not bools")
        require(operands[0].kind == kind, operation, f"does not compare {operands[0]}")
        require(len(set(operands)) == 1, operation, f"compares {operands[0]} and {operands[-1]}")
        require(operands[0].lanes == result.lanes, operation, f"gives {result} of {operands[0]}")

    return rule


def _convert(source: str, target: str, widths_differ: bool = False) -> Callable[..., None]:
    def rule(operation: InstructionOp) -> None:
        result, operand = result_shape(operation), shape(operation.ids[0])
        fits = (operand.kind, result.kind) == (source, target) and operand.lanes == result.lanes
        require(fits, operation, f"does not go from {operand} to {result}")
        same_width = widths_differ and operand.bits == result.bits
        require(not same_width, operation, f"does not change the width of {operand}")

    return rule


def _shift(operation: InstructionOp) -> None:
    result, (base, count) = result_shape(operation), operand_shapes(operation)
    fits = result.kind == "int" and base == result and count.kind == "int"
    require(fits and count.lanes == base.lanes, operation, f"of {base} by {count} to {result}")


def _select(operation: InstructionOp) -> None:
    result, (condition, yes, no) = result_shape(operation), operand_shapes(operation)
    require(yes == no == result, operation, f"chooses {yes} or {no} as {result}")
    require(condition.kind == "bool", operation, f"chooses by {condition}")
    require(condition.lanes == result.lanes, operation, f"chooses {result} by {condition}")


def _bitcast(operation: InstructionOp) -> None:
    result, operand = result_shape(operation), shape(operation.ids[0])
    if not (result.is_numeric and operand.is_numeric):
        kinds = {result.kind, operand.kind}
        require("pointer" in kinds and kinds <= {"pointer", "int"}, operation, "takes no numbers")
        return
    fits = result.bits * result.lanes == operand.bits * operand.lanes
    require(fits, operation, f"of {operand} to {result} changes the number of bits")


def _reduce_booleans(operation: InstructionOp) -> None:
    result, vector = result_shape(operation), shape(operation.ids[0])
    fits = result == Shape("bool", 1) and vector.kind == "bool" and vector.lanes > 1
    require(fits, operation, f"gives {result} of {vector}")


def _times_scalar(operation: InstructionOp) -> None:
    result, (vector, scalar) = result_shape(operation), operand_shapes(operation)
    fits = vector == result and scalar == Shape("float", result.bits) and result.lanes > 1
    require(fits, operation, f"multiplies {vector} and {scalar} to {result}")


def _dot(operation: InstructionOp) -> None:
    result, (left, right) = result_shape(operation), operand_shapes(operation)
    fits = left == right == Shape("float", result.bits, left.lanes) and result.kind == "float"
    require(fits and left.lanes > 1, operation, f"of {left} and {right} to {result}")


def _extract_dynamic(operation: InstructionOp) -> None:
    result, (vector, index) = result_shape(operation), operand_shapes(operation)
    fits = Shape(vector.kind, vector.bits) == result and vector.lanes > 1 and index.kind == "int"
    require(fits, operation, f"takes {result} out of {vector} at {index}")


def _insert_dynamic(operation: InstructionOp) -> None:
    result, (vector, component, index) = result_shape(operation), operand_shapes(operation)
    fits = vector == result and Shape(vector.kind, vector.bits) == component
    require(fits and index.kind == "int", operation, f"puts {component} into {vector} at {index}")


def _shuffle(operation: InstructionOp) -> None:
    result, (first, second) = result_shape(operation), operand_shapes(operation)
    kinds = {(item.kind, item.bits) for item in (result, first, second)}
    picks = operation.literals
    require(len(kinds) == 1, operation, f"mixes {first}, {second} and {result}")
    require(len(picks) == result.lanes, operation, f"picks {len(picks)} lanes for {result}")
    limit = first.lanes + second.lanes
    inside = all(isinstance(pick, int) and (pick < limit or pick == 2**32 - 1) for pick in picks)
    require(inside, operation, f"picks a lane that is not one of {limit}")


def _construct(operation: InstructionOp) -> None:
    result = result_shape(operation)
    if not result.is_numeric and result.kind != "bool":
        return
    parts = operand_shapes(operation)
    fits = all((part.kind, part.bits) == (result.kind, result.bits) for part in parts)
    lanes = sum(part.lanes for part in parts)
    require(fits and lanes == result.lanes, operation, f"makes {result} of {lanes} lanes")


def _lane_access(operation: InstructionOp, whole: Shape, part: Shape) -> None:
    if whole.lanes == 1:
        return
    literals = operation.literals
    inside = len(literals) == 1 and isinstance(literals[0], int) and literals[0] < whole.lanes
    require(inside, operation, f"has no lane {list(literals)} in {whole}")
    require(part == Shape(whole.kind, whole.bits), operation, f"takes {part} as a lane of {whole}")


def _extract(operation: InstructionOp) -> None:
    _lane_access(operation, shape(operation.ids[0]), result_shape(operation))


def _insert(operation: InstructionOp) -> None:
    result, (part, whole) = result_shape(operation), operand_shapes(operation)
    require(whole == result, operation, f"of {whole} gives {result}")
    _lane_access(operation, whole, part)


def _copy(operation: InstructionOp) -> None:
    require(
        type_of(operation.ids[0]) is defining(operation.operands[0]), operation, "changes the type"
    )


def _ext_inst(operation: InstructionOp) -> None:
    source = defining(operation.ids[0])
    imported = source is not None and source.row.name == "OpExtInstImport"
    require(imported, operation, "names no imported set")
    row = BY_NUMBER.get(operation.number())
    if row is None:
        raise VerifyException(f"OpenCL.std has no function {operation.number()}")
    wanted = sum(field.kind == "id" and not field.variadic for field in row.fields)
    given = len(operation.ids) - 1
    variadic = any(field.variadic for field in row.fields)
    require(
        given == wanted or (variadic and given > wanted), operation, f"calls {row.name} wrongly"
    )
    if not row.lane_by_lane:
        return
    result = result_shape(operation)
    for operand in (shape(value) for value in operation.ids[1:]):
        require(operand == result, operation, f"{row.name} takes {operand} and gives {result}")


def _barrier(operation: InstructionOp) -> None:
    for value in operation.ids:
        require(shape(value) == Shape("int", 32), operation, "takes 32-bit scopes and semantics")


def _group(kind: str) -> Callable[[InstructionOp], None]:
    def rule(operation: InstructionOp) -> None:
        result, (scope, value) = result_shape(operation), operand_shapes(operation)
        require(scope == Shape("int", 32), operation, f"takes {scope} as a scope")
        fits = result == value and result.kind == kind and result.lanes == 1
        require(fits, operation, f"of {value} gives {result}")

    return rule


def _group_vote(operation: InstructionOp) -> None:
    result, (_, value) = result_shape(operation), operand_shapes(operation)
    require(result == value == Shape("bool", 1), operation, f"of {value} gives {result}")


def _from_lane(value_position: int) -> Callable[[InstructionOp], None]:
    def rule(operation: InstructionOp) -> None:
        result, operands = result_shape(operation), operand_shapes(operation)
        value, lane = operands[value_position], operands[value_position + 1]
        require(value == result, operation, f"of {value} gives {result}")
        require(lane.kind == "int", operation, f"names a lane by {lane}")

    return rule


RULES: dict[str, Callable[[InstructionOp], None]] = {
    "floats": _same("float"),
    "integers": _same("int"),
    "booleans": _same("bool"),
    "compare_integers": _compare("int"),
    "compare_floats": _compare("float"),
    "reduce_booleans": _reduce_booleans,
    "shift": _shift,
    "select": _select,
    "float_to_integer": _convert("float", "int"),
    "integer_to_float": _convert("int", "float"),
    "convert_integer": _convert("int", "int", widths_differ=True),
    "saturate_integer": _convert("int", "int"),
    "convert_float": _convert("float", "float", widths_differ=True),
    "pointer_to_integer": _convert("pointer", "int"),
    "integer_to_pointer": _convert("int", "pointer"),
    "recast_pointer": _convert("pointer", "pointer"),
    "bitcast": _bitcast,
    "times_scalar": _times_scalar,
    "dot": _dot,
    "extract_dynamic": _extract_dynamic,
    "insert_dynamic": _insert_dynamic,
    "shuffle": _shuffle,
    "construct": _construct,
    "extract": _extract,
    "insert": _insert,
    "copy": _copy,
    "ext_inst": _ext_inst,
    "barrier": _barrier,
    "group_integers": _group("int"),
    "group_floats": _group("float"),
    "group_vote": _group_vote,
    "group_broadcast": _from_lane(1),
    "group_shuffle": _from_lane(1),
    "sub_group_shuffle": _from_lane(0),
    **DECLARATION_RULES,
    **MEMORY_RULES,
}
"""The rules by the name that the table gives them."""
