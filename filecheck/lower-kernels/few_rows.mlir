// RUN: mgn-opt -p choose-schedules,lower-kernels --device nvidia-h200 %s | filecheck %s

// A work-item reads vectors of columns, four steps of the shared axis at once, for both rows.
// CHECK:     kernel.func @contraction_matmul_0
// CHECK-SAME: local [512, 1, 1]
// CHECK:     scf.for
// CHECK-COUNT-4: vector.load %q[{{.*}}] {{.*}} : memref<16777216xf32>, vector<4xf32>
// CHECK-COUNT-8: vector.fma {{.*}} : vector<4xf32>
// CHECK:     kernel.barrier
// CHECK:     vector.store {{.*}}, %out{{.*}} vector<4xf32>
mgn.graph @g("a" = %a : tensor<2x4096xf32>, "b" = %b : tensor<4096x4096xf32>) -> ("y" : tensor<2x4096xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<2x4096xf32>, %q = %b : tensor<4096x4096xf32>) -> (tensor<2x4096xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<2x4096xf32>, tensor<4096x4096xf32>) -> tensor<2x4096xf32>
    fusion.return %m : tensor<2x4096xf32>
  }
  mgn.return %0 : tensor<2x4096xf32>
}
