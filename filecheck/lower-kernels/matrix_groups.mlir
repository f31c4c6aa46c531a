// RUN: mgn-opt -p choose-schedules,lower-kernels --device nvidia-h200 %s | filecheck %s

// Large products of 16 bits: four sub-groups together multiply from local memory while copies of
// later blocks are on their way.
// CHECK:     kernel.func @contraction_matmul_0
// CHECK:     [[M:%.+]] = kernel.local_alloc : memref<{{.*}}xbf16, #kernel.space<local>>
// CHECK:     scf.for
// CHECK:     kernel.wait_copies 1
// CHECK-NEXT: kernel.publish_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.copy_chunk %p
// CHECK:     kernel.commit_copies
// CHECK:     kernel.group_mma [[M]]
mgn.graph @g("a" = %a : tensor<4096x512xbf16>, "b" = %b : tensor<512x4096xbf16>) -> ("y" : tensor<4096x4096xbf16>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<4096x512xbf16>, %q = %b : tensor<512x4096xbf16>) -> (tensor<4096x4096xbf16>) {
    %m = mgn.matmul(%p, %q) : (tensor<4096x512xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
    fusion.return %m : tensor<4096x4096xbf16>
  }
  mgn.return %0 : tensor<4096x4096xbf16>
}
