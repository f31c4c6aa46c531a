"""One kernel on its way to SPIR-V: which value stands for which, and what a type is computed as.

In: operations of a `kernel.func` in order, each turned into instructions by its row. Out:
instructions in a `ModuleBuilder`. f16 and bf16 values are computed as 32-bit floats and rounded
after each operation; an i1 is a bool; in memory they are 16 bits, 16 bits and a byte.
"""

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.kernel import Device
from mgn.dialects.kernel.lanes import element, lanes
from mgn.dialects.kernel.translation import Translation
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.library import Library
from mgn.passes.convert_kernel_to_spirv.module_builder import ModuleBuilder


class ConversionError(MgnError):
    """An operation has no form in SPIR-V; it says which and where."""


Row = Callable[["Converter", Any], SSAValue | None]
"""An operation's instructions: the value of its only result, or None where the row set them."""


class Converter(Translation[SSAValue]):
    """Converts one kernel."""

    ERROR = ConversionError
    MISSING = "has no form in SPIR-V"

    def __init__(
        self,
        rows: Mapping[type[Operation], Row],
        builder: ModuleBuilder,
        library: Library,
        device: Device,
        index_bits: int,
    ) -> None:
        super().__init__(rows)
        self.builder = builder
        self.library = library
        self.device = device
        self.index_bits = index_bits

    def set(self, value: SSAValue, result: SSAValue) -> None:
        """Let an id stand for a value."""
        super().set(value, result)
        if value.name_hint is not None and result.name_hint is None:
            result.name_hint = value.name_hint

    def shape(self, type: Attribute) -> Shape:
        """What a type is computed as."""
        lane, count = element(type), lanes(type)
        if isinstance(lane, IndexType):
            return Shape("int", self.index_bits, count)
        if isinstance(lane, IntegerType):
            width = lane.width.data
            return Shape("bool", 1, count) if width == 1 else Shape("int", width, count)
        return Shape("float", 64 if isinstance(lane, Float64Type) else 32, count)

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
