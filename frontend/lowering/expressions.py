"""Expressions: evaluated when compiling where they can be, else turned into operations.

In: an expression of the syntax tree. Out: a compile-time value (int, float, bool, str, list,
element type, none), a tensor value, several of them as a tuple, or POISON where an error was
reported.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import CallError
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.shapes import ShapeError
from mgn.frontend.lowering.context import MOST_STEPS, Context
from mgn.frontend.lowering.indexing import index_value, transpose_last
from mgn.frontend.lowering.lists import MOST_ITEMS, ValueFault, items_of
from mgn.frontend.lowering.values import (
    LONGEST_TEXT,
    POISON,
    condition,
    describe,
    fold_binary,
    fold_compare,
    fold_unary,
    holds_poison,
    is_number,
    text_of,
)
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Expression, Place

OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "@": "matmul",
    "**": "pow",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
"""The operation that each operator is, on tensors."""

LOGICAL = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}


class Expressions(Context):
    """Evaluates expressions. Calls are left to `Calls`."""

    def evaluate(self, node: Expression) -> Any:
        """The value of an expression."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.step(node.place)
        return self._EVALUATE[type(node)](self, node)

    def evaluate_int(self, node: Expression, what: str) -> Any:
        """The value of an expression that must be a compile-time integer."""
        value = self.evaluate(node)
        if value is POISON or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        return self.error(
            node.place, f"{what} must be a compile-time integer, not {describe(value)}"
        )

    def emit_operation(self, place: Place, name: str, *operands: Any, **attributes: Any) -> Any:
        """The result of an operation, or POISON where it does not accept its operands."""
        self.locate(place)
        try:
            return self.emitter.call(name, *operands, **attributes)
        except (CallError, ShapeError) as error:
            return self.error(place, str(error))

    def call(self, node: ast.Call) -> Any:
        """The value of a call."""
        raise NotImplementedError

    def _literal(self, node: ast.Literal) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        return self.lookup(node.name, node.place)

    def _text(self, node: ast.Text) -> Any:
        pieces: list[str] = []
        for part in node.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            value = self.evaluate(part)
            if value is POISON:
                return POISON
            try:
                pieces.append(text_of(value))
            except ValueFault as fault:
                return self.error(part.place, str(fault))
        text = "".join(pieces)
        if len(text) > LONGEST_TEXT:
            return self.error(node.place, f"a text may have {LONGEST_TEXT} characters")
        return text

    def _list(self, node: ast.ListExpression) -> Any:
        values = [self.evaluate(item) for item in node.items]
        return self.fold(node.place, items_of, values, self.allowed(MOST_ITEMS))

    def _unary(self, node: ast.Unary) -> Any:
        operand = self.evaluate(node.operand)
        if holds_poison(operand):
            return POISON
        if not isinstance(operand, SSAValue):
            return self.fold(node.place, fold_unary, node.operator, operand)
        if node.operator == "not":
            return self._logical_on_tensor(node.place, "not")
        return self.emit_operation(node.place, "neg", operand) if node.operator == "-" else operand

    def _binary(self, node: ast.Binary) -> Any:
        spine: list[ast.Binary] = []
        left: Expression = node
        while isinstance(left, ast.Binary):
            spine.append(left)
            left = left.left
        value = self.evaluate(left)
        for item in reversed(spine):
            value = self._apply(item, value)
        return value

    def _apply(self, node: ast.Binary, left: Any) -> Any:
        if node.operator in LOGICAL:
            return self._logical(node, left)
        right = self.evaluate(node.right)
        if holds_poison(left) or holds_poison(right):
            return POISON
        if not isinstance(left, SSAValue) and not isinstance(right, SSAValue):
            most = self.allowed(MOST_ITEMS)
            value = self.fold(node.place, fold_binary, node.operator, left, right, most)
            self.step_over(node.place, value)
            return value
        return self._on_tensors(node.place, node.operator, left, right)

    def _on_tensors(self, place: Place, symbol: str, left: Any, right: Any) -> Any:
        for value in (left, right):
            if not isinstance(value, SSAValue) and not is_number(value):
                return self.error(place, f"'{symbol}' does not take {describe(value)}")
        return self.emit_operation(place, OPERATORS[symbol], left, right)

    def _logical(self, node: ast.Binary, left: Any) -> Any:
        if left is POISON:
            self.evaluate(node.right)
            return POISON
        if isinstance(left, SSAValue):
            return self._logical_on_tensor(node.place, node.operator)
        holds = self.fold(node.place, condition, left, f"'{node.operator}'")
        if holds is POISON or holds is (node.operator == "or"):
            return holds
        right = self.evaluate(node.right)
        if isinstance(right, SSAValue):
            return self._logical_on_tensor(node.place, node.operator)
        return (
            right
            if right is POISON
            else self.fold(node.place, condition, right, f"'{node.operator}'")
        )

    def _logical_on_tensor(self, place: Place, symbol: str) -> Any:
        message = f"'{symbol}' is for compile-time values; tensors take {LOGICAL[symbol]}(…)"
        return self.error(place, message)

    def _compare(self, node: ast.Compare) -> Any:
        values = [self.evaluate(operand) for operand in node.operands]
        if holds_poison(values):
            return POISON
        if any(isinstance(value, SSAValue) for value in values):
            if len(values) > 2:
                message = "a chain of comparisons of tensors; join them with logical_and(…)"
                return self.error(node.place, message)
            return self._on_tensors(node.place, node.operators[0][0], *values)
        result: Any = True
        for (symbol, place), left, right in zip(node.operators, values, values[1:], strict=False):
            self.step_over(place, left)
            result = self.fold(place, fold_compare, symbol, left, right)
            if result is not True:
                break
        return result

    def fold(self, place: Place, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function makes of compile-time values, or POISON where it does not take them."""
        try:
            return function(*operands)
        except ValueFault as fault:
            return self.error(place, str(fault))

    def _member(self, node: ast.Member) -> Any:
        operand = self.evaluate(node.operand)
        if holds_poison(operand):
            return POISON
        if node.name not in ("T", "shape"):
            message = f"unknown member '.{node.name}'; a tensor has .T and .shape"
            return self.error(node.place, message)
        if not isinstance(operand, SSAValue):
            return self.error(node.place, f".{node.name} takes a tensor, not {describe(operand)}")
        if node.name == "shape":
            return items_of(shape_of(operand), MOST_ITEMS)
        self.locate(node.place)
        try:
            return transpose_last(self.emitter, operand)
        except ShapeError as error:
            return self.error(node.place, str(error))

    def _index(self, node: ast.Index) -> Any:
        operand = self.evaluate(node.operand)
        items = [self._index_item(item) for item in node.items]
        if holds_poison(operand) or holds_poison(items):
            return POISON
        if isinstance(operand, list | tuple | str):
            return self._index_list(node, operand, items)
        if not isinstance(operand, SSAValue):
            return self.error(node.place, f"{describe(operand)} cannot be indexed")
        self.locate(node.place)
        try:
            return index_value(self.emitter, operand, items)
        except (ShapeError, CallError) as error:
            return self.error(node.place, str(error))

    def _index_list(self, node: ast.Index, operand: Any, items: list[Any]) -> Any:
        if len(items) != 1 or items[0] is None or items[0] is Ellipsis:
            return self.error(node.place, f"{describe(operand)} takes one index")
        try:
            value = operand[items[0]]
        except (IndexError, ValueError):
            return self.error(node.place, f"the index is out of range for {len(operand)} items")
        if not isinstance(items[0], slice) or isinstance(value, str):
            return value
        self.step_over(node.place, operand)
        return self.fold(node.place, items_of, value, self.allowed(MOST_ITEMS))

    def _index_item(self, item: Expression) -> Any:
        if isinstance(item, ast.Ellipsis):
            return Ellipsis
        if isinstance(item, ast.Slice):
            bounds = [self._bound(part) for part in (item.start, item.stop, item.step)]
            return POISON if holds_poison(bounds) else slice(*bounds)
        value = self.evaluate(item)
        if value is None or value is POISON:
            return value
        if isinstance(value, SSAValue):
            return self.error(item.place, "a tensor is no index; use gather(x, ids, axis)")
        if isinstance(value, bool) or not isinstance(value, int):
            return self.error(item.place, f"an index must be an integer, not {describe(value)}")
        return value

    def _bound(self, part: Expression | None) -> Any:
        value = None if part is None else self.evaluate(part)
        if value is None or value is POISON:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            assert part is not None
            return self.error(part.place, f"a slice needs integers, not {describe(value)}")
        return value

    def _misplaced(self, node: Expression) -> Any:
        return self.error(node.place, "this stands between square brackets only")

    def _call(self, node: ast.Call) -> Any:
        return self.call(node)

    _EVALUATE: ClassVar[dict[type[Expression], Callable[..., Any]]] = {
        ast.Literal: _literal,
        ast.Name: _name,
        ast.Text: _text,
        ast.ListExpression: _list,
        ast.Unary: _unary,
        ast.Binary: _binary,
        ast.Compare: _compare,
        ast.Member: _member,
        ast.Index: _index,
        ast.Slice: _misplaced,
        ast.Ellipsis: _misplaced,
        ast.Call: _call,
    }
