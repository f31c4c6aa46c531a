// RUN: mgn-opt -p choose-schedules,lower-kernels --device nvidia-h200 %s | filecheck %s

// Large products: four sub-groups together multiply from local memory while copies of later blocks
// are on their way.
// CHECK:     kernel.func @contraction_matmul_0
// CHECK:     [[M:%.+]] = kernel.local_alloc : memref<{{.*}}xbf16, #kernel.space<local>>
// CHECK:     scf.for
// CHECK:     kernel.wait_copies
// CHECK-NEXT: kernel.publish_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.group_mma [[M]]
// CHECK:     kernel.copy_chunk %p
// CHECK:     kernel.copy_chunk %q
// CHECK:     kernel.commit_copies
// CHECK-NEXT: kernel.wait_products 1
// CHECK:     kernel.wait_products 0 of

// Operands that are to be rounded pass through registers: what was read before is stored while the
// unit multiplies, and the next block is read. No copies are waited for.
// CHECK:     kernel.func @contraction_round_tf32
// CHECK:     [[N:%.+]] = kernel.local_alloc : memref<{{.*}}xf32, #kernel.space<local>>
// CHECK:     scf.for
// CHECK:     kernel.publish_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.group_mma [[N]][{{.*}}] steps 4 parts [0, 0]
// CHECK:     kernel.round_tf32
// CHECK:     vector.store {{.*}}, [[N]]
// CHECK:     vector.load %p
// CHECK:     vector.load %q
// CHECK:     kernel.wait_products 1
mgn.graph @g("a" = %a : tensor<4096x512xbf16>, "b" = %b : tensor<512x4096xbf16>, "c" = %c : tensor<2048x512xf32>, "d" = %d : tensor<512x2048xf32>) -> ("y" : tensor<4096x4096xbf16>, "z" : tensor<2048x2048xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<4096x512xbf16>, %q = %b : tensor<512x4096xbf16>) -> (tensor<4096x4096xbf16>) arranged {matrix = "bf16"} {
    %m = mgn.matmul(%p, %q) : (tensor<4096x512xbf16>, tensor<512x4096xbf16>) -> tensor<4096x4096xbf16>
    fusion.return %m : tensor<4096x4096xbf16>
  }
  %1 = fusion.kernel contraction (%p = %c : tensor<2048x512xf32>, %q = %d : tensor<512x2048xf32>) -> (tensor<2048x2048xf32>) arranged {matrix = "tf32"} {
    %l = mgn.round_tf32(%p) : (tensor<2048x512xf32>) -> tensor<2048x512xf32>
    %r = mgn.round_tf32(%q) : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
    %m = mgn.matmul(%l, %r) : (tensor<2048x512xf32>, tensor<512x2048xf32>) -> tensor<2048x2048xf32>
    fusion.return %m : tensor<2048x2048xf32>
  }
  mgn.return %0, %1 : tensor<4096x4096xbf16>, tensor<2048x2048xf32>
}
