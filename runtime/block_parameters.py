"""Parameters of block formats as callers name them, and the parts that kernels read.

In: parameters by the names of a plan, where a packed one is several, or what a caller gave for one.
Out: parameters by their own names, and the parts of a value.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferPlan
from mgn.dialects.block_formats import (
    BLOCK,
    BLOCK_FORMATS,
    BlockFormat,
    pack_blocks,
    part_name,
    part_of_name,
    split_parts,
)
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import as_array, dtype_expression, spelling

TensorTypes = Mapping[str, tuple[str, tuple[int, ...]]]
"""Names to elements and shapes."""


def whole_name(name: str) -> str:
    """The parameter that a name of a plan belongs to."""
    found = part_of_name(name)
    return name if found is None else found[0]


def whole_types(types: TensorTypes) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The parameters of a plan: parts of one are one, which has a block format."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (element, shape) in types.items():
        part = part_of_name(name)
        if part is None:
            found[name] = (element, shape)
            continue
        whole, format, field = part
        found[whole] = (format.name, (*shape[:-1], shape[-1] // field.count * BLOCK))
    return found


def format_of(name: str, held: Iterable[str]) -> BlockFormat | None:
    """The block format of a parameter whose parts are held; None where there are none."""
    names = held if isinstance(held, dict | set | frozenset) else set(held)
    for format in BLOCK_FORMATS.values():
        if all(part_name(name, format, part) in names for part in format.parts):
            return format
    return None


def parts_of_value(value: Any, format: str, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The parts of what a caller gave for a parameter: packed bytes, or floats, which are packed
    now. InputError with what is wrong with it.
    """
    row = BLOCK_FORMATS[format]
    fault = block_mismatch(array := as_array(value), format, shape)
    if fault is not None:
        raise InputError(fault)
    try:
        return split_parts(
            array if array.dtype == np.uint8 else pack_blocks(array, row.name), row.name
        )
    except ValueError as error:
        raise InputError(f"cannot be packed: {error}") from None


def block_mismatch(array: np.ndarray, format: str, shape: tuple[int, ...]) -> str | None:
    """What is wrong with an array for a parameter of a block format; None where nothing is."""
    packed, said = BLOCK_FORMATS[format].packed_shape(shape), spelling(format, shape)
    floats = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    if array.dtype != np.uint8 and not floats:
        wanted = dtype_expression(np.dtype(np.uint8))
        return f"has dtype {array.dtype}, not {wanted} of packed blocks, or floats ({said})"
    wanted = packed if array.dtype == np.uint8 else shape
    if array.shape != wanted:
        return f"has shape {list(array.shape)}, not {list(wanted)} ({said})"
    return None


def planned_values(arrays: Mapping[str, np.ndarray], types: TensorTypes) -> dict[str, np.ndarray]:
    """Values of parameters by the names of a plan. InputError where one cannot be packed."""
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        element, shape = types[name]
        if element not in BLOCK_FORMATS:
            found[name] = array
            continue
        format = BLOCK_FORMATS[element]
        parts = parts_of_value(array, element, shape)
        found |= {part_name(name, format, part): parts[part.name] for part in format.parts}
    return found


def whole_plan(plan: BufferPlan) -> BufferPlan:
    """The plan of the parameter that a planned part belongs to."""
    ((name, (element, shape)),) = whole_types({plan.name: (plan.element, plan.shape)}).items()
    return BufferPlan(plan.kind, name, element, shape)
