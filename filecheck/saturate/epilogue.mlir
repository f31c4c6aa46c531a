// RUN: mgn-opt %s -p saturate | filecheck %s

// A transposed operand becomes an attribute; bias and activation are the product's epilogue.
mgn.graph @linear("x" = %x : tensor<32x64xf32>, "w" = %w : tensor<128x64xf32>, "b" = %b : tensor<128xf32>) -> ("y" : tensor<32x128xf32>) {
  %0 = mgn.transpose(%w) perm = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
  %1 = mgn.matmul(%x, %0) : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
  %2 = mgn.add(%1, %b) : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xf32>
  %3 = mgn.sigmoid(%2) : tensor<32x128xf32>
  %4 = mgn.mul(%3, %2) : tensor<32x128xf32>
  mgn.return %4 : tensor<32x128xf32>
}
// CHECK: mgn.graph @linear
// CHECK-NEXT: %[[y:[a-z0-9]+]] = fusion.kernel contraction (
// CHECK-NEXT: %[[p:[a-z0-9]+]] = mgn.matmul({{.*}}) transpose_b = true
// CHECK-NEXT: %[[s:[a-z0-9]+]] = mgn.add(%[[p]],
// CHECK-NEXT: %[[a:[a-z0-9]+]] = mgn.silu(%[[s]])
// CHECK-NEXT: fusion.return %[[a]]
// CHECK-NEXT: }
// CHECK-NEXT: mgn.return %[[y]]

// A gate: one kernel for each product, the activation and the multiplication in the second one.
mgn.graph @gated("x" = %x : tensor<32x64xf32>, "g" = %g : tensor<64x128xf32>, "u" = %u : tensor<64x128xf32>) -> ("y" : tensor<32x128xf32>) {
  %0 = mgn.matmul(%x, %g) : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
  %1 = mgn.matmul(%x, %u) : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
  %2 = mgn.silu(%0) : tensor<32x128xf32>
  %3 = mgn.mul(%2, %1) : tensor<32x128xf32>
  mgn.return %3 : tensor<32x128xf32>
}
// CHECK: mgn.graph @gated
// CHECK: fusion.kernel contraction
// CHECK: mgn.matmul
// CHECK: fusion.kernel contraction
// CHECK: mgn.matmul
// CHECK: mgn.{{mul|swiglu}}
// CHECK-NOT: fusion.kernel
// CHECK: mgn.return
