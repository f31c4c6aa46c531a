// RUN: mgn-opt %s -p simplify | filecheck %s

mgn.graph @reshapes("x" = %x : tensor<4x8xf32>) -> ("y" : tensor<32xf32>, "z" : tensor<4x8xf32>) {
  %0 = mgn.reshape(%x) shape = [8, 4] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = mgn.reshape(%0) shape = [32] : (tensor<8x4xf32>) -> tensor<32xf32>
  %2 = mgn.reshape(%1) shape = [4, 8] : (tensor<32xf32>) -> tensor<4x8xf32>
  mgn.return %1, %2 : tensor<32xf32>, tensor<4x8xf32>
}
// CHECK: mgn.graph @reshapes
// CHECK-NEXT: %[[y:[a-z0-9]+]] = mgn.reshape(%x) shape = [32] : (tensor<4x8xf32>) -> tensor<32xf32>
// CHECK-NEXT: mgn.return %[[y]], %x : tensor<32xf32>, tensor<4x8xf32>

mgn.graph @transposes("x" = %x : tensor<2x3x4xf32>) -> ("y" : tensor<2x4x3xf32>) {
  %0 = mgn.transpose(%x) perm = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = mgn.transpose(%0) perm = [1, 0, 2] : (tensor<4x2x3xf32>) -> tensor<2x4x3xf32>
  mgn.return %1 : tensor<2x4x3xf32>
}
// CHECK: mgn.graph @transposes
// CHECK-NEXT: mgn.transpose(%x) perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: mgn.return

mgn.graph @shorthand("x" = %x : tensor<4x6xf32>) -> ("a" : tensor<4x2xf32>, "b" : tensor<1x4x4xf32>) {
  %0, %1 = mgn.split(%x) sizes = [2, 4], axis = 1 : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x4xf32>)
  %2 = mgn.expand_dims(%1) axis = [0] : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  mgn.return %0, %2 : tensor<4x2xf32>, tensor<1x4x4xf32>
}
// CHECK: mgn.graph @shorthand
// CHECK-NEXT: mgn.slice(%x) starts = [0, 0], stops = [4, 2], steps = [1, 1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: mgn.slice(%x) starts = [0, 2], stops = [4, 6], steps = [1, 1] : (tensor<4x6xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: mgn.reshape(%{{.*}}) shape = [1, 4, 4] : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
// CHECK-NEXT: mgn.return

mgn.graph @broadcasts("x" = %x : tensor<4x6xf32>, "b" = %b : tensor<6xf32>) -> ("y" : tensor<4x6xf32>) {
  %0 = mgn.broadcast_to(%b) shape = [4, 6] : (tensor<6xf32>) -> tensor<4x6xf32>
  %1 = mgn.add(%x, %0) : tensor<4x6xf32>
  mgn.return %1 : tensor<4x6xf32>
}
// CHECK: mgn.graph @broadcasts
// CHECK-NEXT: mgn.add(%x, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: mgn.return
