"""Flat device buffers: which one holds a tensor, how large it is, and which may share memory.

In: tensor types and kernels. Out: memref types, sizes in bytes, and the pairs of a kernel's
arguments that may lie in the same place.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute

from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.types import element_of

ALIGNMENT = 256
"""What every offset is a multiple of, in bytes; a program may ask for more."""


IN_PLACE = "in_place"
"""The attribute of a `kernel.func` that lists which arguments may share memory."""


def allow_in_place(function: FuncOp, pairs: Iterable[tuple[int, int]]) -> None:
    """Let a kernel write over an argument that it reads: pairs of positions (read, written)."""
    function.attributes[IN_PLACE] = ArrayAttr(
        [DenseArrayBase.from_list(i64, list(pair)) for pair in pairs]
    )


def in_place_pairs(function: FuncOp) -> frozenset[tuple[int, int]]:
    """The pairs of argument positions (read, written) that may share memory."""
    listed = function.attributes.get(IN_PLACE)
    if not isinstance(listed, ArrayAttr):
        return frozenset()
    pairs = (cast(DenseArrayBase, pair).get_values() for pair in listed)
    return frozenset((int(read), int(written)) for read, written in pairs)


@lru_cache(maxsize=4096)
def buffer_type(tensor: TensorType) -> MemRefType:
    """The flat buffer that holds a tensor: `tensor<2x3xui8>` lies in `memref<6xi8>`."""
    element = tensor.element_type
    if isinstance(element, IntegerType):
        element = IntegerType(element.width.data)
    return MemRefType(element, [prod(tensor.get_shape())])


@lru_cache(maxsize=4096)
def byte_size(buffer: Attribute) -> int:
    """Bytes of a flat buffer."""
    memref = cast(MemRefType, buffer)
    return prod(memref.get_shape()) * element_of(memref.element_type).bytes
