"""Gradients: what `grad(loss, x)` asks for.

In: a call with values of the graph. Out: an `mgn.grad`, or the errors of what has no derivative, at
the place of the operation that has none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import SSAValue

from mgn.dialects.mgn.grad import GradOp, check_grad
from mgn.dialects.mgn.gradients.reverse import NoGradient, check_gradients
from mgn.dialects.shapes import ShapeError
from mgn.frontend import ast
from mgn.frontend.lower_calls import Calls
from mgn.frontend.values import POISON, describe, holds_poison

ARGUMENTS = ("loss", "x")
"""What the arguments of `grad` are called."""


class Gradients(Calls):
    """Lowers calls of `grad`."""

    def gradient(
        self, node: ast.Call, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """A gradient, or as many as a list has values."""
        for name in keywords:
            if name not in ARGUMENTS:
                hint = self.hint(name, ARGUMENTS)
                return self.error(node.place, f"grad() has no argument '{name}'{hint}")
        given = {**dict(zip(ARGUMENTS, positional, strict=False)), **keywords}
        if len(given) != len(positional) + len(keywords) or len(given) != len(ARGUMENTS):
            return self.error(node.place, "grad() takes a scalar, and a value or a list of values")
        if holds_poison([*given.values()]):
            return POISON
        of, by = given["loss"], given["x"]
        several = isinstance(by, list | tuple)
        values = list(cast("Sequence[Any]", by)) if several else [by]
        for value in (of, *values):
            if not isinstance(value, SSAValue):
                message = f"grad() takes tensors of the graph, not {describe(value)}"
                return self.error(node.place, message)
        results = self._emitted(node, of, values)
        return results if results is POISON or several else results[0]

    def _emitted(self, node: ast.Call, of: SSAValue, values: Sequence[SSAValue]) -> Any:
        """The gradients, or POISON after an error."""
        try:
            check_grad(of, values)
            check_gradients(of, values)
        except NoGradient as error:
            return self._without(node, error)
        except ShapeError as error:
            return self.error(node.place, str(error))
        op = GradOp(of, values)
        op.location = self.location(node.place)
        self.insert(op)
        return tuple(op.outputs)

    def _without(self, node: ast.Call, error: NoGradient) -> Any:
        """Reports an operation that has no gradient, where it stands in this file."""
        place, source = error.operation.location, self.frame.unit.source
        if isinstance(place, FileLineColLoc) and place.filename.data == source.name:
            here = [source.note(node.place, "its gradient is asked for here")]
            return self.error((place.line.data, place.column.data), str(error), here)
        return self.error(node.place, f"grad: {error}")
