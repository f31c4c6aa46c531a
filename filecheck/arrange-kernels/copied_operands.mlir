// RUN: mgn-opt -p arrange-kernels --device nvidia-h200 %s | filecheck %s

// A large product in tf32: both operands are rounded first, the right one turned, so that the unit
// reads them as they were copied.
// CHECK:      fusion.kernel pointwise ([[A:%.+]] = %a : tensor<4096x4096xf32>)
// CHECK-NEXT: [[R:%.+]] = mgn.round_tf32([[A]])
// CHECK-NEXT: fusion.return [[R]]
// CHECK:      fusion.kernel pointwise ([[B:%.+]] = %b : tensor<4096x4096xf32>)
// CHECK-NEXT: [[S:%.+]] = mgn.round_tf32([[B]])
// CHECK-NEXT: [[T:%.+]] = mgn.transpose([[S]]) perm = [1, 0]
// CHECK-NEXT: fusion.return [[T]]
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {rounded = 1 : i64, matrix = "tf32"}
// CHECK:      mgn.matmul({{.*}}) transpose_b = true
mgn.graph @g("a" = %a : tensor<4096x4096xf32>, "b" = %b : tensor<4096x4096xf32>) -> ("y" : tensor<4096x4096xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<4096x4096xf32>, %q = %b : tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>) {
    %l = mgn.round_tf32(%p) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %r = mgn.round_tf32(%q) : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %m = mgn.matmul(%l, %r) : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    fusion.return %m : tensor<4096x4096xf32>
  }
  mgn.return %0 : tensor<4096x4096xf32>
}
