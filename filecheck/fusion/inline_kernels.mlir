// RUN: mgn-opt %s -p inline-kernels | filecheck %s

mgn.graph @g("x" = %x : tensor<4x8xf32>, "w" = %w : tensor<8x8xf32>) -> ("y" : tensor<4x8xf32>, "m" : tensor<4x1xf32>) {
  %h = fusion.kernel contraction (%a = %x : tensor<4x8xf32>, %b = %w : tensor<8x8xf32>) -> (tensor<4x8xf32>) {
    %0 = mgn.matmul(%a, %b) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = mgn.relu(%0) : tensor<4x8xf32>
    fusion.return %1 : tensor<4x8xf32>
  }
  %y, %m = fusion.kernel reduction (%c = %h : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
    %2 = mgn.max_reduce(%c) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %3 = mgn.sub(%c, %2) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    fusion.return %3, %2 : tensor<4x8xf32>, tensor<4x1xf32>
  }
  mgn.return %y, %m : tensor<4x8xf32>, tensor<4x1xf32>
}
// CHECK: mgn.graph @g
// CHECK-NEXT: %[[p:[a-z0-9]+]] = mgn.matmul(%x, %w)
// CHECK-NEXT: %[[r:[a-z0-9]+]] = mgn.relu(%[[p]])
// CHECK-NEXT: %[[m:[a-z0-9]+]] = mgn.max_reduce(%[[r]]) axis = [1], keepdims = true
// CHECK-NEXT: %[[y:[a-z0-9]+]] = mgn.sub(%[[r]], %[[m]])
// CHECK-NEXT: mgn.return %[[y]], %[[m]]
