// RUN: mgn-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{needs the capability Float64}}
spirv.module version 1.0 {
  OpCapability Addresses
  OpCapability Kernel
  OpMemoryModel Physical64, OpenCL
  %double = OpTypeFloat 64
}

// -----

spirv.module version 1.0 {
  OpCapability Addresses
  OpCapability Kernel
  OpMemoryModel Physical64, OpenCL
  %int = OpTypeInt 32, 0
  %float = OpTypeFloat 32
  %one = OpConstant %int, 1
  %void = OpTypeVoid
  %type = OpTypeFunction %void
  %f = OpFunction %void, None, %type
  %entry = OpLabel
  // expected-error@+1 {{OpFAdd takes int32 and gives float32}}
  %sum = OpFAdd %float, %one, %one
  OpReturn
  OpFunctionEnd
}
