// RUN: mgn-opt %s -p saturate | filecheck %s

mgn.graph @nothing_left("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %one = mgn.constant dense<1.0> : tensor<f32>
  %zero = mgn.constant dense<0.0> : tensor<f32>
  %0 = mgn.mul(%x, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mgn.sub(%0, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = mgn.neg(%1) : tensor<4xf32>
  %3 = mgn.neg(%2) : tensor<4xf32>
  mgn.return %3 : tensor<4xf32>
}
// CHECK: mgn.graph @nothing_left
// CHECK-NEXT: fusion.kernel pointwise (
// CHECK-NEXT: mgn.identity
// CHECK-NEXT: fusion.return

// 0 · nan is nan: the product stays.
mgn.graph @not_sound("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %zero = mgn.constant dense<0.0> : tensor<f32>
  %0 = mgn.mul(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  mgn.return %0 : tensor<4xf32>
}
// CHECK: mgn.graph @not_sound
// CHECK: mgn.mul

// A neutral element that broadcasts is not neutral.
mgn.graph @broadcasts("x" = %x : tensor<4xf32>) -> ("y" : tensor<3x4xf32>) {
  %ones = mgn.constant dense<1.0> : tensor<3x4xf32>
  %0 = mgn.mul(%x, %ones) : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  mgn.return %0 : tensor<3x4xf32>
}
// CHECK: mgn.graph @broadcasts
// CHECK: mgn.mul
// CHECK: mgn.return {{.*}} : tensor<3x4xf32>
