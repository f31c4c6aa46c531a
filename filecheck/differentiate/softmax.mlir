// RUN: mgn-opt -p differentiate %s | filecheck %s
// RUN: mgn-opt -p differentiate,differentiate %s | filecheck %s

// A composite with a row answers as a whole, and what the scalar does not depend on gets zeros.
// CHECK:      %[[Y:.*]] = mgn.softmax(%x) axis = 0
// CHECK-NEXT: %[[T:.*]] = mgn.mul(%[[Y]], %w)
// CHECK-NEXT: %[[S:.*]] = mgn.sum(%[[T]])
// CHECK-NEXT: %[[ONE:.*]] = mgn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[R:.*]] = mgn.reshape(%[[ONE]]) shape = [1]
// CHECK-NEXT: %[[G:.*]] = mgn.broadcast_to(%[[R]]) shape = [4]
// CHECK-NEXT: %[[GY:.*]] = mgn.mul(%[[G]], %w)
// CHECK-NEXT: %[[P:.*]] = mgn.mul(%[[GY]], %[[Y]])
// CHECK-NEXT: %[[A:.*]] = mgn.sum(%[[P]]) axis = [0], keepdims = true
// CHECK-NEXT: %[[D:.*]] = mgn.sub(%[[GY]], %[[A]])
// CHECK-NEXT: %[[GX:.*]] = mgn.mul(%[[Y]], %[[D]])
// CHECK-NEXT: %[[GZ:.*]] = mgn.full() shape = [3], value = 0.0
// CHECK-NEXT: mgn.return %[[GX]], %[[GZ]]
mgn.graph @g("x" = %x: tensor<4xf32>, "w" = %w: tensor<4xf32>, "z" = %z: tensor<3xf32>) -> ("gx" : tensor<4xf32>, "gz" : tensor<3xf32>) {
  %y = mgn.softmax(%x) axis = 0 : tensor<4xf32>
  %t = mgn.mul(%y, %w) : tensor<4xf32>
  %s = mgn.sum(%t) axis = [0] : (tensor<4xf32>) -> tensor<f32>
  %gx, %gz = mgn.grad %s of %x, %z : tensor<f32>, tensor<4xf32>, tensor<3xf32>
  mgn.return %gx, %gz : tensor<4xf32>, tensor<3xf32>
}
