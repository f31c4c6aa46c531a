"""Core elementwise operations as `arith` and `math`, on scalars and vectors alike: one row each.

In: a node of the body and its operands' values, all with the same number of lanes. Out: the value
of the result. The interpreter's `elementwise.py` says what each row must compute.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Operation, SSAValue

from mgn.dialects import kernel
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.dialects.mgn.philox import MULTIPLIERS, ROUNDS, STEPS
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family
from mgn.passes.kernels.accumulation import GUIDE, accumulator, is_scaled, neutral
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.guided_products import CHOICE
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.guided_products import guided, guiding_factor
from mgn.passes.lower_kernels.core.pure_code import NO_FASTMATH, lane_count, memory_type
from mgn.passes.lower_kernels.core.scaled_products import (
    ONE,
    product_of_lanes,
    scaled_factor,
    scaled_product,
    unscaled,
)

Values = Sequence[SSAValue]
Row = Callable[[Code, Node, Values], SSAValue]


def is_unsigned(element: ElementType) -> bool:
    """Whether integers of the type count from zero; a bool does."""
    return element.family in (Family.UNSIGNED, Family.BOOL)


def like(code: Code, number: float | int, value: SSAValue, element: ElementType) -> SSAValue:
    """A number in every lane of a value's type."""
    return code.constant(number, memory_type(element), lane_count(value))


def unary(code: Code, cls: type[Operation], value: SSAValue) -> SSAValue:
    """A `math` function of one float."""
    return code.pure(cls, [value], value.type, fastmath=arith.FastMathFlagsAttr("none"))


def _math(cls: type[Operation]) -> Row:
    def row(code: Code, node: Node, operands: Values) -> SSAValue:
        return unary(code, cls, operands[0])

    return row


def _by_family(floats: type[Operation], signed: type[Operation], unsigned: type[Operation]) -> Row:
    def row(code: Code, node: Node, operands: Values) -> SSAValue:
        cls = floats if node.element.is_float else signed
        if is_unsigned(node.element):
            cls = unsigned
        return code.binary(cls, *operands)

    return row


def _logic(cls: type[Operation]) -> Row:
    def row(code: Code, node: Node, operands: Values) -> SSAValue:
        return code.binary(cls, *operands)

    return row


def _compare(floats: str, signed: str, unsigned: str) -> Row:
    def row(code: Code, node: Node, operands: Values) -> SSAValue:
        element = node.operands[0].element
        if element.is_float:
            return code.compare_floats(floats, *operands)
        return code.compare_integers(unsigned if is_unsigned(element) else signed, *operands)

    return row


def _negate(code: Code, node: Node, operands: Values) -> SSAValue:
    (x,) = operands
    if node.element.is_float:
        return unary(code, arith.NegfOp, x)
    return code.binary(arith.SubiOp, like(code, 0, x, node.element), x)


def _absolute(code: Code, node: Node, operands: Values) -> SSAValue:
    (x,) = operands
    if node.element.is_float:
        return unary(code, math.AbsFOp, x)
    if is_unsigned(node.element):
        return x
    return code.pure(math.AbsIOp, [x], x.type)


def _sign(code: Code, node: Node, operands: Values) -> SSAValue:
    (x,) = operands
    zero, one = like(code, 0, x, node.element), like(code, 1, x, node.element)
    minus = like(code, -1, x, node.element)
    if node.element.is_float:
        rest = code.binary(arith.AddfOp, x, zero)  # 0 of -0, nan of nan
        below = code.select(code.compare_floats("olt", x, zero), minus, rest)
        return code.select(code.compare_floats("ogt", x, zero), one, below)
    if is_unsigned(node.element):
        return code.select(code.compare_integers("ne", x, zero), one, zero)
    below = code.select(code.compare_integers("slt", x, zero), minus, zero)
    return code.select(code.compare_integers("sgt", x, zero), one, below)


def _reciprocal(code: Code, node: Node, operands: Values) -> SSAValue:
    return code.binary(arith.DivfOp, like(code, 1.0, operands[0], node.element), operands[0])


def _reciprocal_root(code: Code, node: Node, operands: Values) -> SSAValue:
    root = unary(code, math.SqrtOp, widened(code, operands[0], node.element))
    one = like(code, 1.0, root, accumulator(node.element))
    return narrowed(code, code.binary(arith.DivfOp, one, root), node.element)


def _logical_not(code: Code, node: Node, operands: Values) -> SSAValue:
    return code.binary(arith.XOrIOp, operands[0], like(code, 1, operands[0], node.element))


def _identity(code: Code, node: Node, operands: Values) -> SSAValue:
    return operands[0]


def _is_nan(code: Code, node: Node, operands: Values) -> SSAValue:
    return code.compare_floats("uno", operands[0], operands[0])


def _power(code: Code, node: Node, operands: Values) -> SSAValue:
    base, exponent = operands
    if node.element.is_float:
        return code.pure(
            math.PowFOp, [base, exponent], base.type, fastmath=arith.FastMathFlagsAttr("none")
        )
    if not is_unsigned(node.element):
        return code.pure(math.IPowIOp, [base, exponent], base.type)
    base, exponent = (code.convert("extui", value, i64) for value in operands)
    power = code.pure(math.IPowIOp, [base, exponent], base.type)
    return code.convert("trunci", power, memory_type(node.element))


def _modulo(code: Code, node: Node, operands: Values) -> SSAValue:
    a, b = operands
    zero = like(code, 0, a, node.element)
    if is_unsigned(node.element):
        return code.binary(arith.RemUIOp, a, b)
    if not node.element.is_float:
        rest = code.binary(arith.RemSIOp, a, b)
        differs = code.compare_integers("slt", code.binary(arith.XOrIOp, rest, b), zero)
        moved = code.binary(arith.AddiOp, rest, b)
        fixed = code.select(differs, moved, rest)
        return code.select(code.compare_integers("ne", rest, zero), fixed, rest)
    minus_zero = like(code, -0.0, a, node.element)
    rest = code.pure(kernel.RemainderOp, [a, b], a.type)
    rest_below = code.compare_floats("olt", rest, zero)
    divisor_below = code.compare_floats("olt", b, zero)
    differs = code.binary(arith.XOrIOp, rest_below, divisor_below)
    fixed = code.select(differs, code.binary(arith.AddfOp, rest, b), rest)
    nothing = code.select(divisor_below, minus_zero, zero)
    none_left = code.binary(
        arith.OrIOp,
        code.compare_floats("oeq", rest, zero),
        code.compare_floats("oeq", *(unary(code, math.AbsFOp, value) for value in (rest, b))),
    )  # Intel's `fmod` of small multiples of numbers near the smallest normal one is the divisor
    return code.select(none_left, nothing, fixed)


_TF32_DROPPED = {32: 13, 64: 42}
"""Bits of a float → how many low ones of them tf32 does not have; the half precisions lose none."""


def _round_tf32(code: Code, node: Node, operands: Values) -> SSAValue:
    (x,) = operands
    dropped = _TF32_DROPPED.get(node.element.bits)
    if dropped is None:
        return x
    type = i64 if node.element.bits == 64 else i32
    below_half, shift, one, mask = (
        code.constant(number, type, lane_count(x))
        for number in ((1 << (dropped - 1)) - 1, dropped, 1, -(1 << dropped))
    )
    bits = code.pure(arith.BitcastOp, [x], mask.type)
    odd = code.binary(arith.AndIOp, code.binary(arith.ShRUIOp, bits, shift), one)
    moved = code.binary(arith.AddiOp, code.binary(arith.AddiOp, bits, below_half), odd)
    rounded = code.pure(arith.BitcastOp, [code.binary(arith.AndIOp, moved, mask)], x.type)
    return code.select(code.compare_floats("uno", x, x), x, rounded)


def _where(code: Code, node: Node, operands: Values) -> SSAValue:
    return code.select(*operands)


def cast(code: Code, x: SSAValue, source: ElementType, target: ElementType) -> SSAValue:
    """A value in another element type; float to integer truncates and saturates."""
    if source is target:
        return x
    type = memory_type(target)
    if target.family is Family.BOOL:
        zero = like(code, 0, x, source)
        if source.is_float:
            return code.compare_floats("une", x, zero)
        return code.compare_integers("ne", x, zero)
    if source.is_float and target.is_float:
        if source.bits == target.bits:
            x, source = code.convert("extf", x, f32), ELEMENT_TYPES["f32"]
        return code.convert("extf" if target.bits > source.bits else "truncf", x, type)
    if source.is_float:
        return code.convert("fptoui" if is_unsigned(target) else "fptosi", x, type)
    if target.is_float:
        return code.convert("uitofp" if is_unsigned(source) else "sitofp", x, type)
    if target.bits < source.bits:
        return code.convert("trunci", x, type)
    if target.bits == source.bits:
        return x
    return code.convert("extui" if is_unsigned(source) else "extsi", x, type)


def _cast(code: Code, node: Node, operands: Values) -> SSAValue:
    return cast(code, operands[0], node.operands[0].element, node.element)


def _philox(code: Code, node: Node, operands: Values) -> SSAValue:
    """Ten rounds of two products of 32 bits, of which both halves are used."""
    lanes = lane_count(operands[0])
    half = code.constant(32, i64, lanes)

    def product(word: SSAValue, factor: int) -> tuple[SSAValue, SSAValue]:
        wide = code.convert("extui", word, i64)
        whole = code.binary(arith.MuliOp, wide, code.constant(factor, i64, lanes))
        high = code.convert("trunci", code.binary(arith.ShRUIOp, whole, half), i32)
        return high, code.convert("trunci", whole, i32)

    def mixed(high: SSAValue, word: SSAValue, key: SSAValue) -> SSAValue:
        return code.binary(arith.XOrIOp, code.binary(arith.XOrIOp, high, word), key)

    c0, c1, c2, c3, k0, k1 = operands
    steps = [code.constant(step, i32, lanes) for step in STEPS]
    for number in range(ROUNDS):
        if number:
            k0, k1 = (code.binary(arith.AddiOp, k, s) for k, s in zip((k0, k1), steps, strict=True))
        high0, low0 = product(c0, MULTIPLIERS[0])
        high1, low1 = product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = mixed(high1, c1, k0), low1, mixed(high0, c3, k1), low0
    return (c0, c1, c2, c3)[node.values["word"]]


SCALAR_ROWS: dict[str, Row] = {
    "neg": _negate,
    "abs": _absolute,
    "sign": _sign,
    "exp": _math(math.ExpOp),
    "expm1": _math(math.ExpM1Op),
    "log": _math(math.LogOp),
    "log1p": _math(math.Log1pOp),
    "sqrt": _math(math.SqrtOp),
    "rsqrt": _reciprocal_root,
    "recip": _reciprocal,
    "sin": _math(math.SinOp),
    "cos": _math(math.CosOp),
    "tan": _math(math.TanOp),
    "tanh": _math(math.TanhOp),
    "erf": _math(math.ErfOp),
    "floor": _math(math.FloorOp),
    "ceil": _math(math.CeilOp),
    "round": _math(math.RoundEvenOp),
    "round_tf32": _round_tf32,
    "logical_not": _logical_not,
    "identity": _identity,
    "stop_gradient": _identity,
    "isnan": _is_nan,
    "add": _by_family(arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": _by_family(arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": _by_family(arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "div": _by_family(arith.DivfOp, arith.DivSIOp, arith.DivUIOp),
    "pow": _power,
    "mod": _modulo,
    "max": _by_family(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": _by_family(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    "logical_and": _logic(arith.AndIOp),
    "logical_or": _logic(arith.OrIOp),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "where": _where,
    PICK: _where,
    "cast": _cast,
    "philox": _philox,
    CHOICE: lambda code, node, operands: guided(code, node, *operands),
}
"""Every core elementwise operation, and what stands in their place in a body."""


def elementwise(code: Code, node: Node, operands: Values) -> SSAValue:
    """The value of an elementwise node on operands of any lane counts."""
    if node.name == "where" and lane_count(operands[0]) == 1:
        return code.select(*operands)
    return SCALAR_ROWS[node.name](code, node, code.together(*operands))


# Reductions


def start_of(code: Code, node: Node, count: int) -> SSAValue:
    """What a reduction, or a scan, has combined before the first element, in so many lanes."""
    if is_scaled(node.name, node.element):
        return code.constant(ONE, i64, count)
    type = memory_type(accumulator(node.element))
    return code.constant(neutral(node.name, node.element), type, count)


_COMBINE: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "sum": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "running_sum": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "running_sum_in_parts": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "running_product": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "running_product_in_parts": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "prod": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "max_reduce": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min_reduce": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
"""Core reductions and scans: the operation that combines two values, by family."""

_KINDS: dict[type[Operation], Any] = {
    arith.AddfOp: "add",
    arith.AddiOp: "add",
    arith.MulfOp: "mul",
    arith.MuliOp: "mul",
    arith.MaximumfOp: "maximumf",
    arith.MinimumfOp: "minimumf",
    arith.MaxSIOp: "maxsi",
    arith.MinSIOp: "minsi",
    arith.MaxUIOp: "maxui",
    arith.MinUIOp: "minui",
}

REDUCTION_ROWS = frozenset(_COMBINE)
"""Every core reduction and scan."""


def combiner(name: str, element: ElementType) -> type[Operation]:
    """The operation that combines two values of a reduction."""
    floats, signed, unsigned = _COMBINE[name]
    if element.is_float:
        return floats
    return unsigned if is_unsigned(element) else signed


def combine(
    code: Code, name: str, element: ElementType, left: SSAValue, right: SSAValue
) -> SSAValue:
    """Two values of a reduction as one."""
    if is_scaled(name, element):
        return scaled_product(code, left, right)
    return code.binary(combiner(name, element), left, right)


def across_lanes(code: Code, name: str, element: ElementType, value: SSAValue) -> SSAValue:
    """All lanes of a value as one scalar."""
    if lane_count(value) == 1:
        return value
    if is_scaled(name, element):
        return product_of_lanes(code, value)
    return of_all_lanes(code, _KINDS[combiner(name, element)], value)


def of_all_lanes(code: Code, kind: str, value: SSAValue) -> SSAValue:
    """All lanes of a value combined by an operation that `vector.reduction` knows."""
    if lane_count(value) == 1:
        return value
    op = kernel.reduction(kind, value)
    op.properties["fastmath"] = NO_FASTMATH
    code.block.add_op(op)
    return op.dest


def larger(code: Code, left: SSAValue, right: SSAValue) -> SSAValue:
    """The larger of two floats, by one comparison: of NaNs and of zeros it is either."""
    return code.select(code.compare_floats("ogt", left, right), left, right)


def largest_lane(code: Code, value: SSAValue) -> SSAValue:
    """The same of all lanes."""
    return of_all_lanes(code, "maxnumf", value)


def term(code: Code, node: Node, value: SSAValue) -> SSAValue:
    """An element as the reduction, or scan, of a node combines it."""
    if node.name == GUIDE:
        return guiding_factor(code, value)
    wide = widened(code, value, node.element)
    return scaled_factor(code, wide) if is_scaled(node.name, node.element) else wide


def total_of(code: Code, node: Node, combined: SSAValue) -> SSAValue:
    """What a reduction, or a scan, has combined, in the element type of the node, rounded once."""
    if node.name == GUIDE:
        return combined
    if is_scaled(node.name, node.element):
        combined = unscaled(code, combined)
    return narrowed(code, combined, node.element)


def widened(code: Code, value: SSAValue, element: ElementType) -> SSAValue:
    """A value in the type that sums are kept in."""
    return cast(code, value, element, accumulator(element))


def narrowed(code: Code, value: SSAValue, element: ElementType) -> SSAValue:
    """A sum in the element type of the result, rounded once."""
    return cast(code, value, accumulator(element), element)
