// RUN: mgn-opt %s -p 'saturate{fuse=false}' | filecheck %s
// RUN: mgn-opt %s -p 'saturate{rules=exact}' | filecheck %s --check-prefix=EXACT

mgn.graph @g("x" = %x : tensor<8x8xf32>, "w" = %w : tensor<8x8xf32>) -> ("y" : tensor<8x8xf32>) {
  %zero = mgn.constant dense<0.0> : tensor<f32>
  %0 = mgn.matmul(%x, %w) : tensor<8x8xf32>
  %1 = mgn.add(%0, %zero) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = mgn.relu(%1) : tensor<8x8xf32>
  mgn.return %2 : tensor<8x8xf32>
}
// Without fusion each operation is a kernel of its own.
// CHECK: fusion.kernel contraction
// CHECK-NEXT: mgn.matmul
// CHECK-NEXT: fusion.return
// CHECK: fusion.kernel pointwise
// CHECK-NEXT: mgn.constant
// CHECK-NEXT: mgn.add
// CHECK-NEXT: fusion.return
// CHECK: fusion.kernel pointwise
// CHECK-NEXT: mgn.relu
// CHECK-NEXT: fusion.return

// x + 0 loses the sign of -0, so with exact rules alone it stays.
// EXACT: fusion.kernel contraction
// EXACT: mgn.matmul
// EXACT: mgn.add
// EXACT: mgn.relu
