"""Block formats of parameters: 32 neighbours along the last axis share a scale.

In: an array of floats, or its packed bytes. Out: the other, or the *parts* of a packed array: one
array for each field of its blocks, which is what kernels read. A packed array is `u8`, and its
blocks lie one behind another, as in llama.cpp's files of the same formats.

    packed = pack_blocks(weights, "q8_0")    # f32[128, 64] to u8[128, 68]
    weights = unpack_blocks(packed, "q8_0")  # and back, as near as 8 bits are
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import numpy as np

from mgn.diagnostics import WrongValue

Array = np.ndarray[Any, Any]

BLOCK = 32
"""Elements of a block."""

SCALES, MINIMUMS, CODES = "scales", "minimums", "codes"
"""The parts: an element is its code times the scale of its block, plus the minimum where there is
one."""


@dataclass(frozen=True)
class Part:
    """One field of all blocks: its element type, and how many of these a block has."""

    name: str
    element: str
    count: int

    @property
    def bytes(self) -> int:
        """Of one block."""
        return self.count * (2 if self.element == "f16" else 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype({"f16": "<f2", "i8": "i1", "u8": "u1"}[self.element])


@dataclass(frozen=True)
class BlockFormat:
    """A row of the table: how many bits a code has, and whether codes count from a minimum.

    Codes without a minimum have a sign. Two codes of 4 bits share a byte: those of the first half
    of a block are the low bits.
    """

    name: str
    bits: int
    has_minimum: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        """The fields of a block in their order."""
        codes = Part(CODES, "u8" if self.has_minimum else "i8", BLOCK * self.bits // 8)
        minimum = (Part(MINIMUMS, "f16", 1),) if self.has_minimum else ()
        return (Part(SCALES, "f16", 1), *minimum, codes)

    @property
    def block_bytes(self) -> int:
        """Bytes of a packed block."""
        return sum(part.bytes for part in self.parts)

    def part_shape(self, part: Part, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a part of a tensor."""
        return (*shape[:-1], shape[-1] // BLOCK * part.count)

    def packed_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a tensor's packed bytes."""
        return (*shape[:-1], shape[-1] // BLOCK * self.block_bytes)


BLOCK_FORMATS: dict[str, BlockFormat] = {
    row.name: row
    for row in (
        BlockFormat("q8_0", bits=8, has_minimum=False),
        BlockFormat("q4_1", bits=4, has_minimum=True),
    )
}
"""The block formats by name."""

PART_NAME = re.compile(rf"(?s)(.+)#({'|'.join(BLOCK_FORMATS)})\.({SCALES}|{MINIMUMS}|{CODES})\Z")


def part_name(name: str, format: BlockFormat, part: Part) -> str:
    """The name under which kernels read a part of a parameter."""
    return f"{name}#{format.name}.{part.name}"


def part_of_name(name: str) -> tuple[str, BlockFormat, Part] | None:
    """The parameter, its format and the part that a name stands for; None for any other name."""
    found = PART_NAME.match(name)
    if found is None:
        return None
    format = BLOCK_FORMATS[found[2]]
    for part in format.parts:
        if part.name == found[3]:
            return found[1], format, part
    return None


def is_codes(name: str) -> bool:
    """Whether a name stands for the codes of a parameter, which are nearly all of it."""
    found = part_of_name(name)
    return found is not None and found[2].name == CODES


def pack_blocks(array: Any, format: str) -> Array:
    """The packed bytes of an array of floats, each code the nearest. ValueError for an unknown
    format, a last axis that is no multiple of 32, and what no scale of f16 covers.
    """
    row = _row(format)
    values = np.asarray(array)
    if values.dtype.kind != "f" and values.dtype.name != "bfloat16":
        raise WrongValue(f"pack_blocks: floats are packed, not {values.dtype}")
    if values.ndim == 0 or values.shape[-1] % BLOCK:
        raise WrongValue(f"pack_blocks: the last axis of {list(values.shape)} is not {BLOCK} * n")
    shape = (*values.shape[:-1], values.shape[-1] // BLOCK, BLOCK)
    steps = (1 << row.bits) - 1 if row.has_minimum else (1 << (row.bits - 1)) - 1
    with np.errstate(over="ignore", invalid="ignore"):
        blocks = values.astype(np.float32).reshape(shape)
        low = blocks.min(-1, keepdims=True) if row.has_minimum else np.zeros_like(blocks[..., :1])
        reach = (blocks - low).max(-1, keepdims=True) if row.has_minimum else _largest(blocks)
        scale = reach / np.float32(steps)
        narrow = {SCALES: scale.astype(np.float16), MINIMUMS: low.astype(np.float16)}
    if not all(isfinite(part.sum(dtype=np.float64)) for part in narrow.values()):
        raise WrongValue(f"pack_blocks: a value is not finite, or too large for {format}")
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    codes = (blocks - low) * inverse
    codes = np.where(codes < 0, np.ceil(codes - 0.5), np.floor(codes + 0.5))
    codes = codes.clip(0 if row.has_minimum else -steps, steps)
    parts = {**narrow, CODES: _packed_codes(codes.astype(np.int8), row)}
    return join_parts({name: _merged(part) for name, part in parts.items()}, format)


def unpack_blocks(packed: Any, format: str) -> Array:
    """The f32 array that packed bytes stand for. ValueError where they are none of the format."""
    row = _row(format)
    parts = split_parts(packed, format)
    blocks = {name: _blocks(part, row) for name, part in parts.items()}
    codes = blocks[CODES]
    if row.bits == 4:
        codes = np.concatenate([codes & 15, codes >> 4], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):
        values = codes.astype(np.float32) * blocks[SCALES].astype(np.float32)
        if row.has_minimum:
            values = values + blocks[MINIMUMS].astype(np.float32)
    return _merged(values)


def split_parts(packed: Any, format: str) -> dict[str, Array]:
    """The parts of packed bytes by name. ValueError where they are none of the format."""
    row = _row(format)
    data = np.asarray(packed)
    if data.dtype != np.uint8 or data.ndim == 0 or data.shape[-1] % row.block_bytes:
        said = f"u8 whose last axis is {row.block_bytes} * n"
        raise WrongValue(f"{format}: {data.dtype} of shape {list(data.shape)} is not {said}")
    count = data.shape[-1] // row.block_bytes
    blocks = data.reshape(*data.shape[:-1], count, row.block_bytes)
    found: dict[str, Array] = {}
    start = 0
    for part in row.parts:
        field = np.ascontiguousarray(blocks[..., start : start + part.bytes])
        found[part.name] = _merged(field.view(part.dtype))
        start += part.bytes
    return found


def join_parts(parts: Mapping[str, Array], format: str) -> Array:
    """The packed bytes of parts: what `split_parts` takes."""
    row = _row(format)
    fields = [
        np.ascontiguousarray(_blocks(parts[part.name].astype(part.dtype), row)).view(np.uint8)
        for part in row.parts
    ]
    return _merged(np.concatenate(fields, axis=-1))


def _row(format: str) -> BlockFormat:
    if not isinstance(cast("object", format), str) or format not in BLOCK_FORMATS:
        raise WrongValue(f"unknown block format {format!r}; there are {', '.join(BLOCK_FORMATS)}")
    return BLOCK_FORMATS[format]


def _largest(blocks: Array) -> Array:
    return np.abs(blocks).max(-1, keepdims=True)


def _packed_codes(codes: Array, row: BlockFormat) -> Array:
    """Codes as their part has them."""
    if row.bits == 8:
        return codes
    low, high = np.split(codes.view(np.uint8), 2, axis=-1)
    return low | (high << 4)


def _blocks(part: Array, row: BlockFormat) -> Array:
    """A part with an axis of blocks before that of a block."""
    (count,) = {item.count for item in row.parts if item.dtype == part.dtype}
    return part.reshape(*part.shape[:-1], part.shape[-1] // count, count)


def _merged(blocks: Array) -> Array:
    """Blocks one behind another."""
    return blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * blocks.shape[-1])
