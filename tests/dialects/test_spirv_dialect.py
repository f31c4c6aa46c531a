"""The `spirv` dialect: its table, its text form, and what its verifiers refuse."""

import subprocess
from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from mgn.codegen.spirv.spirv import module_bytes
from mgn.dialects import spirv
from mgn.dialects.spirv import BY_OPCODE, ENUMS, INSTRUCTIONS, OPENCL_STD, OPERATIONS
from mgn.dialects.spirv.rules import RULES
from mgn.modules.dialect_table import make_context
from tests.support.spirv_fixture import tool

HEAD = """
  OpCapability Addresses
  OpCapability Kernel
  OpCapability Vector16
  OpCapability Int64
  OpCapability Groups
  %opencl = OpExtInstImport "OpenCL.std"
  OpMemoryModel Physical64, OpenCL
"""
TYPES = """
  %void = OpTypeVoid
  %bool = OpTypeBool
  %int = OpTypeInt 32, 0
  %long = OpTypeInt 64, 0
  %float = OpTypeFloat 32
  %v4 = OpTypeVector %float, 4
  %v4int = OpTypeVector %int, 4
  %pointer = OpTypePointer CrossWorkgroup, %float
  %one = OpConstant %int, 1
  %half = OpConstant %float, 0.5
  %halves = OpConstantComposite %v4, %half, %half, %half, %half
  %true = OpConstantTrue %bool
  %type = OpTypeFunction %void, %pointer
"""
FUNCTION = """
  %f = OpFunction %void, None, %type
  %x = OpFunctionParameter %pointer
  %entry = OpLabel
"""
END = "OpReturn\nOpFunctionEnd\n"


def parsed(body: str, version: str = "1.0") -> spirv.ModuleOp:
    text = f"spirv.module version {version} {{{body}}}"
    module = Parser(make_context(), text).parse_module().body.block.first_op
    assert isinstance(module, spirv.ModuleOp)
    return module


def whole(body: str, types: str = "", end: str = END) -> spirv.ModuleOp:
    return parsed(HEAD + TYPES + types + FUNCTION + body + end)


def test_the_table_and_the_rules_name_each_other() -> None:
    assert {row.rule for row in INSTRUCTIONS.values() if row.rule} == set(RULES)
    assert len(BY_OPCODE) == len(INSTRUCTIONS) == len(OPERATIONS)
    for row in INSTRUCTIONS.values():
        kinds = {field.kind for field in row.fields}
        assert kinds <= {"id", "int", "string", "number", "extended", *ENUMS}, row.name
        assert row.capability is None or row.capability in ENUMS["Capability"].by_name


def test_every_member_of_a_mask_is_a_bit_and_every_other_name_has_its_own_number() -> None:
    for enumeration in ENUMS.values():
        assert len(enumeration.by_name) == len(enumeration.by_value)
        if enumeration.is_mask:
            assert all(value & (value - 1) == 0 for value in enumeration.by_value)


def test_numbers_and_names_are_those_of_the_khronos_tools(tmp_path: Path) -> None:
    disassembler = tool("spirv-dis")
    body = "".join(
        f"%r{number} = OpExtInst %float, %opencl, {row.name}, "
        + ", ".join(["%half"] * len(row.fields))
        + "\n"
        for number, row in enumerate(OPENCL_STD.values())
        if row.lane_by_lane
    )
    module = whole(body)
    module.verify()
    path = tmp_path / "module.spv"
    path.write_bytes(module_bytes(module))
    done = subprocess.run([disassembler, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = [line.split()[5] for line in done.stdout.splitlines() if "OpExtInst %" in line]
    assert shown == [row.name for row in OPENCL_STD.values() if row.lane_by_lane]


def test_the_text_is_close_to_the_disassembly() -> None:
    module = whole("%v = OpLoad %float, %x, Aligned, 4\n%e = OpFAdd %float, %v, %half\n")
    module.verify()
    lines = [line.strip() for line in str(module).splitlines()]
    assert "OpMemoryModel Physical64, OpenCL" in lines
    assert "%half = OpConstant %float, 0.5" in lines
    assert "%v = OpLoad %float, %x, Aligned, 4" in lines
    assert "%e = OpFAdd %float, %v, %half" in lines


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("%float, 1.0", 0x3F800000),
        ("%float, -0.0", 0x80000000),
        ("%float, 0x7FC00001", 0x7FC00001),
        ("%float, 1.0e-05", 0x3727C5AC),
        ("%int, -1", 0xFFFFFFFF),
        ("%int, 4294967295", 0xFFFFFFFF),
        ("%long, -2", 2**64 - 2),
    ],
)
def test_constants_are_written_as_numbers_or_as_bits(text: str, bits: int) -> None:
    module = parsed(HEAD + TYPES + f"%c = OpConstant {text}\n")
    constant = list(module.instructions)[-1]
    assert constant.literals == (bits,)
    assert list(parsed(str(module).partition("{")[2].rpartition("}")[0]).instructions)[
        -1
    ].literals == (bits,)


BAD: list[tuple[str, str]] = [
    ("%r = OpFAdd %float, %half, %one\n", "OpFAdd takes int32 and gives float32"),
    ("%r = OpFAdd %int, %one, %one\n", "OpFAdd gives int32, not floats"),
    ("%r = OpIEqual %int, %one, %one\n", "OpIEqual gives int32, not bools"),
    ("%r = OpFOrdLessThan %bool, %halves, %halves\n", "gives bool1 of float32 × 4"),
    ("%r = OpSelect %float, %one, %half, %half\n", "OpSelect chooses by int32"),
    ("%r = OpConvertFToS %int, %one\n", "OpConvertFToS does not go from int32 to int32"),
    ("%r = OpUConvert %int, %one\n", "OpUConvert does not change the width of int32"),
    ("%r = OpBitcast %v4, %half\n", "changes the number of bits"),
    ("%r = OpVectorShuffle %v4, %halves, %halves, 0, 1, 2, 8\n", "a lane that is not one of 8"),
    ("%r = OpVectorShuffle %v4, %halves, %halves, 0, 1\n", "picks 2 lanes for float32 × 4"),
    ("%r = OpCompositeConstruct %v4, %half, %half\n", "makes float32 × 4 of 2 lanes"),
    ("%r = OpCompositeExtract %float, %halves, 4\n", r"has no lane \[4\] in float32 × 4"),
    ("%r = OpCompositeInsert %v4, %one, %halves, 0\n", "takes int32 as a lane of float32 × 4"),
    ("%r = OpLoad %int, %x\n", "OpLoad gives another type than lies there"),
    ("OpStore %x, %one\n", "OpStore writes another type than lies there"),
    ("OpStore %half, %half\n", "goes through something that is no pointer"),
    ("%r = OpInBoundsPtrAccessChain %pointer, %x, %half\n", "indexes by float32"),
    ("%r = OpExtInst %float, %opencl, pow, %half, %half, %half\n", "calls pow wrongly"),
    ("%r = OpExtInst %float, %opencl, exp, %halves\n", "exp takes float32 × 4 and gives float32"),
    ("OpControlBarrier %one, %one, %half\n", "takes 32-bit scopes and semantics"),
    ("%r = OpGroupFAdd %int, %one, Reduce, %one\n", "OpGroupFAdd of int32 gives int32"),
    ("OpBranch %half\n", "OpBranch goes to no block"),
    ("%r = OpFunctionCall %void, %half\n", "calls something that is no function"),
    ("%r = OpFunctionCall %void, %f, %half\n", "arguments of other types"),
    ("%r = OpPhi %float, %half, %entry\n", "does not name the blocks that come before its own"),
    ("%r = OpFAdd %float, %s, %half\n%s = OpFNegate %float, %half\n", "is not known there"),
    ("OpReturn\n%r = OpFNegate %float, %half\n", "stands outside a block"),
    ("%b = OpLabel\n", "begins a block before the last one has ended"),
    ("OpSelectionMerge %entry, None\n", "stands apart from its branch"),
    ("OpBranch %entry\n%b = OpLabel\n", "is the first block and is branched to"),
    ("%r = OpSubgroupShuffleINTEL %float, %half, %one\n", "the capability SubgroupShuffleINTEL"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_a_wrong_instruction_is_refused(body: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        whole(body).verify()


def refuse_parsing(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        whole(body)


def test_text_that_the_table_does_not_know_is_refused_at_its_place() -> None:
    refuse_parsing("%r = OpLoad %float, %x, Misaligned\n", "MemoryAccess has no member Misaligned")
    refuse_parsing("%r = OpExtInst %float, %opencl, expo, %half\n", "has no function expo")
    refuse_parsing("%r = OpConstant %int, 0.5\n", "of an integer type is an integer")
    refuse_parsing("%r = OpConstant %int, 4294967296\n", "does not fit 32 bits")
    refuse_parsing("%r = OpFrobnicate %int\n", "not registered")
    refuse_parsing("%r = OpIAdd %int, %one\n", "Expected ','")


BAD_MODULES: list[tuple[str, str]] = [
    (TYPES, "one OpMemoryModel, not 0"),
    (HEAD + "%t = OpTypeInt 32, 0\n%u = OpTypeInt 32, 0\n", "OpTypeInt %u declares a type for"),
    (HEAD + "%t = OpTypeInt 16, 0\n", "needs the capability Int16"),
    (HEAD + "%t = OpTypeFloat 16\n", "needs the capability Float16Buffer or Float16"),
    (HEAD + "%t = OpTypeInt 32, 1\n", "has a sign, which OpenCL does not allow"),
    (HEAD + "%t = OpTypeInt 24, 0\n", "has 24 bits"),
    (HEAD + "%t = OpTypeFloat 32\n%v = OpTypeVector %t, 5\n", "has 5 lanes"),
    (HEAD + TYPES + "OpCapability Int8\n", "stands too far below"),
    (HEAD + TYPES + "OpReturn\n", "stands outside a function"),
    (HEAD + "%c = OpConstant %t, 1.0\n%t = OpTypeFloat 32\n", "a constant's type"),
    (HEAD + TYPES + FUNCTION + "OpReturn\n", "has no OpFunctionEnd"),
    (HEAD + TYPES + FUNCTION + END + "%t = OpTypeEvent\n", "stands after a function"),
    (
        HEAD + TYPES + "%f = OpFunction %void, None, %type\n%e = OpLabel\n" + END,
        "has other parameters than its type",
    ),
    (HEAD + TYPES + "%f = OpFunction %int, None, %type\nOpFunctionEnd\n", "another type than it"),
    (
        HEAD + 'OpEntryPoint Kernel, %one, "f"\n' + TYPES,
        "OpEntryPoint names no function",
    ),
]


@pytest.mark.parametrize(("body", "message"), BAD_MODULES)
def test_a_wrong_module_is_refused(body: str, message: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=message):
        parsed(body).verify()


def test_a_value_is_known_only_behind_its_definition_on_every_way() -> None:
    body = """
  OpSelectionMerge %behind, None
  OpBranchConditional %true, %yes, %behind
  %yes = OpLabel
  %r = OpFNegate %float, %half
  OpBranch %behind
  %behind = OpLabel
"""
    good = body + "%p = OpPhi %float, %half, %entry, %r, %yes\n"
    whole(good).verify()
    with pytest.raises(VerifyException, match="OpFAdd %s uses the result of an OpFNegate"):
        whole(good + "%s = OpFAdd %float, %r, %half\n").verify()
    with pytest.raises(VerifyException, match="OpPhi %p uses the result of an OpFNegate"):
        whole(body + "%p = OpPhi %float, %r, %entry, %r, %yes\n").verify()


def test_a_version_that_is_not_ours_is_refused() -> None:
    with pytest.raises(VerifyException, match=r"SPIR-V 1\.5 is none of 1\.0 to 1\.4"):
        parsed(HEAD, "1.5").verify()
    parsed(HEAD, "1.4").verify()
