"""Flat device buffers: which one holds a tensor, how large it is, and which may share memory.

In: tensor types and kernels. Out: memref types, sizes in bytes, and the pairs of a kernel's
arguments that may lie in the same place.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import cast

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.types import element_of

ALIGNMENT = 256
"""What every offset is a multiple of, in bytes; a program may ask for more."""


IN_PLACE = "in_place"
"""The attribute of a `kernel.func` that lists which arguments may share memory."""


def allow_in_place(function: FuncOp, pairs: Iterable[tuple[int, int]]) -> None:
    """Let a kernel write over an argument that it reads: pairs of positions (read, written)."""
    function.attributes[IN_PLACE] = _listing(pairs)


def in_place_pairs(function: FuncOp) -> frozenset[tuple[int, int]]:
    """The pairs of argument positions (read, written) that may share memory.

    VerifyException where the attribute is not a list of such pairs.
    """
    return _listed_pairs(function, IN_PLACE)


STARTS_AS = "starts_as"
"""The attribute of a `kernel.func` that lists which results it writes a part of: who launches it
sees to it that such a result has the bytes of an argument before.
"""


def starting_pairs(function: FuncOp) -> frozenset[tuple[int, int]]:
    """The pairs of argument positions (read, written) of which the second starts as the first.

    VerifyException where the attribute is not a list of such pairs.
    """
    return _listed_pairs(function, STARTS_AS)


def combined_results(function: FuncOp) -> frozenset[int]:
    """The results that start as arguments and that the kernel looks at: what it leaves depends on
    how often it runs.
    """
    stores = memref.StoreOp | vector.StoreOp
    return frozenset(
        written
        for _, written in starting_pairs(function)
        if any(not isinstance(use.operation, stores) for use in function.arguments[written].uses)
    )


def start_as(function: FuncOp, pairs: Iterable[tuple[int, int]]) -> None:
    """Say that a kernel writes a part of a result, which is another argument's value elsewhere."""
    function.attributes[STARTS_AS] = _listing(pairs)


def _listing(pairs: Iterable[tuple[int, int]]) -> ArrayAttr[Attribute]:
    return ArrayAttr([DenseArrayBase.from_list(i64, list(pair)) for pair in pairs])


def _listed_pairs(function: FuncOp, name: str) -> frozenset[tuple[int, int]]:
    listed = function.attributes.get(name)
    if listed is None:
        return frozenset()
    if not isinstance(listed, ArrayAttr):
        return frozenset((_pair(listed, function, name),))
    entries = cast(ArrayAttr[Attribute], listed)
    return frozenset(_pair(entry, function, name) for entry in entries)


def _pair(entry: Attribute, function: FuncOp, name: str) -> tuple[int, int]:
    positions = entry.get_values() if isinstance(entry, DenseArrayBase) else ()
    accesses = dict(enumerate(function.accesses))
    if len(positions) == 2:
        read, written = (int(position) for position in positions)
        known = read in accesses and written in accesses
        if known and accesses[read].reads and accesses[written].writes:
            return read, written
    raise VerifyException(
        f"kernel.func: {name} lists pairs of argument positions, one read and one written"
    )


@lru_cache(maxsize=4096)
def buffer_type(tensor: TensorType[Attribute]) -> MemRefType[Attribute]:
    """The flat buffer that holds a tensor: `tensor<2x3xui8>` lies in `memref<6xi8>`."""
    row = element_of(tensor)
    element = IntegerType(row.bits) if row.is_integer else row.attribute
    return MemRefType(element, [prod(tensor.get_shape())])


@lru_cache(maxsize=4096)
def byte_size(buffer: Attribute) -> int:
    """Bytes of a flat buffer."""
    memref = cast(MemRefType[Attribute], buffer)
    return prod(memref.get_shape()) * element_of(memref.element_type).bytes
