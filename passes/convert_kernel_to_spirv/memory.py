"""Rows of `memref`, `vector` and the memory operations of `kernel`: loads, stores, lanes.

Vectors in memory need no alignment, and use one that an operation states. f16 goes through
`vload_half` and `vstore_half`, bf16 through its upper 16 bits, an i1 through a byte.
"""

from typing import Any

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import element, is_bool, is_small_float
from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.arithmetic import extremum
from mgn.passes.convert_kernel_to_spirv.conversions import bf16_bits, bf16_from_bits, bitcast
from mgn.passes.convert_kernel_to_spirv.converter import Converter, Row
from mgn.passes.convert_kernel_to_spirv.library import SIZE
from mgn.passes.convert_kernel_to_spirv.module_builder import VOID, member

STORAGE: dict[kernel.Space | None, str] = {
    None: "CrossWorkgroup",
    kernel.Space.LOCAL: "Workgroup",
    kernel.Space.PRIVATE: "Function",
}
"""The storage class of a memory space."""

REDUCTIONS: dict[str, tuple[str, str]] = {
    "add": ("OpFAdd", "OpIAdd"),
    "mul": ("OpFMul", "OpIMul"),
    "and": ("OpLogicalAnd", "OpBitwiseAnd"),
    "or": ("OpLogicalOr", "OpBitwiseOr"),
    "xor": ("OpLogicalNotEqual", "OpBitwiseXor"),
}
"""`vector.reduction` kinds that are an instruction: on floats or bools, and on integers."""

REDUCTION_CALLS: dict[str, str] = {
    "maxnumf": "fmax",
    "minnumf": "fmin",
    "maxsi": "s_max",
    "minsi": "s_min",
    "maxui": "u_max",
    "minui": "u_min",
}
"""`vector.reduction` kinds that are a function of OpenCL.std."""


def memory_shape(c: Converter, type: Attribute) -> Shape:
    """What memory holds for an element."""
    if isinstance(type, Float16Type | BFloat16Type):
        return Shape("int", 16)
    shape = c.shape(type)
    return Shape("int", 8) if shape.kind == "bool" else shape


def pointer_type(c: Converter, type: MemRefType) -> SSAValue:
    """The type of a pointer to a buffer's elements."""
    storage = STORAGE[kernel.space_of(type)]
    return c.builder.pointer(storage, c.builder.type(memory_shape(c, type.element_type)))


def address(c: Converter, buffer: SSAValue, index: SSAValue) -> SSAValue:
    """The pointer to an element."""
    assert isinstance(buffer.type, MemRefType)
    type = pointer_type(c, buffer.type)
    return c.builder.emit("OpInBoundsPtrAccessChain", type, c.value(buffer), index)


def is_aligned(operation: Operation, type: Attribute, count: int) -> bool:
    """Whether a vector's access is stated to lie at a multiple of the vector's size."""
    alignment = operation.attributes.get("alignment")
    size = count * kernel.element_bytes(type)
    return isinstance(alignment, IntegerAttr) and alignment.value.data % size == 0


def _vector_pointer(c: Converter, buffer: SSAValue, pointer: SSAValue, shape: Shape) -> SSAValue:
    """A pointer to an element as one to a vector."""
    assert isinstance(buffer.type, MemRefType)
    storage = STORAGE[kernel.space_of(buffer.type)]
    return c.builder.emit("OpBitcast", c.builder.pointer(storage, c.builder.type(shape)), pointer)


def loaded(
    c: Converter, buffer: SSAValue, index: SSAValue, count: int, aligned: bool = False
) -> SSAValue:
    """Consecutive elements of a buffer, as the value that is computed with."""
    assert isinstance(buffer.type, MemRefType)
    b, type, pointer = c.builder, buffer.type.element_type, address(c, buffer, index)
    zero = b.constant(SIZE, 0)
    if isinstance(type, Float16Type):
        half = c.library.half_pointer(pointer, STORAGE[kernel.space_of(buffer.type)])
        shape = Shape("float", 32, count)
        if count == 1:
            return b.extended("vload_half", shape, zero, half)
        name = "vloada_halfn" if aligned else "vload_halfn"
        return b.extended(name, shape, zero, half, literal=count)
    scalar = memory_shape(c, type)
    shape = Shape(scalar.kind, scalar.bits, count)
    if count == 1:
        value = b.emit("OpLoad", shape, pointer, literals=_aligned(shape))
    elif aligned:
        vector = _vector_pointer(c, buffer, pointer, shape)
        value = b.emit("OpLoad", shape, vector, literals=_aligned(shape))
    else:
        value = b.extended("vloadn", shape, zero, pointer, literal=count)
    if isinstance(type, BFloat16Type):
        return bf16_from_bits(c, value, count)
    if is_bool(type):
        return b.emit("OpINotEqual", shape.as_kind("bool", 1), value, b.constant(shape, 0))
    return value


def stored(
    c: Converter, buffer: SSAValue, index: SSAValue, value: SSAValue, aligned: bool = False
) -> None:
    """Write a scalar or a vector to consecutive elements of a buffer."""
    assert isinstance(buffer.type, MemRefType)
    b, type, pointer = c.builder, buffer.type.element_type, address(c, buffer, index)
    count, content = c.shape(value.type).lanes, c.value(value)
    zero = b.constant(SIZE, 0)
    if isinstance(type, Float16Type):
        half = c.library.half_pointer(pointer, STORAGE[kernel.space_of(buffer.type)])
        name = "vstore_half_r" if count == 1 else "vstore_halfn_r"
        name = "vstorea_halfn_r" if aligned and count > 1 else name
        mode = member("FPRoundingMode", "RTE")
        b.extended(name, VOID, content, zero, half, literal=mode)
        return
    scalar = memory_shape(c, type)
    shape = Shape(scalar.kind, scalar.bits, count)
    if isinstance(type, BFloat16Type):
        content = bf16_bits(c, content, count)
    elif is_bool(type):
        one, none = b.constant(shape, 1), b.constant(shape, 0)
        content = b.emit("OpSelect", shape, content, one, none)
    if count == 1:
        b.emit_operation("OpStore", None, pointer, content, literals=_aligned(shape))
    elif aligned:
        vector = _vector_pointer(c, buffer, pointer, shape)
        b.emit_operation("OpStore", None, vector, content, literals=_aligned(shape))
    else:
        b.extended("vstoren", VOID, content, zero, pointer)


def _aligned(shape: Shape) -> list[int]:
    return [member("MemoryAccess", "Aligned"), shape.lanes * shape.bits // 8]


def _index(c: Converter, operation: Any) -> SSAValue:
    if len(operation.indices) != 1:
        raise c.error(operation, "does not index a flat buffer")
    return c.value(operation.indices[0])


def _load(c: Converter, operation: memref.LoadOp) -> SSAValue:
    return loaded(c, operation.memref, _index(c, operation), 1)


def _store(c: Converter, operation: memref.StoreOp) -> None:
    stored(c, operation.memref, _index(c, operation), operation.value)


def _vector_load(c: Converter, operation: vector.LoadOp) -> SSAValue:
    type = operation.result.type
    count = c.shape(type).lanes
    aligned = is_aligned(operation, element(type), count)
    return loaded(c, operation.base, _index(c, operation), count, aligned)


def _vector_store(c: Converter, operation: vector.StoreOp) -> None:
    type = operation.vector.type
    aligned = is_aligned(operation, element(type), c.shape(type).lanes)
    stored(c, operation.base, _index(c, operation), operation.vector, aligned)


def _lane(c: Converter, vector: SSAValue, shape: Shape, number: int) -> SSAValue:
    return c.builder.emit("OpCompositeExtract", shape.scalar, vector, literals=[number])


def _gather(c: Converter, operation: kernel.GatherOp) -> SSAValue:
    indices, shape = c.value(operation.indices), c.shape(operation.indices.type)
    lanes = [_lane(c, indices, shape, number) for number in range(shape.lanes)]
    parts = [loaded(c, operation.base, lane, 1) for lane in lanes]
    return c.builder.emit("OpCompositeConstruct", c.shape(operation.result.type), *parts)


def _array(c: Converter, value: SSAValue) -> SSAValue:
    """A variable that is an array, as the pointer to its first element."""
    type = value.type
    assert isinstance(type, MemRefType)
    b, storage = c.builder, STORAGE[kernel.space_of(type)]
    array = b.array(b.type(memory_shape(c, type.element_type)), max(type.get_shape()[0], 1))
    variable = b.variable(storage, array, value.name_hint or "buffer")
    return b.emit("OpBitcast", pointer_type(c, type), variable)


def _alloca(c: Converter, operation: memref.AllocaOp) -> SSAValue:
    return _array(c, operation.memref)


def _local_alloc(c: Converter, operation: kernel.LocalAllocOp) -> SSAValue:
    return _array(c, operation.memref)


def _broadcast(c: Converter, operation: vector.BroadcastOp) -> SSAValue:
    source, shape = c.value(operation.source), c.shape(operation.vector.type)
    if c.shape(operation.source.type).lanes > 1:
        return source
    return c.builder.emit("OpCompositeConstruct", shape, *[source] * shape.lanes)


def _fma(c: Converter, operation: vector.FMAOp) -> SSAValue:
    type = operation.res.type
    return c.rounded(type, c.builder.extended("fma", c.shape(type), *c.values(operation)))


def _from_elements(c: Converter, operation: kernel.FromElementsOp) -> SSAValue:
    shape = c.shape(operation.result.type)
    return c.builder.emit("OpCompositeConstruct", shape, *c.values(operation))


def _position(c: Converter, operation: Any) -> tuple[int | None, SSAValue | None]:
    """A lane's number, or the id of one that is known at run time only."""
    if len(operation.static_position) != 1:
        raise c.error(operation, "does not take one lane of a flat vector")
    if operation.dynamic_position:
        return None, c.value(operation.dynamic_position[0])
    return operation.static_position.get_values()[0], None


def _extract(c: Converter, operation: vector.ExtractOp) -> SSAValue:
    number, index = _position(c, operation)
    source, shape = c.value(operation.vector), c.shape(operation.vector.type)
    if number is not None:
        return _lane(c, source, shape, number)
    assert index is not None
    return c.builder.emit("OpVectorExtractDynamic", shape.scalar, source, index)


def _insert(c: Converter, operation: vector.InsertOp) -> SSAValue:
    number, index = _position(c, operation)
    part, whole = c.value(operation.source), c.value(operation.dest)
    shape = c.shape(operation.result.type)
    if number is not None:
        return c.builder.emit("OpCompositeInsert", shape, part, whole, literals=[number])
    assert index is not None
    return c.builder.emit("OpVectorInsertDynamic", shape, whole, part, index)


def _shuffle(c: Converter, operation: vector.ShuffleOp) -> SSAValue:
    picks = [max(number, 0) for number in operation.mask.get_values()]
    shape = c.shape(operation.result.type)
    return c.builder.emit("OpVectorShuffle", shape, *c.values(operation), literals=picks)


def _vector_bitcast(c: Converter, operation: vector.BitcastOp) -> SSAValue:
    source, target = operation.source.type, operation.result.type
    if c.shape(source).lanes == c.shape(target).lanes:
        return bitcast(c, operation.source, target)
    if any(is_small_float(type) or is_bool(type) for type in (source, target)):
        raise c.error(operation, "changes the lane count of a type not held as its bits")
    return c.builder.emit("OpBitcast", c.shape(target), c.value(operation.source))


def _reduction(c: Converter, operation: vector.ReductionOp) -> SSAValue:
    """Halves the vector until one lane is left."""
    b, kind, type = c.builder, str(operation.kind.data), operation.vector.type
    if is_bool(type) and kind not in ("and", "or", "xor"):
        raise c.error(operation, "does not reduce i1 that way")
    value, shape = c.value(operation.vector), c.shape(type)
    while shape.lanes > 1:
        half = Shape(shape.kind, shape.bits, shape.lanes // 2)
        if half.lanes == 1:
            sides = [_lane(c, value, shape, number) for number in (0, 1)]
        else:
            picks = list(range(shape.lanes))
            sides = [
                b.emit("OpVectorShuffle", half, value, value, literals=part)
                for part in (picks[: half.lanes], picks[half.lanes :])
            ]
        value, shape = _combine(c, kind, half, *sides), half
    if operation.acc is not None:
        value = _combine(c, kind, shape, c.value(operation.acc), value)
    return c.rounded(operation.dest.type, value) if kind in ("add", "mul") else value


def _combine(c: Converter, kind: str, shape: Shape, left: SSAValue, right: SSAValue) -> SSAValue:
    if kind in REDUCTIONS:
        name = REDUCTIONS[kind][shape.kind == "int"]
        return c.builder.emit(name, shape, left, right)
    if kind in REDUCTION_CALLS:
        return c.builder.extended(REDUCTION_CALLS[kind], shape, left, right)
    return extremum(c, "maximum" if kind == "maximumf" else "minimum", shape, left, right)


MEMORY_ROWS: dict[type[Operation], Row] = {
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.AllocaOp: _alloca,
    vector.LoadOp: _vector_load,
    vector.StoreOp: _vector_store,
    vector.BroadcastOp: _broadcast,
    vector.FMAOp: _fma,
    vector.ExtractOp: _extract,
    vector.InsertOp: _insert,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _vector_bitcast,
    vector.ReductionOp: _reduction,
    kernel.LocalAllocOp: _local_alloc,
    kernel.FromElementsOp: _from_elements,
    kernel.GatherOp: _gather,
}
