"""One match of a rule: its condition checked, its right side entered with inferred types.

In: a row of the match relation. Out: new e-nodes and a union in `Facts`, or nothing where the
condition fails or the two sides differ in type.
"""

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isfinite, isinf
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.attributes import REQUIRED, same_value
from mgn.dialects.mgn.operation import OPERATIONS, AttributeSpec
from mgn.dialects.mgn.structure import dense_of
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of
from mgn.passes.saturate.egraph.compile_rules import CompiledRule
from mgn.passes.saturate.encoding.definitions import Definition
from mgn.passes.saturate.encoding.encode import Encoder
from mgn.passes.saturate.encoding.facts import Facts, Leaf
from mgn.passes.saturate.rules.attribute_functions import ATTRIBUTE_FUNCTIONS
from mgn.passes.saturate.rules.conditions import PREDICATES, Operand
from mgn.passes.saturate.rules.patterns import (
    ROOT_ELEMENT,
    ROOT_SHAPE,
    Call,
    Folded,
    Number,
    Pattern,
    Variable,
    evaluate,
)
from mgn.passes.saturate.rules.rule import Rule, RuleClass, RuleError

MOVES_NOTHING: dict[str, Callable[[TensorType, Mapping[str, Any]], bool]] = {
    "reshape": lambda type, values: type.get_shape() == values["shape"],
    "transpose": lambda type, values: values["perm"] == tuple(range(len(values["perm"]))),
}
"""Movement that is left out where it leaves its operand as it is."""


class Mismatch(Exception):
    """This match does not act."""


def instantiate(compiled: CompiledRule, row: Sequence[int], facts: Facts) -> bool:
    """Enters a match's right side, equal to its root. False where the rule does not act on it."""
    rule = compiled.rule
    start, types = compiled.values, facts.type_numbers
    kind = (*[types[handle] for handle in row[:start]], *row[start:])
    if kind in compiled.refused:
        return False
    handles = dict(zip(rule.bound, row[1:], strict=False))
    looks = facts.looks
    constants = {
        name: facts.splat_value(number)
        for name, number in zip(rule.constants, row[start:], strict=False)
    }
    root = row[0]
    try:
        names = _bound_attributes(compiled, row, tuple(row[start + len(constants) :]), facts)
        names[ROOT_SHAPE] = tuple(facts.handle_types[root].get_shape())
        names[ROOT_ELEMENT] = element_of(facts.handle_types[root])
        for name, handle in handles.items():
            definition = Definition(facts, handle)
            names[name] = Operand(facts.handle_types[handle], constants.get(name), definition)
        if not _holds(rule, names):
            if facts.looks == looks:
                compiled.refused.add(kind)
            return False
        rounds = rule.equality is RuleClass.APPROXIMATES
        builder = _Builder(facts, root, handles, constants, names, rounds)
        result = builder.build(rule.right_pattern, None)
    except (Mismatch, ShapeError):
        return False
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise RuleError(f"rule {rule.name} fails on a match: {said}") from error
    if facts.handle_types[result] != facts.handle_types[root]:
        return False
    facts.union(root, result)
    return True


def _bound_attributes(
    compiled: CompiledRule, row: Sequence[int], numbers: tuple[int, ...], facts: Facts
) -> dict[str, Any]:
    """Values of the attribute variables, to be added to. Mismatch where an attribute differs."""
    types = [[facts.type_numbers[row[at]] for at in places] for places in compiled.operands]
    key = (*numbers, *itertools.chain(*types))
    if key not in compiled.bound:
        operands = [[facts.handle_types[row[at]] for at in places] for places in compiled.operands]
        try:
            compiled.bound[key] = _bind_attributes(compiled, operands, numbers, facts)
        except (Mismatch, ShapeError):
            compiled.bound[key] = None
    known = compiled.bound[key]
    if known is None:
        raise Mismatch
    return dict(known)


def _bind_attributes(
    compiled: CompiledRule,
    operands: Sequence[Sequence[TensorType]],
    numbers: Sequence[int],
    facts: Facts,
) -> dict[str, Any]:
    """Values of the attribute variables. Mismatch where a named or defaulted attribute differs from
    what it is for operands of these types.
    """
    bound: dict[str, Any] = {}
    for call, types, number in zip(compiled.attribute_calls, operands, numbers, strict=True):
        spec, stored = OPERATIONS[call.name], dict(facts.properties.things[number])
        values: dict[str, Any] = {
            item.name: None if (found := stored.get(item.name)) is None else item.kind.decode(found)
            for item in spec.attributes
        }
        expected = {
            item.name: _expected(item, call.attributes.get(item.name), values[item.name])
            for item in spec.attributes
        }
        if types and spec.canonical is not None:
            expected.update(spec.canonical(*spec.split_operands(types), **expected))
        for name, value in values.items():
            wanted = call.attributes.get(name)
            known = bound.setdefault(wanted.id, value) if isinstance(wanted, ast.Name) else value
            if not (same_value(known, value) and same_value(expected[name], value)):
                raise Mismatch
    return bound


def _expected(item: AttributeSpec, wanted: ast.expr | None, value: Any) -> Any:
    """What an attribute has to be: what is written, its default, or, for a variable, what it is."""
    if isinstance(wanted, ast.Name):
        return value
    if wanted is not None:
        return item.kind.accept(evaluate(wanted, {}, {}))
    if item.default is REQUIRED:
        raise Mismatch
    return item.default


def _holds(rule: Rule, names: Mapping[str, Any]) -> bool:
    for condition in rule.conditions:
        assert isinstance(condition.func, ast.Name)
        arguments = [evaluate(item, names, ATTRIBUTE_FUNCTIONS) for item in condition.args]
        if not PREDICATES[condition.func.id].holds(*arguments):
            return False
    return True


class _Builder:
    """Enters a right side from the leaves up."""

    def __init__(
        self,
        facts: Facts,
        root: int,
        handles: Mapping[str, int],
        constants: Mapping[str, float],
        names: Mapping[str, Any],
        rounds: bool,
    ) -> None:
        self.facts = facts
        self.rounds = rounds
        self.root_type = facts.handle_types[root]
        self.location = facts.locations.get(root)
        self.handles = handles
        self.constants = constants
        self.names = names

    def build(self, pattern: Pattern, element: ElementType | None) -> int:
        if isinstance(pattern, Variable):
            return self.handles[pattern.name]
        if isinstance(pattern, Number):
            return self._constant(pattern.value, element)
        if isinstance(pattern, Folded):
            return self._constant(self._folded(pattern, element), element)
        return self._call(pattern)

    def _call(self, call: Call) -> int:
        spec = OPERATIONS[call.name]
        elements: dict[str, ElementType] = {}
        groups = [spec.operands[min(i, len(spec.operands) - 1)] for i in range(len(call.operands))]
        for group, operand in zip(groups, call.operands, strict=True):
            if group.element is not None:
                elements[group.group] = ELEMENT_TYPES[group.element]
            elif isinstance(operand, Variable):
                type = self.facts.handle_types[self.handles[operand.name]]
                elements.setdefault(group.group, element_of(type))
        own = element_of(self.root_type)
        operands = [
            self.build(operand, elements.get(group.group, own))
            for group, operand in zip(groups, call.operands, strict=True)
        ]
        types = [self.facts.handle_types[operand] for operand in operands]
        values: dict[str, Any] = {
            item.name: item.default for item in spec.attributes if item.default is not REQUIRED
        }
        for name, expression in call.attributes.items():
            value = evaluate(expression, self.names, ATTRIBUTE_FUNCTIONS)
            values[name] = None if value is None else spec.attribute(name).kind.accept(value)
        if spec.canonical is not None:
            values.update(spec.canonical(*spec.split_operands(types), **values))
        if spec.name in MOVES_NOTHING and MOVES_NOTHING[spec.name](types[0], values):
            return operands[0]
        return Encoder(self.facts).enter(spec, operands, values, self.location)

    def _folded(self, pattern: Folded, element: ElementType | None) -> float:
        """Arithmetic on constants, in fractions; a zero has the sign that IEEE 754 gives it, which
        fractions do not know. Mismatch where it rounds and must not, or where the infinite leaves
        no number.
        """
        row = element or element_of(self.root_type)
        if any(isinf(value) for value in self.constants.values()):
            return self._folded_infinite(pattern)
        try:
            fractions = {name: Fraction(value) for name, value in self.constants.items()}
            exact = Fraction(evaluate(pattern.expression, fractions, {}))
            if not row.is_float:
                return _whole(exact)
            value = float(exact) if exact else self._folded_zero(pattern)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise Mismatch from error
        if not self.rounds and not _is_normal(exact, row):
            raise Mismatch
        return value

    def _folded_zero(self, pattern: Folded) -> float:
        """Arithmetic that comes to a zero. Mismatch where floats come to another number."""
        floats = {name: float(value) for name, value in self.constants.items()}
        value = float(evaluate(pattern.expression, floats, {}))
        if value != 0:
            raise Mismatch
        return value

    def _folded_infinite(self, pattern: Folded) -> float:
        """Arithmetic that comes to an infinite number, which no element type rounds."""
        try:
            value = float(evaluate(pattern.expression, self.constants, {}))
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise Mismatch from error
        if not isinf(value):
            raise Mismatch
        return value

    def _constant(self, value: float, element: ElementType | None) -> int:
        element = element or element_of(self.root_type)
        if element.dtype is None:
            raise Mismatch
        if not element.is_float and not _is_held(value, element.dtype):
            raise Mismatch
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(element.dtype)
        overflows = np.isfinite(value) and not np.isfinite(array.astype(np.float64))
        if overflows if element.is_float else array.item() != value:
            raise Mismatch
        dense = dense_of(array)
        assert isinstance(dense.type, TensorType)
        return self.facts.leaf(Leaf("constant", dense, dense.type), self.location)


def _whole(value: Fraction) -> int:
    """A whole number. Mismatch where a value is none."""
    if value.denominator != 1:
        raise Mismatch
    return int(value)


def _is_held(value: float, dtype: np.dtype) -> bool:
    """Whether a type of integers or bools has a number."""
    if isinstance(value, float) and not (isfinite(value) and value.is_integer()):
        return False
    limits = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return limits[0] <= value <= limits[1]


def _is_normal(value: Fraction, element: ElementType) -> bool:
    """Whether a float type holds a number exactly, and not as a subnormal, which devices may
    flush to 0.
    """
    assert element.dtype is not None
    with np.errstate(all="ignore"):
        stored = float(np.asarray(float(value)).astype(element.dtype))
    smallest = float(ml_dtypes.finfo(element.dtype).smallest_normal)
    return stored == value and (value == 0 or abs(stored) >= smallest)
