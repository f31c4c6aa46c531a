// RUN: mgn-opt %s -p convert-kernel-to-spirv | filecheck %s
// RUN: mgn-opt %s -t spirv-asm | filecheck %s --check-prefix=ASM
// RUN: mgn-opt %s -t spirv -o %t.spv
// RUN: mgn-opt %t.spv -t spirv-asm | filecheck %s --check-prefix=BACK

// CHECK:      spirv.module version 1.0 {
// CHECK-NEXT: OpCapability Addresses
// CHECK-NEXT: OpCapability Kernel
// CHECK:      %opencl = OpExtInstImport "OpenCL.std"
// CHECK-NEXT: OpMemoryModel Physical64, OpenCL
// CHECK-NEXT: OpEntryPoint Kernel, %running, "running", %GlobalInvocationId
// CHECK-NEXT: OpExecutionMode %running, LocalSize, 16, 1, 1
// CHECK-NEXT: OpExecutionMode %running, ContractionOff
// CHECK:      OpDecorate %x, FuncParamAttr, NoWrite
// CHECK:      OpDecorate %{{.*}}, SaturatedConversion
// CHECK:      %running = OpFunction %void, None
// CHECK-NEXT: %x = OpFunctionParameter %ptr_CrossWorkgroup_float
// CHECK-NEXT: %y = OpFunctionParameter %ptr_CrossWorkgroup_uint
// CHECK:      OpBranch [[header:%[0-9]+]]
// CHECK-NEXT: [[header]] = OpLabel
// CHECK-NEXT: [[i:%[A-Za-z0-9_]+]] = OpPhi %uint
// CHECK-NEXT: [[sum:%[A-Za-z0-9_]+]] = OpPhi %float
// CHECK-NEXT: [[more:%[A-Za-z0-9_]+]] = OpSLessThan %bool, [[i]], %
// CHECK-NEXT: OpLoopMerge [[behind:%[A-Za-z0-9_]+]], [[advance:%[A-Za-z0-9_]+]], None
// CHECK-NEXT: OpBranchConditional [[more]], %{{.*}}, [[behind]]
// CHECK:      OpInBoundsPtrAccessChain %ptr_CrossWorkgroup_float, %x, [[i]]
// CHECK:      OpLoad %float, %{{.*}}, Aligned, 4
// CHECK:      OpExtInst %float, %opencl, exp, %
// CHECK:      OpFAdd %float, [[sum]], %
// CHECK:      [[advance]] = OpLabel
// CHECK:      OpBranch [[header]]
// CHECK-NEXT: [[behind]] = OpLabel
// CHECK:      OpSelectionMerge
// CHECK:      OpConvertFToS %uint, [[sum]]
// CHECK:      OpPhi %uint
// CHECK:      OpStore %{{.*}}, %{{.*}}, Aligned, 4
// CHECK-NEXT: OpReturn
// CHECK-NEXT: OpFunctionEnd
// CHECK-NEXT: }
// CHECK-NOT:  kernel.func

// ASM: ; Version: 1.0
// ASM: OpMemoryModel Physical64 OpenCL
// ASM: OpEntryPoint Kernel %running "running" %GlobalInvocationId
// ASM: %x = OpFunctionParameter %ptr_CrossWorkgroup_float

// BACK: OpMemoryModel Physical64 OpenCL
// BACK: OpExecutionMode %{{.*}} LocalSize 16 1 1
// BACK: %x = OpFunctionParameter
// BACK: OpPhi

kernel.func @running(%x : memref<64xf32>, %y : memref<64xi32>) access [read, write]
    global [64, 1, 1] local [16, 1, 1] {
  %g = kernel.global_id 0
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %start = arith.constant 0.0 : f32
  %sum = scf.for %i = %zero to %g step %one iter_args(%s = %start) -> (f32) {
    %v = memref.load %x[%i] : memref<64xf32>
    %e = math.exp %v : f32
    %t = arith.addf %s, %e : f32
    scf.yield %t : f32
  }
  %c = arith.cmpf ogt, %sum, %start : f32
  %none = arith.constant -1 : i32
  %r = scf.if %c -> (i32) {
    %n = arith.fptosi %sum : f32 to i32
    scf.yield %n : i32
  } else {
    scf.yield %none : i32
  }
  memref.store %r, %y[%g] : memref<64xi32>
  kernel.return
}
