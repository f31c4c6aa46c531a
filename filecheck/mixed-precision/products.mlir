// RUN: mgn-opt %s -p 'mixed-precision{precision=bf16}' | filecheck %s
// RUN: mgn-opt %s -p 'mixed-precision{precision=bf16},convert-precision{precision=bf16}' | filecheck %s --check-prefix=BOTH
// RUN: mgn-opt %s -p 'mixed-precision{precision=tf32}' | filecheck %s --check-prefix=NONE

mgn.param @w : tensor<2x8xf32>
mgn.graph @g("x" = %x : tensor<4x8xf32>) -> ("z" : tensor<4x2xf32>, "y" : tensor<4x2xf32>) {
  %w = mgn.read @w : tensor<2x8xf32>
  %y = mgn.linear(%x, %w) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  %z = mgn.gelu(%y) : tensor<4x2xf32>
  mgn.return %z, %y : tensor<4x2xf32>, tensor<4x2xf32>
}
// CHECK-LABEL: mgn.graph @g
// CHECK-NEXT:    %[[N:.*]] = mgn.cast(%x) T = bf16 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NEXT:    %[[X:.*]] = mgn.cast(%[[N]]) T = f32 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT:    %w = mgn.read @w : tensor<2x8xf32>
// CHECK-NEXT:    %[[P:.*]] = mgn.linear(%[[X]], %w) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    %[[M:.*]] = mgn.cast(%[[P]]) T = bf16 : (tensor<4x2xf32>) -> tensor<4x2xbf16>
// CHECK-NEXT:    %y = mgn.cast(%[[M]]) T = f32 : (tensor<4x2xbf16>) -> tensor<4x2xf32>
// CHECK-NEXT:    %z = mgn.gelu(%y) : tensor<4x2xf32>
// CHECK-NEXT:    mgn.return %z, %y :

// BOTH-LABEL:  mgn.graph @g
// BOTH:          mgn.cast(%x) T = bf16
// BOTH:          mgn.cast(%w) T = bf16 : (tensor<2x8xf32>) -> tensor<2x8xbf16>
// BOTH-NOT:      mgn.cast(%{{[0-9]+}}) T = bf16 : (tensor<4x8xf32>)

// NONE-NOT:    mgn.cast
