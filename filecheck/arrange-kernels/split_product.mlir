// RUN: mgn-opt -p arrange-kernels --device nvidia-h200 %s | filecheck %s

// The shared axis becomes forty batches, whose sums the second kernel adds up before the epilogue.
// CHECK:      [[P:%.+]] = fusion.kernel contraction
// CHECK-SAME: -> (tensor<40x64x1000xf32>)
// CHECK:        mgn.matmul{{.*}} -> tensor<40x64x1000xf32>
// CHECK:      fusion.kernel reduction
// CHECK-SAME: = [[P]] : tensor<40x64x1000xf32>
// CHECK:        mgn.sum{{.*}} axis = [0]
// CHECK:        mgn.relu
mgn.graph @g("a" = %a : tensor<64x20000xf32>, "b" = %b : tensor<20000x1000xf32>) -> ("y" : tensor<64x1000xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<64x20000xf32>, %q = %b : tensor<20000x1000xf32>) -> (tensor<64x1000xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<64x20000xf32>, tensor<20000x1000xf32>) -> tensor<64x1000xf32>
    %r = mgn.relu(%m) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
    fusion.return %r : tensor<64x1000xf32>
  }
  mgn.return %0 : tensor<64x1000xf32>
}
