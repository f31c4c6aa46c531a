"""Every row of the OpenCL C table, run on a CPU device and compared with NumPy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.codegen.opencl.opencl import ROWS, CodegenError, emit, signature
from mgn.dialects.kernel import DEVICES
from tests.codegen.opencl_cases import CASES, COUNT, Case, samples
from tests.codegen.row_kernels import row_signatures
from tests.support.joint_programs import opencl_signatures
from tests.support.opencl_fixture import (
    DTYPES,
    FLOATS,
    assert_close,
    cl_queue,  # noqa: F401
    device_description,
    kernel,
    run_kernel,
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_row_computes_what_numpy_computes(case: Case, cl_queue: Any) -> None:  # noqa: F811
    inputs = [samples(e, seed, case.low, case.high) for seed, e in enumerate(case.inputs)]
    dtype = DTYPES[case.result]
    with np.errstate(all="ignore"):
        wide = [
            v.astype(np.float64) if e in FLOATS and "bitcast" not in case.body else v
            for v, e in zip(inputs, case.inputs, strict=True)
        ]
        expected = np.asarray(case.reference(*wide)).astype(dtype)
    for tested in row_signatures(case, opencl_signatures, cl_queue):
        result = np.empty(COUNT, dtype)
        run_kernel(cl_queue, tested, [*inputs, result])
        assert_close(result, expected, case.ulps)


def run_text(queue: Any, text: str, *arrays: np.ndarray) -> None:
    run_kernel(queue, signature(kernel(text), device_description(queue)), list(arrays))


def numbers(count: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


REDUCTIONS: list[tuple[str, str, Callable[[np.ndarray], Any]]] = [
    ("add", "f32", lambda v: v.sum(axis=1)),
    ("mul", "f32", lambda v: v.prod(axis=1)),
    ("maximumf", "f32", lambda v: v.max(axis=1)),
    ("minimumf", "f32", lambda v: v.min(axis=1)),
    ("maxnumf", "f32", lambda v: v.max(axis=1)),
    ("minnumf", "f32", lambda v: v.min(axis=1)),
    ("add", "f16", lambda v: v.astype(np.float32).sum(axis=1)),
    ("maximumf", "bf16", lambda v: v.max(axis=1)),
    ("add", "i32", lambda v: v.sum(axis=1)),
    ("mul", "i32", lambda v: v.prod(axis=1)),
    ("maxsi", "i32", lambda v: v.max(axis=1)),
    ("minsi", "i32", lambda v: v.min(axis=1)),
    ("maxui", "i32", lambda v: v.view(np.uint32).max(axis=1)),
    ("minui", "i32", lambda v: v.view(np.uint32).min(axis=1)),
    ("and", "i32", lambda v: np.bitwise_and.reduce(v, axis=1)),
    ("or", "i32", lambda v: np.bitwise_or.reduce(v, axis=1)),
    ("xor", "i32", lambda v: np.bitwise_xor.reduce(v, axis=1)),
    ("and", "i1", lambda v: v.all(axis=1)),
    ("or", "i1", lambda v: v.any(axis=1)),
]


@pytest.mark.parametrize(
    ("kind", "element", "reference"), REDUCTIONS, ids=lambda item: str(item)[:12]
)
@pytest.mark.parametrize("lanes", [2, 16])
def test_vector_reduction_combines_all_lanes(
    kind: str,
    element: str,
    reference: Callable[[np.ndarray], Any],
    lanes: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    generator = np.random.default_rng(3)
    if element in FLOATS:
        values = (generator.random((8, lanes)) + 0.5).astype(DTYPES[element])
    elif element == "i1":
        values = generator.random((8, lanes)) < 0.7
    else:
        values = generator.integers(-(2**31), 2**31, (8, lanes), dtype=np.int32)
    result = np.empty(8, values.dtype)
    run_text(
        cl_queue,
        f"""
kernel.func @reduce(%x : memref<{8 * lanes}x{element}>, %y : memref<8x{element}>)
    access [read, write] global [8, 1, 1] local [1, 1, 1] {{
  %i = kernel.global_id 0
  %n = arith.constant {lanes} : index
  %j = arith.muli %i, %n : index
  %v = vector.load %x[%j] : memref<{8 * lanes}x{element}>, vector<{lanes}x{element}>
  %r = vector.reduction <{kind}>, %v : vector<{lanes}x{element}> into {element}
  memref.store %r, %y[%i] : memref<8x{element}>
  kernel.return
}}""",
        values.reshape(-1),
        result,
    )
    expected = np.asarray(reference(values))
    if element == "i32":
        expected = expected.astype(np.int32)
    assert_close(result, expected.astype(result.dtype), 4 if element in FLOATS else 0)


def test_lanes_can_be_taken_put_shuffled_and_gathered(cl_queue: Any) -> None:  # noqa: F811
    x, y = numbers(16), np.empty(16, np.float32)
    run_text(
        cl_queue,
        """
kernel.func @lanes(%x : memref<16xf32>, %y : memref<16xf32>) access [read, write]
    global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %eight = arith.constant 8 : index
  %twelve = arith.constant 12 : index
  %a = vector.load %x[%zero] : memref<16xf32>, vector<4xf32>
  %b = vector.load %x[%four] : memref<16xf32>, vector<4xf32>
  %s = vector.shuffle %a, %b [3, 4, 0, 7] : vector<4xf32>, vector<4xf32>
  vector.store %s, %y[%zero] : memref<16xf32>, vector<4xf32>
  %t = vector.shuffle %a, %a [3, 2, 1, 0] : vector<4xf32>, vector<4xf32>
  %e = vector.extract %b[2] : f32 from vector<4xf32>
  %d = vector.extract %b[%one] : f32 from vector<4xf32>
  %p = vector.insert %e, %t[1] : f32 into vector<4xf32>
  %q = vector.insert %d, %p[%zero] : f32 into vector<4xf32>
  vector.store %q, %y[%four] : memref<16xf32>, vector<4xf32>
  %indices = arith.constant dense<[9, 2, 2, 15]> : vector<4xi32>
  %g = kernel.gather %x[%indices] : memref<16xf32>, vector<4xi32> -> vector<4xf32>
  vector.store %g, %y[%eight] : memref<16xf32>, vector<4xf32>
  %f = kernel.from_elements %e, %d : vector<2xf32>
  %w = vector.broadcast %e : f32 to vector<2xf32>
  %bits = vector.bitcast %w : vector<2xf32> to vector<2xi32>
  %back = vector.bitcast %bits : vector<2xi32> to vector<2xf32>
  %fourteen = arith.constant 14 : index
  vector.store %f, %y[%twelve] : memref<16xf32>, vector<2xf32>
  vector.store %back, %y[%fourteen] : memref<16xf32>, vector<2xf32>
  kernel.return
}""",
        x,
        y,
    )
    shuffled = [x[3], x[4], x[0], x[7]]
    inserted = [x[5], x[6], x[1], x[0]]
    np.testing.assert_array_equal(
        y, [*shuffled, *inserted, x[9], x[2], x[2], x[15], x[6], x[5], x[6], x[6]]
    )


def test_a_loop_carries_values_that_depend_on_each_other(cl_queue: Any) -> None:  # noqa: F811
    y = np.empty(4, np.int32)
    run_text(
        cl_queue,
        """
kernel.func @fibonacci(%y : memref<4xi32>) access [write] global [4, 1, 1] local [1, 1, 1] {
  %i = kernel.global_id 0
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %ten = arith.constant 10 : index
  %end = arith.addi %i, %ten : index
  %a0 = arith.constant 0 : i32
  %b0 = arith.constant 1 : i32
  %a, %b = scf.for %k = %zero to %end step %one iter_args(%p = %a0, %q = %b0) -> (i32, i32) {
    %s = arith.addi %p, %q : i32
    scf.yield %q, %s : i32, i32
  }
  %c = arith.cmpi eq, %i, %one : index
  %r = scf.if %c -> (i32) {
    scf.yield %b : i32
  } else {
    %n = arith.subi %a0, %a : i32
    scf.yield %n : i32
  }
  memref.store %r, %y[%i] : memref<4xi32>
  kernel.return
}""",
        y,
    )
    np.testing.assert_array_equal(y, [-55, 144, -144, -233])


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i1", "i64"])
def test_a_work_group_shares_memory_across_a_barrier(element: str, cl_queue: Any) -> None:  # noqa: F811
    x = (numbers(64) > 0) if element == "i1" else (numbers(64) * 9).astype(DTYPES[element])
    y = np.empty(64, x.dtype)
    run_text(
        cl_queue,
        f"""
kernel.func @turn(%x : memref<64x{element}>, %y : memref<64x{element}>) access [read, write]
    global [64, 1, 1] local [16, 1, 1] noalias {{
  %m = kernel.local_alloc : memref<16x{element}, #kernel.space<local>>
  %p = memref.alloca() : memref<2x{element}, #kernel.space<private>>
  %i = kernel.local_id 0
  %g = kernel.group_id 0
  %n = kernel.local_size 0
  %count = kernel.num_groups 0
  %all = kernel.global_size 0
  %per_group = arith.divsi %all, %count : index
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %base = arith.muli %g, %per_group : index
  kernel.prefetch %x[%base] level 1 : memref<64x{element}>
  kernel.prefetch %y[%base] level 2 write : memref<64x{element}>
  kernel.await_stages
  %e = kernel.async_copy %x[%base], %m[%zero] count 16
      : memref<64x{element}>, memref<16x{element}, #kernel.space<local>>
  kernel.async_wait %e
  kernel.barrier
  %last = arith.subi %n, %one : index
  %j = arith.subi %last, %i : index
  %v = memref.load %m[%j] : memref<16x{element}, #kernel.space<local>>
  memref.store %v, %p[%one] : memref<2x{element}, #kernel.space<private>>
  %w = memref.load %p[%one] : memref<2x{element}, #kernel.space<private>>
  %k = arith.addi %base, %i : index
  memref.store %w, %y[%k] : memref<64x{element}>
  kernel.return
}}""",
        x,
        y,
    )
    np.testing.assert_array_equal(y, x.reshape(4, 16)[:, ::-1].reshape(-1))


SUB_GROUPS = """
kernel.func @lanes(%x : memref<64xf32>, %y : memref<64xf32>) access [read, write]
    global [64, 1, 1] local [32, 1, 1] {
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<64xf32>
  %n = kernel.sub_group_size
  %g = kernel.sub_group_id
  %lane = kernel.sub_group_lane
  %one = arith.constant 1 : index
  %last = arith.subi %n, %one : index
  %turned = arith.subi %last, %lane : index
  %s = kernel.sub_group_shuffle %v, %turned : f32
  %sum = kernel.sub_group_reduce add %s : f32
  %most = kernel.sub_group_reduce max %s : f32
  %b = kernel.sub_group_broadcast %v, %last : f32
  %t = arith.addf %sum, %most : f32
  %r = arith.addf %t, %b : f32
  memref.store %r, %y[%i] : memref<64xf32>
  kernel.return
}"""

MMA = """
kernel.func @mma(%y : memref<4xf32>) access [write] global [32, 1, 1] local [32, 1, 1] {
  %a = arith.constant dense<1065369472> : vector<4xi32>
  %b = arith.constant dense<1065369472> : vector<2xi32>
  %c = arith.constant dense<0.0> : vector<4xf32>
  %d = kernel.mma m16n8k16_bf16 %a, %b, %c : vector<4xi32>, vector<2xi32>, vector<4xf32>
  %zero = arith.constant 0 : index
  vector.store %d, %y[%zero] : memref<4xf32>, vector<4xf32>
  kernel.return
}"""


def test_sub_group_operations_have_portable_text_and_text_for_nvidia() -> None:
    portable = emit(kernel(SUB_GROUPS), DEVICES["cpu"])
    assert "sub_group_reduce_add(" in portable and "sub_group_shuffle(v, " in portable
    nvidia = emit(kernel(SUB_GROUPS), DEVICES["nvidia-h200"])
    assert "shfl.sync.idx.b32" in nvidia and "sub_group_reduce_add(" not in nvidia


def test_sub_group_operations_exchange_values_between_work_items(cl_queue: Any) -> None:  # noqa: F811
    portable = "cl_khr_subgroup_shuffle" in cl_queue.device.extensions
    if not portable and "NVIDIA" not in cl_queue.device.vendor:
        pytest.skip("the device has no sub-groups that exchange values")
    x, y = numbers(64), np.empty(64, np.float32)
    run_text(cl_queue, SUB_GROUPS, x, y)
    errors = []
    for size in (4, 8, 16, 32):
        groups = x.reshape(-1, size)
        expected = groups.sum(axis=1) + groups.max(axis=1) + groups[:, -1]
        errors.append(np.abs(y - np.repeat(expected, size)).max())
    assert min(errors) < 1e-5


def test_a_reduction_starts_from_its_accumulator(cl_queue: Any) -> None:  # noqa: F811
    x = np.array([-5, 3, 2**31 - 1, 7], np.int32)
    y = np.empty(3, np.int32)
    run_text(
        cl_queue,
        """
kernel.func @reduce(%x : memref<4xi32>, %y : memref<3xi32>) access [read, write]
    global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %v = vector.load %x[%zero] : memref<4xi32>, vector<4xi32>
  %acc = arith.constant -2 : i32
  %a = vector.reduction <add>, %v, %acc : vector<4xi32> into i32
  %b = vector.reduction <maxui>, %v, %acc : vector<4xi32> into i32
  %c = vector.reduction <minsi>, %v, %acc : vector<4xi32> into i32
  memref.store %a, %y[%zero] : memref<3xi32>
  memref.store %b, %y[%one] : memref<3xi32>
  memref.store %c, %y[%two] : memref<3xi32>
  kernel.return
}""",
        x,
        y,
    )
    np.testing.assert_array_equal(y, [-(2**31) + 2, -2, -5])


def test_matrix_instructions_become_ptx_on_nvidia_and_exchanges_elsewhere() -> None:
    text = emit(kernel(MMA), DEVICES["nvidia-h200"])
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}" in text
    text = emit(kernel(MMA), DEVICES["cpu"])
    assert "asm" not in text and "intel_reqd_sub_group_size(32)" in text


def test_copies_and_fragments_are_ptx_on_nvidia() -> None:
    text = emit(
        kernel("""
kernel.func @copies(%x : memref<64xf32>) access [read] global [32, 1, 1] local [32, 1, 1] {
  %m = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
  %i = kernel.sub_group_lane
  kernel.copy_chunk %x[%i], %m[%i] count 4 : memref<64xf32>, memref<256xf32, #kernel.space<local>>
  kernel.copy_chunk %x[%i], %m[%i] count 1 valid %i : memref<64xf32>, memref<256xf32, #kernel.space<local>>
  kernel.commit_copies
  kernel.wait_copies 1
  %r = kernel.load_matrix %m[%i] : memref<256xf32, #kernel.space<local>> -> vector<4xf32>
  %s = kernel.round_tf32 %r : vector<4xf32>
  kernel.return
}"""),  # noqa: E501
        DEVICES["nvidia-h200"],
    )
    for instruction in (
        "cp.async.cg.shared.global [%0], [%1], 16;",
        "cp.async.ca.shared.global [%0], [%1], 4, %2;",
        "cp.async.commit_group;",
        "cp.async.wait_group 1;",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 ",
        "{%0, %1, %2, %3}, [%4];",
        "cvt.rn.tf32.f32 %0, %1;",
    ):
        assert instruction in text


PAIRS = """
kernel.func @pairs(%x : memref<8xf32>, %y : memref<4xi32>, %z : memref<8xf32>)
    access [read, write, write] global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %v = vector.load %x[%zero] : memref<8xf32>, vector<8xf32>
  %n = arith.truncf %v : vector<8xf32> to vector<8xbf16>
  %p = kernel.pack %n : vector<8xbf16> -> vector<4xi32>
  %u = kernel.unpack %p : vector<4xi32> -> vector<8xbf16>
  %w = arith.extf %u : vector<8xbf16> to vector<8xf32>
  vector.store %p, %y[%zero] : memref<4xi32>, vector<4xi32>
  vector.store %w, %z[%zero] : memref<8xf32>, vector<8xf32>
  kernel.return
}"""


@pytest.mark.parametrize(
    ("name", "dtype", "bits"), [("bf16", ml_dtypes.bfloat16, 9), ("f16", np.float16, 11)]
)
def test_pairs_are_rounded_to_nearest_with_the_first_in_the_lower_half(
    name: str,
    dtype: Any,
    bits: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    step = 2.0**-bits
    x = np.array([1.0, -step, 1 + step, 1 + 3 * step, 3e38, np.inf, -7, 1e-7], np.float32)
    y, z = np.empty(4, np.int32), np.empty(8, np.float32)
    run_text(cl_queue, PAIRS.replace("bf16", name), x, y, z)
    with np.errstate(over="ignore"):
        rounded = x.astype(dtype)
    np.testing.assert_array_equal(y.view(np.uint16), rounded.view(np.uint16))
    np.testing.assert_array_equal(z, rounded.astype(np.float32))


def test_rounding_two_numbers_into_a_register_is_one_instruction_on_nvidia() -> None:
    for name in ("bf16", "f16"):
        text = emit(kernel(PAIRS.replace("bf16", name)), DEVICES["nvidia-h200"])
        assert f"cvt.rn.{name}x2.f32" in text
    assert "asm" not in emit(kernel(PAIRS), DEVICES["cpu"])


@pytest.mark.parametrize("flags", ["", "fastmath<afn>"])
def test_an_approximate_power_of_two_is_nvidias_instruction(flags: str) -> None:
    source = kernel(f"""
kernel.func @power(%x : memref<1xf32>) access [read_write] global [1, 1, 1] local [1, 1, 1] {{
  %zero = arith.constant 0 : index
  %v = memref.load %x[%zero] : memref<1xf32>
  %p = math.exp2 %v {flags} : f32
  memref.store %p, %x[%zero] : memref<1xf32>
  kernel.return
}}""")
    assert ("ex2.approx.ftz.f32" in emit(source, DEVICES["nvidia-h200"])) == bool(flags)
    assert "exp2(" in emit(source, DEVICES["cpu"])


def test_an_operation_without_a_row_is_an_error_that_names_it() -> None:
    text = """
kernel.func @wide(%y : memref<4xi32>) access [write] global [1, 1, 1] local [1, 1, 1] {
  %a = arith.constant 1 : i32
  %s, %o = arith.addui_extended %a, %a : i32, i1
  kernel.return
}"""
    with pytest.raises(CodegenError, match=r"arith\.addui_extended has no OpenCL C text"):
        emit(kernel(text))


def test_the_text_of_a_kernel_reads_like_c_written_by_hand() -> None:
    text = """
kernel.func @axpy(%x : memref<64xf32>, %y : memref<64xf32>) access [read, read_write]
    global [4, 1, 1] local [1, 1, 1] noalias {
  %g = kernel.global_id 0
  %lanes = arith.constant 16 : index
  %i = arith.muli %g, %lanes : index
  %xs = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
  %ys = vector.load %y[%i] : memref<64xf32>, vector<16xf32>
  %a = arith.constant dense<0.5> : vector<16xf32>
  %ax = arith.mulf %a, %xs : vector<16xf32>
  %sum = arith.addf %ax, %ys : vector<16xf32>
  vector.store %sum, %y[%i] : memref<64xf32>, vector<16xf32>
  kernel.return
}"""
    assert (
        emit(kernel(text))
        == """#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void axpy(const __global float* restrict x, __global float* restrict y)
{
    int g = get_global_id(0);
    int i = g * 16;
    float16 xs = vload16(0, x + i);
    float16 ys = vload16(0, y + i);
    vstore16((float16)(0.5f) * xs + ys, 0, y + i);
}
"""
    )


def test_a_signature_holds_the_launch_and_a_digest_of_all_of_it() -> None:
    first, second = signature(kernel(MMA), DEVICES["nvidia-h200"]), signature(kernel(SUB_GROUPS))
    assert (first.name, first.global_size, first.local_size) == ("mma", (32, 1, 1), (32, 1, 1))
    assert [(a.access, a.element, a.count, a.bytes) for a in first.arguments] == [
        ("write", "f32", 4, 16)
    ]
    assert first.digest != second.digest
    assert first.digest == signature(kernel(MMA), DEVICES["nvidia-h200"]).digest


def test_every_row_of_the_table_is_run_by_a_test() -> None:
    tested = set().union(*(case.operations for case in CASES))
    text = Path(__file__).read_text()
    others = ("test_opencl_groups.py", "test_opencl_counts.py")
    more = "".join(Path(__file__).with_name(name).read_text() for name in others)
    names = r"(?:scf|memref|vector|kernel|arith)\.\w+"
    tested |= set(re.findall(names, text[text.index("def run_text") :] + more))
    tested |= {"kernel.cmpi", "kernel.cmpf", "kernel.select", "kernel.cast"}
    assert sorted(row.name for row in ROWS if row.name not in tested) == []


def test_a_value_that_gets_a_name_in_a_brace_has_none_behind_it() -> None:
    text = """kernel.func @k(%x : memref<4xf64>) access [read_write]
    global [2, 1, 1] local [2, 1, 1] {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %v = arith.constant dense<2.0> : vector<2xf64>
  %i = kernel.local_id 0
  %first = arith.cmpi slt, %i, %one : index
  scf.if %first {
    %a = vector.extract %v[0] : f64 from vector<2xf64>
    memref.store %a, %x[%zero] : memref<4xf64>
  }
  scf.if %first {
    %b = vector.extract %v[1] : f64 from vector<2xf64>
    memref.store %b, %x[%one] : memref<4xf64>
  }
  kernel.return }"""
    assert emit(kernel(text), DEVICES["cpu"]).count("= (double2)(2.0);") == 2
