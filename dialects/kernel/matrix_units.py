"""Operations of matrix units: products of fragments, and how fragments come from local memory.

A sub-group of 32 work-items holds a small matrix in registers, as PTX lays it out. Operands of 16
bits are held as the 32-bit registers that contain two of them, tf32 operands as f32.
"""

from typing import ClassVar

from xdsl.dialects.builtin import (
    Float32Type,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import verify_converged
from mgn.dialects.kernel.types import (
    element_bytes,
    verified_local_element,
    verify_copy_to_local,
)

MMA_SHAPES: dict[str, Attribute] = {
    "m16n8k16_bf16": i32,
    "m16n8k16_f16": i32,
    "m16n8k8_tf32": f32,
}
"""Matrix instruction → what its fragments are held as: 4 lanes of a, 2 of b, and 4 sums in f32."""

CHUNK_BYTES = (4, 8, 16)
"""How much one asynchronous copy of a work-item moves."""


@irdl_op_definition
class MmaOp(IRDLOperation):
    """A sub-group of 32 multiplies two small matrices and adds.

    The fragment layouts are those of PTX `mma.sync`. The low 13 bits of tf32 do not count.
    ```
    %d = kernel.mma m16n8k16_bf16 %a, %b, %c : vector<4xi32>, vector<2xi32>, vector<4xf32>
    ```
    Errors: an unknown shape, fragments of another type or length, a place inside a branch.
    """

    name = "kernel.mma"
    C: ClassVar = VarConstraint("C", AnyAttr())
    shape = prop_def(StringAttr)
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = operand_def(C)
    result = result_def(C)
    traits = traits_def(NoMemoryEffect())

    def __init__(
        self,
        shape: str,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        acc: SSAValue | Operation,
    ):
        acc = SSAValue.get(acc)
        super().__init__(
            operands=[a, b, acc],
            properties={"shape": StringAttr(shape)},
            result_types=[acc.type],
        )

    def verify_(self) -> None:
        if self.shape.data not in MMA_SHAPES:
            known = ", ".join(MMA_SHAPES)
            raise VerifyException(f"no matrix instruction {self.shape.data}; there are {known}")
        held = MMA_SHAPES[self.shape.data]
        expected = [VectorType(type, [n]) for type, n in ((held, 4), (held, 2), (f32, 4))]
        for what, value, type in zip("abc", (self.a, self.b, self.acc), expected, strict=True):
            if value.type != type:
                raise VerifyException(f"{self.shape.data} takes {type} as {what}, not {value.type}")
        verify_converged(self)

    @classmethod
    def parse(cls, parser: Parser) -> "MmaOp":
        shape = parser.parse_identifier()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        operation = cls(shape, *parser.resolve_operands(operands, types, start))
        operation.attributes |= attributes
        return operation

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.shape.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda value: printer.print_attribute(value.type))


@irdl_op_definition
class LoadMatrixOp(IRDLOperation):
    """A sub-group of 32 loads four matrices of 8 rows of 16 bytes from local memory, as `ldmatrix`.

    ```
    %r = kernel.load_matrix %m[%i] : memref<4096xbf16, #kernel.space<local>> -> vector<4xi32>
    %s = kernel.load_matrix transposed %m[%i] : …
    ```
    The index of lane l is where row l % 8 of matrix l / 8 begins, at a multiple of 16 bytes. Lane
    n of the result belongs to matrix n: of its row l / 4, the 4 bytes number l % 4; `transposed`,
    which takes 16-bit elements: of its column l / 4, the rows 2 (l % 4) and the next. Errors:
    memory that is not local, elements of other sizes, another result, a place inside a branch.
    """

    name = "kernel.load_matrix"
    transposed = opt_prop_def(UnitAttr)
    base = operand_def(MemRefType)
    index = operand_def(IndexType)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "(`transposed` $transposed^)? $base `[` $index `]` attr-dict `:` type($base) `->`"
        " type($result)"
    )

    def __init__(
        self, base: SSAValue | Operation, index: SSAValue | Operation, transposed: bool = False
    ):
        base = SSAValue.get(base)
        assert isinstance(base.type, MemRefType)
        held = f32 if isinstance(base.type.element_type, Float32Type) else i32
        super().__init__(
            operands=[base, index],
            properties={"transposed": UnitAttr() if transposed else None},
            result_types=[VectorType(held, [4])],
        )

    def verify_(self) -> None:
        element = verified_local_element(self.name, self.base.type)
        if element_bytes(element) != 2 and (self.transposed or element != f32):
            form = "transposed " if self.transposed else ""
            raise VerifyException(f"kernel.load_matrix takes no {form}{element}")
        expected = VectorType(f32 if element == f32 else i32, [4])
        if self.result.type != expected:
            raise VerifyException(f"kernel.load_matrix gives {expected}, not {self.result.type}")
        verify_converged(self)


@irdl_op_definition
class RoundTf32Op(IRDLOperation):
    """The nearest numbers of 10 mantissa bits, ties to even; their low bits may be anything that a
    tf32 operand of `kernel.mma` does not count: `kernel.round_tf32 %x : vector<4xf32>`.
    """

    name = "kernel.round_tf32"
    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation):
        value = SSAValue.get(value)
        super().__init__(operands=[value], result_types=[value.type])

    def verify_(self) -> None:
        type = self.value.type
        if (type.element_type if isinstance(type, VectorType) else type) != f32:
            raise VerifyException(f"kernel.round_tf32 rounds f32, not {type}")


@irdl_op_definition
class PackOp(IRDLOperation):
    """Numbers of bf16 or f16 in pairs, as `kernel.mma` holds them: the first of a pair in the low
    bits.

    Example: `kernel.pack %x : vector<8xbf16> -> vector<4xi32>`. Errors: other elements, a result
    that is not half as long.
    """

    name = "kernel.pack"
    value = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation):
        value = SSAValue.get(value)
        assert isinstance(value.type, VectorType)
        super().__init__(
            operands=[value], result_types=[VectorType(i32, [value.type.get_shape()[0] // 2])]
        )

    def verify_(self) -> None:
        _verify_pairs(self.name, self.value.type, self.result.type)


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """The numbers that `kernel.pack` was given: `kernel.unpack %x : vector<4xi32> ->
    vector<8xbf16>`. Errors: as of `kernel.pack`.
    """

    name = "kernel.unpack"
    value = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, element: Attribute = bf16):
        value = SSAValue.get(value)
        assert isinstance(value.type, VectorType)
        super().__init__(
            operands=[value], result_types=[VectorType(element, [2 * value.type.get_shape()[0]])]
        )

    def verify_(self) -> None:
        _verify_pairs(self.name, self.result.type, self.value.type)


def _verify_pairs(name: str, numbers: Attribute, pairs: Attribute) -> None:
    assert isinstance(numbers, VectorType)
    expected = VectorType(i32, [numbers.get_shape()[0] // 2])
    is_half = numbers.element_type in (bf16, f16)
    if not is_half or numbers.get_shape()[0] % 2 or pairs != expected:
        raise VerifyException(f"{name} holds pairs of bf16 or f16 as i32, not {numbers} as {pairs}")


@irdl_op_definition
class CopyChunkOp(IRDLOperation):
    """A work-item starts to copy a few elements from global to local memory, as `cp.async` does.

    ```
    kernel.copy_chunk %x[%i], %m[%j] count 8 : memref<4096xbf16>, memref<512xbf16, …>
    kernel.copy_chunk %x[%i], %m[%j] count 8 valid %n : …
    ```
    With `valid`, only the first so many elements are read, and the others become 0. Both sides lie
    at multiples of the chunk's size. The chunk may be read after `kernel.commit_copies`, a
    `kernel.wait_copies` and a barrier. Errors: another direction, differing element types, a size
    other than 4, 8 or 16 bytes.
    """

    name = "kernel.copy_chunk"
    source = operand_def(MemRefType)
    source_index = operand_def(IndexType)
    target = operand_def(MemRefType)
    target_index = operand_def(IndexType)
    valid = opt_operand_def(IndexType)
    count = prop_def(IntegerAttr.constr(i64))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$source `[` $source_index `]` `,` $target `[` $target_index `]` `count` $count"
        " (`valid` $valid^)? attr-dict `:` type($source) `,` type($target)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        source_index: SSAValue | Operation,
        target: SSAValue | Operation,
        target_index: SSAValue | Operation,
        count: int,
        valid: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[source, source_index, target, target_index, valid],
            properties={"count": IntegerAttr(count, i64)},
        )

    def verify_(self) -> None:
        source = self.source.type
        verify_copy_to_local(self.name, source, self.target.type)
        assert isinstance(source, MemRefType)
        size = self.count.value.data * element_bytes(source.element_type)
        if size not in CHUNK_BYTES:
            raise VerifyException(f"kernel.copy_chunk moves 4, 8 or 16 bytes, not {size}")


@irdl_op_definition
class CommitCopiesOp(IRDLOperation):
    """The work-item's copies since the last one form a group: `kernel.commit_copies`."""

    name = "kernel.commit_copies"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WaitCopiesOp(IRDLOperation):
    """The work-item waits until at most so many of its latest groups of copies are under way.

    Example: `kernel.wait_copies 2`. Error: a negative number.
    """

    name = "kernel.wait_copies"
    pending = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int):
        super().__init__(properties={"pending": IntegerAttr(pending, i64)})

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException("kernel.wait_copies takes a number of groups, from 0 on")
