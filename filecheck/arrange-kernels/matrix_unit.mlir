// RUN: mgn-opt -p arrange-kernels --device nvidia-h200 %s | filecheck %s

// A small product stays one kernel, and is told what it is priced for; one of plain numbers is not.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {matrix = "bf16"} {
// CHECK:      fusion.kernel contraction
// CHECK-NOT:  matrix =
mgn.graph @g("a" = %a : tensor<64x64xbf16>, "b" = %b : tensor<64x64xf32>) -> ("y" : tensor<64x64xbf16>, "z" : tensor<64x64xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<64x64xbf16>) -> (tensor<64x64xbf16>) {
    %m = mgn.matmul(%p, %p) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    fusion.return %m : tensor<64x64xbf16>
  }
  %1 = fusion.kernel contraction (%p = %b : tensor<64x64xf32>) -> (tensor<64x64xf32>) {
    %m = mgn.matmul(%p, %p) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    fusion.return %m : tensor<64x64xf32>
  }
  mgn.return %0, %1 : tensor<64x64xbf16>, tensor<64x64xf32>
}
