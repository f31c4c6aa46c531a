// RUN: mgn-opt -p arrange-kernels --device nvidia-h200 %s | filecheck %s

// A product of small matrices stays one kernel, and is told what it is priced for; one of plain numbers is not.
// CHECK:      fusion.kernel contraction
// CHECK-SAME: arranged {matrix = "bf16"} {
// CHECK:      fusion.kernel contraction
// CHECK-NOT:  matrix =
mgn.graph @g("a" = %a : tensor<512x512xbf16>, "b" = %b : tensor<512x512xf32>) -> ("y" : tensor<512x512xbf16>, "z" : tensor<512x512xf32>) {
  %0 = fusion.kernel contraction (%p = %a : tensor<512x512xbf16>) -> (tensor<512x512xbf16>) {
    %m = mgn.matmul(%p, %p) : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
    fusion.return %m : tensor<512x512xbf16>
  }
  %1 = fusion.kernel contraction (%p = %b : tensor<512x512xf32>) -> (tensor<512x512xf32>) {
    %m = mgn.matmul(%p, %p) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    fusion.return %m : tensor<512x512xf32>
  }
  mgn.return %0, %1 : tensor<512x512xbf16>, tensor<512x512xf32>
}
