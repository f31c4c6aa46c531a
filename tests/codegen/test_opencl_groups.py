"""Products by groups of four sub-groups in OpenCL C: instructions that a program carries."""

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES
from tests.support.opencl_fixture import kernel


def test_products_of_groups_carry_their_registers_in_a_comment() -> None:
    text = emit(
        kernel("""
kernel.func @group(%y : memref<512xf32>) access [write] global [128, 1, 1] local [128, 1, 1] {
  %m = kernel.local_alloc : memref<32768xf16, #kernel.space<local>>
  %c = arith.constant dense<0.0> : vector<4xf32>
  %zero = arith.constant 0 : index
  kernel.publish_copies
  kernel.barrier
  %d = kernel.group_mma %m[%zero, %zero] steps 4 parts [0, 0] adds %c
      : memref<32768xf16, #kernel.space<local>>, vector<4xf32> -> vector<4xf32>
  %e = kernel.wait_products 0 of %d : vector<4xf32>
  vector.store %e, %y[%zero] : memref<512xf32>, vector<4xf32>
  kernel.return
}"""),
        DEVICES["nvidia-h200"],
    )
    assert text.count("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}") == 4
    assert "// ptx shared m_bits 32768 65536" in text
    assert '"=f"(sums[0].s0)' in text and "setp.ne.u32 p" in text  # nothing is added to zeros
    order = [
        "fence.proxy.async",
        "barrier(",
        "// @ptx wgmma.fence",
        "wgmma.wait_group",
        "(sums_1[0].s3)",
    ]
    assert sorted(order, key=text.index) == order


def test_products_of_rows_that_are_held_name_their_registers_before_the_tile() -> None:
    text = emit(
        kernel("""
kernel.func @held(%x : memref<4xi32>, %y : memref<512xf32>) access [read, read_write] global [128, 1, 1] local [128, 1, 1] {
  %m = kernel.local_alloc : memref<4096xbf16, #kernel.space<local>>
  %zero = arith.constant 0 : index
  %c = vector.load %y[%zero] : memref<512xf32>, vector<4xf32>
  %f = vector.load %x[%zero] : memref<4xi32>, vector<4xi32>
  %d = kernel.group_mma_held %f, %f times %m[%zero] part 8192 adds %c : vector<4xi32>, vector<4xi32> times memref<4096xbf16, #kernel.space<local>> adds vector<4xf32> -> vector<4xf32>
  %e = kernel.wait_products 0 of %d : vector<4xf32>
  vector.store %e, %y[%zero] : memref<512xf32>, vector<4xf32>
  kernel.return
}"""),  # noqa: E501
        DEVICES["nvidia-h200"],
    )
    order = [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}",
        "add.s64 db, db, 128;",
        "{%8, %9, %10, %11}, db, p, 1, 1, 1;",
        "wgmma.commit_group",
        '"+f"(sums[0].s0)',
    ]
    assert "and.b32 t, %12, 0x3ffff;" in text
    assert sorted(order, key=text.index) == order
