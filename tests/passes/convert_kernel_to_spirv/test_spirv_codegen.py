"""Every row of the conversion to SPIR-V, run on a device beside the OpenCL C of the same row."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from mgn.codegen.opencl.opencl import ROWS as OPENCL_ROWS
from mgn.codegen.opencl.opencl import signature
from mgn.codegen.spirv.assembly import assembly
from mgn.codegen.spirv.spirv import deserialise, module_bytes
from mgn.dialects.kernel import DEVICES, FuncOp
from mgn.modules.verification import verify_whole
from mgn.passes.convert_kernel_to_spirv import ROWS, ConversionError, convert
from tests.codegen import test_opencl_codegen as opencl_tests
from tests.codegen.opencl_cases import CASES, COUNT, Case, samples
from tests.codegen.row_kernels import row_kernels, row_signatures
from tests.codegen.test_opencl_codegen import (  # the same tests, on SPIR-V
    MMA,
    SUB_GROUPS,
    test_a_loop_carries_values_that_depend_on_each_other,  # noqa: F401
    test_a_reduction_starts_from_its_accumulator,  # noqa: F401
    test_a_work_group_shares_memory_across_a_barrier,  # noqa: F401
    test_lanes_can_be_taken_put_shuffled_and_gathered,  # noqa: F401
    test_sub_group_operations_exchange_values_between_work_items,  # noqa: F401
    test_vector_reduction_combines_all_lanes,  # noqa: F401
)
from tests.support.joint_programs import opencl_signatures
from tests.support.opencl_fixture import (
    DTYPES,
    assert_close,
    build_unoptimised,
    cl_queue,  # noqa: F401
    kernel,
    run_kernel,
)
from tests.support.spirv_fixture import (
    need_spirv,
    spirv_signature,
    tool,
    validate,
    validated_signatures,
)

LIBRARY_ULPS = 2
"""How far OpenCL.std and the functions of OpenCL C may be apart."""


@pytest.fixture(autouse=True)
def on_spirv(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The imported tests get their kernels as SPIR-V."""
    monkeypatch.setattr(opencl_tests, "signature", spirv_signature)
    build_unoptimised(monkeypatch)
    if "cl_queue" in request.fixturenames:
        need_spirv(request.getfixturevalue("cl_queue"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_row_gives_the_bits_that_opencl_c_gives(case: Case, cl_queue: Any) -> None:  # noqa: F811
    """In words that the Khronos validator accepts."""
    inputs = [samples(e, seed, case.low, case.high) for seed, e in enumerate(case.inputs)]
    pairs = zip(
        row_signatures(case, opencl_signatures, cl_queue),
        row_signatures(case, validated_signatures, cl_queue),
        strict=True,
    )
    for pair in pairs:
        results = [np.empty(COUNT, DTYPES[case.result]) for _ in pair]
        for tested, result in zip(pair, results, strict=True):
            run_kernel(cl_queue, tested, [*inputs, result])
        assert_close(results[1], results[0], LIBRARY_ULPS if case.ulps > 0.5 else 0)


def kernels_of_rows(step: int) -> list[FuncOp]:
    """The kernels of every so many-th row."""
    return [func for number in range(0, len(CASES), step) for func in row_kernels(number)]


def test_the_khronos_validator_accepts_sub_groups_and_local_memory() -> None:
    text = """
kernel.func @turn(%x : memref<64xf16>, %y : memref<64xf16>) access [read, write]
    global [64, 1, 1] local [16, 1, 1] noalias {
  %m = kernel.local_alloc : memref<16xf16, #kernel.space<local>>
  %p = memref.alloca() : memref<2xi1, #kernel.space<private>>
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  %e = kernel.async_copy %x[%zero], %m[%zero] count 16
      : memref<64xf16>, memref<16xf16, #kernel.space<local>>
  kernel.async_wait %e
  kernel.barrier
  %v = memref.load %m[%four] : memref<16xf16, #kernel.space<local>>
  %c = arith.cmpf oge, %v, %v : f16
  memref.store %c, %p[%zero] : memref<2xi1, #kernel.space<private>>
  memref.store %v, %y[%zero] : memref<64xf16>
  kernel.return
}"""
    for source in (text, SUB_GROUPS):
        func = kernel(source)
        validate(module_bytes(convert([func])))


def test_words_of_every_row_are_read_back_and_written_alike() -> None:
    for func in kernels_of_rows(step=7):
        words = module_bytes(convert([func]))
        module = deserialise(words)
        verify_whole(module)
        assert module_bytes(module) == words


def test_the_assembly_of_rows_is_assembled_to_the_same_words(tmp_path: Path) -> None:
    assembler = tool("spirv-as")
    module = convert(kernels_of_rows(step=5))
    source, target = tmp_path / "rows.spvasm", tmp_path / "rows.spv"
    source.write_text(assembly(module))
    command = [assembler, "--target-env", "spv1.0", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours, theirs = module_bytes(module), target.read_bytes()
    assert len(ours) == len(theirs)
    assert ours[:8] == theirs[:8]
    if ours[20:] != theirs[20:]:  # the assembler numbers ids as it meets them
        assert module_bytes(deserialise(theirs)) == ours


def test_both_ways_out_have_the_same_rows() -> None:
    assert set(ROWS) == set(OPENCL_ROWS)


def test_what_has_no_form_in_spirv_is_an_error_that_names_it() -> None:
    with pytest.raises(ConversionError, match=r"kernel\.mma needs an NVIDIA device"):
        convert([kernel(MMA)])
    text = """
kernel.func @wide(%y : memref<4xi32>) access [write] global [1, 1, 1] local [1, 1, 1] {
  %a = arith.constant 1 : i32
  %s, %o = arith.addui_extended %a, %a : i32, i1
  kernel.return
}"""
    with pytest.raises(ConversionError, match=r"arith\.addui_extended has no form in SPIR-V"):
        convert([kernel(text)])


def test_a_kernel_is_a_module_with_its_launch_and_no_more_capabilities_than_it_needs() -> None:
    text = """
kernel.func @exp(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write]
    global [64, 1, 1] local [16, 1, 1] noalias {
  %m = kernel.local_alloc : memref<16xi16, #kernel.space<local>>
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<64xf32>
  memref.store %v, %y[%i] : memref<64xf32>
  kernel.return
}"""
    func = kernel(text)
    kernel_signature = spirv_signature(func)
    assert kernel_signature.name == "exp_"
    assert (kernel_signature.global_size, kernel_signature.local_size) == ((64, 1, 1), (16, 1, 1))
    assert kernel_signature.local_memory == 32
    assert kernel_signature.arguments == signature(func).arguments
    assert kernel_signature.digest != signature(func).digest
    lines = assembly(convert([func])).splitlines()
    capabilities = [line.split()[1] for line in lines if "OpCapability" in line]
    assert capabilities == ["Addresses", "Kernel", "Int64", "Int16"]
    modes = [line.split()[2:] for line in lines if "OpExecutionMode" in line]
    assert modes == [["LocalSize", "16", "1", "1"], ["ContractionOff"]]
    attributes = [line.split()[1:] for line in lines if "FuncParamAttr" in line]
    assert attributes == [
        ["%x", "FuncParamAttr", "NoAlias"],
        ["%x", "FuncParamAttr", "NoWrite"],
        ["%y", "FuncParamAttr", "NoAlias"],
    ]


def test_buffers_of_more_elements_than_an_int_counts_are_indexed_by_64_bits() -> None:
    text = """
kernel.func @far(%x : memref<4294967296xi8>) access [read_write]
    global [1, 1, 1] local [1, 1, 1] {
  %i = arith.constant 4294967295 : index
  %v = memref.load %x[%i] : memref<4294967296xi8>
  memref.store %v, %x[%i] : memref<4294967296xi8>
  kernel.return
}"""
    assert "OpConstant %ulong 4294967295" in assembly(convert([kernel(text)]))


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i8", "i1"])
def test_a_vector_that_is_stated_to_be_aligned_is_read_and_written_as_one(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    size = 8 * np.dtype(DTYPES[element]).itemsize
    func = kernel(
        f"""
kernel.func @copy(%x : memref<64x{element}>, %y : memref<64x{element}>) access [read, write]
    global [1, 1, 1] local [1, 1, 1] {{
  %zero = arith.constant 0 : index
  %end = arith.constant 64 : index
  %step = arith.constant 8 : index
  scf.for %i = %zero to %end step %step {{
    %v = vector.load %x[%i] : memref<64x{element}>, vector<8x{element}>
    vector.store %v, %y[%i] : memref<64x{element}>, vector<8x{element}>
  }} {{unroll = 4 : i64}}
  kernel.return
}}"""
    )
    for operation in func.walk():
        if operation.name in ("vector.load", "vector.store"):
            operation.attributes["alignment"] = IntegerAttr(size, i64)
    text = assembly(convert([func]))
    assert "Unroll" in text
    assert f"Aligned {size}" in text or "vloada_halfn" in text
    x = (np.arange(64) % 5 > 1).astype(DTYPES[element])
    y = np.empty_like(x)
    (tested,) = validated_signatures([func], [DEVICES["cpu"]])
    run_kernel(cl_queue, tested, [x, y])
    np.testing.assert_array_equal(x, y)
