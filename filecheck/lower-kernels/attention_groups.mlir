// RUN: mgn-opt -p choose-schedules,lower-kernels --device nvidia-h200 %s | filecheck %s

// Four sub-groups together multiply queries and keys from local memory, then what they hold of the
// weights, twice since these are two numbers each, and values that are copied as they lie.
// CHECK:     kernel.func @attention
// CHECK:     [[M:%.+]] = kernel.local_alloc : memref<{{.*}}xbf16, #kernel.space<local>>
// CHECK:     kernel.copy_chunk %q
// CHECK:     scf.for
// CHECK:     kernel.wait_copies 0
// CHECK-NEXT: kernel.publish_copies
// CHECK-NEXT: kernel.barrier
// CHECK:     kernel.copy_chunk %v
// CHECK:     kernel.group_mma [[M]][{{.*}}] steps 4 parts [0, 0]
// CHECK:     kernel.wait_products 0 of
// CHECK:     math.exp2
// CHECK:     kernel.group_mma_held {{.*}} times [[M]][{{.*}}] part 8192
// CHECK:     kernel.group_mma_held {{.*}} times [[M]][{{.*}}] part 8192
// CHECK:     kernel.wait_products 0 of
// CHECK-NOT: kernel.mma
mgn.graph @g("a" = %a : tensor<32768x64xbf16>, "b" = %b : tensor<32768x64xbf16>, "c" = %c : tensor<32768x64xbf16>) -> ("y" : tensor<32768x64xbf16>) {
  %0 = fusion.kernel attention (%q = %a : tensor<32768x64xbf16>, %k = %b : tensor<32768x64xbf16>, %v = %c : tensor<32768x64xbf16>) -> (tensor<32768x64xbf16>) arranged {matrix = "bf16"} {
    %m = mgn.attention(%q, %k, %v) heads = 1, kv_heads = 1, causal = true, scale = 0.125 : (tensor<32768x64xbf16>, tensor<32768x64xbf16>, tensor<32768x64xbf16>) -> tensor<32768x64xbf16>
    fusion.return %m : tensor<32768x64xbf16>
  }
  mgn.return %0 : tensor<32768x64xbf16>
}
