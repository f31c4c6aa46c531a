// RUN: mgn-opt %s | mgn-opt -f mlir - | filecheck %s

// CHECK: mgn.graph @g
mgn.graph @g("x" = %x : tensor<4x8xf32>) -> ("y" : tensor<4x8xf32>) {
  // CHECK-NEXT: %h = fusion.kernel pointwise (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) schedule {width = 8 : i64, form = "flat"} {
  %h = fusion.kernel pointwise (%a = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>)
      schedule {width = 8 : i64, form = "flat"} {
    // CHECK-NEXT: mgn.exp(%a) : tensor<4x8xf32>
    %0 = mgn.exp(%a) : tensor<4x8xf32>
    // CHECK-NEXT: fusion.return
    fusion.return %0 : tensor<4x8xf32>
  }
  // CHECK: %y = fusion.launch @kernel_0(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fusion.launch @kernel_0(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  mgn.return %y : tensor<4x8xf32>
}
