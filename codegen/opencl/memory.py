"""Rows of `memref`, `vector` and the memory operations of `kernel`: OpenCL C loads, stores, lanes.

Vectors in memory need no alignment. f16 goes through `vload_half` and `vstore_half`, bf16 through
its upper 16 bits, an i1 through a byte. What was just rounded from f32 to either is stored in pairs
where an instruction of the device makes them.
"""

from typing import Any

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.codegen.opencl.conversions import bitcast
from mgn.codegen.opencl.expression import (
    ADD,
    AND,
    CONDITION,
    EQUALITY,
    MULTIPLY,
    OR,
    PRIMARY,
    SHIFT,
    XOR,
    Expression,
    call,
    cast,
    infix,
    offset,
    prefix,
)
from mgn.codegen.opencl.integer_extrema import extrema_are_in_bits, extremum_in_bits
from mgn.codegen.opencl.values import has_pairs, rounded, rounded_pairs, signed, unsigned
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import element, is_bool, is_float, is_small_float, is_vector, lanes

LARGEST_LOCAL = 48 * 1024
"""Bytes of local memory that NVIDIA's OpenCL C takes in a kernel."""

TILE = 1024
"""Bytes of the smallest tile that a matrix unit reads, which lies at a multiple of them."""

LANE_NAMES = "0123456789abcdef"

SPACES = {None: "__global ", kernel.Space.LOCAL: "__local ", kernel.Space.PRIVATE: ""}
"""Memory space of a buffer → the qualifier of a pointer into it."""

ALIGNS_HALVES = frozenset({"pocl"})
"""Vendors whose `vload_half` and `vstore_half` of a vector take memory to begin at a multiple of
the vector's size: PoCL 3.1 ends the process where it does not. Bits are moved there.
"""

REDUCTIONS: dict[str, tuple[str, int]] = {
    "add": ("+", ADD),
    "mul": ("*", MULTIPLY),
    "and": ("&", AND),
    "or": ("|", OR),
    "xor": ("^", XOR),
}
"""`vector.reduction` kinds that are an operator."""

REDUCTION_CALLS: dict[str, str] = {
    "maxnumf": "fmax",
    "minnumf": "fmin",
    "maxsi": "max",
    "minsi": "min",
    "maxui": "max",
    "minui": "min",
}
"""`vector.reduction` kinds that are a built-in function; `…ui` works on unsigned lanes."""


def lane(vector: Expression, index: int) -> Expression:
    """One lane of a vector."""
    return Expression(f"{vector.at(PRIMARY)}.s{LANE_NAMES[index]}")


def is_aligned(operation: Operation, type: Attribute) -> bool:
    """Whether a vector's access is stated to lie at a multiple of the vector's size."""
    alignment = operation.attributes.get("alignment")
    size = lanes(type) * kernel.element_bytes(element(type))
    return isinstance(alignment, IntegerAttr) and alignment.value.data % size == 0


def _vector_at(
    writer: Writer, buffer: SSAValue, index: Expression, count: int, constant: str
) -> Expression:
    """A vector in memory at a multiple of its size, as an lvalue."""
    assert isinstance(buffer.type, MemRefType)
    pointer = f"{constant}{_space(buffer)}{writer.types.memory(buffer.type.element_type)}{count}*"
    return prefix("*", cast(pointer, offset(writer.pointer(buffer), index)))


def _space(buffer: SSAValue) -> str:
    """The qualifier of a pointer into a buffer."""
    assert isinstance(buffer.type, MemRefType)
    return SPACES[kernel.space_of(buffer.type)]


def _moves_bits(writer: Writer, count: int, aligned: bool) -> bool:
    """Whether a vector of halves is loaded and stored as its bits."""
    return count > 1 and not aligned and writer.vendor in ALIGNS_HALVES


def loaded(
    writer: Writer, buffer: SSAValue, index: Expression, count: int, aligned: bool = False
) -> Expression:
    """Consecutive elements of a buffer, as the value that is computed with."""
    assert isinstance(buffer.type, MemRefType)
    type, pointer = buffer.type.element_type, writer.pointer(buffer)
    width = "" if count == 1 else str(count)
    if isinstance(type, Float16Type):
        if _moves_bits(writer, count, aligned):
            bits = cast(f"const {_space(buffer)}short*", offset(pointer, index))
            return call(writer.library.f16_from_bits(count), call(f"vload{count}", "0", bits))
        function = "vloada_half" if aligned else "vload_half"
        return call(f"{function}{width}", "0", offset(pointer, index))
    element = Expression(f"{pointer}[{index}]")
    if aligned:
        element = _vector_at(writer, buffer, index, count, "const ")
    elif count > 1:
        element = call(f"vload{count}", "0", offset(pointer, index))
    if isinstance(type, BFloat16Type):
        bits = call(f"convert_uint{count}", element) if count > 1 else cast("uint", element)
        high = infix(bits, "<<", Expression("16"), SHIFT)
        return call(f"as_float{width}", high)
    if is_bool(type):
        zero = Expression("0" if count == 1 else f"(uchar{count})(0)")
        truth = infix(element, "!=", zero, EQUALITY)
        return truth if count == 1 else call(f"convert_int{count}", truth)
    return element


def stored(
    writer: Writer, buffer: SSAValue, index: Expression, value: SSAValue, aligned: bool = False
) -> None:
    """Write a scalar or a vector to consecutive elements of a buffer."""
    assert isinstance(buffer.type, MemRefType)
    type, pointer = buffer.type.element_type, writer.pointer(buffer)
    count, content = lanes(value.type), writer.value(value)
    width = "" if count == 1 else str(count)
    if _rounds_pairs(writer, value):
        _store_pairs(writer, buffer, index, value, aligned)
        return
    if isinstance(type, Float16Type):
        target = offset(pointer, index)
        if _moves_bits(writer, count, aligned):
            bits = call(writer.library.f16_bits(count), content)
            target = cast(f"{_space(buffer)}short*", target)
            writer.line(f"{call(f'vstore{count}', bits, '0', target)};")
            return
        function = "vstorea_half" if aligned else "vstore_half"
        writer.line(f"{call(f'{function}{width}_rte', content, '0', target)};")
        return
    if isinstance(type, BFloat16Type):
        bits = infix(call(f"as_uint{width}", content), ">>", Expression("16"), SHIFT)
        content = call(f"convert_ushort{width}", bits)
    elif is_bool(type) and count > 1:
        one = infix(content, "&", Expression("1"), AND)
        content = call(f"convert_uchar{count}", one)
    if count == 1:
        writer.line(f"{pointer}[{index}] = {content};")
    elif aligned:
        writer.line(f"{_vector_at(writer, buffer, index, count, '')} = {content};")
    else:
        writer.line(f"{call(f'vstore{count}', content, '0', offset(pointer, index))};")


def _rounds_pairs(writer: Writer, value: SSAValue) -> bool:
    """Whether a vector was rounded to 16 bits from f32, where two numbers at once are."""
    narrowed, type = value.owner, element(value.type)
    if not has_pairs(writer) or not isinstance(narrowed, arith.TruncFOp) or lanes(value.type) % 2:
        return False
    short = isinstance(type, BFloat16Type | Float16Type)
    return short and isinstance(element(narrowed.input.type), Float32Type)


def _store_pairs(
    writer: Writer, buffer: SSAValue, index: Expression, value: SSAValue, aligned: bool
) -> None:
    assert isinstance(value.owner, arith.TruncFOp) and isinstance(buffer.type, MemRefType)
    count, place = lanes(value.type), offset(writer.pointer(buffer), index)
    name = "f16" if isinstance(buffer.type.element_type, Float16Type) else "bf16"
    pairs = rounded_pairs(writer, value.owner.input, count // 2, name)
    space = _space(buffer)
    if aligned:
        type = "int" if count == 2 else f"int{count // 2}"
        writer.line(f"{prefix('*', cast(f'{space}{type}*', place))} = {pairs};")
        return
    content = call(f"as_ushort{count}", pairs)
    writer.line(f"{call(f'vstore{count}', content, '0', cast(f'{space}ushort*', place))};")


def _index(writer: Writer, operation: Any) -> Expression:
    if len(operation.indices) != 1:
        raise writer.error(operation, "does not index a flat buffer")
    return writer.value(operation.indices[0])


def _load(writer: Writer, operation: memref.LoadOp) -> None:
    index = _index(writer, operation)
    writer.declare(operation.res, loaded(writer, operation.memref, index, 1))


def _store(writer: Writer, operation: memref.StoreOp) -> None:
    stored(writer, operation.memref, _index(writer, operation), operation.value)


def _vector_load(writer: Writer, operation: vector.LoadOp) -> None:
    index, count = _index(writer, operation), lanes(operation.result.type)
    aligned = is_aligned(operation, operation.result.type)
    writer.declare(operation.result, loaded(writer, operation.base, index, count, aligned))


def _vector_store(writer: Writer, operation: vector.StoreOp) -> None:
    aligned = is_aligned(operation, operation.vector.type)
    stored(writer, operation.base, _index(writer, operation), operation.vector, aligned)


def _gather(writer: Writer, operation: kernel.GatherOp) -> None:
    indices = writer.name_of(operation.indices)
    count = lanes(operation.result.type)
    parts = [loaded(writer, operation.base, lane(indices, number), 1) for number in range(count)]
    if is_bool(operation.result.type):
        parts = [prefix("-", part) for part in parts]
    writer.declare(operation.result, writer.types.pack(operation.result.type, parts))


def _array(writer: Writer, value: SSAValue, space: str, end: str = "") -> None:
    assert isinstance(value.type, MemRefType)
    type, count = value.type.element_type, value.type.get_shape()[0]
    storage, memory = writer.types.storage(type), writer.types.memory(type)
    name = writer.fresh(value.name_hint or "buffer")
    writer.set(value, Expression(name))
    size = kernel.element_bytes(type)
    if space and writer.vendor == "nvidia" and count * size > writer.declared_at_most:
        held = name if storage == memory else f"{name}_bits"
        writer.enlarged[held] = (writer.declared_at_most, count * size)
        count = writer.declared_at_most // size
    if storage == memory:
        writer.line(f"{space}{storage} {name}[{count}]{end};")
        return
    array = writer.fresh(f"{name}_bits")
    writer.line(f"{space}{storage} {array}[{count}]{end};")
    writer.line(f"{space}{memory}* {name} = ({space}{memory}*){array};")


def declared_at_most(func: kernel.FuncOp) -> int:
    """The most bytes that NVIDIA's OpenCL C is told of an array in local memory: all where it takes
    all arrays together; else a power of two, and the program says how many bytes it needs.
    """
    types = [op.memref.type for op in func.walk() if isinstance(op, kernel.LocalAllocOp)]
    sizes = [type.get_shape()[0] * kernel.element_bytes(type.element_type) for type in types]
    if sum(sizes) <= LARGEST_LOCAL:
        return LARGEST_LOCAL
    return 1 << (LARGEST_LOCAL // len(sizes)).bit_length() - 1


def _alloca(writer: Writer, operation: memref.AllocaOp) -> None:
    _array(writer, operation.memref, "")


def _local_alloc(writer: Writer, operation: kernel.LocalAllocOp) -> None:
    type = operation.memref.type
    if writer.stage is not None:
        name = writer.fresh(operation.memref.name_hint or "buffer")
        memory = writer.types.memory(type.element_type)
        place = writer.stage.take(operation)
        writer.line(f"__local {memory}* {name} = (__local {memory}*)({place});")
        writer.set(operation.memref, Expression(name))
        return
    own = type.get_shape()[0] * kernel.element_bytes(type.element_type)
    writer.local_memory += own
    may_be_tile = writer.vendor == "nvidia" and own >= TILE and writer.local_memory > 4096
    alignment = TILE if may_be_tile else 64
    _array(writer, operation.memref, "__local ", f" __attribute__((aligned({alignment})))")


def _prefetch(writer: Writer, operation: kernel.PrefetchOp) -> None:
    place = offset(writer.pointer(operation.memref), writer.value(operation.index))
    name = writer.library.prefetch()
    write = str(int(operation.write is not None))
    writer.line(f"{call(name, str(place), write, str(operation.level.value.data))};")


def _broadcast(writer: Writer, operation: vector.BroadcastOp) -> Expression:
    source = writer.value(operation.source)
    if is_vector(operation.source.type):
        return source
    if is_bool(operation.source.type):
        source = prefix("-", source)
    return writer.types.splat(operation.vector.type, source)


def _fma(writer: Writer, operation: vector.FMAOp) -> None:
    """A variable, where the operation stands: the sums of a loop would all be written at its end,
    after the operands of all of them, and Intel's CPU compiler would run out of registers.
    """
    parts = [writer.value(part) for part in (operation.lhs, operation.rhs, operation.acc)]
    value = rounded(writer, operation.res.type, call("fma", *parts))
    writer.declare(operation.res, value)


def _from_elements(writer: Writer, operation: kernel.FromElementsOp) -> Expression:
    parts = [writer.value(part) for part in operation.elements]
    if is_bool(operation.result.type):
        parts = [prefix("-", part) for part in parts]
    return writer.types.pack(operation.result.type, parts)


def _position(writer: Writer, operation: Any) -> tuple[int | None, Expression | None]:
    """A lane's number, or the expression of one that is known at run time only."""
    if len(operation.static_position) != 1:
        raise writer.error(operation, "does not take one lane of a flat vector")
    if operation.dynamic_position:
        return None, writer.value(operation.dynamic_position[0])
    return operation.static_position.get_values()[0], None


def _extract(writer: Writer, operation: vector.ExtractOp) -> Expression:
    number, index = _position(writer, operation)
    source = writer.name_of(operation.vector)
    value = Expression(f"{source}[{index}]") if number is None else lane(source, number)
    if is_bool(operation.vector.type):
        return infix(value, "!=", Expression("0"), EQUALITY)
    return value


def _insert(writer: Writer, operation: vector.InsertOp) -> None:
    number, index = _position(writer, operation)
    source = writer.value(operation.source)
    if is_bool(operation.result.type):
        source = prefix("-", source)
    result = writer.declare(operation.result, writer.value(operation.dest))
    target = Expression(f"{result}[{index}]") if number is None else lane(result, number)
    writer.line(f"{target} = {source};")


def _shuffle(writer: Writer, operation: vector.ShuffleOp) -> Expression:
    first, second = writer.name_of(operation.v1), writer.name_of(operation.v2)
    split = lanes(operation.v1.type)
    picks = [max(number, 0) for number in operation.mask.get_values()]
    if all(number < split for number in picks):
        return Expression(f"{first}.s{''.join(LANE_NAMES[number] for number in picks)}")
    parts = [
        lane(first, number) if number < split else lane(second, number - split) for number in picks
    ]
    return writer.types.pack(operation.result.type, parts)


def _vector_bitcast(writer: Writer, operation: vector.BitcastOp) -> Expression:
    source, target = operation.source.type, operation.result.type
    if lanes(source) == lanes(target):
        return bitcast(writer, operation.source, target)
    if any(is_small_float(type) or is_bool(type) for type in (source, target)):
        raise writer.error(operation, "changes the lane count of a type not held as its bits")
    return call(f"as_{writer.type(target)}", writer.value(operation.source))


def _reduction(writer: Writer, operation: vector.ReductionOp) -> Expression:
    kind, type = str(operation.kind.data), operation.vector.type
    assert isinstance(type, VectorType)
    scalar = "int" if is_bool(type) else writer.types.scalar(type)
    is_unsigned = kind.endswith("ui")
    value = unsigned(writer, operation.vector) if is_unsigned else writer.value(operation.vector)
    wrapping = kind in ("add", "mul") and not is_float(type)
    if wrapping and not is_bool(type):
        value, is_unsigned = unsigned(writer, operation.vector), True
    scalar = f"u{scalar}" if is_unsigned else scalar

    in_bits = kind in ("maxsi", "minsi") and extrema_are_in_bits(writer, operation.vector)

    def combine(left: str, right: str, width: int) -> str:
        if in_bits:
            return (
                f"{extremum_in_bits(writer.library, REDUCTION_CALLS[kind], width)}({left}, {right})"
            )
        return _combine(writer, kind, scalar, left, right, width)

    if is_bool(type) and kind not in ("and", "or", "xor"):
        raise writer.error(operation, "does not reduce i1 that way")
    step = f"{kind}_in_bits" if in_bits else kind
    name = writer.library.reduce(step, scalar, lanes(type), combine)
    result = call(name, value)
    if operation.acc is not None:
        acc = writer.value(operation.acc)
        if is_unsigned:
            acc = unsigned(writer, operation.acc)
        if is_bool(type):
            acc = prefix("-", acc)
        result = Expression(combine(acc.at(MULTIPLY + 1), str(result), 1), CONDITION)
    if is_bool(type):
        return infix(result, "!=", Expression("0"), EQUALITY)
    if is_unsigned:
        return signed(writer, operation.dest.type, result)
    return rounded(writer, operation.dest.type, result) if kind in ("add", "mul") else result


def _combine(writer: Writer, kind: str, scalar: str, left: str, right: str, width: int) -> str:
    if kind in REDUCTIONS:
        return f"{left} {REDUCTIONS[kind][0]} {right}"
    if kind in REDUCTION_CALLS:
        return f"{REDUCTION_CALLS[kind]}({left}, {right})"
    name = "maximum" if kind == "maximumf" else "minimum"
    return f"{writer.library.extremum(name, scalar, width, writer.vendor)}({left}, {right})"


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
    kernel.PrefetchOp: _prefetch,
    kernel.FromElementsOp: _from_elements,
    kernel.GatherOp: _gather,
}
