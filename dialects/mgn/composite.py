"""Declares composite operations: the decorated function builds the decomposition and carries the
docstring.

In: a function `(emitter, *operands, **attributes) -> result values`. Out: its row in `OPERATIONS`.

    @composite("swiglu", (GATE, UP), infer_broadcast, kind=Kind.ELEMENTWISE)
    def swiglu(b: Emitter, gate: SSAValue, up: SSAValue) -> SSAValue:
        return b.mul(b.silu(gate), up)
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import AttributeSpec, Kind, OperandSpec, OperationSpec, define
from mgn.dialects.shapes import Shape
from mgn.dialects.types import ElementType, element_of

Decompose = Callable[..., SSAValue | Sequence[SSAValue]]


def shape_of(value: SSAValue) -> Shape:
    """The static shape of a tensor value."""
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def element_type_of(value: SSAValue) -> ElementType:
    """The element type of a tensor value."""
    return element_of(value.type)


def composite(
    name: str,
    signature: tuple[OperandSpec | AttributeSpec, ...],
    infer: Callable[..., TensorType | Sequence[TensorType]],
    kind: Kind = Kind.COMPOSITE,
    canonical: Callable[..., Mapping[str, Any]] | None = None,
    several_results: bool = False,
) -> Callable[[Decompose], Decompose]:
    """Enters an operation whose meaning is what the decorated function builds."""

    def enter(decompose: Decompose) -> Decompose:
        define(
            OperationSpec(
                name,
                kind,
                inspect.cleandoc(decompose.__doc__ or ""),
                signature,
                infer,
                decompose=decompose,
                canonical=canonical,
                several_results=several_results,
            )
        )
        return decompose

    return enter


def in_single_precision(decompose: Callable[..., SSAValue]) -> Callable[..., SSAValue]:
    """Computes half-precision operands in f32 and rounds the result once, to their type.

    This is PyTorch's rule for norms, losses and activations (its "opmath" type). Other operands
    pass unchanged.
    """

    @wraps(decompose)
    def widened(b: Emitter, *operands: SSAValue | None, **attributes: Any) -> SSAValue:
        halves = [value for value in operands if value is not None and _is_half(value)]
        if not halves:
            return decompose(b, *operands, **attributes)
        wide = [
            b.cast(value, "f32") if value is not None and _is_half(value) else value
            for value in operands
        ]
        return b.cast(decompose(b, *wide, **attributes), element_type_of(halves[0]))

    return widened


def _is_half(value: SSAValue) -> bool:
    row = element_type_of(value)
    return row.is_float and row.bits == 16
