"""Sequences of tensors, whose lengths and indices are known while the model is read, and values
that may be nothing.
"""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, rank, shape
from mgn.frontend.onnx.core.operator import define
from mgn.frontend.onnx.core.scope import NOTHING


@define("SequenceEmpty", since=11)
def sequence_empty(c: Call) -> list[SSAValue]:
    """no tensor"""
    return []


@define("SequenceConstruct", since=11)
def sequence_construct(c: Call) -> list[SSAValue]:
    """the tensors themselves"""
    return [c[number] for number in range(len(c))]


@define("SequenceLength", since=11)
def sequence_length(c: Call) -> SSAValue:
    """a constant"""
    return c.constant(len(c.sequence(0)), np.int64)


@define("SequenceAt", since=11)
def sequence_at(c: Call) -> SSAValue:
    """the tensor at a known place"""
    return c.sequence(0)[_place(c, 1, len(c.sequence(0)))]


@define("SequenceInsert", since=11)
def sequence_insert(c: Call) -> list[SSAValue]:
    """the tensors with one more at a known place"""
    items = list(c.sequence(0))
    place = len(items) if c.get(2) is None else _place(c, 2, len(items) + 1)
    items.insert(place, c[1])
    return items


@define("SequenceErase", since=11)
def sequence_erase(c: Call) -> list[SSAValue]:
    """the tensors without that at a known place"""
    items = list(c.sequence(0))
    place = len(items) - 1 if c.get(1) is None else _place(c, 1, len(items))
    del items[place]
    return items


def _place(c: Call, number: int, length: int) -> int:
    place = int(c.number(number))
    found = place + length if place < 0 else place
    if not 0 <= found < length:
        c.fail(f"place {place} is not in a sequence of {length}")
    return found


@define("ConcatFromSequence", since=11)
def concat_from_sequence(c: Call) -> SSAValue:
    """`concat` or `stack`"""
    name = "stack" if c.attribute("new_axis", 0) else "concat"
    return c.b.call(name, c.sequence(0), axis=c.required("axis"))


@define("SplitToSequence", since=11)
def split_to_sequence(c: Call) -> Any:
    """`split`"""
    x, b = c[0], c.b
    axis = c.axis(x, 0)
    size = shape(x)[axis]
    keep = True
    if c.get(1) is None:
        sizes, keep = [1] * size, bool(c.attribute("keepdims", 1))
    elif rank(c[1]) == 0:
        each = int(c.number(1))
        sizes = [min(each, size - start) for start in range(0, size, each)]
    else:
        sizes = c.ints(1) or []
    parts = list(b.split(x, sizes=sizes, axis=axis))
    return parts if keep else [b.squeeze(part, axis=axis) for part in parts]


@define("Optional", since=15)
def optional(c: Call) -> Any:
    """the value itself, or nothing"""
    return c.inputs[0] if c.inputs and c.inputs[0] is not None else NOTHING


@define("OptionalHasElement", since=15)
def optional_has_element(c: Call) -> SSAValue:
    """a constant"""
    value = c.inputs[0] if c.inputs else None
    return c.constant(value is not None and value is not NOTHING)


@define("OptionalGetElement", since=15)
def optional_get_element(c: Call) -> Any:
    """the value itself"""
    if c.inputs[0] is NOTHING:
        c.fail("input 0 is optional, and holds nothing")
    return c.inputs[0]
