"""The table of ATen operators: what builds the mgn operations of each.

In: an operator with its overload, such as `aten.add.Tensor`. Out: the function that builds it, as
the files beside this one enter it:

    @aten("add.Tensor", "add.Scalar")
    def add(b: Emitter, call: Call, x: Operand, y: Operand, alpha: float = 1) -> SSAValue:
        ...

Arguments are those of the ATen schema, in its order and with its names: tensors are values, numbers
stay numbers. What PyTorch says of layouts and devices is left out, and `dtype` too, since `call`
says which types the results have. A result of another element type is converted to that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.shapes import Shape
from mgn.dialects.types import ElementType

Operand = SSAValue | bool | int | float
"""A tensor, or a number that stands in its place."""

Build = Callable[..., Any]
"""`(emitter, call, *arguments)`: the values of the results."""

TABLE: dict[str, Build] = {}
"""What builds each operator, by its name with its overload."""


class Unsupported(MgnError, ValueError):
    """What an operator is asked for that mgn does not have."""


@dataclass(frozen=True)
class Call:
    """One call of an operator: its name, and the types that PyTorch gives its results; None for a
    result that is no tensor.
    """

    name: str
    results: Sequence[tuple[ElementType, Shape] | None]

    @property
    def element(self) -> ElementType:
        """The element type of the first result."""
        assert self.results[0] is not None
        return self.results[0][0]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        assert self.results[0] is not None
        return self.results[0][1]


def aten(*names: str) -> Callable[[Build], Build]:
    """Enters what builds some operators, each named as `add.Tensor`; without an overload, the
    default one.
    """

    def enter(build: Build) -> Build:
        for name in names:
            whole = name if "." in name else f"{name}.default"
            assert f"aten.{whole}" not in TABLE, name
            TABLE[f"aten.{whole}"] = build
        return build

    return enter


def as_element(b: Emitter, value: SSAValue, element: ElementType) -> SSAValue:
    """A value in an element type."""
    return value if element_type_of(value) == element else b.cast(value, element)


def axis_of(axis: int, rank: int) -> int:
    """An axis, counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_of(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes, counted from the front; all of them for none."""
    if axes is None or (not isinstance(axes, int) and not axes):
        return tuple(range(rank))
    listed = (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(axis_of(axis, rank) for axis in listed)) if rank else ()


def reshaped(b: Emitter, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """A value with other axes."""
    return value if shape_of(value) == tuple(shape) else b.reshape(value, tuple(shape))


def transposed(b: Emitter, value: SSAValue, perm: Sequence[int]) -> SSAValue:
    """A value with its axes in another order."""
    return value if list(perm) == sorted(perm) else b.transpose(value, tuple(perm))


def rearranged(b: Emitter, value: SSAValue, perm: Sequence[int], shape: Sequence[int]) -> SSAValue:
    """A value with its axes in another order, and then of another shape."""
    return reshaped(b, transposed(b, value, perm), shape)


def broadcasted(b: Emitter, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """A value broadcast to a shape."""
    return value if shape_of(value) == tuple(shape) else b.broadcast_to(value, tuple(shape))


def swapped(rank: int, i: int, j: int) -> list[int]:
    """The order of axes in which two have changed places."""
    perm = list(range(rank))
    perm[i], perm[j] = perm[j], perm[i]
    return perm
