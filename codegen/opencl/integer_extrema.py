"""The larger and the smaller of two integers, as `arith.maxsi` and the like, or as selects, say.

NVIDIA's assembler gives two wrong answers for signed integers of 32 bits (`ptxas` of CUDA 12.9 and
13.0, driver 580; the first in 13.5, too). Where it unrolls a loop itself, it folds an addition into
the maximum or minimum of its sum, and has the sum's sign wrong where both its operands have become
constants: `max(i / 3 - 7, 0)` is 0 for every i. And `max(min(i, 2), 0) == 2` is true for every i.
It does neither where there is no instruction of a maximum: so for NVIDIA, a maximum of 0 and a
minimum is made of bits, and so is each that an addition may be folded into. What is unsigned, or
wider, or narrower, it has right.
"""

from typing import Any

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from mgn.codegen.opencl.comparisons import predicate_of
from mgn.codegen.opencl.expression import AND, OR, Expression, call, infix
from mgn.codegen.opencl.functions import Library, shaped, suffixed
from mgn.codegen.opencl.values import signed, unsigned
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.lanes import constant_number, is_bool, is_float, lanes

_LARGER = frozenset({"sgt", "sge"})
_SMALLER = frozenset({"slt", "sle"})

_NO_SUMS = (arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp, arith.ConstantOp)
"""What gives no sum: a maximum of its result has no addition right before it."""


def integer_extremum(name: str, is_unsigned: bool) -> Row:
    """`name` is max or min."""

    def row(writer: Writer, operation: Any) -> Expression:
        result = operation.result.type
        if is_bool(result):
            left, right = writer.values(operation)
            larger = (name == "max") == is_unsigned  # a signed true is -1, below false
            return infix(left, "|", right, OR) if larger else infix(left, "&", right, AND)
        if is_unsigned:
            best = call(name, unsigned(writer, operation.lhs), unsigned(writer, operation.rhs))
            return signed(writer, result, best)
        bits = in_bits(writer, name, operation.lhs, operation.rhs)
        return call(name, *writer.values(operation)) if bits is None else bits

    return row


def select_of_extremum(writer: Writer, operation: Any) -> Expression | None:
    """A select that is a maximum or a minimum, where compilers would make a wrong one of it."""
    name = _chooses(operation)
    return None if name is None else in_bits(writer, name, operation.lhs, operation.rhs)


def _chooses(operation: arith.SelectOp | kernel.SelectOp) -> str | None:
    """Whether a select of signed integers is their max or their min; None where neither."""
    test = operation.cond.owner
    if not isinstance(test, arith.CmpiOp | kernel.CompareIntegersOp):
        return None
    predicate = predicate_of(test)
    chosen = (operation.lhs, operation.rhs)
    if predicate not in _LARGER | _SMALLER or is_float(chosen[0].type) or is_bool(chosen[0].type):
        return None
    straight = _same(chosen[0], test.lhs) and _same(chosen[1], test.rhs)
    if not straight and not (_same(chosen[0], test.rhs) and _same(chosen[1], test.lhs)):
        return None
    return "max" if (predicate in _LARGER) == straight else "min"


def in_bits(writer: Writer, name: str, left: SSAValue, right: SSAValue) -> Expression | None:
    """A signed maximum or minimum made of bits; None where the built-in function is right."""
    if writer.vendor != "nvidia" or writer.types.bits(left.type) != 32:
        return None
    if constant_number(left) == 0:
        left, right = right, left
    of_zero = name == "max" and constant_number(right) == 0
    count = lanes(left.type)
    if of_zero and (_may_fold(left) or _is_minimum(left)):
        return call(_at_least_zero(writer.library, count), writer.value(left))
    if not _may_fold(left) and not _may_fold(right):
        return None
    return call(
        extremum_in_bits(writer.library, name, count), writer.value(left), writer.value(right)
    )


def extrema_are_in_bits(writer: Writer, value: SSAValue) -> bool:
    """Whether signed maxima and minima of a value's lanes are to be made of bits."""
    is_concerned = writer.vendor == "nvidia" and writer.types.bits(value.type) == 32
    return is_concerned and not is_float(value.type) and _may_fold(value)


def _may_fold(value: SSAValue) -> bool:
    """Whether the assembler may fold an addition into a maximum of the value."""
    return may_be_a_sum(value) and varies_in_a_loop(value)


def _is_minimum(value: SSAValue) -> bool:
    """Whether a value is a signed minimum, whatever it is called in the meantime."""
    owner = value.owner
    while isinstance(owner, arith.IndexCastOp | arith.BitcastOp):
        owner = owner.input.owner
    if isinstance(owner, arith.SelectOp | kernel.SelectOp):
        return _chooses(owner) == "min"
    if isinstance(owner, vector.ReductionOp | kernel.SubGroupReduceOp):
        return str(owner.kind.data) in ("minsi", "min")
    return isinstance(owner, arith.MinSIOp)


def may_be_a_sum(value: SSAValue) -> bool:
    """Whether an addition may be the last step to a value. A loop's counter is one, too."""
    return not (isinstance(value.owner, Operation) and isinstance(value.owner, _NO_SUMS))


def varies_in_a_loop(value: SSAValue) -> bool:
    """Whether a value follows from a loop's counter, or from what a loop carries, by arithmetic or
    by the choice of a branch.

    What is read from a buffer is no constant to any compiler; an item's own memory may become
    registers.
    """
    seen: set[SSAValue] = set()
    open_values = [value]
    while open_values:
        found = open_values.pop()
        if found in seen:
            continue
        seen.add(found)
        owner = found.owner
        if isinstance(found, BlockArgument):
            owner = found.block.parent_op()
        if isinstance(owner, scf.ForOp):
            return True
        if not isinstance(found, OpResult):
            continue
        memory = _memory_read(found.owner)
        if memory is not None:
            if kernel.space_of(memory) is kernel.Space.PRIVATE:
                return True
            continue
        open_values.extend(found.owner.operands)
        for region in found.owner.regions:  # of an scf.if
            yielded = region.block.last_op if region.blocks else None
            open_values.extend(yielded.operands if yielded is not None else ())
    return False


def _memory_read(operation: Operation) -> MemRefType | None:
    """The type of the buffer that an operation reads; None where it reads none."""
    types = (operand.type for operand in operation.operands)
    return next((type for type in types if isinstance(type, MemRefType)), None)


def _same(one: SSAValue, other: SSAValue) -> bool:
    number = constant_number(one)
    return one is other or (number is not None and number == constant_number(other))


def _at_least_zero(library: Library, count: int) -> str:
    """The maximum of 0 and a number by its sign; in C, compilers would make a maximum of it."""
    step = (
        'asm("{{ .reg .b32 m; shr.s32 m, %1, 31; not.b32 m, m; and.b32 %0, %1, m; }}"'
        ' : "=r"(c{0}) : "r"(a{0}));'
    )
    name, type = suffixed("at_least_zero", count), shaped("int", count)
    return library.in_lanes(name, type, "a", "c", step, count)


def extremum_in_bits(library: Library, name: str, count: int) -> str:
    """A maximum or a minimum of 32-bit numbers that NVIDIA's assembler takes for nothing else."""
    compare = "gt" if name == "max" else "lt"
    step = (
        'asm("{{ .reg .pred p; .reg .b32 m, d; '
        f"setp.{compare}.s32 p, %1, %2; selp.b32 m, -1, 0, p; "
        'xor.b32 d, %1, %2; and.b32 d, d, m; xor.b32 %0, d, %2; }}"'
        ' : "=r"(c{0}) : "r"(a{0}), "r"(b{0}));'
    )
    name, type = suffixed(f"{name}_in_bits", count), shaped("int", count)
    return library.in_lanes(name, type, "ab", "c", step, count)
