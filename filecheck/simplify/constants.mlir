// RUN: mgn-opt %s -p simplify | filecheck %s

mgn.graph @folds("x" = %x : tensor<2xf32>) -> ("y" : tensor<2xf32>) {
  %0 = mgn.constant dense<2.0> : tensor<f32>
  %1 = mgn.sqrt(%0) : tensor<f32>
  %2 = mgn.mul(%1, %x) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  mgn.return %2 : tensor<2xf32>
}
// CHECK: mgn.graph @folds
// CHECK-NEXT: %[[c:[a-z0-9]+]] = mgn.constant dense<1.41421354> : tensor<f32>
// CHECK-NEXT: mgn.mul(%x, %[[c]]) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT: mgn.return

// Half precision folds in half precision: 2048 + 1 is 2048.
mgn.graph @halves("x" = %x : tensor<2xf16>) -> ("y" : tensor<2xf16>) {
  %0 = mgn.constant dense<2048.0> : tensor<f16>
  %1 = mgn.constant dense<1.0> : tensor<f16>
  %2 = mgn.add(%0, %1) : tensor<f16>
  %3 = mgn.max(%x, %2) : (tensor<2xf16>, tensor<f16>) -> tensor<2xf16>
  mgn.return %3 : tensor<2xf16>
}
// CHECK: mgn.graph @halves
// CHECK-NEXT: mgn.constant dense<2.048000e+03> : tensor<f16>
// CHECK-NEXT: mgn.max

mgn.graph @masks("x" = %x : tensor<2x2xf32>) -> ("y" : tensor<2x2xf32>) {
  %0 = mgn.full() shape = [2, 2], value = -inf : () -> tensor<2x2xf32>
  %1 = mgn.isnan(%x) : (tensor<2x2xf32>) -> tensor<2x2xi1>
  %2 = mgn.where(%1, %0, %x) : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  mgn.return %2 : tensor<2x2xf32>
}
// CHECK: mgn.graph @masks
// CHECK: %[[c:[a-z0-9]+]] = mgn.constant -inf : tensor<f32>
// CHECK: mgn.where(%{{.*}}, %[[c]], %x) : (tensor<2x2xi1>, tensor<f32>, tensor<2x2xf32>) -> tensor<2x2xf32>

mgn.graph @dead_and_common("x" = %x : tensor<2xf32>) -> ("y" : tensor<2xf32>) {
  %0 = mgn.softmax(%x) axis = 0 : tensor<2xf32>
  %1 = mgn.exp(%x) : tensor<2xf32>
  %2 = mgn.exp(%x) : tensor<2xf32>
  %3 = mgn.mul(%1, %2) : tensor<2xf32>
  mgn.return %3 : tensor<2xf32>
}
// CHECK: mgn.graph @dead_and_common
// CHECK-NEXT: %[[e:[a-z0-9]+]] = mgn.exp(%x) : tensor<2xf32>
// CHECK-NEXT: mgn.mul(%[[e]], %[[e]]) : tensor<2xf32>
// CHECK-NEXT: mgn.return
