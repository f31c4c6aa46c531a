"""One kernel on its way to SPIR-V: which value stands for which, and what a type is computed as.

In: operations of a `kernel.func` in order, each turned into instructions by its row. Out:
instructions in a `ModuleBuilder`. f16 and bf16 values are computed as 32-bit floats and rounded
after each operation; an i1 is a bool; in memory they are 16 bits, 16 bits and a byte.
"""

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.kernel import Device
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.library import Library
from mgn.passes.convert_kernel_to_spirv.module_builder import ModuleBuilder


class ConversionError(MgnError):
    """An operation has no form in SPIR-V; it says which and where."""


Row = Callable[["Converter", Any], SSAValue | None]
"""An operation's instructions: the value of its only result, or None where the row set them."""


class Converter:
    """Converts one kernel. `rows` maps each operation class to its row."""

    def __init__(
        self,
        rows: Mapping[type[Operation], Row],
        builder: ModuleBuilder,
        library: Library,
        device: Device,
        index_bits: int,
    ) -> None:
        self.rows = rows
        self.builder = builder
        self.library = library
        self.device = device
        self.index_bits = index_bits
        self._values: dict[SSAValue, SSAValue] = {}

    def block(self, block: Block) -> None:
        """All operations of a block."""
        for operation in block.ops:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        """One operation, by its row. ConversionError where it has none."""
        row = self.rows.get(type(operation))
        if row is None:
            raise self.error(operation, "has no form in SPIR-V")
        result = row(self, operation)
        if result is not None:
            self.set(operation.results[0], result)

    def error(self, operation: Operation, message: str) -> ConversionError:
        """An error that names the operation and its place."""
        location = operation.location
        place = operation.name
        if isinstance(location, FileLineColLoc):
            file, line, column = location.filename.data, location.line.data, location.column.data
            place = f"{file}:{line}:{column}: {operation.name}"
        return ConversionError(f"{place} {message}: {str(operation).splitlines()[0]}")

    def value(self, value: SSAValue) -> SSAValue:
        """What stands for a value."""
        return self._values[value]

    def values(self, operation: Operation) -> list[SSAValue]:
        """What stands for the operands."""
        return [self._values[operand] for operand in operation.operands]

    def set(self, value: SSAValue, result: SSAValue) -> None:
        """Let an id stand for a value."""
        self._values[value] = result
        if value.name_hint is not None and result.name_hint is None:
            result.name_hint = value.name_hint

    def shape(self, type: Attribute) -> Shape:
        """What a type is computed as."""
        lane = element(type)
        lanes = type.get_shape()[0] if isinstance(type, VectorType) else 1
        if isinstance(lane, IndexType):
            return Shape("int", self.index_bits, lanes)
        if isinstance(lane, IntegerType):
            width = lane.width.data
            return Shape("bool", 1, lanes) if width == 1 else Shape("int", width, lanes)
        return Shape("float", 64 if isinstance(lane, Float64Type) else 32, lanes)

    def rounded(self, type: Attribute, value: SSAValue) -> SSAValue:
        """A value rounded to the type, where it was computed in more bits."""
        if isinstance(element(type), Float16Type):
            return self.library.round_f16(value, self.shape(type))
        if isinstance(element(type), BFloat16Type):
            return self.library.round_bf16(value, self.shape(type))
        return value

    def constant(self, type: Attribute, number: float | int) -> SSAValue:
        """A number in every lane of a type."""
        return self.builder.constant(self.shape(type), number)


def element(type: Attribute) -> Attribute:
    """The type of one lane."""
    return type.element_type if isinstance(type, VectorType) else type


def is_small_float(type: Attribute) -> bool:
    """Whether values of the type are computed in 32 bits and rounded: f16 and bf16."""
    return isinstance(element(type), Float16Type | BFloat16Type)


def is_float(type: Attribute) -> bool:
    """Whether a type's lanes are floats."""
    lane = element(type)
    return isinstance(lane, Float16Type | BFloat16Type | Float32Type | Float64Type)


def is_bool(type: Attribute) -> bool:
    """Whether a type's lanes are i1."""
    lane = element(type)
    return isinstance(lane, IntegerType) and lane.width.data == 1


def constant_number(value: SSAValue) -> float | int | None:
    """The number in every lane of a constant; None for any other value."""
    operation = value.owner
    if not isinstance(operation, arith.ConstantOp):
        return None
    data = operation.value
    if isinstance(data, IntegerAttr | FloatAttr):
        return data.value.data
    if isinstance(data, DenseIntOrFPElementsAttr) and data.is_splat():
        number = data.get_values()[0]
        return None if isinstance(number, tuple) else number
    return None
