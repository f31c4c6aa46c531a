"""GGUF files: every type that is read, as floats and as blocks; headers that lie are refused."""

import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from mgn.dialects.block_formats import pack_blocks, unpack_blocks
from mgn.runtime.checkpoints.gguf_file import gguf_entries
from mgn.runtime.checkpoints.load import load_params
from mgn.runtime.checkpoints.opening import open_checkpoint
from mgn.runtime.errors import WeightsError
from tests.runtime.checkpoints.gguf_writing import (
    Pair,
    Tensor,
    gguf_file,
    packed_q4_0,
    tensor,
    text,
    value_of_q4_0,
)

VALUES = np.random.default_rng(3).standard_normal((5, 96)).astype(np.float32)
FILE = Path("folder/file.gguf")
PAIRS: list[Pair] = [
    ("general.architecture", 8, text("llama")),
    ("general.alignment", 4, struct.pack("<I", 64)),
    ("a.flag", 7, b"\x01"),
    ("a.size", 10, struct.pack("<Q", 7)),
    ("tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("é") + text("")),
    ("scores", 9, struct.pack("<IQ3f", 6, 3, 1.0, 2.0, 3.0)),
    ("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2B", 0, 2, 1, 2)),
]


def test_every_type_becomes_floats_and_blocks_stay_blocks(tmp_path: Path) -> None:
    types = {"f32": 0, "f16": 1, "bf16": 30, "f64": 28, "q8_0": 8, "q4_1": 3, "q4_0": 2}
    path = tmp_path / "w.gguf"
    tensors = [tensor(f"blk.{name}", VALUES, type) for name, type in types.items()]
    path.write_bytes(gguf_file(tensors, PAIRS, alignment=64))
    wanted = {f"blk.{name}": ("f32", (5, 96)) for name in types}
    loaded = load_params(path, wanted)
    for name in ("f32", "f64"):
        assert np.array_equal(loaded[f"blk.{name}"], VALUES)
    assert np.array_equal(loaded["blk.f16"], VALUES.astype(np.float16).astype(np.float32))
    for name in ("q8_0", "q4_1"):
        held = pack_blocks(VALUES, name)
        assert np.array_equal(loaded[f"blk.{name}"], unpack_blocks(held, name))
        (kept,) = load_params(path, {f"blk.{name}": (name, (5, 96))}).values()
        assert np.array_equal(kept, held)
    expected = value_of_q4_0(packed_q4_0(VALUES), VALUES.shape)
    assert np.array_equal(loaded["blk.q4_0"], expected)
    (kept,) = load_params(path, {"blk.q4_0": ("q4_1", (5, 96))}).values()
    assert np.array_equal(unpack_blocks(kept, "q4_1"), expected)
    repacked = load_params(path, {"blk.q8_0": ("q4_1", (5, 96))})["blk.q8_0"]
    assert np.array_equal(repacked, unpack_blocks(pack_blocks(VALUES, "q8_0"), "q8_0"))


def test_integers_scalars_and_empty_tensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    types = {24: np.int8, 25: np.int16, 26: np.int32, 27: np.int64}
    tensors: list[Tensor] = [
        (f"i{type}", (2, 3), type, np.arange(6, dtype=dtype).tobytes())
        for type, dtype in types.items()
    ]
    tensors += [("none", (0, 32), 8, b""), ("scalar", (), 0, np.float32(2.5).tobytes())]
    path.write_bytes(gguf_file(tensors, version=2))
    entries = open_checkpoint(path)
    for type, dtype in types.items():
        assert np.array_equal(entries[f"i{type}"].read(), np.arange(6, dtype=dtype).reshape(2, 3))
    assert entries["scalar"].read() == 2.5 and entries["scalar"].shape == ()
    assert entries["none"].read().shape == (0, 34)


def test_a_type_that_is_not_read_is_named_where_it_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    path.write_bytes(gguf_file([("w", (1, 256), 12, bytes(144)), tensor("v", VALUES, 0)]))
    assert np.array_equal(load_params(path, {"v": ("f32", (5, 96))})["v"], VALUES)
    with pytest.raises(WeightsError, match="'w' has dtype q4_k, which is not read"):
        load_params(path, {"w": ("f32", (1, 256))})


HUGE = (1 << 64) - 1
GOOD = gguf_file([tensor("w", VALUES, 0)], PAIRS, alignment=64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGUX" + bytes(100), "is no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1 of GGUF is not read"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "of GGUF is not read"),
        (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0), "entries do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE), "entries do not fit"),
        (gguf_file([], [("k", 9, struct.pack("<IQ", 8, HUGE))]), "do not fit"),
        (gguf_file([], [("k", 9, struct.pack("<IQ", 0, HUGE))]), "do not fit"),
        (gguf_file([], [("k", 8, struct.pack("<Q", HUGE))]), "do not fit"),
        (gguf_file([], [("k", 13, b"")]), "a value is of type 13"),
        (gguf_file([], [("k", 9, struct.pack("<IQ", 9, 1) * 9)]), "a value is of type 9"),
        (gguf_file([], [("general.alignment", 4, bytes(4))]), "multiples of 0"),
        (gguf_file([], [("general.alignment", 4, b"\x04\0\0\0")]), "multiples of 4"),
        (gguf_file([("w", (1,) * 5, 0, bytes(4))]), "has 5 axes"),
        (gguf_file([("w", (1 << 63, 4), 0, bytes(4))]), "'w' ends at"),
        (gguf_file([("w", (4,), 0, bytes(12))], alignment=1), "'w' ends at"),
        (gguf_file([("w", (0, 1 << 62, 4), 0, b"")]), "no array can have"),
        (gguf_file([("w", (4, 33), 8, bytes(999))]), "in blocks of 32 and has the shape"),
        (gguf_file([("w", (), 8, bytes(999))]), "in blocks of 32 and has the shape"),
        (gguf_file([], PAIRS[1:2] * 2), "gives general.alignment twice"),
        (gguf_file([tensor("w", VALUES, 0)] * 2), "names 'w' twice"),
    ],
)
def test_a_header_that_lies_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(WeightsError, match=message) as error:
        gguf_entries(data, FILE)
    assert str(FILE) in str(error.value) and len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ((0, 0, 0), "'b' begins at 0, within 'a', which ends at 1920"),
        ((0, 1920, 3808), "'c' begins at 3808, within 'b', which ends at 3840"),
        ((1920, 0, 1888), "'c' begins at 1888, within 'b', which ends at 1920"),
        ((0, 1904, 3840), "'b' begins at 1904, not at 32 * n"),
        ((0, 1920, 1 << 40), "'c' begins at 1099511627776 of"),
    ],
)
def test_tensors_that_overlap_are_refused(offsets: tuple[int, ...], message: str) -> None:
    tensors = [tensor("a", VALUES, 0), tensor("b", VALUES, 0), ("c", (1, 256), 12, bytes(144))]
    assert set(gguf_entries(gguf_file(tensors, offsets=(0, 1920, 3840)), FILE)) == {"a", "b", "c"}
    with pytest.raises(WeightsError, match=re.escape(message)):
        gguf_entries(gguf_file(tensors, offsets=offsets), FILE)


def test_a_damaged_file_gives_our_error_and_no_other() -> None:
    dice = random.Random(7)
    for length in range(0, len(GOOD), max(len(GOOD) // 60, 1)):
        with pytest.raises(WeightsError):
            gguf_entries(GOOD[:length], FILE)
    for _ in range(300):
        data = bytearray(GOOD)
        for _ in range(3):
            data[dice.randrange(500)] = dice.randrange(256)
        try:
            entries = gguf_entries(bytes(data), FILE)
        except WeightsError:
            continue
        for entry in entries.values():
            assert entry.read().nbytes <= len(GOOD)


def test_scales_that_no_minimum_covers_are_told(tmp_path: Path) -> None:
    block = np.float16(60000).tobytes() + bytes(16)
    path = tmp_path / "w.gguf"
    path.write_bytes(gguf_file([("w", (1, 32), 2, block)]))
    with pytest.raises(WeightsError, match="'w' has blocks of q4_0 whose scales are too large"):
        load_params(path, {"w": ("q4_1", (1, 32))})["w"]


def test_what_another_writer_of_the_format_wrote_is_read(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "w.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokens", ["a", "b"])
    writer.add_tensor("w", VALUES)
    kinds = gguf.GGMLQuantizationType
    packed = {kind: gguf.quants.quantize(VALUES, kind) for kind in (kinds.Q8_0, kinds.Q4_0)}
    for kind, data in packed.items():
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    loaded = load_params(path, dict.fromkeys(("w", "Q8_0", "Q4_0"), ("f32", (5, 96))))
    assert np.array_equal(loaded["w"], VALUES)
    for kind, data in packed.items():
        assert np.array_equal(loaded[kind.name], gguf.quants.dequantize(data, kind))
