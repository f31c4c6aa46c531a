// RUN: mgn-opt -p arrange-kernels --device nvidia-h200 %s | filecheck %s

// One query looks at parts of 128 keys; what each finds is weighted by its largest score.
// CHECK:      [[P:%.+]] = fusion.kernel attention
// CHECK-SAME: -> (tensor<64x1x8x66xf32>)
// CHECK:        mgn.attention_parts{{.*}} each = 128
// CHECK:      fusion.kernel reduction
// CHECK-SAME: = [[P]] : tensor<64x1x8x66xf32>
// CHECK:        mgn.max_reduce{{.*}} axis = [0]
// CHECK:        mgn.exp
// CHECK-COUNT-2: mgn.sum{{.*}} axis = [0]
// CHECK:        mgn.div
mgn.graph @g("q" = %q : tensor<1x512xf32>, "k" = %k : tensor<8192x512xf32>, "v" = %v : tensor<8192x512xf32>) -> ("y" : tensor<1x512xf32>) {
  %0 = fusion.kernel attention (%a = %q : tensor<1x512xf32>, %b = %k : tensor<8192x512xf32>, %c = %v : tensor<8192x512xf32>) -> (tensor<1x512xf32>) {
    %1 = mgn.attention(%a, %b, %c) heads = 8, kv_heads = 8, scale = 0.125 : (tensor<1x512xf32>, tensor<8192x512xf32>, tensor<8192x512xf32>) -> tensor<1x512xf32>
    fusion.return %1 : tensor<1x512xf32>
  }
  mgn.return %0 : tensor<1x512xf32>
}
