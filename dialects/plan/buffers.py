"""The buffers of the host's program: what each holds, or where in the arena it lies.

In: the tensors of a graph, and the offsets that `plan-memory` chose. Out: operations whose results
`plan.launch`, `plan.copy` and `plan.output` use.

    %x = plan.input "x" tensor<32x64xf32> : memref<2048xf32>
    %w = plan.param @"layers.0.w" tensor<16x64xf32> : memref<1024xf32>
    %c = plan.constant dense<0.5> : tensor<16xf32> to memref<16xf32>
    %d = plan.derived : memref<512xf32>
    %y = plan.view offset 256 : memref<512xf32>
"""

from abc import ABC, abstractmethod
from typing import cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.dense import parse_dense, print_dense
from mgn.dialects.kernel.buffers import buffer_type, byte_size


class ArenaProgram(IRDLOperation, ABC):
    """Base of `plan.program`: what its buffers must know of it."""

    name = "plan.program"

    @property
    @abstractmethod
    def arena_bytes(self) -> int:
        """The size of the arena."""

    @property
    @abstractmethod
    def alignment_bytes(self) -> int:
        """What every offset in the arena is a multiple of."""


class HeldOp(IRDLOperation, ABC):
    """Base of the operations whose result is a buffer that holds a tensor of the graph."""

    result = result_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))

    @property
    @abstractmethod
    def held(self) -> TensorType[Attribute]:
        """The tensor."""

    def verify_(self) -> None:
        expected = buffer_type(self.held)
        if self.result.type != expected:
            raise VerifyException(f"{self.name}: {self.held} lies in {expected}")


@irdl_op_definition
class InputOp(HeldOp):
    """A graph input's buffer: `%x = plan.input "x" tensor<2x3xf32> : memref<6xf32>`."""

    name = "plan.input"
    label = prop_def(StringAttr)
    tensor = prop_def(TensorType)
    assembly_format = "$label $tensor `:` type($result) attr-dict"

    def __init__(self, label: str, tensor: TensorType[Attribute]) -> None:
        super().__init__(
            properties={"label": StringAttr(label), "tensor": tensor},
            result_types=[buffer_type(tensor)],
        )

    @property
    def held(self) -> TensorType[Attribute]:
        return self.tensor


class NamedOp(HeldOp, ABC):
    """Base of the buffers that outlive a run, each known by its external name."""

    symbol = prop_def(SymbolRefAttr)
    tensor = prop_def(TensorType)
    assembly_format = "$symbol $tensor `:` type($result) attr-dict"

    def __init__(self, symbol: str, tensor: TensorType[Attribute]) -> None:
        super().__init__(
            properties={"symbol": SymbolRefAttr(symbol), "tensor": tensor},
            result_types=[buffer_type(tensor)],
        )

    @property
    def external_name(self) -> str:
        """The name of the parameter or the state."""
        return self.symbol.root_reference.data

    @property
    def held(self) -> TensorType[Attribute]:
        return self.tensor


@irdl_op_definition
class ParamOp(NamedOp):
    """A parameter's buffer: `%w = plan.param @"layers.0.w" tensor<4xf32> : memref<4xf32>`."""

    name = "plan.param"


@irdl_op_definition
class ConstantOp(HeldOp):
    """A constant's buffer: `%c = plan.constant dense<0.5> : tensor<4xf32> to memref<4xf32>`."""

    name = "plan.constant"
    value = prop_def(DenseIntOrFPElementsAttr)

    def __init__(self, value: DenseIntOrFPElementsAttr) -> None:
        super().__init__(
            properties={"value": value},
            result_types=[buffer_type(cast(TensorType[Attribute], value.type))],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_dense(printer, self.value)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        value = parse_dense(parser)
        parser.parse_keyword("to")
        op = cls.create(properties={"value": value}, result_types=[parser.parse_type()])
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    @property
    def held(self) -> TensorType[Attribute]:
        return cast(TensorType[Attribute], self.value.type)


@irdl_op_definition
class DerivedOp(IRDLOperation):
    """What `plan.prepare` makes of parameters, kept between runs in a buffer of its own:
    `%d = plan.derived : memref<64xf32>`.
    """

    name = "plan.derived"
    result = result_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))
    assembly_format = "`:` type($result) attr-dict"

    def __init__(self, type: MemRefType[Attribute]) -> None:
        super().__init__(result_types=[type])


@irdl_op_definition
class ViewOp(IRDLOperation):
    """A slice of the arena: `%t = plan.view offset 256 : memref<64xf32>`, in bytes."""

    name = "plan.view"
    offset = prop_def(IntegerAttr)
    result = result_def(MemRefType)
    traits = traits_def(HasParent(ArenaProgram))

    def __init__(self, offset: int, type: MemRefType[Attribute]) -> None:
        super().__init__(
            properties={"offset": IntegerAttr(offset, i64)},
            result_types=[type],
        )

    @property
    def start(self) -> int:
        """The first byte."""
        return self.offset.value.data

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + byte_size(self.result.type)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" offset {self.start} : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "ViewOp":
        parser.parse_keyword("offset")
        offset = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, MemRefType):
            parser.raise_error("a view's type must be a memref")
        op = cls(offset, cast(MemRefType[Attribute], type))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        program = cast(ArenaProgram, self.parent_op())
        if self.start % program.alignment_bytes:
            raise VerifyException(
                f"plan.view: offset {self.start} is not a multiple of {program.alignment_bytes}"
            )
        if self.start < 0 or self.end > program.arena_bytes:
            raise VerifyException(
                f"plan.view: bytes {self.start} to {self.end} lie outside the arena of "
                f"{program.arena_bytes}"
            )


BufferOp = InputOp | ParamOp | ConstantOp | DerivedOp | ViewOp
"""Every operation whose result is a buffer."""
