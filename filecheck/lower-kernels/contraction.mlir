// RUN: mgn-opt -p choose-schedules %s | filecheck %s --check-prefix SCHEDULE
// RUN: mgn-opt -p choose-schedules,lower-kernels %s | filecheck %s

// SCHEDULE: fusion.kernel contraction
// SCHEDULE-SAME: schedule {variant = "packed panels", width = 16 : i64, tile_vectors = 2 : i64, tile_rows = 8 : i64,

// The right operand is packed once; the left one is read where it lies; 8 x 32 sums are held.
// CHECK:       kernel.func @contraction_matmul_0(%p: memref<128xf32>, %q: memref<256xf32>, %out: memref<512xf32>)
// CHECK:       [[PANEL:%.+]] = kernel.local_alloc : memref<256xf32, #kernel.space<local>>
// CHECK:       [[B:%.+]] = vector.load %q
// CHECK-NEXT:  vector.store [[B]], [[PANEL]]
// CHECK:       vector.load [[PANEL]]
// CHECK:       memref.load %p
// CHECK:       vector.fma
// CHECK-NOT:   vector.store {{.*}}, [[PANEL]]
// CHECK:       vector.store {{.*}}, %out
mgn.graph @g("a" = %a : tensor<16x8xf32>, "b" = %b : tensor<8x32xf32>) -> ("y" : tensor<16x32xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<16x8xf32>, %q = %b : tensor<8x32xf32>) -> (tensor<16x32xf32>) {
    %m = mgn.matmul(%p, %q) : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    fusion.return %m : tensor<16x32xf32>
  }
  mgn.return %0 : tensor<16x32xf32>
}
