"""Rows of the operations of matrix units: NVIDIA's PTX, and the same by exchange of registers.

The text for other devices asks for sub-groups of 32. It is there so that a kernel made for matrix
units means the same everywhere and can be tested where there are none; no schedule chooses it.
"""

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.codegen.opencl.expression import MULTIPLY, Expression, call, cast, infix, offset
from mgn.codegen.opencl.values import rounded_pairs
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import element, lanes

SUB_GROUP = 32


def _element(buffer: SSAValue) -> Attribute:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.element_type


def _registers(first: int, count: int) -> str:
    return f"{{{', '.join(f'%{n}' for n in range(first, first + count))}}}"


def _mma(writer: Writer, operation: kernel.MmaOp) -> None:
    shape, name = operation.shape.data.split("_")
    held = "float" if name == "tf32" else "int"
    function = _mma_ptx if writer.vendor == "nvidia" else _mma_portable
    body = function(writer, shape, name)
    parameters = f"{held}4 a, {held}2 b, float4 c"
    function_name = writer.library.add(f"mma_{operation.shape.data}", "float4", parameters, *body)
    parts = [writer.value(part) for part in (operation.a, operation.b, operation.acc)]
    writer.declare(operation.result, call(function_name, *parts))


def _mma_ptx(writer: Writer, shape: str, name: str) -> tuple[str, ...]:
    fragments = [f"{part}.s{n}" for part, count in (("a", 4), ("b", 2)) for n in range(count)]
    inputs = [f'"r"(as_uint({part}))' for part in fragments]
    inputs += [f'"f"(c.s{n})' for n in range(4)]
    operands = ", ".join(_registers(*group) for group in ((0, 4), (4, 4), (8, 2), (10, 4)))
    return (
        "float4 d;",
        f'asm("mma.sync.aligned.{shape}.row.col.f32.{name}.{name}.f32 {operands};"',
        '    : "=f"(d.s0), "=f"(d.s1), "=f"(d.s2), "=f"(d.s3)',
        f"    : {', '.join(inputs)});",
        "return d;",
    )


def _mma_portable(writer: Writer, shape: str, name: str) -> tuple[str, ...]:
    """Each work-item gets the row of a and the two columns of b that its sums need."""
    lower, upper = halves(writer, name)

    def product(x: str, y: str) -> str:
        parts = [f"{lower.format(x)} * {lower.format(y)}"]
        parts += [f"{upper.format(x)} * {upper.format(y)}"] if upper else []
        return " + ".join(parts)

    need_sub_groups(writer)
    type = "float" if name == "tf32" else "int"
    sums = [
        f"    c.s{n} += {product(f'x{n // 2}', f'y{n % 2}')};\n"
        f"        c.s{n} += {product(f'x{n // 2 + 2}', f'z{n % 2}')};"
        for n in range(4)
    ]
    return (
        "uint lane = get_sub_group_local_id(), pair = 8 * (lane & 3u);",
        "for (uint k = 0; k < 4; ++k) {",
        "    uint row = (lane & ~3u) + k;",
        *(f"    {type} x{n} = sub_group_shuffle(a.s{n}, row);" for n in range(4)),
        *(f"    {type} y{n} = sub_group_shuffle(b.s0, pair + {4 * n} + k);" for n in range(2)),
        *(f"    {type} z{n} = sub_group_shuffle(b.s1, pair + {4 * n} + k);" for n in range(2)),
        *sums,
        "}",
        "return c;",
    )


def halves(writer: Writer, name: str) -> tuple[str, str]:
    """The texts of the numbers that a register holds; a tf32 register holds one."""
    if name == "tf32":
        return "as_float(as_uint({}) & 0xffffe000u)", ""
    if name == "bf16":
        return "as_float({} << 16)", "as_float({} & 0xffff0000u)"
    function = writer.library.add(
        "half_of", "float", "uint bits", "return vload_half(0, (half*)&bits);"
    )
    return f"{function}({{}})", f"{function}((uint){{}} >> 16)"


def need_sub_groups(writer: Writer) -> None:
    """Asks for sub-groups of 32 that exchange registers."""
    writer.sub_group = SUB_GROUP
    writer.extensions.update(("cl_khr_subgroups", "cl_khr_subgroup_shuffle"))


def _load_matrix(writer: Writer, operation: kernel.LoadMatrixOp) -> None:
    place = offset(writer.pointer(operation.base), writer.value(operation.index))
    transposed = operation.transposed is not None
    name = "load_matrix_transposed" if transposed else "load_matrix"
    if writer.vendor == "nvidia":
        form = "x4.trans" if transposed else "x4"
        body = (
            "int4 r;",
            f'asm volatile("ldmatrix.sync.aligned.m8n8.{form}.shared.b16 "',
            f'    "{_registers(0, 4)}, [%4];"',
            '    : "=r"(r.s0), "=r"(r.s1), "=r"(r.s2), "=r"(r.s3)',
            '    : "r"((uint)(size_t)row) : "memory");',
            "return r;",
        )
    else:
        need_sub_groups(writer)
        body = (
            "int4 r;",
            "uint lane = get_sub_group_local_id();",
            *(line for n in range(4) for line in _matrix_lines(n, transposed)),
            "return r;",
        )
    function = writer.library.add(name, "int4", "const __local void* row", *body)
    result = call(function, place)
    is_float = kernel.element_bytes(_element(operation.base)) == 4
    writer.declare(operation.result, call("as_float4", result) if is_float else result)


def _matrix_lines(number: int, transposed: bool) -> list[str]:
    """A register of one matrix, read through the pointers that eight work-items gave."""
    if not transposed:
        row = f"sub_group_shuffle((ulong)row, {8 * number} + lane / 4)"
        return [f"r.s{number} = ((const __local int*){row})[lane & 3u];"]
    first = f"{8 * number} + 2 * (lane & 3u)"
    low = f"((const __local ushort*)sub_group_shuffle((ulong)row, {first}))[lane / 4]"
    high = f"((const __local ushort*)sub_group_shuffle((ulong)row, {first} + 1))[lane / 4]"
    return [f"r.s{number} = (uint){low} | (uint){high} << 16;"]


def _round_tf32(writer: Writer, operation: kernel.RoundTf32Op) -> None:
    if writer.vendor == "nvidia" and writer.matrix_unit == "wgmma":
        body = (
            "uint y;",
            'asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));',
            "return as_float(y);",
        )
    else:
        body = (
            "uint odd = as_uint(x) >> 13 & 1u;",
            "return isnan(x) ? x : as_float((as_uint(x) + 0xfffu + odd) & 0xffffe000u);",
        )
    name = writer.library.add("round_tf32", "float", "float x", *body)
    count = lanes(operation.value.type)
    if count > 1:
        parts = ", ".join(f"{name}(x.s{n})" for n in range(count))
        type = f"float{count}"
        body = (f"return ({type})({parts});",)
        name = writer.library.add(f"round_tf32_{count}", type, f"{type} x", *body)
    writer.declare(operation.result, call(name, writer.value(operation.value)))


def _pack(writer: Writer, operation: kernel.PackOp) -> None:
    pairs = lanes(operation.result.type)
    narrowed, is_f16 = operation.value.owner, _holds_f16(operation.value)
    if writer.vendor == "nvidia" and isinstance(narrowed, arith.TruncFOp):
        name = "f16" if is_f16 else "bf16"
        writer.declare(operation.result, rounded_pairs(writer, narrowed.input, pairs, name))
        return
    if is_f16:
        bits = call(writer.library.f16_bits(2 * pairs), writer.value(operation.value))
        writer.declare(operation.result, call(f"as_int{pairs}", bits))
        return
    parts = [
        f"as_int(as_uint(x.s{2 * n:x}) >> 16 | as_uint(x.s{2 * n + 1:x}) & 0xffff0000u)"
        for n in range(pairs)
    ]
    body = f"return (int{pairs})({', '.join(parts)});"
    name = writer.library.add(f"pack_{pairs}", f"int{pairs}", f"float{2 * pairs} x", body)
    writer.declare(operation.result, call(name, writer.value(operation.value)))


def _holds_f16(value: SSAValue) -> bool:
    return isinstance(element(value.type), Float16Type)


def _unpack(writer: Writer, operation: kernel.UnpackOp) -> None:
    pairs = lanes(operation.value.type)
    if _holds_f16(operation.result):
        value = writer.value(operation.value)
        writer.declare(operation.result, _unpacked_f16(writer, value, pairs))
        return
    parts = [f"as_float(x.s{n:x} << 16), as_float(x.s{n:x} & 0xffff0000u)" for n in range(pairs)]
    body = f"return (float{2 * pairs})({', '.join(parts)});"
    name = writer.library.add(f"unpack_{pairs}", f"float{2 * pairs}", f"int{pairs} x", body)
    writer.declare(operation.result, call(name, writer.value(operation.value)))


def _unpacked_f16(writer: Writer, value: Expression, pairs: int) -> Expression:
    if writer.vendor != "nvidia":
        bits = call(f"as_short{2 * pairs}", value)
        return call(writer.library.f16_from_bits(2 * pairs), bits)
    body = (
        "float2 r;",
        'asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"',
        '    : "=f"(r.s0), "=f"(r.s1) : "r"(x));',
        "return r;",
    )
    pair = writer.library.add("unpack_pair_f16", "float2", "int x", *body)
    result = ", ".join(f"{pair}(x.s{n:x})" for n in range(pairs))
    name, type = f"unpack_f16_{pairs}", f"float{2 * pairs}"
    function = writer.library.add(name, type, f"int{pairs} x", f"return ({type})({result});")
    return call(function, value)


def _copy_chunk(writer: Writer, operation: kernel.CopyChunkOp) -> None:
    source = offset(writer.pointer(operation.source), writer.value(operation.source_index))
    target = offset(writer.pointer(operation.target), writer.value(operation.target_index))
    size = kernel.element_bytes(_element(operation.source))
    total = size * operation.count.value.data
    guarded = operation.valid is not None
    name = f"copy_chunk_{total}" + ("_guarded" if guarded else "")
    parameters = "__local void* target, const __global void* source"
    parameters += ", int valid" if guarded else ""
    if writer.vendor == "nvidia":
        cache = "cg" if total == 16 else "ca"
        size_operand, size_input = (", %2", ', "r"(valid)') if guarded else ("", "")
        body = (
            f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {total}{size_operand};"',
            f'    :: "r"((uint)(size_t)target), "l"(source){size_input} : "memory");',
        )
    else:
        rest = "n < valid ? ((const __global uchar*)source)[n] : 0"
        byte = rest if guarded else "((const __global uchar*)source)[n]"
        body = (f"for (int n = 0; n < {total}; ++n) ((__local uchar*)target)[n] = {byte};",)
    function = writer.library.add(name, "void", parameters, *body)
    arguments = [target, source]
    if operation.valid is not None:
        valid = cast("int", writer.value(operation.valid))
        arguments.append(infix(valid, "*", Expression(str(size)), MULTIPLY))
    writer.line(f"{call(function, *arguments)};")


def _nvidia_only(text: str) -> Row:
    """A statement in PTX; what it waits for has happened at once on other devices."""

    def row(writer: Writer, operation: Any) -> None:
        if writer.vendor == "nvidia":
            pending = getattr(operation, "pending", None)
            number = "" if pending is None else pending.value.data
            writer.line(f'asm volatile("{text.format(number)}" ::: "memory");')

    return row


MATRIX_ROWS: dict[type[Operation], Row] = {
    kernel.MmaOp: _mma,
    kernel.LoadMatrixOp: _load_matrix,
    kernel.RoundTf32Op: _round_tf32,
    kernel.PackOp: _pack,
    kernel.UnpackOp: _unpack,
    kernel.CopyChunkOp: _copy_chunk,
    kernel.CommitCopiesOp: _nvidia_only("cp.async.commit_group;"),
    kernel.WaitCopiesOp: _nvidia_only("cp.async.wait_group {};"),
}
