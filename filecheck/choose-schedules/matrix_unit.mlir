// RUN: mgn-opt -p choose-schedules --device nvidia-h200 %s | filecheck %s
// RUN: mgn-opt -p choose-schedules --device cpu %s | filecheck %s --check-prefix=CPU

// A kernel runs on the matrix unit if it says so, and not for what it computes; a device without a
// unit does without.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {matrix = "tf32"} schedule {{.*}} matrix = "tf32", matrix_unit = "wgmma"
// CHECK:      fusion.kernel contraction
// CHECK-SAME: schedule
// CHECK-NOT:  matrix =

// CPU:      fusion.kernel contraction
// CPU-SAME: arranged {matrix = "tf32"} schedule
// CPU-NOT:  matrix =
mgn.graph @g("a" = %a : tensor<64x64xf32>, "b" = %b : tensor<64x64xf32>) -> ("y" : tensor<64x64xf32>, "z" : tensor<64x64xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<64x64xf32>, %q = %b : tensor<64x64xf32>) -> (tensor<64x64xf32>) arranged {matrix = "tf32"} {
    %l = mgn.round_tf32(%p) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = mgn.round_tf32(%q) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %m = mgn.matmul(%l, %r) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.return %m : tensor<64x64xf32>
  }
  %1 = fusion.kernel contraction (%p = %a : tensor<64x64xf32>, %q = %b : tensor<64x64xf32>) -> (tensor<64x64xf32>) {
    %l = mgn.round_tf32(%p) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = mgn.round_tf32(%q) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %m = mgn.matmul(%l, %r) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.return %m : tensor<64x64xf32>
  }
  mgn.return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}
