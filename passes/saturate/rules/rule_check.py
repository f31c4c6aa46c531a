"""Whether the two sides and the condition of a rule are what operations, predicates and functions
take: all that can be said of a row before it meets a value.

In: the patterns of a row. Out: nothing, or a PatternError that says what is wrong.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.build import suggestion
from mgn.dialects.mgn.operation import OPERATIONS, AttributeSpec
from mgn.dialects.shapes import ShapeError
from mgn.passes.saturate.rules.attribute_functions import ATTRIBUTE_FUNCTIONS
from mgn.passes.saturate.rules.conditions import PREDICATES
from mgn.passes.saturate.rules.patterns import (
    ARITHMETIC,
    ROOT_ELEMENT,
    ROOT_SHAPE,
    Call,
    Folded,
    Number,
    Pattern,
    PatternError,
    calls_of,
    evaluate,
    parse_expression,
    parts_of,
    variables_of,
)

ROOT = frozenset({ROOT_SHAPE, ROOT_ELEMENT})
"""Names that stand for attributes of the value that the left side matches."""

KNOWN = f"there are {', '.join(PREDICATES)} ('mgn-opt --list-predicates' says what each asks)"
"""What a condition is made of, for messages."""

FOLDED = (ast.Name, ast.Load, ast.Constant, ast.UnaryOp, ast.USub, ast.BinOp, *ARITHMETIC)
"""What constants are folded by, in Python's words."""
COMPUTED = (*FOLDED, ast.Not, ast.List, ast.Tuple, ast.Call)
"""What attributes are computed by."""


def parse_conditions(text: str) -> list[ast.Call]:
    """The predicates, joined by `and`, of a condition; none for an empty text."""
    if not text:
        return []
    node = parse_expression(text)
    parts = [node]
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        parts = node.values
    calls = [part for part in parts if isinstance(part, ast.Call)]
    if len(calls) != len(parts):
        raise PatternError(f"a condition is predicates joined by 'and', not {text!r}; {KNOWN}")
    return calls


def check_patterns(left: Call, right: Pattern, conditions: Iterable[ast.Call]) -> None:
    """PatternError where a row names what does not exist, or gives it what it does not take."""
    for side in (left, right):
        for part in parts_of(side):
            _check_part(part)
    if any(isinstance(part, Folded) for part in parts_of(left)):
        raise PatternError("the left side does arithmetic on constants")
    values, attributes = set(variables_of(left)), _bound_attributes(left)
    parts = [call.alias for call in calls_of(left) if call.alias is not None]
    if left.alias is not None or len({*parts, *values}) < len(parts) + len(values):
        raise PatternError("the names of a left side's parts are new, and none is the whole's")
    if any(call.alias is not None for call in calls_of(right)):
        raise PatternError("the right side gives no names to its parts")
    values |= set(parts)
    for name in values & (ROOT | attributes | {"nan"}):
        raise PatternError(f"'{name}' does not stand for a value")
    for name in set(variables_of(right)) - values:
        raise PatternError(f"'{name}' is not bound on the left")
    bound = values | attributes | ROOT
    for call in calls_of(right):
        for item, written in _attributes_of(call):
            _check_expression(written, bound, COMPUTED)
            if isinstance(written, ast.Name) and written.id in values:
                raise PatternError(
                    f"'{item.name}' of '{call.name}' is no value as '{written.id}' is; "
                    f"number_of({written.id}) is the number of a constant"
                )
            if not any(isinstance(node, ast.Name) for node in ast.walk(written)):
                _accept(call, item, written)
    for condition in conditions:
        name = ast.unparse(condition.func)
        if name not in PREDICATES:
            raise PatternError(
                f"unknown predicate '{name}'; {KNOWN}{suggestion(name, [*PREDICATES])}"
            )
        _check_arguments(condition, PREDICATES[name].holds)
        for argument in condition.args:
            _check_expression(argument, bound, COMPUTED)


def _check_part(part: Pattern) -> None:
    """An operation exists and takes so many operands; a number is one; arithmetic is known."""
    if isinstance(part, Call):
        if part.name not in OPERATIONS:
            near = suggestion(part.name, [*OPERATIONS])
            raise PatternError(f"unknown operation '{part.name}'{near}")
        if OPERATIONS[part.name].several_results:
            raise PatternError(f"'{part.name}' has several results; a pattern is one value")
        try:
            OPERATIONS[part.name].split_operands(part.operands)
        except ShapeError as error:
            raise PatternError(f"'{part.name}': {error}") from error
    elif isinstance(part, Folded):
        _check_expression(part.expression, {*part.names}, FOLDED)
    elif isinstance(part, Number) and not _is_held(part.value):
        raise PatternError(f"{part.value} does not fit 64 bits")


def _is_held(value: float) -> bool:
    return isinstance(value, float) or -(2**63) <= value < 2**64


def _attributes_of(call: Call) -> Iterator[tuple[AttributeSpec, ast.expr]]:
    """The attributes that a call writes. PatternError where one is unknown, or one is missing."""
    spec = OPERATIONS[call.name]
    for name in call.attributes.keys() - {item.name for item in spec.attributes}:
        near = suggestion(name, [item.name for item in spec.attributes])
        raise PatternError(f"'{call.name}' has no attribute '{name}'{near}")
    for item in spec.attributes:
        if item.name in call.attributes:
            yield item, call.attributes[item.name]
        elif item.default is REQUIRED:
            raise PatternError(f"'{call.name}' needs its attribute '{item.name}'")


def _bound_attributes(left: Call) -> set[str]:
    """The attribute variables of a left side; its other attributes are values of their kinds."""
    bound: set[str] = set()
    for call in calls_of(left):
        for item, written in _attributes_of(call):
            if isinstance(written, ast.Name):
                bound.add(written.id)
            else:
                _check_expression(written, set(), COMPUTED)
                _accept(call, item, written)
    return bound


def _accept(call: Call, item: AttributeSpec, written: ast.expr) -> None:
    """A value that is written out is of the attribute's kind."""
    try:
        value = evaluate(written, {}, {})
        if value is not None or item.default is not None:
            item.kind.accept(value)
    except (TypeError, ArithmeticError) as error:
        raise PatternError(f"'{item.name}' of '{call.name}' must be {error}") from error


def _check_expression(
    expression: ast.expr, bound: Set[str], allowed: tuple[type[ast.AST], ...]
) -> None:
    """Known functions of bound names, and nothing else."""
    functions: set[ast.AST] = set()
    for node in ast.walk(expression):
        if not isinstance(node, allowed):
            raise PatternError(f"cannot compute {ast.unparse(expression)}")
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name not in ATTRIBUTE_FUNCTIONS:
                near = suggestion(name, [*ATTRIBUTE_FUNCTIONS])
                known = f"; there are {', '.join(ATTRIBUTE_FUNCTIONS)}"
                raise PatternError(f"unknown function '{name}'{known}{near}")
            _check_arguments(node, ATTRIBUTE_FUNCTIONS[name])
            functions.add(node.func)
        elif isinstance(node, ast.Name) and node not in functions and node.id not in bound:
            spelt = f"; it is spelt {node.id.title()} here" * (node.id in ("true", "false", "none"))
            raise PatternError(f"'{node.id}' is not bound on the left{spelt}")


def _check_arguments(call: ast.Call, function: Callable[..., Any]) -> None:
    """A predicate or function gets as many arguments as it takes, in order."""
    kinds = [item.kind for item in inspect.signature(function).parameters.values()]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    if call.keywords or not (takes_any or len(call.args) == len(kinds)):
        wanted = f"{ast.unparse(call.func)}({', '.join(inspect.signature(function).parameters)})"
        raise PatternError(f"not the arguments that are wanted, {wanted}: {ast.unparse(call)}")
