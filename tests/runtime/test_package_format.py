"""The package format: what is written is read, and whatever else is read is refused."""

import random
import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from mgn.codegen.launch_plan import BufferKind
from mgn.runtime.errors import PackageError, RuntimeFault
from mgn.runtime.packages.format import CHECKED_FROM, HEADER_BYTES, MAGIC, TABLES, TABLES_AT
from mgn.runtime.packages.reader import read_package
from mgn.runtime.packages.writer import package_bytes
from tests.runtime.package_samples import affine, everything

MUTATIONS = 10_000
TRACED = 2_000
"""The last of them, for tracing memory takes four times as long as all else."""
DATA = package_bytes(everything())


def repaired(data: bytearray) -> bytes:
    """The same with the size and the checksum that fit it."""
    if len(data) >= HEADER_BYTES:
        struct.pack_into("<Q", data, 16, len(data))
        struct.pack_into("<I", data, 12, zlib.crc32(data[CHECKED_FROM:]))
    return bytes(data)


def row_at(data: bytes | bytearray, table: str, number: int = 0) -> int:
    """The place of a row."""
    entry = TABLES_AT + 16 * list(TABLES).index(table)
    return struct.unpack_from("<Q", data, entry)[0] + number * TABLES[table].size


def with_number(place: int, form: str, value: int) -> bytes:
    """The sample with one number replaced."""
    data = bytearray(DATA)
    struct.pack_into(form, data, place, value)
    return repaired(data)


def test_a_package_is_read_as_it_was_written() -> None:
    package = everything()
    read = read_package(DATA)
    assert read.kernels == package.kernels
    assert read.device == package.device
    for field in ("name", "arena", "steps", "outputs", "tensor_bytes", "lower_bound", "prepare"):
        assert getattr(read.plan, field) == getattr(package.plan, field)
    for found, wanted in zip(read.plan.buffers, package.plan.buffers, strict=True):
        assert replace(found, value=None) == replace(wanted, value=None)
        if wanted.value is not None:
            assert found.value is not None and found.value.dtype == wanted.value.dtype
            assert found.value.tobytes() == wanted.value.tobytes()
    assert read.parameters.keys() == package.parameters.keys()
    np.testing.assert_array_equal(read.parameters["scale"], package.parameters["scale"])
    assert read.expected == {"scale": ("f32", (96,)), "leer": ("f16", (3, 0))}


def test_equal_packages_have_equal_bytes_and_reading_loses_none() -> None:
    assert package_bytes(everything()) == DATA
    assert package_bytes(read_package(DATA)) == DATA
    assert package_bytes(everything("another device")) != DATA


def test_blocks_and_tables_lie_where_c_can_read_them() -> None:
    for table in TABLES:
        assert row_at(DATA, table) % 8 == 0
    place, size = struct.unpack_from("<QQ", DATA, row_at(DATA, "kernels", 1) + 72)
    assert place % 64 == 0 and size == 20
    assert DATA[place : place + 4] == bytes.fromhex("03022307")


def test_parameters_that_are_not_embedded_are_expected_all_the_same() -> None:
    read = read_package(package_bytes(affine(embedded=False)))
    assert read.parameters == {}
    assert read.expected == {"scale": ("f32", (96,))}


@pytest.mark.parametrize("data", [b"", b"mgn", b"graph g(x: f32[4]) {", bytes(500)])
def test_another_file_is_no_package(data: bytes) -> None:
    with pytest.raises(PackageError, match=r"x\.txt is no mgn package") as caught:
        read_package(data, "x.txt")
    assert caught.value.offset == 0


def test_another_version_is_told_from_damage() -> None:
    data = MAGIC + struct.pack("<I", 2) + DATA[12:]
    with pytest.raises(PackageError, match="version 2 of the package format; this mgn reads") as c:
        read_package(data)
    assert c.value.offset == 8


def test_a_file_that_is_cut_short_says_how_long_it_should_be() -> None:
    with pytest.raises(PackageError, match=f"should have {len(DATA)} bytes, and has 300"):
        read_package(DATA[:300])
    with pytest.raises(PackageError, match="at byte 100: it ends within its header"):
        read_package(DATA[:100])


def test_every_flipped_bit_is_noticed() -> None:
    for place in range(len(DATA)):
        data = bytearray(DATA)
        data[place] ^= 1 << place % 8
        with pytest.raises(PackageError):
            read_package(bytes(data))


@pytest.mark.parametrize(
    ("table", "number", "offset", "form", "value", "message"),
    [
        ("kernels", 0, 24, "<Q", 0, "cannot run on"),
        ("kernels", 0, 48, "<Q", 7, "cannot run on"),
        ("kernels", 1, 72, "<Q", 192, "does not follow the one before"),
        ("kernels", 1, 80, "<Q", 1 << 60, "goes on behind the end"),
        ("kernels", 0, 112, "<I", 1, "is not the next of the arguments"),
        ("kernels", 1, 116, "<I", 900, "are more arguments than there are"),
        ("arguments", 0, 0, "<I", 3, "no access 3"),
        ("arguments", 0, 4, "<I", 8, "cannot hold u32"),
        ("arguments", 0, 8, "<Q", 97, "do not fit kernel"),
        ("arguments", 3, 0, "<I", 1, "writes input 'x', which is no view"),
        ("buffers", 0, 0, "<I", 6, "no kind of buffer 6"),
        ("buffers", 0, 4, "<I", 99, "no element 99"),
        ("buffers", 0, 20, "<I", 40, "40 dimensions, more than 32"),
        ("buffers", 0, 24, "<Q", 64, "cannot have data"),
        ("buffers", 0, 32, "<Q", 383, "cannot have 383 bytes"),
        ("buffers", 3, 24, "<Q", 2000, "outside of the arena"),
        ("dimensions", 0, 0, "<Q", 1 << 60, "no tensor has the shape"),
        ("operands", 0, 0, "<I", 77, "a buffer that there is not"),
        ("steps", 0, 0, "<I", 3, "no kind of step 3"),
        ("steps", 0, 4, "<I", 2, "a kernel that there is not"),
        ("steps", 0, 0, "<I", 0, "nothing prepares '%d'"),
        ("steps", 1, 0, "<I", 2, "a step prepares from input 'x'"),
        ("steps", 3, 4, "<I", 1, "a copy takes two buffers of one size"),
        ("steps", 4, 0, "<I", 2, "a step prepares after a run has begun"),
        ("operands", 0, 0, "<I", 12, "nothing prepares '%d'"),
        ("operands", 5, 0, "<I", 12, "writes derived '%d', which is no view"),
        ("operands", 2, 0, "<I", 3, "a step prepares view '%t'"),
        ("outputs", 0, 8, "<I", 77, "a buffer that there is not"),
        ("outputs", 0, 12, "<I", 0, "does not fit its buffer"),
        ("strings", 0, 0, "<B", 0, "does not end at its zero byte"),
        ("strings", 0, 0, "<B", 255, "not UTF-8"),
    ],
)
def test_a_number_that_does_not_fit_is_named_with_its_place(
    table: str, number: int, offset: int, form: str, value: int, message: str
) -> None:
    with pytest.raises(PackageError, match=message) as caught:
        read_package(with_number(row_at(DATA, table, number) + offset, form, value))
    assert f"at byte {caught.value.offset}: " in str(caught.value)
    assert 0 < caught.value.offset < len(DATA)


def test_a_message_of_a_damaged_name_is_one_line_of_plain_text() -> None:
    data = bytearray(DATA)
    kernel = row_at(DATA, "kernels")
    (name,) = struct.unpack_from("<I", data, kernel)
    data[row_at(DATA, "strings") + name] = 0x1B
    struct.pack_into("<Q", data, kernel + 24, 0)
    with pytest.raises(PackageError, match=r"kernel '\ufffd.* cannot run on") as caught:
        read_package(repaired(data))
    assert str(caught.value).isprintable()


def test_names_must_differ() -> None:
    package = everything()
    plan = package.plan
    twice = replace(plan, outputs=(plan.outputs[0], replace(plan.outputs[1], name="y")))
    with pytest.raises(PackageError, match="two outputs have one name"):
        read_package(package_bytes(replace(package, plan=twice)))
    inputs = (*plan.buffers, replace(plan.buffers[0]))
    assert inputs[-1].kind is BufferKind.INPUT
    with pytest.raises(PackageError, match="two inputs have one name"):
        read_package(package_bytes(replace(package, plan=replace(plan, buffers=inputs))))


def test_what_has_no_place_in_the_format_is_not_written() -> None:
    package = affine()
    with pytest.raises(RuntimeFault, match="has a zero byte"):
        package_bytes(replace(package, device="a\0b"))
    with pytest.raises(RuntimeFault, match="'scale' has 4 bytes, not 384"):
        package_bytes(replace(package, parameters={"scale": np.zeros(1, np.float32)}))


def mutated(chance: random.Random, sample: bytes = DATA) -> bytes:
    """A package with a few things wrong; most of the time its checksum hides that."""
    data = bytearray(sample)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        tables = chance.random() < 0.7
        place = table_byte(chance, data) if tables else chance.randrange(len(data))
        match chance.choice(["flip", "byte", "number", "number", "wide", "cut", "repeat", "swap"]):
            case "flip":
                data[place] ^= 1 << chance.randrange(8)
            case "byte":
                data[place] = chance.randrange(256)
            case "number":
                place -= place % 4
                data[place : place + 4] = struct.pack("<I", number(chance, data) % 2**32)
            case "wide":
                place -= place % 8
                data[place : place + 8] = struct.pack("<Q", number(chance, data) % 2**64)
            case "cut":
                del data[place : place + chance.choice([1, 8, 64, 10_000])]
            case "repeat":
                data[place:place] = data[place : place + chance.choice([1, 8, 16, 40, 64])]
            case _:
                other = chance.randrange(len(data))
                first, second = data[place : place + 8], data[other : other + 8]
                data[place : place + 8], data[other : other + 8] = second, first
        if len(data) <= HEADER_BYTES:
            break
    return repaired(data) if chance.random() < 0.7 else bytes(data)


def table_byte(chance: random.Random, data: bytearray) -> int:
    """A place in the header's numbers, or behind the first tables."""
    start = row_at(data, "dimensions")
    if chance.random() < 0.2 or start >= len(data):
        return chance.randrange(24, HEADER_BYTES)
    return chance.randrange(start, len(data))


def number(chance: random.Random, data: bytearray) -> int:
    """A number near one that matters."""
    near = chance.choice([0, 1, 2**31, 2**32, 2**48, 2**63, 2**64, len(data), 96, 384])
    return max(near + chance.choice([-8, -1, 0, 1, 8]), 0)


def test_ten_thousand_mutations_are_refused_or_mean_what_they_say() -> None:
    chance = random.Random(20)
    accepted = 0
    kinds: set[str] = set()
    for number in range(MUTATIONS):
        if number == MUTATIONS - TRACED:
            tracemalloc.start()
        data = mutated(chance)
        try:
            package = read_package(data)
        except PackageError as error:
            assert 0 <= error.offset <= max(len(data), len(DATA))
            kinds.add(str(error).split(": ")[-1].split(" ")[0])
            continue
        accepted += data != DATA
        assert package_bytes(package) == data
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000
    assert 50 < accepted < MUTATIONS // 2
    assert len(kinds) > 15
