"""The table of gradients: what an operation's result sends back to each of its operands.

In: an operation where it stands (`Site`), with the gradient of its results. Out: the gradient of
each operand, or None where there is none to send.

    @gradient("matmul")
    def matmul(b: Emitter, at: Site) -> Gradients:
        ...

    ELEMENTWISE["exp"] = lambda b, g, y, x: (b.mul(g, y),)

A composite without a row is differentiated through its decomposition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.shapes import Shape

Gradients = Sequence["SSAValue | Sequence[SSAValue | None] | None"]
"""One for each operand that the signature has, a list for a variadic one."""


@dataclass(frozen=True)
class Site:
    """An operation with the gradient of its results, where operations are added to compute those of
    its operands.
    """

    op: TensorOp
    operands: list[Any]
    results: list[SSAValue]
    given: list[SSAValue | None]
    reached: frozenset[SSAValue]

    @property
    def x(self) -> SSAValue:
        """The first operand."""
        return cast(SSAValue, self.operands[0])

    @property
    def y(self) -> SSAValue:
        """The first result."""
        return self.results[0]

    @property
    def g(self) -> SSAValue:
        """The gradient of the only result."""
        assert self.given[0] is not None
        return self.given[0]

    @property
    def values(self) -> Mapping[str, Any]:
        """The attributes."""
        return self.op.values

    def wants(self, position: int) -> bool:
        """Whether the gradient of an operand is asked for."""
        value = self.operands[position]
        listing = cast("list[SSAValue]", value) if isinstance(value, list) else [value]
        return any(item in self.reached for item in listing)


Rule = Callable[[Emitter, Site], Gradients]
ElementwiseRule = Callable[..., "tuple[SSAValue | None, ...]"]
"""`(b, g, y, *operands, **attributes)`: the gradients of operands, all broadcast."""

RULES: dict[str, Rule] = {}
"""Rules by the name of the operation."""

ELEMENTWISE: dict[str, ElementwiseRule] = {}
"""Rules of elementwise operations: what was broadcast is summed back, half precision computed in
f32.
"""

UNROUNDED = frozenset({"add", "sub", "neg", "identity", "where", "round_tf32", "cast"})
"""Elementwise operations whose gradients are not rounded, so that f32 is not needed for them."""

FLAT: set[str] = set()
"""Operations that pass nothing back: steps, indices, comparisons, what is drawn."""

WITHOUT: dict[str, str] = {}
"""Operations that have a derivative and no rule, and what to use instead."""


def gradient(*names: str) -> Callable[[Rule], Rule]:
    """Enters the rule of some operations."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def elementwise(*names: str) -> Callable[[ElementwiseRule], ElementwiseRule]:
    """Enters the rule of some elementwise operations."""

    def enter(rule: ElementwiseRule) -> ElementwiseRule:
        ELEMENTWISE.update(dict.fromkeys(names, rule))
        return rule

    return enter


def in_full(rule: Rule) -> Rule:
    """A rule that computes half precision in f32 and rounds each gradient once, as the operation
    does with its result.
    """

    def widened(b: Emitter, at: Site) -> Gradients:
        if element_type_of(at.g).bits != 16:
            return rule(b, at)
        operands, results, given = (
            [as_full(b, value) for value in values]
            for values in (at.operands, at.results, at.given)
        )
        pairs = zip(at.operands, operands, strict=True)
        reached = frozenset(wide for own, wide in pairs if own in at.reached)
        found = rule(b, Site(at.op, operands, results, given, reached))
        return [
            value if value is None else b.cast(value, element_type_of(own))
            for value, own in zip(found, at.operands, strict=True)
        ]

    return widened


def as_full(b: Emitter, value: Any) -> Any:
    """A value of half precision in f32; anything else as it is."""
    if not isinstance(value, SSAValue):
        return value
    row = element_type_of(value)
    return b.cast(value, "f32") if row.is_float and row.bits == 16 else value


def summed_to(b: Emitter, value: SSAValue, shape: Shape) -> SSAValue:
    """What was broadcast from a shape, summed back to it."""
    own = shape_of(value)
    if own == tuple(shape):
        return value
    extra = len(own) - len(shape)
    axes = [i for i, n in enumerate(own) if i < extra or (shape[i - extra] == 1 and n != 1)]
    total = b.sum(value, axis=axes, keepdims=False) if axes else value
    return total if shape_of(total) == tuple(shape) else b.reshape(total, shape)


def zeros_like(b: Emitter, value: SSAValue) -> SSAValue:
    """Zeros of a value's type."""
    return b.full(shape_of(value), 0.0, T=element_type_of(value))


def spread(b: Emitter, value: SSAValue, axes: Sequence[int], shape: Shape) -> SSAValue:
    """What was reduced along axes, with these again."""
    kept = [1 if i in axes else n for i, n in enumerate(shape)]
    return b.broadcast_to(b.reshape(value, kept), shape)
