// RUN: mgn-opt -p choose-schedules,lower-kernels %s | filecheck %s

// Halves of a product's columns meet: a step of a panel has a vector of each, 32 columns apart.
// CHECK:       kernel.func @contraction_matmul_mul_0(%p: memref<128xf32>, %q: memref<512xf32>, %out: memref<512xf32>)
// CHECK:       %[[panels:.+]] = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
// CHECK:       %[[half:.+]] = arith.constant 32 : index
// CHECK:       %[[one:.+]] = vector.load %q[%[[place:.+]]]
// CHECK:       vector.store %[[one]], %[[panels]]
// CHECK:       %[[there:.+]] = arith.addi %[[place]], %[[half]] : index
// CHECK:       %[[other:.+]] = vector.load %q[%[[there]]]
// CHECK:       vector.store %[[other]], %[[panels]]
// CHECK:       %[[sum:[0-9]+]], %[[next:[0-9]+]], {{.*}} = scf.for
// CHECK:       %[[met:.+]] = arith.mulf %[[sum]], %[[next]] : vector<16xf32>
// CHECK:       vector.store %[[met]], %out
mgn.graph @g("a" = %a : tensor<16x8xf32>, "b" = %b : tensor<8x64xf32>) -> ("y" : tensor<16x32xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<16x8xf32>, %q = %b : tensor<8x64xf32>) -> (tensor<16x32xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %u = mgn.slice(%m) starts = [0, 0], stops = [16, 32], steps = [1, 1] : (tensor<16x64xf32>) -> tensor<16x32xf32>
    %v = mgn.slice(%m) starts = [0, 32], stops = [16, 64], steps = [1, 1] : (tensor<16x64xf32>) -> tensor<16x32xf32>
    %w = mgn.mul(%u, %v) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
    fusion.return %w : tensor<16x32xf32>
  }
  mgn.return %0 : tensor<16x32xf32>
}
