// RUN: mgn-opt --device nvidia-h200 -p 'saturate{rules=fast}' %s | filecheck %s
// RUN: mgn-opt --device nvidia-h200 -p 'saturate{rules=fast},choose-schedules,lower-kernels' %s | filecheck %s --check-prefix=LOWERED
// RUN: mgn-opt -p 'saturate{rules=fast}' %s | filecheck %s --check-prefix=CPU
// RUN: mgn-opt --device nvidia-h200 -p saturate %s | filecheck %s --check-prefix=DEFAULT

// By default the rows are normed first, in the product's kernel: weights that are an input may be of
// any size.
// DEFAULT:      mgn.graph @normed
// DEFAULT:      fusion.kernel contraction
// DEFAULT:        mgn.sum
// DEFAULT:        mgn.rsqrt
// DEFAULT-NEXT:   mgn.mul
// DEFAULT-NEXT:   mgn.matmul
// DEFAULT-NOT:  fusion.kernel

// Each group finds the roots of its rows, and the product scales its rows by them.
// CHECK:      mgn.graph @normed
// CHECK:      fusion.kernel contraction
// CHECK:        mgn.matmul
// CHECK:        mgn.sum
// CHECK:        fusion.return
// CHECK-NOT:  fusion.kernel reduction

// Sub-groups exchange what they added up of a row, and leave it in local memory before the product.
// LOWERED:      kernel.func @contraction
// LOWERED:      kernel.sub_group_shuffle
// LOWERED:      math.sqrt
// LOWERED:      memref.store {{.*}}kernel.space<local>
// LOWERED:      kernel.barrier
// LOWERED:      vector.fma

// A CPU's packed products read their rows once, and have them normed before.
// CPU: mgn.graph @normed
// CPU: fusion.kernel reduction
// CPU: fusion.kernel contraction
mgn.graph @normed("x" = %x : tensor<128x64xf32>, "w" = %w : tensor<64x96xf32>) -> ("y" : tensor<128x96xf32>) {
  %n = mgn.rms_norm(%x) : tensor<128x64xf32>
  %y = mgn.matmul(%n, %w) : (tensor<128x64xf32>, tensor<64x96xf32>) -> tensor<128x96xf32>
  mgn.return %y : tensor<128x96xf32>
}
