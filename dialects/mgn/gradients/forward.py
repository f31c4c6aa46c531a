"""Forward mode, by reverse mode twice: how a value changes where others go in given directions.

In: `jvp(y, [x, w], [v, u])`. Out: J_x v + J_w u, of the shape of y, J the derivative of y.

    g(c) = grad(sum(y * c), x)            the transpose of J, by each c of y's shape
    J v  = grad(sum(g(c) * v), c)         g is linear in c, so that it does not matter which c it is

Every operation that has a gradient so has a forward mode, by the same row of the table. What the
result does not depend on, g for one, is not computed (Townsend, "A new trick for calculating
Jacobian vector products", 2017).
"""

from collections.abc import Sequence
from functools import reduce

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.grad import GradOp
from mgn.dialects.mgn.gradients.reverse import check_gradients
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of, spelling


def check_jvp(of: SSAValue, values: Sequence[SSAValue], directions: Sequence[SSAValue]) -> None:
    """ShapeError where a value is no float, or a direction has not its value's type; NoGradient
    where an operation between them has none.
    """
    if not values:
        raise ShapeError("jvp: names a value or more")
    if len(values) != len(directions):
        raise ShapeError(f"jvp: {len(values)} values, and {len(directions)} directions")
    for value in (of, *values):
        element = element_of(value.type)
        if not element.is_float:
            raise ShapeError(f"jvp: differentiates floats, not {element.name}")
    for value, direction in zip(values, directions, strict=True):
        if value.type != direction.type:
            types = f"{spelling(value.type)}, not {spelling(direction.type)}"
            raise ShapeError(f"jvp: a direction has the type of its value, {types}")
    check_gradients(of, values)


def emit_jvp(
    b: Emitter, of: SSAValue, values: Sequence[SSAValue], directions: Sequence[SSAValue]
) -> SSAValue:
    """The operations of a `jvp`, with two `mgn.grad` in them. Errors: those of `check_jvp`."""
    check_jvp(of, values, directions)
    weights = b.full(shape_of(of), 0.0, T=element_type_of(of))
    back = _gradients(b, _inner(b, of, weights), values)
    moved = [_inner(b, one, other) for one, other in zip(back, directions, strict=True)]
    wide = max((element_type_of(item) for item in moved), key=lambda element: element.bits)
    (result,) = _gradients(b, reduce(b.add, (b.cast(item, wide) for item in moved)), [weights])
    return result


def _inner(b: Emitter, one: SSAValue, other: SSAValue) -> SSAValue:
    """The sum of the products of two tensors' elements."""
    axes = list(range(len(shape_of(one))))
    product = b.mul(one, other)
    return b.sum(product, axis=axes) if axes else product


def _gradients(b: Emitter, of: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    op = GradOp(of, values)
    if b.location is not None:
        op.location = b.location
    b.insert(op)
    return op.outputs
