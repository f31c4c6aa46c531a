"""The patterns of rewrite rules, written as calls: `mul(x, sigmoid(x))`, `transpose(a, perm=P)`.

In: the text of a pattern or attribute expression. Out: trees of `Variable`, `Number`,
`Call`, `Folded`.

Small names stand for values, numbers for constants that have that value everywhere, keywords for
attributes. An attribute that a left side does not name must have its default; a capital name binds
it. On a left side `(r := sqrt(x))` names a part, for the condition and the right side. On a right
side arithmetic on variables, `c * d`, is folded when the rule acts: those variables must be
constants.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mgn.diagnostics import MgnError

ROOT_SHAPE = "SHAPE"
ROOT_ELEMENT = "ELEMENT"


SHOWN = 100
"""Most characters of a pattern that a message shows."""

DEEPEST = 100
"""Levels of a pattern."""

_TOO_DEEP = f"nested more than {DEEPEST} levels deep"


class PatternError(MgnError, ValueError):
    """A pattern that is not written as this module reads it."""


@dataclass(frozen=True)
class Variable:
    """Any value; the same one wherever the name stands."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant with one value everywhere."""

    value: float


@dataclass(frozen=True)
class Folded:
    """Arithmetic on constants, computed when the rule acts."""

    expression: ast.expr

    @property
    def names(self) -> list[str]:
        """The variables that it computes with."""
        return [node.id for node in ast.walk(self.expression) if isinstance(node, ast.Name)]


@dataclass(frozen=True)
class Call:
    """An operation on patterns. Attributes are expressions over attribute variables; `alias` is the
    name that a left side gives its value, if any.
    """

    name: str
    operands: "tuple[Pattern, ...]"
    attributes: Mapping[str, ast.expr]
    alias: str | None = None


Pattern = Variable | Number | Folded | Call


def parse_pattern(text: str) -> Pattern:
    """The tree of a pattern. PatternError where the text is not one."""
    return _pattern(parse_expression(text))


def parse_expression(text: str) -> ast.expr:
    """The tree of what Python calls an expression. PatternError where the text is none."""
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        said = error.msg if isinstance(error, SyntaxError) else error
        raise PatternError(f"not a pattern: {shown!r}: {said}") from error
    except (RecursionError, MemoryError):  # what Python's own parser says of deep nesting
        raise PatternError(f"not a pattern: {shown!r}: {_TOO_DEEP}") from None
    if _depth(tree) > DEEPEST:
        raise PatternError(f"not a pattern: {shown!r}: {_TOO_DEEP}")
    return tree


def _depth(tree: ast.AST) -> int:
    """How deep a tree is nested."""
    deepest, pending = 0, [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest


def _pattern(node: ast.expr) -> Pattern:
    number = literal_number(node)
    if number is not None:
        return Number(number)
    if isinstance(node, ast.Name):
        return Variable(node.id)
    if isinstance(node, ast.BinOp):
        return Folded(node)
    if isinstance(node, ast.NamedExpr):
        part = _pattern(node.value)
        if not isinstance(part, Call):
            raise PatternError(f"only an operation is given a name: {ast.unparse(node)}")
        return replace(part, alias=node.target.id)
    named = isinstance(node, ast.Call) and all(item.arg is not None for item in node.keywords)
    if not named or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise PatternError(f"not a pattern: {ast.unparse(node)}")
    operands: list[Pattern] = []
    for argument in node.args:
        parts = argument.elts if isinstance(argument, ast.List) else [argument]
        operands.extend(_pattern(part) for part in parts)
    keywords = {str(item.arg): item.value for item in node.keywords}
    return Call(node.func.id, tuple(operands), keywords)


def literal_number(node: ast.expr) -> float | None:
    """The number an expression spells, with its sign; None where it is something else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_number(node.operand)
        return None if inner is None else -float(inner)
    if isinstance(node, ast.Name) and node.id == "inf":
        return float("inf")
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else node.value
    return None


def text_of(pattern: Pattern) -> str:
    """A pattern as it is written, without names of its parts: one text for one pattern."""
    if isinstance(pattern, Variable):
        return pattern.name
    if isinstance(pattern, Number):
        return repr(pattern.value)
    if isinstance(pattern, Folded):
        return ast.unparse(pattern.expression)
    parts = [text_of(operand) for operand in pattern.operands]
    parts += [f"{name}={ast.unparse(value)}" for name, value in pattern.attributes.items()]
    return f"{pattern.name}({', '.join(parts)})"


def parts_of(pattern: Pattern) -> Iterator[Pattern]:
    """A pattern and all patterns in it, outermost first."""
    yield pattern
    if isinstance(pattern, Call):
        for operand in pattern.operands:
            yield from parts_of(operand)


def calls_of(pattern: Pattern) -> Iterator[Call]:
    """All calls of a pattern, outermost first."""
    return (part for part in parts_of(pattern) if isinstance(part, Call))


def variables_of(pattern: Pattern) -> list[str]:
    """Names of the value variables of a pattern, in order, each once."""
    found: dict[str, None] = {}
    for part in parts_of(pattern):
        if isinstance(part, Variable):
            found.setdefault(part.name)
        elif isinstance(part, Folded):
            found.update(dict.fromkeys(part.names))
    return list(found)


def aliases_of(pattern: Pattern) -> dict[str, Call]:
    """The parts of a pattern that have names, by these, in order."""
    return {call.alias: call for call in calls_of(pattern) if call.alias is not None}


def folded_variables(pattern: Pattern) -> set[str]:
    """Names of the variables that a right side does arithmetic on."""
    folded = (part for part in parts_of(pattern) if isinstance(part, Folded))
    return {name for part in folded for name in part.names}


ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(
    node: ast.expr, bindings: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> Any:
    """The value of an attribute expression or of folded arithmetic, on plain Python values."""
    if isinstance(node, ast.Name):
        return bindings[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp):
        value = evaluate(node.operand, bindings, functions)
        return (not value) if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.BinOp):
        left = evaluate(node.left, bindings, functions)
        return ARITHMETIC[type(node.op)](left, evaluate(node.right, bindings, functions))
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(evaluate(item, bindings, functions) for item in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [evaluate(item, bindings, functions) for item in node.args]
        return functions[node.func.id](*arguments)
    raise PatternError(f"cannot compute {ast.unparse(node)}")
