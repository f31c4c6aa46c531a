"""Proofs that both sides of an exact rule have the same bits, for all values of all operands.

In: a `Rule` whose two sides compute each element by itself. Out: the element types for which the
solver Z3 (`pip install 'mgn-compiler[prove]'`) shows that no operands make them differ, all nan
being one; whether it found some that do.

Floats are those of IEEE 754 of the type's own size, rounded to nearest, integers are bit vectors.
A function that is no basic arithmetic, as exp, is any function of its operand. Half precision is
proved as arithmetic in its own size: one operation that is computed in f32 and rounded once gives
the same. A constant is any number that the condition admits, arithmetic on constants rounds nothing
and comes to no subnormal, as `passes/saturate/egraph/instantiate.py` asks.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.mgn.decompose import decompose_signature
from mgn.dialects.mgn.operation import BOOLS, OPERATIONS, TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of, tensor
from mgn.passes.saturate.rules.patterns import Call, Folded, Number, Pattern, Variable, calls_of
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.testing.instances import attribute_choices, is_elementwise, literal_attributes, masks_of

SORTS = {"f16": (5, 11), "f32": (8, 24), "f64": (11, 53)}
PROVED_IN = ("f16", "f32", "i8", "i32", "u8", "u32", "bool")
SECONDS = 4.0


class Unsupported(Exception):
    """A rule that says something that is not told to the solver."""


def load_z3() -> Any:
    """The solver's bindings, imported when they are first needed."""
    import z3  # pyright: ignore

    return z3


@dataclass
class _Side:
    """Terms of the solver for patterns over one element type."""

    z3: Any
    element: ElementType
    operands: Mapping[str, Any]
    assumed: list[Any] = field(default_factory=list[Any])
    knows_all: bool = True

    def term(self, pattern: Pattern, attributes: Mapping[str, object]) -> Any:
        if isinstance(pattern, Variable):
            return self.operands[pattern.name]
        if isinstance(pattern, Number):
            return self.number(pattern.value, self.element)
        if isinstance(pattern, Folded):
            return self._folded(pattern.expression)
        assert isinstance(pattern, Call)
        operands = [self.term(item, attributes) for item in pattern.operands]
        return self.apply(pattern.name, operands, literal_attributes(pattern, attributes))

    def number(self, value: float, element: ElementType) -> Any:
        z3 = self.z3
        if element.is_float:
            return z3.FPVal(float(value), self.sort(element))
        if element.name == "bool":
            return z3.BoolVal(bool(value))
        negative = math.copysign(1.0, value) < 0
        if value != int(value) or (negative and (value == 0 or element.name.startswith("u"))):
            raise Unsupported
        return z3.BitVecVal(int(value), element.bits)

    def sort(self, element: ElementType) -> Any:
        if element.is_float:
            if element.name not in SORTS:
                raise Unsupported
            return self.z3.FPSort(*SORTS[element.name])
        return self.z3.BoolSort() if element.name == "bool" else self.z3.BitVecSort(element.bits)

    def _folded(self, node: ast.expr) -> Any:
        """Arithmetic on constants that rounds nothing."""
        z3 = self.z3
        if isinstance(node, ast.Name):
            return self.operands[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return self.number(node.value, self.element)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.apply("neg", [self._folded(node.operand)], {})
        names: dict[type[ast.operator], str] = {
            ast.Mult: "mul",
            ast.Div: "div",
            ast.Add: "add",
            ast.Sub: "sub",
        }
        if not isinstance(node, ast.BinOp) or not self.element.is_float:
            raise Unsupported
        terms = [self._folded(part) for part in (node.left, node.right)]
        result = self.apply(names[type(node.op)], terms, {})
        wide = z3.FPSort(11, 53)
        if self.element.name == "f64":
            raise Unsupported
        up = [z3.fpToFP(z3.RNE(), term, wide) for term in terms]
        function = {"mul": z3.fpMul, "div": z3.fpDiv, "add": z3.fpAdd, "sub": z3.fpSub}
        exact = function[names[type(node.op)]](z3.RNE(), *up)
        self.assumed.append(z3.fpEQ(exact, z3.fpToFP(z3.RNE(), result, wide)))
        self.assumed.append(z3.Not(z3.fpIsSubnormal(result)))
        return result

    def apply(self, name: str, operands: Sequence[Any], attributes: Mapping[str, object]) -> Any:
        """The term of one operation: from the tables below, of its decomposition, or any function
        of its operands.
        """
        z3, spec = self.z3, OPERATIONS[name]
        table = FLOATS if self.element.is_float else INTEGERS
        if self.element.name == "bool" or spec.operands[0].accepts == BOOLS:
            table = BOOL
        if name in ALWAYS:
            return ALWAYS[name](z3, *operands)
        if name in table:
            return table[name](z3, self.element, *operands)
        if spec.decompose is not None:
            return self._decomposed(name, operands, attributes)
        if spec.attributes or not self.element.is_float:
            raise Unsupported
        sort = self.sort(self.element)
        self.knows_all = False
        return z3.Function(name, *[sort] * (len(operands) + 1))(*operands)

    def _decomposed(
        self, name: str, operands: Sequence[Any], attributes: Mapping[str, object]
    ) -> Any:
        spec = OPERATIONS[name]
        given = {item.name: attributes.get(item.name, item.default) for item in spec.attributes}
        types = [tensor(self.element, ())] * len(operands)
        expansion = decompose_signature(spec, types, given)
        known: dict[SSAValue, Any] = dict(zip(expansion.block.args, operands, strict=True))
        for op in expansion.block.ops:
            (result,) = op.results
            if element_of(result.type) not in (self.element, ELEMENT_TYPES["bool"]):
                raise Unsupported
            if isinstance(op, ConstantOp):
                known[result] = self.number(op.array.item(), element_of(result.type))
            elif isinstance(op, TensorOp):
                terms = [known[value] for value in op.operands]
                known[result] = self.apply(op.spec.name, terms, op.values)
            else:
                raise Unsupported
        return known[expansion.results[0]]


def _with_nan(choose: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """max and min: nan passes on; of equal ones the second, as zeros of two signs are."""

    def term(z3: Any, element: ElementType, a: Any, b: Any) -> Any:
        return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, z3.If(choose(z3, a, b), a, b)))

    return term


def _quotient(z3: Any, element: ElementType, a: Any, b: Any) -> Any:
    zero = z3.BitVecVal(0, element.bits)
    quotient = z3.UDiv(a, b) if element.name.startswith("u") else a / b
    return z3.If(b == zero, zero, quotient)


def _less(z3: Any, element: ElementType, a: Any, b: Any) -> Any:
    return z3.ULT(a, b) if element.name.startswith("u") else a < b


def _magnitude(z3: Any, element: ElementType, a: Any) -> Any:
    return a if element.name.startswith("u") else z3.If(a < 0, -a, a)


def _round_tf32(z3: Any, element: ElementType, a: Any) -> Any:
    if element.name != "f32":
        raise Unsupported
    bits = z3.fpToIEEEBV(a)
    odd = z3.LShR(bits, 13) & 1
    rounded = z3.fpBVToFP((bits + 0xFFF + odd) & z3.BitVecVal(0xFFFFE000, 32), z3.Float32())
    return z3.If(z3.fpIsNaN(a), a, rounded)


ALWAYS: Mapping[str, Callable[..., Any]] = {
    "identity": lambda z3, a: a,
    "stop_gradient": lambda z3, a: a,
    "where": lambda z3, m, a, b: z3.If(m, a, b),
}
FLOATS: Mapping[str, Callable[..., Any]] = {
    "neg": lambda z3, e, a: z3.fpNeg(a),
    "abs": lambda z3, e, a: z3.fpAbs(a),
    "add": lambda z3, e, a, b: z3.fpAdd(z3.RNE(), a, b),
    "sub": lambda z3, e, a, b: z3.fpSub(z3.RNE(), a, b),
    "mul": lambda z3, e, a, b: z3.fpMul(z3.RNE(), a, b),
    "div": lambda z3, e, a, b: z3.fpDiv(z3.RNE(), a, b),
    "recip": lambda z3, e, a: z3.fpDiv(z3.RNE(), z3.FPVal(1.0, a.sort()), a),
    "sqrt": lambda z3, e, a: z3.fpSqrt(z3.RNE(), a),
    "rsqrt": lambda z3, e, a: z3.fpDiv(z3.RNE(), z3.FPVal(1.0, a.sort()), z3.fpSqrt(z3.RNE(), a)),
    "max": _with_nan(lambda z3, a, b: z3.fpGT(a, b)),
    "min": _with_nan(lambda z3, a, b: z3.fpLT(a, b)),
    "floor": lambda z3, e, a: z3.fpRoundToIntegral(z3.RTN(), a),
    "ceil": lambda z3, e, a: z3.fpRoundToIntegral(z3.RTP(), a),
    "round": lambda z3, e, a: z3.fpRoundToIntegral(z3.RNE(), a),
    "round_tf32": _round_tf32,
    "eq": lambda z3, e, a, b: z3.fpEQ(a, b),
    "ne": lambda z3, e, a, b: z3.Not(z3.fpEQ(a, b)),
    "lt": lambda z3, e, a, b: z3.fpLT(a, b),
    "le": lambda z3, e, a, b: z3.fpLEQ(a, b),
    "gt": lambda z3, e, a, b: z3.fpGT(a, b),
    "ge": lambda z3, e, a, b: z3.fpGEQ(a, b),
}
INTEGERS: Mapping[str, Callable[..., Any]] = {
    "neg": lambda z3, e, a: -a,
    "abs": _magnitude,
    "add": lambda z3, e, a, b: a + b,
    "sub": lambda z3, e, a, b: a - b,
    "mul": lambda z3, e, a, b: a * b,
    "div": _quotient,
    "max": lambda z3, e, a, b: z3.If(_less(z3, e, a, b), b, a),
    "min": lambda z3, e, a, b: z3.If(_less(z3, e, b, a), b, a),
    "eq": lambda z3, e, a, b: a == b,
    "ne": lambda z3, e, a, b: a != b,
    "lt": _less,
    "le": lambda z3, e, a, b: z3.Not(_less(z3, e, b, a)),
    "gt": lambda z3, e, a, b: _less(z3, e, b, a),
    "ge": lambda z3, e, a, b: z3.Not(_less(z3, e, a, b)),
}
BOOL: Mapping[str, Callable[..., Any]] = {
    "logical_not": lambda z3, e, a: z3.Not(a),
    "logical_and": lambda z3, e, a, b: z3.And(a, b),
    "logical_or": lambda z3, e, a, b: z3.Or(a, b),
    "eq": lambda z3, e, a, b: a == b,
    "ne": lambda z3, e, a, b: a != b,
}
OF_TYPES: Mapping[str, Callable[[ElementType], bool]] = {
    "floating": lambda e: e.is_float,
    "wide": lambda e: e.name in ("f32", "f64"),
    "integer": lambda e: e.is_integer,
    "signed": lambda e: not e.name.startswith("u"),
}
"""Conditions that the element type alone decides."""


def _power_of_two(z3: Any, c: Any) -> Any:
    mantissa = c.sort().sbits() - 1
    bits = z3.Extract(mantissa - 1, 0, z3.fpToIEEEBV(c))
    return z3.And(z3.fpIsNormal(c), bits == 0)


OF_CONSTANTS: Mapping[str, Callable[[Any, Any], Any]] = {
    "constant": lambda z3, c: z3.Not(z3.fpIsNaN(c)),
    "finite": lambda z3, c: z3.Not(z3.Or(z3.fpIsNaN(c), z3.fpIsInf(c))),
    "negative": lambda z3, c: z3.And(z3.fpLT(c, z3.FPVal(0.0, c.sort())), z3.Not(z3.fpIsInf(c))),
    "positive": lambda z3, c: z3.And(z3.fpGT(c, z3.FPVal(0.0, c.sort())), z3.Not(z3.fpIsInf(c))),
    "nonzero": lambda z3, c: z3.Not(z3.Or(z3.fpIsNaN(c), z3.fpIsInf(c), z3.fpIsZero(c))),
    "power_of_two": _power_of_two,
}
"""Conditions on constants that are floats; a subnormal power of two has no inverse that is held."""


def proved(
    rule: Rule, seconds: float = SECONDS, elements: Sequence[str] = PROVED_IN
) -> tuple[tuple[str, ...], bool]:
    """The element types for which both sides have the same bits, whatever the operands are, and
    whether the solver found operands for which they do not.
    """
    if rule.equality is not RuleClass.EXACT or not is_elementwise(rule):
        return (), False
    found: list[str] = []
    for element in elements:
        answer = _proved_in(rule, ELEMENT_TYPES[element], seconds)
        if answer is False:
            return tuple(found), True
        if answer:
            found.append(element)
    return tuple(found), False


def _proved_in(rule: Rule, element: ElementType, seconds: float) -> bool | None:
    """None where the solver does not know, or is not told all."""
    z3 = load_z3()
    masks = masks_of(rule.left_pattern) | masks_of(rule.right_pattern)
    if any(
        not OPERATIONS[call.name].operands[-1].accepts >= {element.family}
        for call in calls_of(rule.left_pattern)
        if call.name != "where" and OPERATIONS[call.name].operands[-1].accepts != BOOLS
    ) or (element.name == "bool") != masks.issuperset(rule.variables):
        return None
    try:
        sort = _Side(z3, element, {}).sort(element)
        operands = {
            name: z3.Const(name, z3.BoolSort() if name in masks else sort)
            for name in rule.variables
        }
        for asked in rule.conditions:
            name = ast.unparse(asked.func)
            if name in OF_TYPES and not OF_TYPES[name](element):
                return None
        choices = attribute_choices(rule.left_pattern)
        for values in product(*(among for _, among in choices.values())):
            answer = _same(
                z3, rule, element, operands, dict(zip(choices, values, strict=True)), seconds
            )
            if not answer:
                return answer
    except (Unsupported, z3.Z3Exception):
        return None
    return True


def _same(
    z3: Any,
    rule: Rule,
    element: ElementType,
    operands: Mapping[str, Any],
    attributes: Mapping[str, object],
    seconds: float,
) -> bool | None:
    side = _Side(z3, element, operands)
    left = side.term(rule.left_pattern, attributes)
    right = side.term(rule.right_pattern, attributes)
    solver = z3.Solver()
    solver.set("timeout", int(1000 * seconds))
    solver.add(*side.assumed)
    for asked in rule.conditions:
        name = ast.unparse(asked.func)
        if name in OF_TYPES:
            continue
        argument = asked.args[0]
        if name not in OF_CONSTANTS or not isinstance(argument, ast.Name) or not element.is_float:
            if name == "constant":
                continue
            raise Unsupported
        solver.add(OF_CONSTANTS[name](z3, operands[argument.id]))
    solver.add(left != right)
    answer = solver.check()
    if answer == z3.sat and side.knows_all:
        return False
    return True if answer == z3.unsat else None
