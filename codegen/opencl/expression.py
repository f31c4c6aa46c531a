"""C expressions with their precedence, so that parentheses stand only where they are needed."""

import re
from dataclasses import dataclass

PRIMARY = 16
UNARY = 14
MULTIPLY = 13
ADD = 12
SHIFT = 11
RELATION = 10
EQUALITY = 9
AND = 8
XOR = 7
OR = 6
CONDITION = 3

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Expression:
    """The text of an expression, and how tightly its outermost operator binds."""

    text: str
    precedence: int = PRIMARY

    def __str__(self) -> str:
        return self.text

    @property
    def is_name(self) -> bool:
        return _IDENTIFIER.fullmatch(self.text) is not None

    def at(self, precedence: int) -> str:
        """The text where an operand of that precedence or tighter is expected."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def names(self) -> set[str]:
        """Every identifier in the text."""
        return set(_IDENTIFIER.findall(self.text))


def infix(left: Expression, operator: str, right: Expression, precedence: int) -> Expression:
    """A left-associative binary operator."""
    return Expression(f"{left.at(precedence)} {operator} {right.at(precedence + 1)}", precedence)


def prefix(operator: str, operand: Expression) -> Expression:
    """A unary operator; `- -x` keeps its space."""
    text = operand.at(UNARY)
    gap = " " if text.startswith(operator) else ""
    return Expression(f"{operator}{gap}{text}", UNARY)


def call(function: str, *arguments: Expression | str) -> Expression:
    """A function call."""
    return Expression(f"{function}({', '.join(str(argument) for argument in arguments)})")


def cast(type: str, operand: Expression) -> Expression:
    """A conversion of a scalar, or the widening of a scalar to a vector."""
    return Expression(f"({type}){operand.at(UNARY)}", UNARY)


def offset(pointer: str, index: Expression) -> Expression:
    """A pointer moved by an index."""
    if index.text == "0":
        return Expression(pointer)
    return Expression(f"{pointer} + {index.at(ADD)}", ADD)


def condition(test: Expression, yes: Expression, no: Expression) -> Expression:
    """The conditional operator."""
    return Expression(
        f"{test.at(CONDITION + 1)} ? {yes.at(CONDITION + 1)} : {no.at(CONDITION + 1)}", CONDITION
    )
