// RUN: mgn-opt -p choose-schedules --device nvidia-h200 %s | filecheck %s

// What a kernel is arranged for goes into its schedule; a large product that is arranged for nothing
// stays one kernel.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {rounded = 1 : i64, matrix = "tf32"} schedule {{.*}} matrix = "tf32", {{.*}} rounded = 1
// CHECK:      fusion.kernel contraction
// CHECK-NOT:  rounded
// CHECK-NOT:  fusion.kernel
mgn.graph @g("a" = %a : tensor<4096x4096xf32>, "b" = %b : tensor<4096x4096xf32>) -> ("y" : tensor<4096x4096xf32>, "z" : tensor<4096x4096xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<4096x4096xf32>, %q = %b : tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>) arranged {rounded = 1 : i64, matrix = "tf32"} {
    %l = mgn.round_tf32(%p) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %r = mgn.round_tf32(%q) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %m = mgn.matmul(%l, %r) transpose_b = true : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    fusion.return %m : tensor<4096x4096xf32>
  }
  %1 = fusion.kernel contraction (%p = %a : tensor<4096x4096xf32>, %q = %b : tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    fusion.return %m : tensor<4096x4096xf32>
  }
  mgn.return %0, %1 : tensor<4096x4096xf32>, tensor<4096x4096xf32>
}
