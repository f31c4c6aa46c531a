// RUN: mgn-opt %s -p decompose | filecheck %s
// RUN: mgn-opt %s -p 'decompose{only=silu}' | filecheck %s --check-prefix ONLY

mgn.graph @g("x" = %x : tensor<4x8xf32>, "h" = %h : tensor<4x8xf16>) -> ("y" : tensor<4x8xf32>, "z" : tensor<4x8xf16>) {
  %0 = mgn.softmax(%x) axis = 1 : tensor<4x8xf32>
  %1 = mgn.silu(%h) : tensor<4x8xf16>
  mgn.return %0, %1 : tensor<4x8xf32>, tensor<4x8xf16>
}
// CHECK: mgn.graph @g
// CHECK-NEXT: %[[m:[0-9]+]] = mgn.max_reduce(%x) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[d:[0-9]+]] = mgn.sub(%x, %[[m]]) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[e:[0-9]+]] = mgn.exp(%[[d]]) : tensor<4x8xf32>
// CHECK-NEXT: %[[s:[0-9]+]] = mgn.sum(%[[e]]) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: mgn.div(%[[e]], %[[s]]) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
// Half precision is computed in f32 and rounded once.
// CHECK-NEXT: %[[w:[0-9]+]] = mgn.cast(%h) T = f32 : (tensor<4x8xf16>) -> tensor<4x8xf32>
// CHECK-NEXT: mgn.neg(%[[w]]) : tensor<4x8xf32>
// CHECK: %[[p:[0-9]+]] = mgn.mul(%[[w]], %{{[0-9]+}}) : tensor<4x8xf32>
// CHECK-NEXT: mgn.cast(%[[p]]) T = f16 : (tensor<4x8xf32>) -> tensor<4x8xf16>
// CHECK-NEXT: mgn.return

// ONLY: mgn.softmax
// ONLY: mgn.sigmoid
// ONLY-NOT: mgn.silu
