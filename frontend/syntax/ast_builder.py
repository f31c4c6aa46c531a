"""Makes the syntax tree while the parser runs: one method for each rule of the grammar.

In: the children of a recognised rule, tokens and finished nodes. Out: a node of `ast.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lark import Transformer

from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import NESTING_LIMIT, Expression, Place, Statement
from mgn.frontend.syntax.lexer import Token
from mgn.frontend.syntax.strings import split_text
from mgn.frontend.syntax.tokens import TooDeep

KEYWORD_VALUES: dict[str, Any] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
}

LARGEST_INTEGER = 2**64
"""Integer literals stay below."""


class SyntaxFault(Exception):
    """A recognised form that is wrong all the same; the parser reports it and goes on."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


@dataclass(slots=True)
class _Default:
    value: Expression


@dataclass(slots=True)
class _External:
    value: Expression


def _depth(place: Place, *nodes: Any) -> int:
    depth = 1 + max((node.depth for node in nodes if node is not None), default=0)
    if depth > NESTING_LIMIT:
        raise TooDeep(place)
    return depth


class AstBuilder(Transformer[Token, Any]):
    """The parser's callbacks. `parse_expression` reads the text between braces of a string."""

    def __init__(self, parse_expression: Callable[[str, Place], Expression]) -> None:
        super().__init__()
        self.parse_expression = parse_expression

    # ---- statements

    def empty(self, _: list[Any]) -> Any:
        return None

    def more(self, children: list[Any]) -> Any:
        return (children[0], children[1])

    def program(self, children: list[Any]) -> ast.Block:
        return _block(children[0])

    def block(self, children: list[Any]) -> ast.Block:
        return _block(children[0])

    def broken(self, children: list[Any]) -> Statement:
        return children[0].value if isinstance(children[0].value, Statement) else children[0]

    def constant(self, children: list[Any]) -> ast.Constant:
        return ast.Constant(children[0].place, str(children[0]), children[1])

    def const(self, children: list[Any]) -> ast.Constants:
        return ast.Constants(children[0].place, children[1:])

    def import_file(self, children: list[Any]) -> ast.Import:
        text = self.string(children[1:])
        if not isinstance(text, ast.Literal):
            raise SyntaxFault(text.place, "an import needs a plain text, without {…}")
        return ast.Import(children[1].place, str(text.value))

    def fn(self, children: list[Any]) -> ast.Function:
        return ast.Function(children[1].place, str(children[1]), children[2:-1], children[-1])

    def default(self, children: list[Any]) -> _Default:
        return _Default(children[0])

    def external(self, children: list[Any]) -> _External:
        return _External(children[1])

    def formal(self, children: list[Any]) -> ast.Formal:
        type = next((item for item in children if isinstance(item, ast.TypeExpression)), None)
        return ast.Formal(children[0].place, str(children[0]), type, _default(children))

    def graph(self, children: list[Any]) -> ast.Graph:
        dims = children[2] if isinstance(children[2], list) else []
        inputs = [item for item in children[2:] if isinstance(item, ast.Input)]
        return ast.Graph(children[1].place, str(children[1]), dims, inputs, children[-1])

    def dims(self, children: list[Any]) -> list[Any]:
        return children

    def dim(self, children: list[Any]) -> ast.Dimension:
        return ast.Dimension(children[0].place, str(children[0]), _default(children))

    def input(self, children: list[Any]) -> ast.Input:
        return ast.Input(children[0].place, str(children[0]), children[1])

    def param(self, children: list[Any]) -> ast.Param:
        name, type = children[1:3]
        return ast.Param(name.place, str(name), type, _external(children), _default(children))

    def state(self, children: list[Any]) -> ast.State:
        name, type = children[1:3]
        return ast.State(name.place, str(name), type, _external(children), _default(children))

    def write(self, children: list[Any]) -> ast.Write:
        return ast.Write(children[0].place, str(children[0]), children[2])

    def assign(self, children: list[Any]) -> ast.Assign:
        names = [(str(item), item.place) for item in children if isinstance(item, Token)]
        return ast.Assign(names[0][1], names, children[len(names) :], len(names) > 1)

    def unpacked(self, children: list[Any]) -> ast.Assign:
        found = self.assign(children)
        found.unpacks = True
        return found

    def expression_statement(self, children: list[Any]) -> ast.ExpressionStatement:
        return ast.ExpressionStatement(children[0].place, children[0])

    def scope(self, children: list[Any]) -> ast.Scope:
        return ast.Scope(children[0].place, children[1], children[2])

    def for_loop(self, children: list[Any]) -> ast.For:
        stop = children[5] if len(children) == 7 else None
        return ast.For(children[0].place, str(children[1]), children[3], stop, children[-1])

    def if_chain(self, children: list[Any]) -> ast.If:
        place = children[0].place
        otherwise = children[4] if len(children) == 5 else None
        if not isinstance(otherwise, ast.If):
            return ast.If(place, children[1], children[2], otherwise)
        block = ast.Block([otherwise])
        return ast.If(place, children[1], children[2], block, _depth(place, otherwise))

    def returned(self, children: list[Any]) -> ast.Returned:
        value = children[0]
        name = value.name if isinstance(value, ast.Name) else None
        return ast.Returned(value.place, name, value)

    def returned_as(self, children: list[Any]) -> ast.Returned:
        return ast.Returned(children[0].place, str(children[0]), children[1])

    def return_values(self, children: list[Any]) -> ast.Return:
        return ast.Return(children[0].place, children[1:])

    def type(self, children: list[Any]) -> ast.TypeExpression:
        return ast.TypeExpression(children[0].place, str(children[0]), None)

    def shaped_type(self, children: list[Any]) -> ast.TypeExpression:
        return ast.TypeExpression(children[0].place, str(children[0]), children[1:])

    # ---- expressions

    def binary(self, children: list[Any]) -> ast.Binary:
        left, token, right = children
        place = token.place
        # Chains such as a + b + c grow to the left, where walks are loops.
        chained = isinstance(left, ast.Binary)
        depth = max(left.depth, _depth(place, right)) if chained else _depth(place, left, right)
        return ast.Binary(place, str(token), left, right, depth)

    def unary(self, children: list[Any]) -> ast.Expression:
        token, operand = children
        place = token.place
        return ast.Unary(place, str(token), operand, _depth(place, operand))

    def compare(self, children: list[Any]) -> ast.Compare:
        operators = [(str(token), token.place) for token in children[1::2]]
        operands = children[::2]
        return ast.Compare(operators[0][1], operators, operands, _depth(operators[0][1], *operands))

    def name(self, children: list[Any]) -> ast.Name:
        token = children[0]
        return ast.Name(token.place, str(token))

    def integer(self, children: list[Any]) -> ast.Literal:
        token = children[0]
        text = token.replace("_", "")
        value = None
        if len(text) <= 24:
            value = int(text, 16) if text[:2] in ("0x", "0X") and len(text) > 2 else int(text)
        if value is None or value >= LARGEST_INTEGER:
            raise SyntaxFault(token.place, "an integer must fit 64 bits")
        return ast.Literal(token.place, value)

    def floating(self, children: list[Any]) -> ast.Literal:
        token = children[0]
        value = float(token.replace("_", ""))
        if math.isinf(value):
            raise SyntaxFault(token.place, "a number must fit f64; infinity is written inf")
        return ast.Literal(token.place, value)

    def keyword_value(self, children: list[Any]) -> ast.Literal:
        return ast.Literal(children[0].place, KEYWORD_VALUES[str(children[0])])

    def string(self, children: list[Any]) -> Expression:
        token = children[0]
        place = token.place
        parts = split_text(str(token), place, self.parse_expression)
        if all(isinstance(part, str) for part in parts):
            return ast.Literal(place, "".join(part for part in parts if isinstance(part, str)))
        return ast.Text(place, parts)

    def parenthesised(self, children: list[Any]) -> Expression:
        return children[0]

    def list_expression(self, children: list[Any]) -> ast.ListExpression:
        place = children[0].place
        return ast.ListExpression(place, children[1:], _depth(place, *children[1:]))

    def keyword(self, children: list[Any]) -> ast.Keyword:
        return ast.Keyword(children[0].place, str(children[0]), children[1])

    def call(self, children: list[Any]) -> ast.Call:
        place = children[0].place
        positional: list[Expression] = []
        keywords: list[ast.Keyword] = []
        names: set[str] = set()
        for item in children[1:]:
            if isinstance(item, ast.Keyword):
                if item.name in names:
                    raise SyntaxFault(item.place, f"argument '{item.name}' is given twice")
                names.add(item.name)
                keywords.append(item)
            elif keywords:
                raise SyntaxFault(item.place, "an argument without a name follows one with a name")
            else:
                positional.append(item)
        depth = _depth(place, *positional, *(item.value for item in keywords))
        return ast.Call(place, str(children[0]), positional, keywords, depth)

    def member(self, children: list[Any]) -> ast.Member:
        operand, _, name = children
        return ast.Member(name.place, operand, str(name), _depth(name.place, operand))

    def ellipsis(self, children: list[Any]) -> ast.Ellipsis:
        return ast.Ellipsis(children[0].place)

    def slice(self, children: list[Any]) -> ast.Slice:
        parts: list[Expression | None] = [None]
        place = next(item.place for item in children if isinstance(item, Token))
        for item in children:
            if isinstance(item, Token):
                parts.append(None)
            else:
                parts[-1] = item
        start, stop, step = (*parts, None)[:3]
        return ast.Slice(place, start, stop, step, _depth(place, *parts))

    def index(self, children: list[Any]) -> ast.Index:
        operand, token, *items = children
        place = token.place
        return ast.Index(place, operand, items, _depth(place, operand, *items))

    def interpolation(self, children: list[Any]) -> Expression:
        return children[0]


def _external(children: list[Any]) -> ast.Expression | None:
    return next((item.value for item in children if isinstance(item, _External)), None)


def _default(children: list[Any]) -> Expression | None:
    return next((item.value for item in children if isinstance(item, _Default)), None)


def _block(linked: Any) -> ast.Block:
    statements: list[Statement] = []
    while linked is not None:
        linked, statement = linked
        statements.append(statement)
    statements.reverse()
    return ast.Block(statements)
