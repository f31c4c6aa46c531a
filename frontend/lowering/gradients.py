"""Derivatives: what `grad(loss, x)` and `jvp(y, x, v)` ask for.

In: a call with values of the graph. Out: an `mgn.grad` or more, or the errors of what has no
derivative, at the place of the operation that has none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.ir import SSAValue

from mgn.dialects.mgn.grad import GradOp, check_grad
from mgn.dialects.mgn.gradients.forward import emit_jvp
from mgn.dialects.mgn.gradients.reverse import NoGradient, check_gradients
from mgn.dialects.places import text_place
from mgn.dialects.shapes import ShapeError
from mgn.frontend.lowering.calls import DERIVATIVES, Calls
from mgn.frontend.lowering.values import POISON, describe, holds_poison
from mgn.frontend.syntax import ast

_WANTED = {
    "grad": "a scalar, and a value or a list of values",
    "jvp": "a value, a value or a list of values, and as many directions",
}


class Gradients(Calls):
    """Lowers calls of `grad` and `jvp`."""

    def derivative(
        self, node: ast.Call, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """A gradient, or as many as a list has values; or what a value changes by."""
        names = DERIVATIVES[node.name]
        for name in keywords:
            if name not in names:
                hint = self.hint(name, names)
                return self.error(node.place, f"{node.name}() has no argument '{name}'{hint}")
        given = {**dict(zip(names, positional, strict=False)), **keywords}
        if len(given) != len(positional) + len(keywords) or len(given) != len(names):
            return self.error(node.place, f"{node.name}() takes {_WANTED[node.name]}")
        if holds_poison([*given.values()]):
            return POISON
        listed = [_listed(given[name]) for name in names]
        for value in (item for items in listed for item in items):
            if not isinstance(value, SSAValue):
                message = f"{node.name}() takes tensors of the graph, not {describe(value)}"
                return self.error(node.place, message)
        if not isinstance(given[names[0]], SSAValue):
            return self.error(node.place, f"{node.name}() takes {_WANTED[node.name]}")
        results = self._emitted(node, *listed)
        several = isinstance(given["x"], list | tuple) and node.name == "grad"
        return results if results is POISON or several else results[0]

    def _emitted(
        self,
        node: ast.Call,
        of: Sequence[SSAValue],
        values: Sequence[SSAValue],
        directions: Sequence[SSAValue] = (),
    ) -> Any:
        """The derivatives, or POISON after an error."""
        self.locate(node.place)
        try:
            if node.name == "jvp":
                return (emit_jvp(self.emitter, of[0], values, directions),)
            check_grad(of[0], values)
            check_gradients(of[0], values)
        except NoGradient as error:
            return self._without(node, error)
        except ShapeError as error:
            return self.error(node.place, str(error))
        op = GradOp(of[0], values)
        op.location = self.location(node.place)
        self.insert(op)
        return tuple(op.outputs)

    def _without(self, node: ast.Call, error: NoGradient) -> Any:
        """Reports an operation that has no gradient, where it stands in this file."""
        place, source = text_place(error.operation.location), self.frame.unit.source
        if place is not None and place.filename.data == source.name:
            here = [source.note(node.place, "its gradient is asked for here")]
            return self.error((place.line.data, place.column.data), str(error), here)
        return self.error(node.place, f"{node.name}: {error}")


def _listed(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]
