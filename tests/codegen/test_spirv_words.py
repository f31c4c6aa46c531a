"""SPIR-V words out and in: identity, errors with their offset, and hostile input."""

import random
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from mgn.codegen.opencl.opencl import signature as opencl_signature
from mgn.codegen.spirv.spirv import (
    SpirvError,
    deserialise,
    entry_points,
    module_bytes,
    signature,
)
from mgn.dialects import spirv
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.spirv import INSTRUCTIONS
from mgn.modules.dialect_table import make_context
from mgn.passes.convert_kernel_to_spirv import convert
from tests.codegen.opencl_cases import CASES, case_text
from tests.support.opencl_fixture import kernel

ADD = """
kernel.func @add(%x : memref<64xf64>, %y : memref<64xf64>) access [read, write]
    global [64, 1, 1] local [16, 1, 1] {
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<64xf64>
  %a = arith.constant 0.1 : f64
  %w = arith.addf %v, %a : f64
  memref.store %w, %y[%i] : memref<64xf64>
  kernel.return
}"""
HEADER = struct.pack("<5I", 0x07230203, 0x00010000, 0, 9, 0)
MUTATIONS = 10_000
LONGEST_SECONDS = 1.0
"""For one mutation of a binary of a few kilobytes, on a busy machine."""


def words_of(text: str) -> bytes:
    return module_bytes(convert([kernel(text)]))


def instruction_words(name: str, *operands: int) -> bytes:
    words = ((len(operands) + 1) << 16 | INSTRUCTIONS[name].opcode, *operands)
    return struct.pack(f"<{len(words)}I", *words)


def test_words_begin_with_the_header_of_the_specification() -> None:
    words = words_of(ADD)
    magic, version, generator, bound, schema = struct.unpack("<5I", words[:20])
    assert (magic, version, generator, schema) == (0x07230203, 0x00010000, 0, 0)
    results = sum(len(op.results) for op in deserialise(words).instructions)
    assert bound == results + 1


def test_a_module_that_is_read_back_is_the_same_module() -> None:
    words = words_of(ADD)
    module = deserialise(words)
    module.verify()
    assert entry_points(module) == ["add"]
    assert module_bytes(module) == words
    numbers = [op.literals for op in module.instructions if op.row.name == "OpConstant"]
    assert (struct.unpack("<Q", struct.pack("<d", 0.1))) in numbers


@pytest.mark.parametrize("form", [signature, opencl_signature])
def test_names_are_in_no_nameless_program_and_all_else_is(form: Callable[..., Any]) -> None:
    def nameless(text: str) -> bytes:
        func = kernel(text)
        given = (func, convert([func])) if form is signature else (func, DEVICES["cpu"])
        return form(*given).nameless

    found = nameless(ADD)
    for name in ("a", "add_", "pointwise_add_of_many_words_12"):
        assert nameless(ADD.replace("@add", f"@{name}")) == found
    assert b"add" not in found.replace(b"addf", b"")
    for change in (("0.1", "0.2"), ("addf", "mulf"), ("%v, %a", "%v, %v")):
        assert nameless(ADD.replace(*change)) != found


def test_words_in_another_order_are_their_own_nameless_program() -> None:
    own = signature(kernel(ADD), convert([kernel(ADD)]))
    for words in (b"", b"odd", struct.pack(">5I", *struct.unpack("<5I", HEADER))):
        assert replace(own, il=words).nameless == words


def test_a_binary_of_the_other_byte_order_is_the_same_module() -> None:
    words = words_of(ADD)
    swapped = struct.pack(f">{len(words) // 4}I", *struct.unpack(f"<{len(words) // 4}I", words))
    assert module_bytes(deserialise(swapped)) == words


def test_the_text_of_a_module_is_read_back_to_the_same_words() -> None:
    for case in CASES[::25]:
        words = words_of(case_text(case, case.lanes[-1]))
        text = str(ModuleOp([deserialise(words)]))
        module = Parser(make_context(), text).parse_module().body.block.first_op
        assert isinstance(module, spirv.ModuleOp)
        assert module_bytes(module) == words


def test_ids_are_numbered_afresh_so_that_equal_modules_have_equal_words() -> None:
    sparse = struct.pack("<5I", 0x07230203, 0x00010000, 7, 900, 0)
    sparse += instruction_words("OpMemoryModel", 2, 2) + instruction_words("OpTypeVoid", 800)
    dense = struct.pack("<5I", 0x07230203, 0x00010000, 0, 2, 0)
    dense += instruction_words("OpMemoryModel", 2, 2) + instruction_words("OpTypeVoid", 1)
    assert module_bytes(deserialise(sparse)) == dense


@pytest.mark.parametrize(
    ("data", "offset", "message"),
    [
        (b"", 0, "shorter than a header"),
        (HEADER[:19], 19, "shorter than a header"),
        (HEADER + b"\0\0", 20, "not a whole number of words"),
        (b"\0" * 20, 0, "the first word is 0x00000000"),
        (HEADER[:4] + b"\0\0\2\0" + HEADER[8:], 4, "the version is 2.0"),
        (HEADER[:16] + b"\1\0\0\0", 16, "the schema is not 0"),
        (HEADER + b"\0\0\0\0", 20, "an instruction of no words"),
        (HEADER + b"\x13\0\3\0", 20, "goes on behind the end"),
        (HEADER + b"\xff\xff\1\0", 20, "unknown instruction 65535"),
        (HEADER + instruction_words("OpTypeVoid"), 24, "OpTypeVoid ends before its result"),
        (HEADER + instruction_words("OpTypeVoid", 1, 2), 28, "is longer than its operands"),
        (HEADER + instruction_words("OpTypeVoid", 9), 24, "%9, outside the bound"),
        (HEADER + instruction_words("OpTypeVoid", 0), 24, "%0, outside the bound"),
        (HEADER + 2 * instruction_words("OpTypeVoid", 1), 28, "%1 is defined for the second time"),
        (HEADER + instruction_words("OpTypePointer", 1, 5, 2), 20, "uses %2, undefined"),
        (HEADER + instruction_words("OpCapability", 6000), 24, "unknown Capability 6000"),
        (HEADER + instruction_words("OpTypePointer", 1, 99, 2), 28, "unknown StorageClass 99"),
        (HEADER + instruction_words("OpConstant", 1, 2, 3), 32, "a type of no known width"),
        (HEADER + instruction_words("OpExtension", 0x41414141), 28, "OpExtension ends before name"),
        (HEADER + instruction_words("OpExtension", 0x00FFFFFF), 24, "not UTF-8"),
        (HEADER + instruction_words("OpExtension", 0x41004141), 24, "not filled up with zeros"),
        (HEADER + instruction_words("OpExtInstImport", 1, 0x41), 28, "unknown set of instructions"),
        (HEADER + instruction_words("OpExtInst", 1, 2, 3, 999), 36, "has no function 999"),
    ],
)
def test_a_damaged_binary_is_an_error_that_says_where(
    data: bytes, offset: int, message: str
) -> None:
    with pytest.raises(SpirvError) as raised:
        deserialise(data)
    assert message in str(raised.value)
    assert raised.value.offset == offset
    assert f"byte {offset}" in str(raised.value)


def mutated(data: bytes, generator: random.Random) -> bytes:
    """A binary that is cut off, has bits turned, a word changed, or a part gone or doubled."""
    changed = bytearray(data)
    kind = generator.randrange(5)
    if kind == 0:
        return data[: generator.randrange(len(data))]
    if kind == 1:
        for _ in range(generator.randrange(1, 5)):
            changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        return bytes(changed)
    start, end = sorted(4 * generator.randrange(len(data) // 4) for _ in range(2))
    if kind == 2:
        word = generator.choice([0, 1, 2**31, 2**32 - 1, generator.getrandbits(32)])
        changed[start : start + 4] = word.to_bytes(4, "little")
        return bytes(changed)
    if kind == 3:
        return data[:start] + data[end:] + generator.choice([b"", data[start:end]])
    return data[:end] + data[start:]


@pytest.mark.usefixtures("without_old_objects")
def test_ten_thousand_mutations_are_read_or_refused_in_bounded_time() -> None:
    generator = random.Random(20)
    chosen = [case for case in CASES if "ipowi" in case.body or "floordiv" in case.body][::3]
    seeds = [words_of(ADD), *(words_of(case_text(case, 4)) for case in chosen)]
    outcomes = {"refused": 0, "invalid": 0, "valid": 0}
    for _ in range(MUTATIONS):
        data = mutated(generator.choice(seeds), generator)
        start = time.process_time()
        try:
            module = deserialise(data)
            words = module_bytes(module)
            assert module_bytes(deserialise(words)) == words
            module.verify()
            outcomes["valid"] += 1
        except SpirvError as error:
            outcomes["refused"] += 1
            assert 0 <= error.offset <= len(data)
        except VerifyException:
            outcomes["invalid"] += 1
        assert time.process_time() - start < LONGEST_SECONDS
    assert sum(outcomes.values()) == MUTATIONS
    assert min(outcomes.values()) > 50


def test_a_header_that_promises_much_costs_nothing() -> None:
    greedy = struct.pack("<5I", 0x07230203, 0x00010000, 0, 2**32 - 1, 0)
    start = time.process_time()
    assert list(deserialise(greedy).instructions) == []
    assert time.process_time() - start < 0.1


def test_types_that_hold_themselves_are_refused_and_not_followed() -> None:
    header = struct.pack("<5I", 0x07230203, 0x00010000, 0, 9, 0)
    body = instruction_words("OpMemoryModel", 2, 2) + instruction_words("OpTypeVector", 1, 1, 4)
    with pytest.raises(VerifyException, match="components of a scalar type"):
        deserialise(header + body).verify()
