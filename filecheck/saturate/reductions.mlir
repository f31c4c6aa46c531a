// RUN: mgn-opt %s -p saturate | filecheck %s

// A softmax, scaled before and cut off after, is one reduction kernel that divides once a row, and
// says that what it subtracts need not be the largest where that is NaN.
mgn.graph @softmax("x" = %x : tensor<64x128xf32>) -> ("y" : tensor<64x128xf32>) {
  %c = mgn.constant dense<0.125> : tensor<f32>
  %0 = mgn.mul(%x, %c) : (tensor<64x128xf32>, tensor<f32>) -> tensor<64x128xf32>
  %1 = mgn.softmax(%0) axis = 1 : tensor<64x128xf32>
  %2 = mgn.relu(%1) : tensor<64x128xf32>
  mgn.return %2 : tensor<64x128xf32>
}
// CHECK: mgn.graph @softmax
// CHECK-NEXT: fusion.kernel reduction ({{.*}} arranged {maximum = "stabilises"} {
// CHECK-NEXT: mgn.constant dense<1.250000e-01> : tensor<f32>
// CHECK-NEXT: mgn.mul
// CHECK-NEXT: mgn.max_reduce
// CHECK-NEXT: mgn.sub
// CHECK-NEXT: mgn.exp
// CHECK-NEXT: mgn.sum
// CHECK-NEXT: mgn.recip
// CHECK-NEXT: mgn.mul
// CHECK-NEXT: mgn.relu
// CHECK-NEXT: fusion.return
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return

// The residual sum is written by the kernel that normalises it.
mgn.graph @residual("x" = %x : tensor<64x128xf32>, "y" = %y : tensor<64x128xf32>) -> ("sum" : tensor<64x128xf32>, "norm" : tensor<64x128xf32>) {
  %0 = mgn.add(%x, %y) : tensor<64x128xf32>
  %1 = mgn.rms_norm(%0) : tensor<64x128xf32>
  mgn.return %0, %1 : tensor<64x128xf32>, tensor<64x128xf32>
}
// CHECK: mgn.graph @residual
// CHECK-NEXT: %[[n:[a-z0-9]+]], %[[s:[a-z0-9]+]] = fusion.kernel reduction (
// CHECK-NEXT: mgn.add
// CHECK: fusion.return
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[s]], %[[n]]

// Reductions along different axes are kernels of their own.
mgn.graph @two_axes("x" = %x : tensor<64x128xf32>) -> ("y" : tensor<f32>) {
  %0 = mgn.sum(%x) axis = [0] : (tensor<64x128xf32>) -> tensor<128xf32>
  %1 = mgn.max_reduce(%0) axis = [0] : (tensor<128xf32>) -> tensor<f32>
  mgn.return %1 : tensor<f32>
}
// CHECK: mgn.graph @two_axes
// CHECK: fusion.kernel reduction
// CHECK: mgn.sum
// CHECK: fusion.kernel reduction
// CHECK-NOT: arranged
// CHECK: mgn.max_reduce
// CHECK: mgn.return

// A norm of groups goes on in the shape of channels, in one kernel.
mgn.graph @groups("x" = %x : tensor<2x32x16x16xf32>, "w" = %w : tensor<32xf32>, "b" = %b : tensor<32xf32>) -> ("y" : tensor<2x32x16x16xf32>) {
  %0 = mgn.group_norm(%x, %w, %b) groups = 8 : (tensor<2x32x16x16xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<2x32x16x16xf32>
  %1 = mgn.silu(%0) : tensor<2x32x16x16xf32>
  mgn.return %1 : tensor<2x32x16x16xf32>
}
// CHECK: mgn.graph @groups
// CHECK-NEXT: %[[y:[a-z0-9]+]] = fusion.kernel reduction (
// CHECK-NEXT: mgn.reshape
// CHECK-NEXT: mgn.sum
// CHECK: mgn.reshape
// CHECK: mgn.silu
// CHECK-NEXT: fusion.return
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[y]]
