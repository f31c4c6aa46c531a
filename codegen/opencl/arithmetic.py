"""Rows of `arith` and `math`: operation class → OpenCL C expression.

Floats follow IEEE 754 strictly: nothing is contracted or re-associated. f16 and bf16 results are
rounded after each operation. Integers wrap; division by zero gives 0 and never traps. Scalars and
vectors share their rows.
"""

from math import frexp
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from mgn.codegen.opencl.comparisons import compare_floats, compare_integers
from mgn.codegen.opencl.expression import (
    ADD,
    AND,
    EQUALITY,
    MULTIPLY,
    OR,
    RELATION,
    SHIFT,
    XOR,
    Expression,
    call,
    cast,
    condition,
    infix,
    prefix,
)
from mgn.codegen.opencl.integer_extrema import integer_extremum, select_of_extremum
from mgn.codegen.opencl.values import mask_for, rounded, signed, unsigned
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel
from mgn.dialects.kernel.builtins import DIVISIONS, EXACT_BUILTINS, ROUNDED_BUILTINS
from mgn.dialects.kernel.lanes import (
    compares_zeros,
    constant_number,
    element,
    is_bool,
    is_float,
    is_vector,
    lanes,
)

BY_LANE: dict[str, frozenset[str]] = {
    "pocl": frozenset(("fmod", *ROUNDED_BUILTINS.values())) - {"fma", "sqrt"},
}
"""Vendor → functions that give a vector's lanes other bits than a scalar. In PoCL 3.1 some are
wrong besides: the sine of a small number by 0.01, and on large quotients and subnormals `fmod` and
`pow` of eight doubles.
"""

NO_VECTOR_REMAINDER = frozenset({"nvidia"})
"""Vendors whose compiler may fail on the remainder of a vector: NVIDIA's 580 makes an `srem` of a
vector and a scalar of some, and refuses it.
"""

MULTIPLIES_BY_INVERSE = frozenset({"nvidia"})
"""Vendors for which a division by a power of two is written as the product that it equals. On an
H200, 0 - y / 2 of the least y was -0 under FP_CONTRACT OFF, as if the quotient were not rounded.
"""

FLOAT_INFIX: dict[type[Operation], tuple[str, int]] = {
    arith.AddfOp: ("+", ADD),
    arith.SubfOp: ("-", ADD),
    arith.MulfOp: ("*", MULTIPLY),
    arith.DivfOp: ("/", MULTIPLY),
}

INTEGER_INFIX: dict[type[Operation], tuple[str, int]] = {
    arith.AddiOp: ("+", ADD),
    arith.SubiOp: ("-", ADD),
    arith.MuliOp: ("*", MULTIPLY),
}

BITWISE_INFIX: dict[type[Operation], tuple[str, int]] = {
    arith.AndIOp: ("&", AND),
    arith.OrIOp: ("|", OR),
    arith.XOrIOp: ("^", XOR),
}


def _constant(writer: Writer, operation: arith.ConstantOp) -> Expression | None:
    type, data = operation.result.type, operation.value
    if isinstance(data, IntegerAttr | FloatAttr):
        writer.set(operation.result, writer.types.literal(type, data.value.data))
        return None
    if not isinstance(data, DenseIntOrFPElementsAttr):
        raise writer.error(operation, "is not a number or a dense vector")
    numbers: list[Any] = list(data.get_values())
    if is_bool(type):
        literals = [Expression("-1" if number else "0") for number in numbers]
    else:
        literals = [writer.types.literal(type, number) for number in numbers]
    if not data.is_splat():
        return writer.types.pack(type, literals)
    writer.set(operation.result, writer.types.splat(type, literals[0]))
    return None


def _exact_inverse(number: float | None) -> float | None:
    """1 / x of a power of two that is not far from 1, so that every float type has both."""
    if not number or frexp(abs(number))[0] != 0.5 or not 2.0**-14 <= abs(number) <= 2.0**14:
        return None
    return 1.0 / number


def _float_infix(writer: Writer, operation: Any) -> Expression:
    left, right = writer.values(operation)
    operator, precedence = FLOAT_INFIX[type(operation)]
    if isinstance(operation, arith.DivfOp) and writer.vendor in MULTIPLIES_BY_INVERSE:
        inverse = _exact_inverse(constant_number(operation.rhs))
        if inverse is not None:
            type_ = operation.result.type
            right = writer.types.splat(type_, writer.types.literal(element(type_), inverse))
            operator = "*"
    return rounded(writer, operation.result.type, infix(left, operator, right, precedence))


def _float_call(writer: Writer, operation: Operation) -> Expression:
    expression = _called(writer, ROUNDED_BUILTINS[type(operation)], operation)
    return rounded(writer, operation.results[0].type, expression)


def _exact_call(writer: Writer, operation: Operation) -> Expression:
    return _called(writer, EXACT_BUILTINS[type(operation)], operation)


def _called(writer: Writer, name: str, operation: Operation) -> Expression:
    """A built-in function, of one lane at a time where a vendor's vectors differ."""
    type, values = operation.results[0].type, writer.values(operation)
    if is_vector(type) and name in BY_LANE.get(writer.vendor, ()):
        scalar = writer.types.scalar(type)
        name = writer.library.by_lane(name, scalar, lanes(type), len(values))
    return call(name, *values)


def _negate(writer: Writer, operation: arith.NegfOp) -> Expression:
    return prefix("-", writer.value(operation.operand))


def _extremum(name: str) -> Row:
    """maximumf, minimumf. Against most constants, one comparison is enough."""
    compare = ">" if name == "maximum" else "<"

    def row(writer: Writer, operation: Any) -> Expression:
        type = operation.result.type
        scalar = writer.types.scalar(type)
        if compares_zeros(name, constant_number(operation.rhs)):
            function = writer.library.extremum(name, scalar, lanes(type), writer.vendor)
            return call(function, *writer.values(operation))
        left, right = writer.name_of(operation.lhs), writer.value(operation.rhs)
        wins = infix(
            infix(left, compare, right, RELATION), "|", infix(left, "!=", left, EQUALITY), OR
        )
        if is_vector(type):
            return call("select", right, left, wins)
        return condition(wins, left, right)

    return row


def _integer_infix(writer: Writer, operation: Any) -> Expression:
    result = operation.result.type
    operator, precedence = INTEGER_INFIX[type(operation)]
    if is_bool(result):
        operator, precedence = ("&", AND) if operator == "*" else ("^", XOR)
    left, right = writer.values(operation)
    if is_bool(result) or isinstance(element(result), IndexType):
        return infix(left, operator, right, precedence)
    if not is_vector(result) and writer.types.bits(result) < 32:
        return cast(writer.type(result), infix(left, operator, right, precedence))
    left, right = unsigned(writer, operation.lhs), unsigned(writer, operation.rhs)
    return signed(writer, result, infix(left, operator, right, precedence))


def _bitwise_infix(writer: Writer, operation: Any) -> Expression:
    result = operation.result.type
    operator, precedence = BITWISE_INFIX[type(operation)]
    left, right = writer.values(operation)
    if is_bool(result) and operator == "^" and constant_number(operation.rhs):
        return prefix("!", left)
    expression = infix(left, operator, right, precedence)
    if not is_vector(result) and not is_bool(result) and writer.types.bits(result) < 32:
        return cast(writer.type(result), expression)
    return expression


def _division(writer: Writer, operation: Any) -> Expression:
    result = operation.result.type
    name, is_unsigned = DIVISIONS[type(operation)]
    number = constant_number(operation.rhs)
    safe = number is not None and number > 0
    if is_bool(result):
        raise writer.error(operation, "does not divide i1")
    if safe and name in ("div", "rem") and not is_unsigned:
        left, right = writer.values(operation)
        if name == "rem" and is_vector(result) and writer.vendor in NO_VECTOR_REMAINDER:
            left = writer.name_of(operation.lhs)
            whole = infix(infix(left, "/", right, MULTIPLY), "*", right, MULTIPLY)
            return infix(left, "-", whole, ADD)
        expression = infix(left, "/" if name == "div" else "%", right, MULTIPLY)
        narrow = not is_vector(result) and writer.types.bits(result) < 32
        return cast(writer.type(result), expression) if narrow else expression
    scalar = writer.types.scalar(result)
    function = writer.library.divide(name, scalar, lanes(result), is_unsigned)
    if not is_unsigned:
        return call(function, *writer.values(operation))
    quotient = call(function, unsigned(writer, operation.lhs), unsigned(writer, operation.rhs))
    return signed(writer, result, quotient)


def _shift(operator: str, logical: bool) -> Row:
    def row(writer: Writer, operation: Any) -> Expression:
        result = operation.result.type
        left, right = writer.values(operation)
        if logical:
            shifted = infix(unsigned(writer, operation.lhs), operator, right, SHIFT)
            if is_vector(result):
                shifted = infix(
                    unsigned(writer, operation.lhs),
                    operator,
                    unsigned(writer, operation.rhs),
                    SHIFT,
                )
            return signed(writer, result, shifted)
        shifted = infix(left, operator, right, SHIFT)
        narrow = not is_vector(result) and writer.types.bits(result) < 32
        return cast(writer.type(result), shifted) if narrow else shifted

    return row


def _select(writer: Writer, operation: arith.SelectOp | kernel.SelectOp) -> Expression:
    extremum = select_of_extremum(writer, operation)
    if extremum is not None:
        return extremum
    test, yes, no = writer.values(operation)
    if not is_vector(operation.cond.type):
        result, chosen = operation.result.type, condition(test, yes, no)
        narrow = not is_vector(result) and not is_float(result) and writer.types.bits(result) < 32
        return cast(writer.type(result), chosen) if narrow else chosen
    return call("select", no, yes, mask_for(writer, operation.result.type, test))


def _absolute_integer(writer: Writer, operation: math.AbsIOp) -> Expression:
    return signed(writer, operation.result.type, call("abs", writer.value(operation.operand)))


def _trailing_zeros(writer: Writer, operation: math.CountTrailingZerosOp) -> Expression:
    value = writer.name_of(operation.operand)
    type = operation.result.type
    one = writer.types.splat(type, writer.types.literal(type, 1))
    below = infix(prefix("~", value), "&", infix(value, "-", one, ADD), AND)
    narrow = not is_vector(type) and writer.types.bits(type) < 32
    return call("popcount", cast(writer.type(type), below) if narrow else below)


def _integer_power(writer: Writer, operation: math.IPowIOp) -> Expression:
    type = operation.result.type
    function = writer.library.integer_power(writer.types.scalar(type), lanes(type))
    return call(function, *writer.values(operation))


def _power_of_two(writer: Writer, operation: math.Exp2Op) -> Expression:
    """On NVIDIA, where an approximation will do, the instruction without care for tiny numbers."""
    approximates = FastMathFlag.APPROX_FUNC in operation.fastmath.data
    if (
        writer.vendor != "nvidia"
        or not approximates
        or writer.types.bits(operation.operand.type) != 32
    ):
        return _float_call(writer, operation)
    return call(
        writer.library.power_of_two(lanes(operation.operand.type)), *writer.values(operation)
    )


ARITHMETIC_ROWS: dict[type[Operation], Row] = {
    arith.ConstantOp: _constant,
    **dict.fromkeys(FLOAT_INFIX, _float_infix),
    **dict.fromkeys(ROUNDED_BUILTINS, _float_call),
    **dict.fromkeys(EXACT_BUILTINS, _exact_call),
    **dict.fromkeys(INTEGER_INFIX, _integer_infix),
    **dict.fromkeys(BITWISE_INFIX, _bitwise_infix),
    **dict.fromkeys(DIVISIONS, _division),
    math.Exp2Op: _power_of_two,
    arith.NegfOp: _negate,
    arith.MaximumfOp: _extremum("maximum"),
    arith.MinimumfOp: _extremum("minimum"),
    arith.MaxSIOp: integer_extremum("max", is_unsigned=False),
    arith.MinSIOp: integer_extremum("min", is_unsigned=False),
    arith.MaxUIOp: integer_extremum("max", is_unsigned=True),
    arith.MinUIOp: integer_extremum("min", is_unsigned=True),
    arith.ShLIOp: _shift("<<", logical=True),
    arith.ShRUIOp: _shift(">>", logical=True),
    arith.ShRSIOp: _shift(">>", logical=False),
    arith.CmpiOp: compare_integers,
    arith.CmpfOp: compare_floats,
    kernel.CompareIntegersOp: compare_integers,
    kernel.CompareFloatsOp: compare_floats,
    kernel.SelectOp: _select,
    arith.SelectOp: _select,
    math.AbsIOp: _absolute_integer,
    math.CountTrailingZerosOp: _trailing_zeros,
    math.IPowIOp: _integer_power,
}
