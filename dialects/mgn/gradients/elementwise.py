"""Gradients of elementwise core operations: `(b, g, y, *operands)` to one for each operand.

At a tie, `max` and `min` send half to each side, and `abs` at 0 sends nothing, as in PyTorch. The
side that `where` does not take gets zeros, which come from a choice and not from a product: what is
not finite there stays there.
"""

import math
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of
from mgn.dialects.mgn.gradients.rules import ELEMENTWISE, FLAT, elementwise
from mgn.dialects.mgn.structure import ConstantOp

ELEMENTWISE.update(
    {
        "neg": lambda b, g, y, x: (b.neg(g),),
        "abs": lambda b, g, y, x: (b.mul(g, b.sign(x)),),
        "exp": lambda b, g, y, x: (b.mul(g, y),),
        "expm1": lambda b, g, y, x: (b.mul(g, b.add(y, 1.0)),),
        "log": lambda b, g, y, x: (b.div(g, x),),
        "log1p": lambda b, g, y, x: (b.div(g, b.add(x, 1.0)),),
        "sqrt": lambda b, g, y, x: (b.div(g, b.mul(y, 2.0)),),
        "rsqrt": lambda b, g, y, x: (b.mul(b.mul(g, -0.5), b.mul(y, b.mul(y, y))),),
        "recip": lambda b, g, y, x: (b.neg(b.mul(g, b.mul(y, y))),),
        "sin": lambda b, g, y, x: (b.mul(g, b.cos(x)),),
        "cos": lambda b, g, y, x: (b.neg(b.mul(g, b.sin(x))),),
        "tan": lambda b, g, y, x: (b.mul(g, b.add(b.mul(y, y), 1.0)),),
        "tanh": lambda b, g, y, x: (b.mul(g, b.sub(1.0, b.mul(y, y))),),
        "erf": lambda b, g, y, x: (
            b.mul(g, b.mul(b.exp(b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))),
        ),
        "identity": lambda b, g, y, x: (g,),
        "round_tf32": lambda b, g, y, x: (g,),
        "add": lambda b, g, y, p, q: (g, g),
        "sub": lambda b, g, y, p, q: (g, b.neg(g)),
        "mul": lambda b, g, y, p, q: (b.mul(g, q), b.mul(g, p)),
        "div": lambda b, g, y, p, q: (b.div(g, q), b.neg(b.div(b.mul(g, y), q))),
        "mod": lambda b, g, y, p, q: (g, b.neg(b.mul(g, b.floor(b.div(p, q))))),
        "max": lambda b, g, y, p, q: (_unless(b, g, p, q, b.lt), _unless(b, g, q, p, b.lt)),
        "min": lambda b, g, y, p, q: (_unless(b, g, p, q, b.gt), _unless(b, g, q, p, b.gt)),
        "where": lambda b, g, y, c, p, q: (None, b.where(c, g, 0.0), b.where(c, 0.0, g)),
    }
)

FLAT.update(
    {
        *("sign", "floor", "ceil", "round", "stop_gradient", "isnan"),
        *("logical_not", "logical_and", "logical_or", "eq", "ne", "lt", "le", "gt", "ge"),
    }
)


def _unless(b: Emitter, g: SSAValue, own: SSAValue, other: SSAValue, passed_over: Any) -> SSAValue:
    """What the operand gets that is taken unless `passed_over(own, other)`: half at a tie."""
    shared = b.where(b.eq(own, other), b.mul(g, 0.5), g)
    return b.where(passed_over(own, other), 0.0, shared)


@elementwise("cast")
def cast(b: Emitter, g: SSAValue, y: SSAValue, x: SSAValue, T: Any) -> tuple[SSAValue | None]:
    """Back in the operand's type; nothing where that is no float."""
    element = element_type_of(x)
    return (b.cast(g, element) if element.is_float else None,)


@elementwise("pow")
def power(b: Emitter, g: SSAValue, y: SSAValue, p: SSAValue, q: SSAValue) -> Any:
    """q·p^(q - 1), and 0 of a zero power; log(p)·y, and 0 where p is 0 and the power is not."""
    logarithm = b.where(b.logical_and(b.eq(p, 0.0), b.ge(q, 0.0)), 0.0, b.mul(y, b.log(p)))
    to_exponent = b.mul(g, logarithm)
    number = _number(q)
    if number == 0.0:
        return b.mul(g, 0.0), to_exponent
    if number is not None:
        lower = p if number == 2.0 else b.pow(p, number - 1.0)
        return b.mul(b.mul(g, number), lower), to_exponent
    lower = b.mul(q, b.pow(p, b.sub(q, 1.0)))
    return b.mul(g, b.where(b.eq(q, 0.0), 0.0, lower)), to_exponent


def _number(value: SSAValue) -> float | None:
    """The number that a constant is everywhere, or None."""
    owner = value.owner
    if not isinstance(owner, ConstantOp) or not owner.array.size:
        return None
    numbers = owner.array.astype(np.float64)
    first = float(numbers.reshape(-1)[0])
    return first if (numbers == first).all() else None
