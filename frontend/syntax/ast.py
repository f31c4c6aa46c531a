"""The syntax tree of a `.mgn` file: one class for each form, every node with its place.

In: what the parser recognised. Out: plain data for name resolution and lowering.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

Place = tuple[int, int]
"""Line and column, both from 1."""

NESTING_LIMIT = 200
"""Deepest nesting of expressions and of blocks."""


@dataclass(slots=True)
class Expression:
    """Base of expressions. `depth` is how far walks recurse (left operands are a loop)."""

    place: Place


@dataclass(slots=True)
class Literal(Expression):
    """`12`, `1.5`, `true`, `none`."""

    value: int | float | bool | str | None
    depth: int = 1


@dataclass(slots=True)
class Text(Expression):
    """`"layers.{i}"`: pieces of text and expressions between braces."""

    parts: Sequence[str | Expression]
    depth: int = 1


@dataclass(slots=True)
class Name(Expression):
    """A name that is read."""

    name: str
    depth: int = 1


@dataclass(slots=True)
class ListExpression(Expression):
    """`[1, 2]`."""

    items: Sequence[Expression]
    depth: int


@dataclass(slots=True)
class Unary(Expression):
    """`-x`, `+x`, `not x`."""

    operator: str
    operand: Expression
    depth: int


@dataclass(slots=True)
class Binary(Expression):
    """`a + b` and the like; the place is the operator's."""

    operator: str
    left: Expression
    right: Expression
    depth: int


@dataclass(slots=True)
class Compare(Expression):
    """`a < b <= c`."""

    operators: Sequence[tuple[str, Place]]
    operands: Sequence[Expression]
    depth: int


@dataclass(slots=True)
class Keyword:
    """`axis = 1` in a call."""

    place: Place
    name: str
    value: Expression


@dataclass(slots=True)
class Call(Expression):
    """`f(x, axis = 1)`."""

    name: str
    positional: Sequence[Expression]
    keywords: Sequence[Keyword]
    depth: int


@dataclass(slots=True)
class Member(Expression):
    """`x.T`."""

    operand: Expression
    name: str
    depth: int


@dataclass(slots=True)
class Slice(Expression):
    """`a:b:c` between square brackets."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None
    depth: int


@dataclass(slots=True)
class Ellipsis(Expression):
    """`...` between square brackets."""

    depth: int = 1


@dataclass(slots=True)
class Index(Expression):
    """`x[i, a:b, :]`."""

    operand: Expression
    items: Sequence[Expression]
    depth: int


@dataclass(slots=True)
class TypeExpression:
    """`f32[B, 4]`; `sizes` is None for a name alone."""

    place: Place
    name: str
    sizes: Sequence[Expression] | None


@dataclass(slots=True)
class Statement:
    """Base of statements."""

    place: Place


@dataclass(slots=True)
class Broken(Statement):
    """Where a statement could not be parsed; what uses its names is no error of its own."""

    names: frozenset[str]
    returns: bool = False


@dataclass(slots=True)
class Constant(Statement):
    """One `NAME = expression` of a `const`."""

    name: str
    value: Expression


@dataclass(slots=True)
class Constants(Statement):
    """`const A = 1, B = 2`."""

    constants: Sequence[Constant]


@dataclass(slots=True)
class Import(Statement):
    """`import "other.mgn"`."""

    path: str


@dataclass(slots=True)
class Formal:
    """A parameter of a `fn`."""

    place: Place
    name: str
    type: TypeExpression | None
    default: Expression | None


@dataclass(slots=True)
class Function(Statement):
    """`fn f(x, n: int = 1) { … }`."""

    name: str
    formals: Sequence[Formal]
    body: "Block"


@dataclass(slots=True)
class Dimension:
    """A dimension parameter of a graph."""

    place: Place
    name: str
    default: Expression | None


@dataclass(slots=True)
class Input:
    """An input of a graph."""

    place: Place
    name: str
    type: TypeExpression


@dataclass(slots=True)
class Graph(Statement):
    """`graph g[B = 1](x: f32[B]) { … }`."""

    name: str
    dimensions: Sequence[Dimension]
    inputs: Sequence[Input]
    body: "Block"


@dataclass(slots=True)
class Param(Statement):
    """`param w: f32[4] as "layer.w" = ones()`."""

    name: str
    type: TypeExpression
    external: Expression | None
    initialiser: Expression | None


@dataclass(slots=True)
class State(Statement):
    """`state cache: f32[4] as "layer.cache" = zeros()`."""

    name: str
    type: TypeExpression
    external: Expression | None
    initialiser: Expression | None


@dataclass(slots=True)
class Write(Statement):
    """`cache <- x`."""

    name: str
    value: Expression


@dataclass(slots=True)
class Assign(Statement):
    """`a, b = f(x)`. With `unpacks`, as in `a, = f(x)`, one name too is for a value of a list."""

    names: Sequence[tuple[str, Place]]
    values: Sequence[Expression]
    unpacks: bool


@dataclass(slots=True)
class ExpressionStatement(Statement):
    """A call for its parameters alone."""

    value: Expression


@dataclass(slots=True)
class Scope(Statement):
    """`scope "layers.{i}" { … }`."""

    prefix: Expression
    body: "Block"


@dataclass(slots=True)
class For(Statement):
    """`for i in a..b { … }`; `stop` is None where `start` is a list."""

    name: str
    start: Expression
    stop: Expression | None
    body: "Block"


@dataclass(slots=True)
class If(Statement):
    """`if c { … } else { … }`; `else if` is an `If` alone in the second block."""

    condition: Expression
    then: "Block"
    otherwise: "Block | None"
    depth: int = 1


@dataclass(slots=True)
class Returned:
    """One result; `name` is given, or the variable's, or None."""

    place: Place
    name: str | None
    value: Expression


@dataclass(slots=True)
class Return(Statement):
    """`return loss, y = x + 1`."""

    values: Sequence[Returned]


@dataclass(slots=True)
class Block:
    """Statements between braces."""

    statements: Sequence[Statement] = field(default_factory=list[Any])


def walk(node: Any) -> Iterator[Any]:
    """A node and all nodes inside it, without recursion."""
    stack = [node]
    while stack:
        item = stack.pop()
        names = _field_names(type(item))
        if names is not None:
            yield item
            stack.extend([getattr(item, name) for name in names])
        elif isinstance(item, (list, tuple)):
            stack.extend(item)


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of nodes that may hold nodes; None for any other class."""
    if not is_dataclass(kind):
        return None
    return tuple(item.name for item in fields(kind) if item.name not in ("place", "depth"))
