"""The types of ids as the checks see them: kind, width, lanes.

In: a value or a type instruction. Out: a `Shape`; a `VerifyException` where an id has no type.
"""

from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.spirv.instruction import InstructionOp, defining, type_of

INTEGER_WIDTHS = (8, 16, 32, 64)
FLOAT_WIDTHS = (16, 32, 64)
VECTOR_LANES = (2, 3, 4, 8, 16)


@dataclass(frozen=True)
class Shape:
    """A type: `int`, `float`, `bool` with bits and lanes, or another kind with neither."""

    kind: str
    bits: int = 0
    lanes: int = 1

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def scalar(self) -> "Shape":
        """The shape of one lane."""
        return Shape(self.kind, self.bits)

    def as_kind(self, kind: str, bits: int) -> "Shape":
        """Another kind of number in as many lanes."""
        return Shape(kind, bits, self.lanes)

    def __str__(self) -> str:
        lanes = f" × {self.lanes}" if self.lanes > 1 else ""
        return f"{self.kind}{self.bits or ''}{lanes}"


_KINDS = {
    "OpTypeVoid": "void",
    "OpTypePointer": "pointer",
    "OpTypeArray": "array",
    "OpTypeStruct": "struct",
    "OpTypeFunction": "function",
    "OpTypeEvent": "event",
}


def shape_of_type(type: InstructionOp | None) -> Shape:
    """The shape that a type instruction declares. VerifyException where it is no type."""
    name = type.row.name if type is not None else "no instruction"
    if type is None or not name.startswith("OpType"):
        raise VerifyException(f"{name} is no type")
    if name == "OpTypeBool":
        return Shape("bool", 1)
    if name in ("OpTypeInt", "OpTypeFloat"):
        return Shape("int" if name == "OpTypeInt" else "float", type.number())
    if name == "OpTypeVector":
        scalar = defining(type.ids[0])
        if scalar is None or scalar.row.name not in ("OpTypeInt", "OpTypeFloat", "OpTypeBool"):
            raise VerifyException("a vector has components of a scalar type")
        component = shape_of_type(scalar)
        return Shape(component.kind, component.bits, type.number())
    return Shape(_KINDS[name])


def shape(value: SSAValue) -> Shape:
    """The shape of a value's type."""
    return shape_of_type(type_of(value))


def require(condition: bool, operation: InstructionOp, message: str) -> None:
    """VerifyException with the instruction's name where the condition does not hold."""
    if not condition:
        raise VerifyException(f"{operation.row.name} {message}")


def result_shape(operation: InstructionOp) -> Shape:
    """The shape of the result."""
    assert operation.type_id is not None
    return shape_of_type(defining(operation.type_id))


def operand_shapes(operation: InstructionOp) -> list[Shape]:
    """The shapes of all operands, each of which must have a type."""
    return [shape(value) for value in operation.ids]
