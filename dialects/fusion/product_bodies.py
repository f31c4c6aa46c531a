"""What a product's kernel may reduce and halve: the contract of the fuser and the templates on
shapes. In: shapes and attributes of a product and of what stands beside it. Out: whether they fit.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...]


def may_have_statistics(shape: Shape, left: Shape, right: Shape, values: Mapping[str, Any]) -> bool:
    """Whether a kernel of a product of that shape may reduce rows for it."""
    if min(len(shape), len(left), len(right)) < 2 or values["transpose_a"]:
        return False
    return shape[-1] > 1 and prod(shape) * prod(left) > 0


def reduces_rows(full: Shape, values: Mapping[str, Any], shape: Shape) -> bool:
    """Whether a reduction of a value of shape `full` has a result for each row of a product."""
    return full[:-1] == shape[:-1] and list(values["axis"]) == [len(full) - 1] and full[-1] > 0


def keeps_rows(plain: bool, given: Shape, result: Shape, shape: Shape) -> bool:
    """Whether what an operation gives for a row of a product is made of what it is given for that
    row: one that is `plain` broadcasts what it is given, another is a reshape.
    """
    kept = (*shape[:-1], 1)
    if plain:
        return given == result or (given == kept and result[:-1] == shape[:-1])
    return {given, result} <= {kept, shape[:-1]}


def may_be_halved(operands: Sequence[Shape]) -> bool:
    """Whether a kernel may take columns of both halves of a product: one of matrices that have some
    numbers.
    """
    return min(map(len, operands)) >= 2 and all(map(prod, operands))


def takes_half(shape: Shape, values: Mapping[str, Any]) -> bool:
    """Whether a slice of a value of that shape takes one half of the last axis."""
    *outer, columns = shape
    half = columns // 2
    starts, stops = list(values["starts"]), list(values["stops"])
    if columns % 2 or any(step != 1 for step in values["steps"]):
        return False
    whole = starts[:-1] == [0] * len(outer) and stops[:-1] == outer
    return whole and (starts[-1], stops[-1]) in ((0, half), (half, columns))
