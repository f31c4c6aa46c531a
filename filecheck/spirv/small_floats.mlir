// RUN: mgn-opt %s -p convert-kernel-to-spirv | filecheck %s

// Halves are 16 bits in memory, 32 while they are computed with, and rounded by a function.

// CHECK:     OpCapability Vector16
// CHECK:     OpCapability Float16Buffer
// CHECK:     OpName %round_f16_32_32x16, "round_f16_32_32x16"
// CHECK:     %round_f16_32_32x16 = OpFunction %v16float, Inline
// CHECK:     OpExtInst %void, %opencl, vstore_halfn_r, %{{.*}}, %{{.*}}, %{{.*}}, RTE
// CHECK:     OpExtInst %v16float, %opencl, vload_halfn, %{{.*}}, %{{.*}}, 16
// CHECK:     OpReturnValue
// CHECK:     %scale = OpFunction %void, None
// CHECK:     OpExtInst %v16float, %opencl, vload_halfn, %{{.*}}, %{{.*}}, 16
// CHECK:     OpFMul %v16float
// CHECK:     OpFunctionCall %v16float, %round_f16_32_32x16
// CHECK:     OpExtInst %void, %opencl, vstore_halfn_r, %{{.*}}, %{{.*}}, %{{.*}}, RTE
kernel.func @scale(%x : memref<64xf16>, %y : memref<64xf16>) access [read, write]
    global [4, 1, 1] local [1, 1, 1] {
  %g = kernel.global_id 0
  %lanes = arith.constant 16 : index
  %i = arith.muli %g, %lanes : index
  %v = vector.load %x[%i] : memref<64xf16>, vector<16xf16>
  %a = arith.constant dense<0.5> : vector<16xf16>
  %w = arith.mulf %v, %a : vector<16xf16>
  vector.store %w, %y[%i] : memref<64xf16>, vector<16xf16>
  kernel.return
}
