"""Canonical forms of single operations: the table that `simplify` applies.

In: an operation that does not fold (`dialects/mgn/fold.py`). Out: the values that replace its
results, bit for bit equal to them, or None. Each row has the name of an operation and a function.
The function gets an emitter, the operation and its values.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.fold import defining, scalar_constant
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from mgn.dialects.types import ElementType
from mgn.passes.rewriting import inline

Form = Callable[[Emitter, TensorOp, dict[str, Any]], "SSAValue | None"]


def _reshape_of_reshape(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "reshape")
    return None if inner is None else b.reshape(inner.operands[0], values["shape"])


def _transpose_of_transpose(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "transpose")
    if inner is None:
        return None
    first = inner.values["perm"]
    return b.transpose(inner.operands[0], [first[axis] for axis in values["perm"]])


def _transpose_as_reshape(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    shape = shape_of(op.operands[0])
    moved = [axis for axis in values["perm"] if shape[axis] != 1]
    return b.reshape(op.operands[0], shape_of(op.results[0])) if moved == sorted(moved) else None


def _broadcast_of_broadcast(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "broadcast_to")
    return None if inner is None else b.broadcast_to(inner.operands[0], values["shape"])


def _slice_of_slice(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "slice")
    if inner is None or 0 in shape_of(op.results[0]):
        return None
    first = inner.values
    outer = (values["starts"], values["stops"], values["steps"])
    rows = zip(first["starts"], first["steps"], *outer, strict=True)
    bounds = [
        (start + low * step, start + (high - 1) * step + 1, step * further)
        for start, step, low, high, further in rows
    ]
    return b.slice(inner.operands[0], *(list(part) for part in zip(*bounds, strict=True)))


def _pad_of_pad(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "pad")
    if inner is None or str(inner.values["value"]) != str(values["value"]):
        return None
    pairs = zip(inner.values["padding"], values["padding"], strict=True)
    padding = [(low + more, high + further) for (low, high), (more, further) in pairs]
    return b.pad(inner.operands[0], padding, values["value"])


def _flip_of_flip(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    inner = defining(op.operands[0], "flip")
    if inner is None:
        return None
    return b.flip(inner.operands[0], sorted(set(values["axis"]) ^ set(inner.values["axis"])))


def _concat_parts(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """Nested concats along one axis as one, without empty parts."""
    axis, parts = values["axis"], list[SSAValue]()
    for value in op.operands:
        inner = defining(value, "concat")
        if inner is not None and inner.values["axis"] == axis:
            parts.extend(inner.operands)
        elif shape_of(value)[axis] != 0:
            parts.append(value)
    if not parts or parts == list(op.operands):
        return None
    return b.concat(parts, axis=axis)


def _movement_of_splat(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """Movement of a tensor whose elements are all equal gives such a tensor again."""
    inner = defining(op.operands[0], "broadcast_to")
    if inner is None or shape_of(inner.operands[0]):
        return None
    return b.broadcast_to(inner.operands[0], shape_of(op.results[0]))


def _reduction_of_single(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """A reduction over axes of size 1 only drops them. A sum also adds 0, so that -0 becomes +0."""
    x = op.operands[0]
    shape = shape_of(x)
    if any(shape[axis] != 1 for axis in values["axis"]):
        return None
    moved = b.reshape(x, shape_of(op.results[0]))
    signed_zeros = op.spec.name == "sum" and element_type_of(x).is_float
    return b.add(moved, 0.0) if signed_zeros else moved


def _holds(narrow: ElementType, wide: ElementType) -> bool:
    """Whether every value of one element type is a value of the other."""
    if narrow == wide or narrow.name == "bool":
        return True
    if narrow.is_float and wide.is_float:
        return narrow.bits < wide.bits
    if narrow.is_integer and wide.is_integer and narrow.family == wide.family:
        return narrow.bits <= wide.bits
    return False


def _cast_of_cast(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """A cast through a type that holds all values of the first needs only the second step."""
    inner = defining(op.operands[0], "cast")
    if inner is None or not _holds(element_type_of(inner.operands[0]), inner.values["T"]):
        return None
    return b.cast(inner.operands[0], values["T"])


def _full_as_broadcast(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    scalar = b.constant(values["value"], values["T"])
    return b.broadcast_to(scalar, values["shape"]) if values["shape"] else scalar


def _where_known(b: Emitter, op: TensorOp, values: dict[str, Any]) -> SSAValue | None:
    """A choice by a constant."""
    condition = scalar_constant(op.operands[0])
    if condition is None:
        return None
    return b.broadcast_to(op.operands[1 if condition else 2], shape_of(op.results[0]))


def _expanded(b: Emitter, op: TensorOp) -> Sequence[SSAValue]:
    return inline(b, decomposition_of(op), op.operands)


SHORTHAND = frozenset({"expand_dims", "squeeze", "flatten", "stack", "split", "tile", "repeat"})
"""Composite movement, which canonical programs write as its decomposition."""

CANONICAL_FORMS: dict[str, tuple[Form, ...]] = {
    "cast": (_cast_of_cast,),
    "reshape": (_reshape_of_reshape, _movement_of_splat),
    "transpose": (_transpose_of_transpose, _transpose_as_reshape, _movement_of_splat),
    "broadcast_to": (_broadcast_of_broadcast,),
    "slice": (_slice_of_slice, _movement_of_splat),
    "pad": (_pad_of_pad,),
    "flip": (_flip_of_flip, _movement_of_splat),
    "concat": (_concat_parts,),
    "full": (_full_as_broadcast,),
    "sum": (_reduction_of_single,),
    "prod": (_reduction_of_single,),
    "max_reduce": (_reduction_of_single,),
    "min_reduce": (_reduction_of_single,),
    "where": (_where_known,),
}


def canonical_form(b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
    """What replaces an operation that is not in canonical form."""
    if isinstance(op, ConstantOp):
        return _splat(b, op)
    if not isinstance(op, TensorOp):
        return None
    if op.spec.name in SHORTHAND:
        return _expanded(b, op)
    forms = CANONICAL_FORMS.get(op.spec.name, ())
    values = op.values if forms else {}
    for form in forms:
        value = form(b, op, values)
        if value is not None:
            return [value]
    return _narrowed(b, op) if op.spec.kind is Kind.ELEMENTWISE else None


def _splat(b: Emitter, op: ConstantOp) -> Sequence[SSAValue] | None:
    """A constant whose elements are all equal, as a scalar and a broadcast."""
    array = op.array
    if array.ndim == 0 or array.size == 0:
        return None
    data = array.reshape(-1).view(np.uint8).reshape(array.size, -1)
    if (data != data[0]).any():
        return None
    return [b.broadcast_to(b.constant_array(array.reshape(-1)[0].reshape(())), array.shape)]


def _narrowed(b: Emitter, op: TensorOp) -> Sequence[SSAValue] | None:
    """An elementwise operation on values before their broadcast, and constants on the right."""
    sources = [_source(value) for value in op.operands]
    if sources != list(op.operands):
        types = [value.type for value in sources]
        (result,) = op.spec.infer_types(types, op.values)
        if result == op.results[0].type:
            return [_again(b, op, sources)]
        if all(isinstance(type, TensorType) and not type.get_shape() for type in types):
            return [b.broadcast_to(_again(b, op, sources), shape_of(op.results[0]))]
        return _partly_narrowed(b, op, sources)
    if op.spec.commutative and _is_constant(op.operands[0]) and not _is_constant(op.operands[1]):
        return [_again(b, op, op.operands[::-1])]
    return None


def _partly_narrowed(
    b: Emitter, op: TensorOp, sources: Sequence[SSAValue]
) -> Sequence[SSAValue] | None:
    """The same with as many operands before their broadcast as the result's shape allows."""
    operands = list(op.operands)
    for i, source in enumerate(sources):
        trial = [*operands[:i], source, *operands[i + 1 :]]
        (result,) = op.spec.infer_types([value.type for value in trial], op.values)
        if result == op.results[0].type:
            operands = trial
    return None if operands == list(op.operands) else [_again(b, op, operands)]


def _source(value: SSAValue) -> SSAValue:
    inner = defining(value, "broadcast_to")
    return value if inner is None else inner.operands[0]


def _again(b: Emitter, op: TensorOp, operands: Sequence[SSAValue]) -> SSAValue:
    """The operation, elementwise, on other operands."""
    return b.call(op.spec.name, *op.spec.split_operands(operands), **op.values)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)
