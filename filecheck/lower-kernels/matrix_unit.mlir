// RUN: mgn-opt -p choose-schedules --device nvidia-h200 %s | filecheck %s --check-prefix SCHEDULE
// RUN: mgn-opt -p choose-schedules,lower-kernels --device nvidia-h200 %s | filecheck %s

// SCHEDULE: schedule {variant = "matrix tiles", tile_down = 1 : i64, {{.*}}groups = 0 : i64, {{.*}}matrix = "bf16"

// Some stages are on their way, and the first step's fragments there, before the loop. It loads the
// next step's, starts copies and multiplies; at the end it waits for the next block. The last
// blocks have nothing left to copy.
// CHECK:     kernel.func @contraction_cast_matmul_0
// CHECK:     [[M:%.+]] = kernel.local_alloc : memref<{{.*}}xbf16, #kernel.space<local>>
// CHECK:     kernel.copy_chunk %p[{{.*}}], [[M]][{{.*}}] count 8
// CHECK:     kernel.commit_copies
// CHECK:     kernel.wait_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.load_matrix transposed [[M]]
// CHECK:     scf.for
// CHECK:     kernel.load_matrix [[M]]
// CHECK:     kernel.copy_chunk %q
// CHECK:     kernel.commit_copies
// CHECK:     kernel.mma m16n8k16_bf16
// CHECK:     kernel.wait_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.load_matrix [[M]]
// CHECK:     kernel.mma m16n8k16_bf16
// CHECK:     scf.for
// CHECK-NOT: kernel.copy_chunk
// CHECK:     vector.store {{.*}}, %out
mgn.graph @g("a" = %a : tensor<256x2048xbf16>, "b" = %b : tensor<2048x256xbf16>) -> ("y" : tensor<256x256xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<256x2048xbf16>, %q = %b : tensor<2048x256xbf16>) -> (tensor<256x256xf32>) arranged {matrix = "bf16"} {
    %l = mgn.cast(%p) T = f32 : (tensor<256x2048xbf16>) -> tensor<256x2048xf32>
    %r = mgn.cast(%q) T = f32 : (tensor<2048x256xbf16>) -> tensor<2048x256xf32>
    %m = mgn.matmul(%l, %r) : (tensor<256x2048xf32>, tensor<2048x256xf32>) -> tensor<256x256xf32>
    fusion.return %m : tensor<256x256xf32>
  }
  mgn.return %0 : tensor<256x256xf32>
}
