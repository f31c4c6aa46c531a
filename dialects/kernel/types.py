"""Attributes and types of the `kernel` dialect, and what an element or a vector may be.

In: an IR type. Out: the attribute classes, and checks that raise `VerifyException` with the reason.
"""

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    VectorType,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

VECTOR_LANES = (2, 4, 8, 16)
"""The vector lengths that a work-item computes with."""

INTEGER_WIDTHS = (1, 8, 16, 32, 64)
"""Signless integer widths; i1 takes one byte in memory."""


class Space(StrEnum):
    """Where a buffer lies when it is not in global memory."""

    LOCAL = "local"
    PRIVATE = "private"


class Access(StrEnum):
    """What a kernel does with a buffer argument. One that it writes it may read where it has
    written; `read_write` is what it reads before.
    """

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"

    @property
    def reads(self) -> bool:
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        return self is not Access.READ


class Combine(StrEnum):
    """How a sub-group reduction combines two values. Integer `max` and `min` are signed."""

    ADD = "add"
    MAX = "max"
    MIN = "min"


@irdl_attr_definition
class SpaceAttr(EnumAttribute[Space]):
    """A memory space of a memref: `memref<256xf32, #kernel.space<local>>`."""

    name = "kernel.space"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Space:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Space)


@irdl_attr_definition
class AccessAttr(EnumAttribute[Access]):
    """The access of one argument of `kernel.func`."""

    name = "kernel.access"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Access:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Access)


@irdl_attr_definition
class CombineAttr(EnumAttribute[Combine]):
    """The combination of a sub-group reduction."""

    name = "kernel.combine"


@irdl_attr_definition
class EventType(ParametrizedAttribute, TypeAttribute):
    """The completion of a `kernel.async_copy`, which `kernel.async_wait` waits for."""

    name = "kernel.event"


def is_element_type(type: Attribute) -> bool:
    """Whether memory may hold the type: f16, bf16, f32, f64, and signless i1 to i64."""
    if isinstance(type, Float16Type | BFloat16Type | Float32Type | Float64Type):
        return True
    return (
        isinstance(type, IntegerType)
        and type.signedness.data is Signedness.SIGNLESS
        and type.width.data in INTEGER_WIDTHS
    )


def element_bytes(type: Attribute) -> int:
    """Size of an element in memory; an i1 takes one byte."""
    if isinstance(type, IntegerType):
        return max(type.width.data // 8, 1)
    if isinstance(type, Float16Type | BFloat16Type):
        return 2
    return 8 if isinstance(type, Float64Type) else 4


def space_of(type: MemRefType) -> Space | None:
    """The memory space of a buffer; None for global memory."""
    space = type.memory_space
    return space.data if isinstance(space, SpaceAttr) else None


def local_memory(element: Attribute, count: int) -> MemRefType:
    """The type of a local buffer."""
    return MemRefType(element, [count], memory_space=SpaceAttr(Space.LOCAL))


def private_memory(element: Attribute, count: int) -> MemRefType:
    """The type of an array of one work-item."""
    return MemRefType(element, [count], memory_space=SpaceAttr(Space.PRIVATE))


def verify_buffer(type: Attribute, what: str) -> None:
    """A buffer is a flat memref of a static length, of an element type that memory can hold."""
    if not isinstance(type, MemRefType):
        raise VerifyException(f"{what} must be a memref, not {type}")
    if type.get_num_dims() != 1 or type.get_shape()[0] < 0:
        raise VerifyException(f"{what} must be flat and of static length, not {type}")
    if not is_element_type(type.element_type):
        raise VerifyException(f"{what} holds {type.element_type}, which has no place in memory")
    if not isinstance(type.memory_space, NoneAttr | SpaceAttr):
        raise VerifyException(f"{what} lies in an unknown memory space: {type.memory_space}")


def verified_local_element(name: str, type: Attribute) -> Attribute:
    """The element type of the buffer in local memory that an operation reads."""
    verify_buffer(type, "the memory")
    assert isinstance(type, MemRefType)
    if space_of(type) is not Space.LOCAL:
        raise VerifyException(f"{name} reads local memory")
    return type.element_type


def verify_copy_to_local(name: str, source: Attribute, target: Attribute) -> None:
    """A copy goes from a buffer in global memory to one in local memory, of one element type."""
    verify_buffer(source, "the source")
    verify_buffer(target, "the target")
    assert isinstance(source, MemRefType) and isinstance(target, MemRefType)
    if space_of(source) is not None or space_of(target) is not Space.LOCAL:
        raise VerifyException(f"{name} goes from global to local memory")
    if source.element_type != target.element_type:
        raise VerifyException(f"{name} from {source.element_type} to {target.element_type}")


def verify_vector(type: Attribute, what: str) -> None:
    """A vector has 2, 4, 8 or 16 lanes of an element type or of index."""
    if not isinstance(type, VectorType):
        return
    if type.get_num_dims() != 1 or type.get_shape()[0] not in VECTOR_LANES:
        lanes = ", ".join(str(count) for count in VECTOR_LANES)
        raise VerifyException(f"{what} is {type}: a vector has one of {lanes} lanes")
    if not is_element_type(type.element_type) and not isinstance(type.element_type, IndexType):
        raise VerifyException(f"{what} is {type}: a vector cannot hold {type.element_type}")
