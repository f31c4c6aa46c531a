"""How large values made of parameters can be, if no parameter has an element above `LARGEST`.

In: the definition of a value. Out: a bound of its elements' size, or nothing where none is known.
Whether parameters keep to `LARGEST` is checked when they are set. A scalar parameter has no bound:
a model's stand-in for minus infinity is often one.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from mgn.dialects.moderate import LARGEST
from mgn.dialects.types import Family, element_of
from mgn.passes.saturate.encoding.definitions import Definition
from mgn.passes.saturate.encoding.facts import Leaf

PRODUCT = 2.0**50
"""The largest bound of a matrix whose product with rows of finite squares is finite in f32. The
norm of such a row is at most 2^64, and that of a column of n elements at most 2^50 * sqrt(n). So a
product of both is at most 2^127 for n up to 2^26 (Cauchy and Schwarz).
"""

MOST = 64
"""Operations that are looked through at most."""


def _largest(bounds: Sequence[float]) -> float:
    return max(bounds)


BOUNDS: dict[str, Callable[[Sequence[float]], float]] = {
    # operation: a bound of its result from those of its operands
    **dict.fromkeys(
        ("identity", "reshape", "transpose", "broadcast_to", "slice", "concat", "flip", "windows"),
        _largest,
    ),
    **dict.fromkeys(("neg", "abs", "max", "min", "gather"), _largest),
    **dict.fromkeys(("tanh", "sigmoid", "erf"), lambda bounds: 1.0),
    **dict.fromkeys(("cast", "round_tf32"), lambda bounds: bounds[0] * 1.01),
    **dict.fromkeys(("add", "sub"), sum),
    "mul": math.prod,
}


def bound_of(value: Definition) -> float | None:
    """A bound of the elements' size of a value that few operations make of parameters and
    constants.
    """
    known: dict[int, float | None] = {}
    pending = [value]
    while pending:
        item = pending[-1]
        operands = item.operands
        waiting = [operand for operand in operands if operand.handle not in known]
        if waiting and len(known) + len(pending) < MOST:
            pending.extend(waiting)
            continue
        known[item.handle] = _bound(item, [known.get(operand.handle) for operand in operands])
        pending.pop()
    return known[value.handle]


def _bound(value: Definition, operands: Sequence[float | None]) -> float | None:
    """A bound of a value from those of its operands."""
    node = value.node
    if node is None:
        return _bound_of_leaf(value)
    bounds = [bound for bound in operands if bound is not None]
    if node.name not in BOUNDS or len(bounds) < len(operands):
        return None
    return BOUNDS[node.name](bounds)


def _bound_of_leaf(value: Definition) -> float | None:
    leaf, type = value.facts.definitions[value.handle], value.facts.handle_types[value.handle]
    if not isinstance(leaf, Leaf):
        return None
    if leaf.kind == "constant":
        array = value.array
        return None if array is None or not array.size else _size(array)
    element = element_of(type)
    if element.family is Family.BOOL:
        return 1.0
    if element.is_integer:
        return 2.0**element.bits
    return LARGEST if leaf.kind == "parameter" and type.get_shape() else None


def _size(array: np.ndarray) -> float | None:
    """The largest size of an array's elements; None where one is infinite or no number."""
    size = float(np.abs(array.astype(np.float64)).max())
    return size if math.isfinite(size) else None


def are_moderate(*values: Definition | None) -> bool:
    """Whether values and their product are moderate, if parameters are."""
    bounds = [None if value is None else bound_of(value) for value in values]
    known = [bound for bound in bounds if bound is not None]
    return len(known) == len(bounds) and math.prod(known) <= PRODUCT
