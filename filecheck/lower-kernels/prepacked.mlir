// RUN: mgn-opt -p arrange-kernels,choose-schedules %s | filecheck %s --check-prefix PACK
// RUN: mgn-opt -p arrange-kernels,choose-schedules,lower-kernels %s | filecheck %s

// A kernel of its own lays the right operand out in panels of 32 columns.
// PACK:       %[[p:.+]] = fusion.kernel pointwise (%{{.+}} = %b : tensor<2048x64xf32>) -> (tensor<4x2x512x32xf32>)
// PACK:         shape = [4, 512, 2, 32]
// PACK:         perm = [0, 2, 1, 3]
// PACK:       fusion.kernel contraction (%{{.+}} = %a : tensor<2048x2048xf32>, %{{.+}} = %[[p]] : tensor<4x2x512x32xf32>)
// PACK-SAME:  right = "panels"
// PACK:         shape = [2048, 64]

// The product packs tiles of the left one, keeps sums between blocks, and asks for a line of the
// next tile in each turn of four steps.
// CHECK:       kernel.func @contraction_matmul_0(%{{.+}}: memref<4194304xf32>, %[[right:.+]]: memref<131072xf32>, %out: memref<131072xf32>)
// CHECK:       %[[tile:.+]] = kernel.local_alloc : memref<{{.+}}xf32, #kernel.space<local>>
// CHECK:       %[[sums:.+]] = kernel.local_alloc : memref<{{.+}}xf32, #kernel.space<local>>
// CHECK:       vector.store %{{.+}}, %[[tile]]
// CHECK:       vector.load %[[sums]]
// CHECK:       scf.for
// CHECK:       kernel.prefetch %{{.+}} level 2 : memref<4194304xf32>
// CHECK:       scf.for
// CHECK:       kernel.prefetch %[[right]][%{{.+}}] level 1 : memref<131072xf32>
// CHECK:       vector.load %[[right]]
// CHECK:       vector.fma
// CHECK:       } {unroll = 4 : i64}
// CHECK:       vector.store %{{.+}}, %out
// CHECK:       vector.store %{{.+}}, %[[sums]]
mgn.graph @g("a" = %a : tensor<2048x2048xf32>, "b" = %b : tensor<2048x64xf32>) -> ("y" : tensor<2048x64xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<2048x2048xf32>, %q = %b : tensor<2048x64xf32>) -> (tensor<2048x64xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<2048x2048xf32>, tensor<2048x64xf32>) -> tensor<2048x64xf32>
    fusion.return %m : tensor<2048x64xf32>
  }
  mgn.return %0 : tensor<2048x64xf32>
}
