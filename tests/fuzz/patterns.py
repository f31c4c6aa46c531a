"""The left sides of rewrite rules, drawn as parts of programs: random calls hardly ever make them.

In: a `Draw`. Out: the steps of a rule's left side, on values of fitting types; a rule whose shapes
were not met adds nothing.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgn.dialects.mgn.operation import BOOLS, FLOATS, INTEGERS, OPERATIONS, AttributeSpec
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.saturate.rules.patterns import Call, Number, Pattern, Variable
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import RULES
from tests.fuzz.axes import axis_of
from tests.fuzz.draw import FLOAT_ELEMENTS, REFUSALS, Draw
from tests.fuzz.values import Shape, draw_shape

CONSTANTS = (2.0, -1.5, 3.0, 0.25, 0.1, -4.0, 1e-5, 1e20, 1e-20, 0.0, -0.0)
TRIES = 8


def from_rule(draw: Draw) -> int | None:
    """The left side of some rule; None where its shapes were not met."""
    rule = draw.rng.choice(list(RULES.values()))
    for _ in range(TRIES):
        marks = draw.mark()
        try:
            return _LeftSide(draw, rule).made(rule.left_pattern)
        except (*REFUSALS, ValueError, KeyError):
            draw.forget(marks)
    return None


class _LeftSide:
    """One instance of a rule's left side. What a name stands for is drawn where it stands first."""

    def __init__(self, draw: Draw, rule: Rule) -> None:
        self.draw, self.rule = draw, rule
        self.values: dict[str, int] = {}
        self.attributes: dict[str, Any] = {}
        self.element = draw.float_element if draw.rng.random() < 0.8 else draw.integer_element
        self.shapes = self._shapes()

    def _shapes(self) -> list[Shape]:
        """Shapes for the variables: one for all, or a few that products and broadcasts take."""
        rng = self.draw.rng
        if "matmul" not in self.rule.left and rng.random() < 0.6:
            return [draw_shape(rng, self.draw.size)]
        n, m = rng.choice((1, 2, 3, 5, 8, 17)), rng.choice((1, 2, 4, 7))
        if rng.random() < 0.6:
            return [(n, n)]
        return [(n, n), (m, n), (n, m), (n,), (1, n), (n, 1), (), (m, n, n)]

    def made(self, pattern: Pattern) -> int:
        """The value of a call, whose operands are made first."""
        assert isinstance(pattern, Call)
        spec = OPERATIONS[pattern.name]
        operands: list[Any] = []
        for number, operand in enumerate(pattern.operands):
            item = spec.operands[min(number, len(spec.operands) - 1)]
            if isinstance(operand, Number):
                operands.append(float(operand.value))
            elif isinstance(operand, Variable):
                operands.append(self._variable(operand.name, item.accepts))
            else:
                operands.append(self.made(operand))
        given = {
            name: self._attribute(spec.attribute(name), node, operands)
            for name, node in pattern.attributes.items()
        }
        if spec.operands and spec.operands[0].variadic:
            operands = [tuple(operands)]
        value = self.draw.step(pattern.name, *operands, **given)
        if pattern.alias is not None:
            self.values[pattern.alias] = value
        return value

    def _variable(self, name: str, accepts: frozenset[Any]) -> int:
        if name not in self.values:
            draw, shape = self.draw, self.draw.rng.choice(self.shapes)
            dtype = ELEMENT_TYPES[self.element].dtype
            if name in self.rule.constants:
                number = draw.rng.choice(CONSTANTS)
                with np.errstate(all="ignore"):
                    array = np.asarray(number).astype(dtype)
                self.values[name] = draw.given(array, "constant")
            elif accepts == BOOLS:
                self.values[name] = draw.fitting("bool", shape)
            elif accepts == INTEGERS:
                self.values[name] = draw.ids((3,), max([1, *shape]))
            elif accepts == FLOATS and not ELEMENT_TYPES[self.element].is_float:
                self.values[name] = draw.value("f32", shape)
            elif draw.rng.random() < 0.3:
                self.values[name] = draw.fitting(self.element, shape)
            else:
                self.values[name] = draw.value(self.element, shape)
        return self.values[name]

    def _attribute(self, spec: AttributeSpec, node: ast.expr, operands: Sequence[Any]) -> Any:
        if not isinstance(node, ast.Name):
            return ast.literal_eval(node)
        if node.id not in self.attributes:
            shape = next((self.draw.shape(item) for item in operands if isinstance(item, int)), ())
            self.attributes[node.id] = self._drawn(spec, shape)
        return self.attributes[node.id]

    def _drawn(self, spec: AttributeSpec, shape: Shape) -> Any:
        """A value for an attribute of an operation on this shape."""
        rng, rank = self.draw.rng, len(shape)
        drawn: dict[str, Callable[[], Any]] = {
            "axis": lambda: axis_of(rng, rank) % rank,
            "perm": lambda: rng.sample(range(rank), rank),
            "shape": lambda: list(rng.choice([*self.shapes, shape, (2, *shape), shape[::-1]])),
            "T": lambda: rng.choice(FLOAT_ELEMENTS),
            "starts": lambda: [0 for _ in shape],
            "stops": lambda: [max(size - 1, 1) for size in shape],
            "padding": lambda: [[rng.choice((0, 1)), 0] for _ in shape],
        }
        if spec.name in drawn:
            value = drawn[spec.name]()
            return [value] if spec.kind.name == "int, ints or none" else value
        choices = {"bool": (False, True), "number": (0.0, 1.0), "float": (0.5, 1e-5), "int": (0, 2)}
        return rng.choice(choices.get(spec.kind.name, (spec.default,)))
