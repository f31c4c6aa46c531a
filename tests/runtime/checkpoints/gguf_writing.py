"""Small GGUF files for tests, right or wrong.

In: keys with their values, and tensors. Out: the bytes of a file.
"""

import struct
from collections.abc import Sequence

import numpy as np

from mgn.dialects.block_formats import pack_blocks
from mgn.runtime.checkpoints.gguf_file import BLOCKED, PLAIN, Q4_0
from mgn.runtime.host_arrays import DTYPES

Tensor = tuple[str, Sequence[int], int, bytes]
"""A name, a shape as NumPy has it, a type, and the content."""

Pair = tuple[str, int, bytes]
"""A key, a type, and the value."""


def text(value: str | bytes) -> bytes:
    """A text with its length before it."""
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def tensor(name: str, array: np.ndarray, type: int) -> Tensor:
    """A tensor of floats in one of the types that are read."""
    if type in PLAIN:
        return name, array.shape, type, array.astype(DTYPES[PLAIN[type]]).tobytes()
    if type == Q4_0:
        return name, array.shape, type, packed_q4_0(array).tobytes()
    return name, array.shape, type, pack_blocks(array, BLOCKED[type]).tobytes()


def packed_q4_0(array: np.ndarray) -> np.ndarray:
    """Blocks of codes from 0 to 15 that count from -8, as llama.cpp packs them."""
    blocks = array.reshape(-1, 32).astype(np.float32)
    extremes = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    scales = (extremes / -8).astype(np.float16)
    inverse = np.divide(1, extremes / -8, out=np.zeros_like(extremes), where=extremes != 0)
    codes = np.clip(np.floor(blocks * inverse + 8.5), 0, 15).astype(np.uint8)
    return np.concatenate([scales.view(np.uint8), codes[:, :16] | (codes[:, 16:] << 4)], axis=1)


def value_of_q4_0(packed: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The floats that such blocks stand for, by the format's definition."""
    scales = np.ascontiguousarray(packed[:, :2]).view(np.float16).astype(np.float32)
    codes = np.concatenate([packed[:, 2:] & 15, packed[:, 2:] >> 4], axis=1).astype(np.float32)
    return ((codes - 8) * scales).reshape(shape)


def gguf_file(
    tensors: Sequence[Tensor],
    pairs: Sequence[Pair] = (),
    version: int = 3,
    alignment: int = 32,
    offsets: Sequence[int] = (),
) -> bytes:
    """A file of tensors, each where the one before it ends; `offsets` are where the header says
    that they lie.
    """
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    for key, type, value in pairs:
        head += text(key) + struct.pack("<I", type) + value
    body = b""
    for i, (name, shape, type, content) in enumerate(tensors):
        sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += text(name) + struct.pack("<I", len(shape)) + sizes
        head += struct.pack("<IQ", type, offsets[i] if offsets else len(body))
        body += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + body
